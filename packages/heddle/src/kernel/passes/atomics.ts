/**
 * Atomics that WebAssembly has no instruction for (on floats, on 8 and 16 bits, minima and maxima) become an `update`
 * statement before the one they stand in: what replaces the old value, as an expression of it.
 */
import { some } from '../../core/node.js';
import { rewrite } from '../../core/rewrite.js';
import type { Intrinsic } from '../ir/intrinsics.js';
import {
  alu,
  block,
  declare,
  type Expr,
  type KernelIr,
  type MemoryNode,
  type Node,
  read,
  type Statement,
  select,
  update,
  type Variable,
} from '../ir/ir.js';
import { value } from '../ir/types.js';
import { whileWith } from './branch.js';
import { isTrivial } from './numbering.js';

/** The new value, from the old one and the arguments. */
const NEW_VALUE: Partial<Record<Intrinsic, (old: Expr, a: Expr, b: Expr) => Expr>> = {
  atomicAdd: (old, v) => alu('add', [old, v]),
  atomicSub: (old, v) => alu('sub', [old, v]),
  atomicMin: (old, v) => alu('min', [old, v]),
  atomicMax: (old, v) => alu('max', [old, v]),
  atomicAnd: (old, v) => alu('and', [old, v]),
  atomicOr: (old, v) => alu('or', [old, v]),
  atomicXor: (old, v) => alu('xor', [old, v]),
  atomicExchange: (_old, v) => v,
  atomicCompareExchange: (old, expected, v) => select(alu('eq', [old, expected]), v, old),
};

type Atomic = Extract<Expr, { op: 'intrinsic' }>;

function isEmulated(node: Node): node is Atomic {
  if (node.op !== 'intrinsic' || !NEW_VALUE[node.arg]) return false;
  const { kind, bytes } = (node.src[0] as MemoryNode).type.dtype;
  const integer = (kind === 'int' || kind === 'uint') && bytes >= 4;
  return !integer || node.arg === 'atomicMin' || node.arg === 'atomicMax';
}

export const emulateAtomics = (ir: KernelIr): KernelIr =>
  some<Node>([ir.body], isEmulated) ? { ...ir, body: block(statements(ir.body)) } : ir;

function statements(s: Statement): Statement[] {
  if (s.op === 'block') return s.src.flatMap((c) => statements(c as Statement));
  const before: Statement[] = [];
  const src = s.src.map((c) =>
    c.type.kind === 'none'
      ? block(statements(c as Statement))
      : rewrite<Node>(c, (node) => (isEmulated(node) ? updated(node, before) : undefined)),
  );
  const result = { ...s, src } as Statement;
  if (before.length === 0) return [result];
  if (s.op === 'while') return [whileWith(before, result)];
  // An effect whose intrinsic is an update now has nothing left to do.
  return s.op === 'effect' ? before : [...before, result];
}

/** What stood in memory; the update that makes it known joins `before`. */
function updated({ arg, src, type, at }: Atomic, before: Statement[]): Expr {
  const [memory, base, offset, ...given] = src as readonly [MemoryNode, Expr, Expr, ...Expr[]];
  const [a, b] = given.map((e) => {
    if (isTrivial(e)) return e;
    const argument: Variable = { name: 'argument', type: e.type, constant: true };
    before.push(declare(argument, e, at));
    return read(argument);
  });
  const old: Variable = { name: 'old', type: value(type.dtype), constant: false };
  before.push(update(memory, old, NEW_VALUE[arg]!(read(old), a!, b!), [base, offset], at));
  return read(old);
}
