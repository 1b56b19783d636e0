/** A hand-written kernel in a schedule: its sources as views, and its epilogue computed at its stores. */
import { topological } from '../../core/node.js';
import { stridesOf } from '../../core/shape.js';
import { callOf, type KernelIo, type Stage, type Variant, type View } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { Expr, MemoryNode, Node, Param, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { type IrFunction, irFunction } from '../../kernel/ir/ir-function.js';
import type { Target } from '../../kernel/ir/target.js';
import { type Group, memoryOf } from '../group.js';
import { atom, ofAtom, toExpr } from '../lower/affine.js';
import { type Coordinates, flatten } from '../lower/coordinates.js';
import { Evaluator, type LoopScope } from '../lower/evaluate.js';
import { parameter } from '../lower/lowering.js';
import { epilogueOf } from './epilogue.js';
import { viewOf } from './views.js';

export interface HandWritten {
  readonly stages: readonly (Stage & {
    /** Nodes whose memory comes after `args`. */ readonly extra: readonly GraphNode[];
  })[];
  readonly inputs: readonly GraphNode[];
  readonly name: string;
}

/** A call whose sources are found, before it is planned. */
export interface OpenCall {
  readonly inputs: readonly View[];
  /** The ways to do it; none if there is one only. */
  variants(): readonly Variant[];
  /** By one of the variants, or by the kernel's own guess. */
  plan(variant?: Variant): HandWritten;
}

export function openCall(group: Group, stored: ReadonlySet<GraphNode>, target: Target): OpenCall {
  const { node, choice, second } = group.call!;
  const root = group.roots[0]!;
  const results = group.roots.filter((r) => r !== second);
  const bases: GraphNode[] = [];
  const inputs = node.src.map((s, i): View => {
    const view = choice.strided?.[i] ? viewOf(s, stored) : undefined;
    if (view && stored.has(view.base)) {
      bases.push(view.base);
      return { shape: view.shape, dtype: view.dtype, strides: view.strides, offset: view.offset };
    }
    bases.push(memoryOf(s, stored));
    return { shape: s.shape, dtype: s.dtype, strides: stridesOf(s.shape), offset: 0 };
  });

  const reads = new Map<GraphNode, MemoryNode>();
  const scope: LoopScope = {
    memory: (n) => {
      if (!stored.has(n) || group.roots.includes(n)) return undefined;
      let memory = reads.get(n);
      if (!memory) {
        memory = parameter(`finish${reads.size}`, n);
        reads.set(n, memory);
      }
      return memory;
    },
    axis: () => ({ size: 1, splits: new Set() }),
    vectorReduce: false,
  };

  const others = results.slice(1).map((n, i) => ({ node: n, memory: parameter(`also${i}`, n) }));
  const plain = root === node && others.length === 0;
  const finish = (split: readonly number[]): IrFunction =>
    irFunction(([own, ...coordinates], emit) => {
      if (plain) return own!;
      const { lanes } = own!.type;
      const atoms = coordinates.map((c, i) => atom(c, Math.max(2, split[i]!)));
      const at: Coordinates = atoms.map((a, i) => ({ size: split[i]!, value: ofAtom(a) }));
      // What is computed again instead of read may need loops: a small sum in the epilogue.
      const before: Statement[] = [];
      // Its own scope: names count from 0, however often this is made.
      const evaluator = new Evaluator(
        { ...scope },
        lanes > 1 ? { atom: atoms.at(-1)!, lanes } : undefined,
        before,
      );
      const computed = (n: GraphNode): Expr => {
        const value = evaluator.value(n, at);
        for (const statement of before.splice(0)) emit(statement);
        return value;
      };
      evaluator.define(node, at, own!);
      if (others.length === 0) return computed(root);
      // All values before the first store: a result may take the place of what another is made from.
      const values = results.map((n): Expr => {
        const value: Variable = { name: 'v', type: { ...own!.type, dtype: n.dtype }, constant: true };
        emit(k.declare(value, computed(n)));
        evaluator.define(n, at, k.read(value));
        return k.read(value);
      });
      const index = toExpr(flatten(at));
      others.forEach(({ memory }, i) => {
        emit(k.store(memory, values[i + 1]!, [index]));
      });
      return values[0]!;
    });

  const saved = second && parameter('second', second);
  const save =
    saved &&
    ((split: readonly number[]): IrFunction =>
      irFunction(([value, ...coordinates], emit) => {
        const at = coordinates.map((c, i) => ({
          size: split[i]!,
          value: ofAtom(atom(c, Math.max(2, split[i]!))),
        }));
        emit(k.store(saved, k.cast(second.dtype, value!), [toExpr(flatten(at))]));
        return value!;
      }));

  const output: View = { shape: node.shape, dtype: root.dtype, strides: stridesOf(node.shape), offset: 0 };
  const epilogue = others.length === 0 && !second ? epilogueOf(node, root, stored) : undefined;
  const io: KernelIo = { target, node, inputs, output, finish, second: save, plain, epilogue };
  const { arg } = callOf(node);
  const plan = (variant?: Variant): HandWritten => {
    reads.clear();
    const planned = variant ? variant.plan() : choice.plan(io, arg);
    const extra = [...reads, ...others.map((o) => [o.node, o.memory] as const)];
    if (second && saved) extra.push([second, saved]);
    const stages = planned.map((stage) => {
      if ('library' in stage)
        return { ...stage, extra: stage.library.options.bias === true ? [epilogue!.base!] : [] };
      const used = paramsUsed(stage.kernel.body);
      const mine = extra.filter(([, memory]) => used.has(memory.arg as Param));
      const params = [...stage.kernel.params, ...mine.map(([, memory]) => memory.arg as Param)];
      return { ...stage, kernel: { ...stage.kernel, params }, extra: mine.map(([n]) => n) };
    });
    return { stages, inputs: bases, name: choice.name };
  };
  return { inputs, variants: () => choice.variants?.(io, arg) ?? [], plan };
}

const paramsUsed = (body: Node): Set<Param> =>
  new Set(topological([body]).flatMap((node) => (node.op === 'buffer' ? [node.arg] : [])));
