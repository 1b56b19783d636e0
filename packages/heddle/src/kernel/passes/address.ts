/**
 * Makes addresses explicit. Every load, store and atomic on memory becomes `[memory, base, offset]`: an i32
 * expression in bytes and a constant for the instruction's offset. A base is a sum that starts with what changes
 * least (the buffer's address, then terms of outer loops), so that hoisting takes its prefixes out of the loops.
 */
import { i32 } from '../../core/dtype.js';
import { rewrite } from '../../core/rewrite.js';
import {
  type ArrayDecl,
  alu,
  cast,
  constant,
  type Expr,
  int,
  type KernelIr,
  type MemoryNode,
  type Node,
  SCRATCH,
  type Statement,
  type Variable,
} from '../ir/ir.js';
import { value } from '../ir/types.js';

/**
 * Where the CPU's memory for buffers begins. No buffer lies below, so that a constant part of an index up to this can
 * stand in an instruction's offset: an address that is valid with the constant stays non-negative without it.
 */
export const FIRST_BUFFER = 65536;

const elementBytes = (decl: ArrayDecl): number => decl.dtype.bytes * decl.lanes;

export function lowerAddresses(ir: KernelIr): KernelIr {
  const offsets = new Map<ArrayDecl, number>();
  let scratchBytes = 0;
  const inOrder = [...ir.arrays].sort((a, b) => Number(a.dims[0] === -1) - Number(b.dims[0] === -1));
  for (const decl of inOrder) {
    offsets.set(decl, scratchBytes);
    if (decl.dims[0] !== -1) {
      const bytes = elementBytes(decl) * decl.dims.reduce((n, d) => n * d, 1);
      scratchBytes += Math.ceil(bytes / 64) * 64;
    }
  }
  const depths = new Depths();
  depths.statement(ir.body, 1);

  const place = (memory: MemoryNode, indices: readonly Expr[]): Node[] => {
    const sum = new LinearSum(depths);
    const scale = memory.op === 'array' ? elementBytes(memory.arg) : memory.type.dtype.bytes;
    let stride = scale;
    for (let i = indices.length - 1; i >= 0; i--) {
      sum.add(indices[i]!, stride);
      if (memory.op === 'array' && i > 0) stride *= memory.arg.dims[i]!;
    }
    const owner = memory.op === 'buffer' ? memory.arg : SCRATCH;
    sum.constant += memory.op === 'array' ? offsets.get(memory.arg)! : 0;
    const start: Expr = { op: 'param', type: value(i32), src: [], arg: owner };
    return [memory, ...sum.build(start)];
  };

  const rule = (node: Node): Node | undefined => {
    const memory = node.src[0];
    if (memory?.op !== 'buffer' && memory?.op !== 'array') return undefined;
    const rank = memory.op === 'array' ? memory.arg.dims.length : 1;
    switch (node.op) {
      case 'load':
        return { ...node, src: place(memory, node.src.slice(1) as Expr[]) };
      case 'store':
        return {
          ...node,
          src: [memory, node.src[1]!, ...place(memory, node.src.slice(2) as Expr[]).slice(1)],
        };
      case 'intrinsic':
        return {
          ...node,
          src: [...place(memory, node.src.slice(1, 1 + rank) as Expr[]), ...node.src.slice(1 + rank)],
        };
      default:
        return undefined;
    }
  };
  const body = rewrite<Node>(ir.body, rule) as Statement;
  return { ...ir, body, lowered: { ...ir.lowered!, scratchBytes } };
}

/** How deep in loops a variable changes: 1 in the loop over blocks, one more in each loop of the kernel. */
class Depths {
  readonly #of = new Map<Variable, number>();
  /** Definitions of variables that keep their value while they are in scope. */
  readonly definitions = new Map<Variable, Expr>();
  readonly #steady = new Set<Variable>();
  readonly #expressions = new Map<Node, number>();

  statement(s: Statement, depth: number): void {
    const note = (v: Variable): void => {
      this.#of.set(v, Math.max(depth, this.#of.get(v) ?? 0));
    };
    switch (s.op) {
      case 'let':
        note(s.arg);
        if (s.arg.constant) {
          this.definitions.set(s.arg, s.src[0] as Expr);
          this.#steady.add(s.arg);
        }
        return;
      case 'set':
        note(s.arg);
        this.#steady.delete(s.arg);
        this.definitions.delete(s.arg);
        return;
      case 'for':
        this.#of.set(s.arg.variable, depth + 1);
        this.#steady.add(s.arg.variable);
        this.statement(s.src[3] as Statement, depth + 1);
        return;
      case 'while':
        this.statement(s.src[1] as Statement, depth + 1);
        this.statement(s.src[2] as Statement, depth + 1);
        return;
      case 'block':
        for (const c of s.src) this.statement(c as Statement, depth);
        return;
      case 'if':
        for (const c of s.src.slice(1)) this.statement(c as Statement, depth);
        return;
      default:
        return;
    }
  }

