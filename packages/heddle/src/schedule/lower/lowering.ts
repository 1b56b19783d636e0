/** What all lowerings of a group share: its parameters, its loops and its stores. */
import { i32 } from '../../core/dtype.js';
import { InternalError } from '../../core/errors.js';
import type { GraphNode } from '../../graph/node.js';
import type {
  ArrayDecl,
  Expr,
  KernelIr,
  MemoryNode,
  Param,
  Statement,
  Variable,
} from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { buffer, type Lanes, value as valueType } from '../../kernel/ir/types.js';
import type { Region } from '../group.js';
import {
  type Affine,
  affine,
  atom,
  isMultiple,
  ofAtom,
  plus,
  times as scaled,
  shifted,
  slope,
  toExpr,
} from './affine.js';
import { align, type Coordinates, type Digit, flatten, type LoopAxis, loopSizes } from './coordinates.js';
import { Evaluator, type LoopScope, type MemoryRead, type Vector } from './evaluate.js';

/** A kernel for any number of elements: it is given the number after the memory. */
export interface AnySize {
  readonly statement: Statement;
  readonly size: Param;
  /** Elements and threads of a block. */
  readonly span: number;
  readonly threads: number;
  /** Of memory that it is not given from its beginning: the bytes before. */
  readonly starts: ReadonlyMap<Param, number>;
}

/** A group that may be computed by such a kernel, and its number of elements. */
export interface AnySizeForm {
  readonly elements: number;
  /** Undefined where the kernel depends on the number. */
  readonly lower: () => AnySize | undefined;
}

export interface LoweredGroup {
  readonly ir: KernelIr;
  /** The nodes whose memory the parameters are: those read, then the roots. */
  readonly params: readonly GraphNode[];
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  /** Bytes of the dynamic shared array, if the kernel has one. */
  readonly sharedBytes?: number;
  /** Blocks of a cluster, if they work together. */
  readonly cluster?: readonly [number, number, number];
  /** Where threads share a line, all that they read of each other's elements comes before the first of them stores. */
  readonly readsFirst?: boolean;
  /** The same for any number of elements, if it can be so. */
  readonly anySize?: AnySizeForm | undefined;
}

/** Parameters of a kernel being made, and the loops of its reductions. */
export class Memories {
  readonly reads = new Map<GraphNode, MemoryNode>();
  readonly #axes = new Map<string, LoopAxis>();
  readonly #ids = new Map<GraphNode, number>();
  readonly #hasMemory: (node: GraphNode) => boolean;
  /** Of results that are stored as parts of others. */
  readonly regions: ReadonlyMap<GraphNode, Region> | undefined;

  constructor(hasMemory: (node: GraphNode) => boolean, regions?: ReadonlyMap<GraphNode, Region>) {
    this.#hasMemory = hasMemory;
    this.regions = regions;
  }

