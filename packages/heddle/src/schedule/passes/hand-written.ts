/** A hand-written kernel in a schedule: its sources as views, and its epilogue computed at its stores. */

import { openSums } from '#schedule/open-sums.js';
import { spreadWindows } from '#schedule/spread.js';
import { f32, isHalf } from '../../core/dtype.js';
import { some, topological } from '../../core/node.js';
import { stridesOf } from '../../core/shape.js';
import {
  callOf,
  type KernelIo,
  type Stage,
  type Variant,
  type View,
  type WindowSizes,
} from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { Expr, KernelIr, MemoryNode, Node, Param, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { type IrFunction, irFunction } from '../../kernel/ir/ir-function.js';
import type { Target } from '../../kernel/ir/target.js';
import { type Group, memoryOf, sumsOf, type WindowsOf } from '../group.js';
import { atom, ofAtom, offset, times, toExpr } from '../lower/affine.js';
import { type Coordinates, type Digit, flatten } from '../lower/coordinates.js';
import { Evaluator, type LoopScope } from '../lower/evaluate.js';
import { lowerGroup } from '../lower/lower.js';
import { parameter } from '../lower/lowering.js';
import { epilogueOf } from './epilogue.js';
import { comesInVectors, keepsOrder } from './finish.js';
import { viewOf } from './views.js';
import { sourceOfWindows, windowFunctionOf } from './windows.js';

export interface HandWritten {
  readonly stages: readonly (Stage & {
    /** Nodes whose memory comes after `args`. */ readonly extra: readonly GraphNode[];
  })[];
  readonly inputs: readonly GraphNode[];
  /** What the arguments `beside` stand for. */
  readonly beside: readonly GraphNode[];
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
  const { node, choice, made, windows, also } = group.call!;
  const root = group.roots[0]!;
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

  const sums = sumsOf(group);
  const isSpread = (n: GraphNode): boolean => group.spreads?.includes(n) === true;
  const finished = group.roots.filter((n) => !also.includes(n) && !sums.includes(n) && !isSpread(n));
  const others = finished.slice(1).map((n, i) => ({ node: n, memory: parameter(`also${i}`, n) }));
  const spreads = (group.spreads ?? []).map((n, i) => ({ node: n, memory: parameter(`spread${i}`, n) }));
  const isAlone = others.length === 0 && spreads.length === 0;
  const plain = root === node && isAlone;
  const values = windows ? windows.sizes[0] * windows.sizes[1] : 1;
  const beside = windows ? [] : besideOf(node, finished, sums, stored);
  const biasNode = windows ? undefined : biasOf(node, finished, stored);
  const finish = (split: readonly number[], withBias = false): IrFunction =>
    irFunction((args, emit) => {
      const own = args.slice(0, values);
      const coordinates = args.slice(values, values + split.length);
      const [ofBias, brought] = [
        args[values + split.length],
        args.slice(values + split.length + Number(withBias)),
      ];
      if (plain) return own[0]!;
      const { lanes } = own[0]!.type;
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
      const computed = (n: GraphNode, at: Coordinates): Expr => {
        const value = evaluator.value(n, at);
        for (const statement of before.splice(0)) emit(statement);
        return value;
      };
      if (windows) defineWindows(node, windows, own, at, evaluator, { computed, emit });
      else evaluator.define(node, at, own[0]!);
      if (withBias) evaluator.define(biasNode!, at, k.cast(biasNode!.dtype, ofBias!));
      brought.slice(0, beside.length).forEach((value, i) => {
        evaluator.define(beside[i]!, at, value);
      });
      if (isAlone) return k.cast(root.dtype, computed(root, at));
      // All values before the first store: a result may take the place of what another is made from.
      const results = finished.map((n): Expr => {
        const result = computed(n, at);
        const value: Variable = { name: 'v', type: result.type, constant: true };
        emit(k.declare(value, result));
        evaluator.define(n, at, k.read(value));
        return k.read(value);
      });
      const place = { value: (n: GraphNode) => computed(n, at), index: flatten(at), along: atoms.at(-1) };
      const stores = spreads.map((spread) => spreadWindows(spread.node, spread.memory, place, emit));
      const index = toExpr(flatten(at));
      others.forEach(({ memory }, i) => {
        storeLanes(memory, results[i + 1]!, index, target, emit);
      });
      for (const store of stores) store();
      return k.cast(root.dtype, results[0]!);
    });

  const bias = biasNode && elementOf(biasNode, scope);
  const resultView = (node: GraphNode, { shape }: GraphNode): View => {
    const { strides, offset } = group.regions?.get(node) ?? { strides: stridesOf(shape), offset: 0 };
    return { shape, dtype: node.dtype, strides, offset };
  };
  const output = resultView(root, made);
  const epilogue = isAlone && !windows ? epilogueOf(node, root, stored) : undefined;
  const window = windows && { sizes: windows.sizes, name: callOf(made).op.name };
  const alsoViews = new Map(also.map((n) => [callOf(n).op.name, resultView(n, n)]));
  const given = { target, node, inputs, output, finish, window, plain, epilogue, also: alsoViews };
  const partial = sums.map((n, i) => ({ node: n, memory: parameter(`sums${i}`, n) }));
  const memoryOfSum = (n: GraphNode): MemoryNode => partial.find((p) => p.node === n)!.memory;
  const io: KernelIo = {
    ...{ ...given, beside: beside.length, bias },
    sums: sums.length > 0 ? openSums(group, scope, beside, memoryOfSum) : undefined,
  };
  const { arg } = callOf(node);
  const plan = (variant?: Variant): HandWritten => {
    reads.clear();
    const planned = variant ? variant.plan() : choice.plan(io, arg);
    const extra = [...reads, ...[...others, ...spreads, ...partial].map((o) => [o.node, o.memory] as const)];
    // Stages of one kernel stay so: it is compiled once.
    const known = new Map<KernelIr, { readonly kernel: KernelIr; readonly extra: GraphNode[] }>();
    const withExtra = (kernel: KernelIr): { readonly kernel: KernelIr; readonly extra: GraphNode[] } => {
      const used = paramsUsed(kernel.body, new Set(extra.map(([, memory]) => memory.arg as Param)));
      const mine = extra.filter(([, memory]) => used.has(memory.arg as Param));
      const params = [...kernel.params, ...mine.map(([, memory]) => memory.arg as Param)];
      return { kernel: { ...kernel, params }, extra: mine.map(([n]) => n) };
    };
    const stages = planned.map((stage) => {
      if ('library' in stage)
        return { ...stage, extra: stage.library.options.bias === true ? [epilogue!.base!] : [] };
      const made = known.get(stage.kernel) ?? withExtra(stage.kernel);
      known.set(stage.kernel, made);
      return { ...stage, ...made };
    });
    const isSummed = stages.some(({ extra }) => sums.some((n) => extra.includes(n)));
    const after = sums.length === 0 || isSummed ? [] : [sumsStage(group, sums, stored, target)];
    return { stages: [...stages, ...after], inputs: bases, beside, name: choice.name };
  };
  let ways: readonly Variant[] | undefined;
  const variants = (): readonly Variant[] => {
    ways ??= choice.variants?.(io, arg) ?? [];
    return ways;
  };
  return { inputs, variants, plan };
}

/** The launch of a generated kernel that sums what is in memory, where no other does. */
function sumsStage(
  { reduction }: Group,
  roots: GraphNode[],
  stored: ReadonlySet<GraphNode>,
  target: Target,
): HandWritten['stages'][number] {
  const name = `reduce_${roots[0]!.shape.join('x')}`;
  const lowered = lowerGroup(name, { roots, reduction: reduction! }, (n) => stored.has(n), target);
  const { ir: kernel, params: extra, anySize: _, readsFirst: __, ...sizes } = lowered;
  return { kernel, extra, args: [], ...sizes };
}

/**
 * Tensors in memory that lie like what `node` is stored as, and of which `roots`, or what is summed, take each element where
 * they take that of `node`.
 */
function besideOf(
  node: GraphNode,
  roots: readonly GraphNode[],
  sums: readonly GraphNode[],
  stored: ReadonlySet<GraphNode>,
): GraphNode[] {
  const readBy = (of: readonly GraphNode[], passes: (n: GraphNode) => boolean): GraphNode[] =>
    topological(of, (n) => (n !== node && (of.includes(n) || !stored.has(n)) && passes(n) ? n.src : []));
  const isSummed = (n: GraphNode): boolean => keepsOrder(n) || n.op === 'reduce' || n.op === 'expand';
  const read = new Set([...readBy(roots, keepsOrder), ...readBy(sums, isSummed)]);
  return [...read].filter(
    (n) =>
      n !== node &&
      !roots.includes(n) &&
      stored.has(n) &&
      n.dtype === roots[0]!.dtype &&
      n.size === node.size,
  );
}

/** `KernelIo.bias` */
const elementOf = (bias: GraphNode, scope: LoopScope): IrFunction =>
  irFunction(([value, column], emit) => {
    const { lanes } = value!.type;
    const size = bias.shape.at(-1)!;
    const along = atom(column!, size);
    const before: Statement[] = [];
    const evaluator = new Evaluator({ ...scope }, lanes > 1 ? { atom: along, lanes } : undefined, before);
    const element = evaluator.value(bias.src[0]!, [{ size, value: ofAtom(along) }]);
    for (const statement of before) emit(statement);
    return k.cast(f32, element);
  });

/** A vector of floats, not wider than f32, that is the same in all rows of what `node` is, and that `roots` take in their place. */
function biasOf(
  node: GraphNode,
  roots: readonly GraphNode[],
  stored: ReadonlySet<GraphNode>,
): GraphNode | undefined {
  const inPlace = (n: GraphNode): boolean =>
    n !== node && keepsOrder(n) && n.size === node.size && (roots.includes(n) || !stored.has(n));
  const isBias = ({ op, dtype, shape, src: [from] }: GraphNode): boolean =>
    op === 'expand' &&
    (dtype === f32 || isHalf(dtype)) &&
    from!.size === from!.shape.at(-1) &&
    from!.size === node.shape.at(-1) &&
    shape.at(-1) === from!.size;
  const read = topological(roots, (n) => (inPlace(n) ? n.src : []));
  return read.find((n) => n.size === node.size && !stored.has(n) && isBias(n));
}

/** The functions of a window, from its values. */
function defineWindows(
  node: GraphNode,
  { sizes, functions }: WindowsOf,
  values: readonly Expr[],
  at: Coordinates,
  evaluator: Evaluator,
  by: {
    readonly computed: (node: GraphNode, at: Coordinates) => Expr;
    readonly emit: (statement: Statement) => void;
  },
): void {
  const places = placesInWindow(at, sizes);
  places.forEach((place, i) => {
    evaluator.define(node, place, k.cast(node.dtype, values[i]!));
  });
  for (const f of functions) {
    const source = sourceOfWindows(f, node);
    const held = places.map((place) => {
      const value = by.computed(source, place);
      return isHalf(source.dtype) ? k.cast(f32, value) : value;
    });
    evaluator.define(f, at, k.cast(f.dtype, windowFunctionOf(f).compute(held, by.emit)));
  }
}

/** The coordinates of a window's values, in row order, from those of the window. */
function placesInWindow(at: Coordinates, sizes: WindowSizes): Coordinates[] {
  const [height, width] = sizes;
  const within = (digit: Digit, size: number, i: number): Digit => ({
    size: digit.size * size,
    value: offset(times(digit.value, size), i),
  });
  const [row, column] = at.slice(-2) as [Digit, Digit];
  return Array.from({ length: height * width }, (_, i) => [
    ...at.slice(0, -2),
    within(row, height, Math.floor(i / width)),
    within(column, width, i % width),
  ]);
}

/** Stores neighbouring elements, one by one where the dtype does not come in vectors. */
function storeLanes(
  memory: MemoryNode,
  v: Expr,
  index: Expr,
  { model }: Target,
  emit: (statement: Statement) => void,
): void {
  const { dtype } = memory.type;
  const { lanes } = v.type;
  const store = (element: Expr, at: Expr): void => emit(k.store(memory, k.cast(dtype, element), [at]));
  if (lanes === 1 || comesInVectors(dtype, model)) store(v, index);
  else for (let i = 0; i < lanes; i++) store(k.lane(v, i), k.alu('add', [index, k.int(i)]));
}

/** Those of some parameters that a kernel's statements use; nothing more is looked at once all of them are found. */
function paramsUsed(body: Node, params: ReadonlySet<Param>): Set<Param> {
  const used = new Set<Param>();
  if (params.size === 0) return used;
  some([body], (node) => {
    if (node.op === 'buffer' && params.has(node.arg)) used.add(node.arg);
    return used.size === params.size;
  });
  return used;
}