  isSteady(v: Variable): boolean {
    return this.#steady.has(v);
  }

  /** Of an expression; loads cannot be hoisted and count as the deepest. */
  expr(e: Node): number {
    const known = this.#expressions.get(e);
    if (known !== undefined) return known;
    let depth = 0;
    if (e.op === 'variable') depth = this.#of.get(e.arg) ?? 0;
    else if (e.op === 'special') depth = e.arg.startsWith('blockIdx') ? 1 : 0;
    else if (e.op === 'load' || e.op === 'intrinsic') depth = Number.POSITIVE_INFINITY;
    else for (const s of e.src) depth = Math.max(depth, this.expr(s));
    this.#expressions.set(e, depth);
    return depth;
  }
}

interface Term {
  readonly e: Expr;
  readonly scale: number;
  readonly depth: number;
}

/** constant + Σ term · scale, modulo 2^32, as i32 arithmetic is. */
class LinearSum {
  constant = 0;
  readonly #terms: Term[] = [];
  readonly #depths: Depths;

  constructor(depths: Depths) {
    this.#depths = depths;
  }

  add(e: Expr, scale: number): void {
    const word = e.type.dtype.name;
    if (e.op === 'const') {
      this.constant = (this.constant + Math.imul(Number(BigInt.asIntN(32, BigInt(e.arg))), scale)) | 0;
      return;
    }
    if (word !== 'i32' && word !== 'u32') {
      this.add(cast(i32, e), scale);
      return;
    }
    const [a, b] = e.src as [Expr, Expr];
    if (e.op === 'cast' && (a.type.dtype.name === 'i32' || a.type.dtype.name === 'u32')) {
      this.add(a, scale);
      return;
    }
    if (e.op === 'variable') {
      const definition = this.#depths.definitions.get(e.arg);
      if (definition && this.#opens(definition)) {
        this.add(definition, scale);
        return;
      }
    }
    const factor = e.op === 'alu' ? factorOf(e) : undefined;
    if (factor) {
      this.add(factor.e, Math.imul(scale, factor.by));
    } else if (e.op === 'alu' && (e.arg === 'add' || e.arg === 'sub')) {
      this.add(a, scale);
      this.add(b, e.arg === 'add' ? scale : Math.imul(scale, -1));
    } else {
      this.#terms.push({ e, scale, depth: this.#depths.expr(e) });
    }
  }

  /** Whether a variable's definition is a sum of things that are still what they were when it was declared. */
  #opens(e: Expr): boolean {
    if (e.op === 'const' || e.op === 'param' || e.op === 'special') return true;
    if (e.op === 'variable') return this.#depths.isSteady(e.arg);
    if (e.op !== 'alu') return false;
    if (e.arg === 'add' || e.arg === 'sub') return e.src.every((s) => this.#opens(s as Expr));
    const factor = factorOf(e);
    return factor !== undefined && this.#opens(factor.e);
  }

  /** [base, offset] */
  build(start: Expr): [Expr, Expr] {
    const folds = this.constant >= 0 && this.constant < FIRST_BUFFER;
    let base = folds || this.constant === 0 ? start : alu('add', [start, int(this.constant)]);
    const depths = [...new Set(this.#terms.map((t) => t.depth))].sort((a, b) => a - b);
    for (const depth of depths) {
      const level = this.#terms.filter((t) => t.depth === depth);
      for (const scale of new Set(level.map((t) => t.scale))) {
        const same = level.filter((t) => t.scale === scale).map((t) => cast(i32, t.e));
        const sum = same.reduce((x, y) => alu('add', [x, y]));
        base = scale < 0 ? alu('sub', [base, scaled(sum, -scale)]) : alu('add', [base, scaled(sum, scale)]);
      }
    }
    return [base, constant(i32, folds ? this.constant : 0)];
  }
}

/** `e` as something times a constant, if it is one. */
function factorOf(e: Extract<Expr, { op: 'alu' }>): { e: Expr; by: number } | undefined {
  const [a, b] = e.src as [Expr, Expr];
  if (e.arg === 'mul' && b.op === 'const') return { e: a, by: Number(b.arg) | 0 };
  if (e.arg === 'mul' && a.op === 'const') return { e: b, by: Number(a.arg) | 0 };
  if (e.arg === 'shl' && b.op === 'const') return { e: a, by: 1 << (Number(b.arg) & 31) };
  if (e.arg === 'neg') return { e: a, by: -1 };
  return undefined;
}

function scaled(e: Expr, by: number): Expr {
  const shift = Math.log2(by);
  if (shift === 0) return e;
  return Number.isInteger(shift) ? alu('shl', [e, int(shift)]) : alu('mul', [e, int(by)]);
}