  memory(node: GraphNode): MemoryNode | undefined {
    if (!this.#hasMemory(node)) return undefined;
    let memory = this.reads.get(node);
    if (!memory) {
      memory = parameter(`x${this.reads.size}`, node);
      this.reads.set(node, memory);
    }
    return memory;
  }

  axis(node: GraphNode, run: number, size: number): LoopAxis {
    const id = this.#ids.get(node) ?? this.#ids.size;
    this.#ids.set(node, id);
    const key = `${id}:${run}`;
    let axis = this.#axes.get(key);
    if (!axis) {
      axis = { size, splits: new Set() };
      this.#axes.set(key, axis);
    }
    return axis;
  }

  get splits(): number {
    return [...this.#axes.values()].reduce((n, a) => n + a.splits.size, 0);
  }
}

/** Times that a kernel is lowered with finer loops at most; three are many. */
const MOST_ROUNDS = 64;

/**
 * Lower a kernel again until no more loops have to be cut finer.
 * @throws InternalError if that does not end
 */
export function settled<T>(axes: readonly LoopAxis[], memories: Memories, make: () => T): T {
  const splits = (): number => axes.reduce((n, a) => n + a.splits.size, memories.splits);
  for (let round = 0; round < MOST_ROUNDS; round++) {
    const before = splits();
    const made = make();
    if (splits() === before) return made;
  }
  throw new InternalError(`the loops of (${axes.map((a) => a.size)}) do not settle in ${MOST_ROUNDS} rounds`);
}

export function parameter(name: string, node: GraphNode): MemoryNode {
  const param: Param = { name, schema: buffer(node.dtype) };
  return k.bufferParam(param);
}

export const scopeOf = (
  memories: Memories,
  vectorReduce: boolean,
  onLoad?: (load: MemoryRead) => void,
): LoopScope => ({
  memory: (node) => memories.memory(node),
  axis: (node, run, size) => memories.axis(node, run, size),
  vectorReduce,
  regions: memories.regions,
  ...(onLoad ? { onLoad } : {}),
});

export const variable = (name: string): Variable => ({ name, type: valueType(i32), constant: true });
export const below = (sizes: readonly number[], i: number): number =>
  sizes.slice(i + 1).reduce((n, d) => n * d, 1);

export const loopDigit = (axis: LoopAxis, v: Variable, size: number, under: number): Digit => ({
  size,
  value: ofAtom(atom(k.read(v), size)),
  origin: { axis, below: under },
});

export interface Body {
  readonly statement: Statement;
  /** As in `KernelIr`. */
  readonly resident?: number;
  readonly arrays?: readonly ArrayDecl[];
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  /** Bytes of the dynamic shared array, if the kernel has one. */
  readonly sharedBytes?: number;
  /** Blocks of a cluster, if they work together. */
  readonly cluster?: readonly [number, number, number];
  /** As in `LoweredGroup`. */
  readonly readsFirst?: boolean;
}

/** Compute all roots at these coordinates, then store them: an output may be an input's own memory. */
export function storeAll(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  at: Coordinates,
  scope: LoopScope,
  lanes: Lanes,
): Statement {
  const out: Statement[] = [];
  const stores = computed(roots, outputs, at, scope, lanes, out);
  return k.block([...out, ...stores]);
}

/**
 * Computes all roots at these coordinates, of whose last one there are so many lanes; the stores come back, to be put after all that is
 * computed.
 */
export function computed(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  at: Coordinates,
  scope: LoopScope,
  lanes: Lanes,
  out: Statement[],
): Statement[] {
  const counter = at.at(-1)!.value.terms[0]?.atom;
  const evaluator = new Evaluator(scope, lanes > 1 ? { atom: counter!, lanes } : undefined, out);
  return roots.flatMap((root, i) => {
    const v = declared('v', evaluator.value(root, at), out);
    evaluator.define(root, at, k.read(v));
    return storesOf(outputs[i]!, k.read(v), root, at, evaluator);
  });
}

export const toIndex = (at: Coordinates): Expr => toExpr(flatten(at));

/** Where the element of a result at these coordinates is in memory. */
export function placeOf(root: GraphNode, at: Coordinates, { regions }: Pick<LoopScope, 'regions'>): Affine {
  const region = regions?.get(root);
  if (!region) return flatten(at);
  return align(at, root.shape)
    .map((digits, i) => scaled(flatten(digits), region.strides[i]!))
    .reduce(plus, affine(region.offset));
}

/** Stores an element of a result, or the neighbours that a vector stands for, one by one where they do not lie side by side. */
export function storesOf(
  memory: MemoryNode,
  value: Expr,
  root: GraphNode,
  at: Coordinates,
  { scope, vector }: Pick<Evaluator, 'scope' | 'vector'>,
): Statement[] {
  const index = placeOf(root, at, scope);
  const isRun = (v: Vector): boolean =>
    slope(index, v.atom) === 1 && (!scope.aligned || isMultiple(index, v.atom, v.lanes));
  if (!vector || !scope.regions?.has(root) || isRun(vector)) return [k.store(memory, value, [toExpr(index)])];
  return Array.from({ length: vector.lanes }, (_, i) =>
    k.store(memory, k.lane(value, i), [toExpr(shifted(index, vector.atom, i))]),
  );
}

/**
 * The loop variables of `axes`, outermost first, from the position among all their elements: declared by quotients and
 * remainders of constants where there is more than one.
 */
export function cut(
  position: Variable,
  axes: readonly LoopAxis[],
  name: string,
  out: Statement[],
): Digit[][] {
  const loops = axes.flatMap((axis) => {
    const sizes = loopSizes(axis);
    return sizes.map((size, i) => ({ axis, size, under: below(sizes, i) }));
  });
  const sizes = loops.map((l) => l.size);
  const digits = loops.map(({ axis, size, under }, n): [LoopAxis, Digit] => {
    const step = below(sizes, n);
    let v: Expr = k.read(position);
    if (step > 1) v = k.alu('idiv', [v, k.int(step)]);
    if (n > 0 && size > 1) v = k.alu('mod', [v, k.int(size)]);
    const own = loops.length === 1 ? position : variable(`${name}${n}`);
    if (own !== position && size > 1) out.push(k.declare(own, v));
    return [axis, loopDigit(axis, own, size, under)];
  });
  return axes.map((axis) => digits.flatMap(([of, digit]) => (of === axis ? [digit] : [])));
}

export const declared = (name: string, value: Expr, out: Statement[]): Variable => {
  const v: Variable = { name, type: value.type, constant: true };
  out.push(k.declare(v, value));
  return v;
};

/** blockIdx.x and threadIdx.x */
export const BLOCK = k.special('blockIdx.x');
export const THREAD = k.special('threadIdx.x');

export const add = (a: Expr, b: Expr): Expr => k.alu('add', [a, b]);
export const times = (a: Expr, by: number): Expr => (by === 1 ? a : k.alu('mul', [a, k.int(by)]));
export const lessThan = (a: Expr, bound: number): Expr => k.alu('lt', [a, k.int(bound)]);
/** The least power of two from `n` on. */
export const powerOfTwo = (n: number): number => 2 ** Math.ceil(Math.log2(Math.max(1, n)));
