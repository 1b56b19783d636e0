/**
 * A long reduction of few results as two, on a GPU: of parts, then of the parts' results, so that all multiprocessors
 * have work.
 */
import { suitsStrips } from '#schedule/strips.js';
import { some, topological } from '../../core/node.js';
import * as b from '../../graph/build.js';
import { callOf, type KernelChoice } from '../../graph/fused-op.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { MOST_ALONE, type Structure } from '../group.js';
import { isEqual, structureIn, structureOf } from './reductions.js';

/** Elements that one block reduces well. */
const MOST_COLUMNS = 32768;
/** Rows of a column's part. */
const LEAST_PART = 64;

/** A reduction's source, cut. */
interface Parts {
  readonly count: number;
  /** The source's shape with the parts as a dimension of their own, and where that is. */
  readonly shape: readonly number[];
  readonly at: number;
  /** What is reduced of a part. */
  readonly axes: readonly number[];
}

interface ReducingNode {
  readonly axes: readonly number[];
  /** How it is put together of parts. */
  readonly ofParts: (cut: GraphNode, axes: readonly number[], at: number) => GraphNode;
  /** A part is needed again after a first reduction of it. */
  readonly isKept: boolean;
  /** It is made of sums alone. */
  readonly isSum: boolean;
}

/** The node as a reduction: undefined for all others. */
function reductionOf(node: GraphNode): ReducingNode | undefined {
  if (node.op === 'reduce') {
    const { op, axes } = argOf(node, 'reduce');
    const ofParts: ReducingNode['ofParts'] = (cut, axes, at) => b.reduce(op, b.reduce(op, cut, axes), [at]);
    return { axes, ofParts, isKept: false, isSum: op === 'sum' };
  }
  if (node.op !== 'call') return undefined;
  const { op, arg } = callOf(node);
  if (!op.reduction) return undefined;
  const ofParts: ReducingNode['ofParts'] = (cut, axes, at) => op.reduction!.ofParts(cut, axes, at, arg);
  const [x] = node.src as [GraphNode];
  const inside = topological([op.compose(node.src, arg)], (n) => (n === x ? [] : n.src));
  const isSum = inside.every((n) => n === x || n.op !== 'reduce' || argOf(n, 'reduce').op === 'sum');
  return { axes: op.reduction.axes(arg), ofParts, isKept: true, isSum };
}

/**
 * undefined if it is as well in one, or has no fitting divisor.
 * @param isKept parts are needed again after a first reduction
 * @param atStore rows of a part that the kernel sums that makes what is reduced
 */
function partsOf(
  { runs, rows, columns, contiguous }: Structure,
  target: Target,
  isKept: boolean,
  atStore: number | undefined,
): Parts | undefined {
  if (atStore !== undefined)
    return { count: columns / atStore, at: 0, shape: [columns / atStore, atStore, rows], axes: [1] };
  const wanted = contiguous
    ? wantedOfRow(rows, columns, target)
    : wantedOfColumn(rows, columns, isKept, target);
  for (const [at, { size, marked }] of runs.entries()) {
    const count = marked ? divisorNear(size, wanted) : 1;
    if (count < 2) continue;
    return {
      count,
      at,
      shape: runs.flatMap((r, i) => (i === at ? [count, r.size / count] : [r.size])),
      axes: runs.flatMap((r, i) => (r.marked ? [i < at ? i : i + 1] : [])),
    };
  }
  return undefined;
}

/**
 * The reduction as two, or undefined where one does as well. Where the result of a fused op meets columns again, the reductions
 * that it is composed of are cut instead. `src` stands for its source.
 * @param met of how many tensors the elements are made that its result meets when it is repeated: 0 if it is not
 * @param choices the kernels of calls among what `src` is made of
 * @param numberOf a node's number among all, which is above those of its sources
 */
export function inTwo(
  node: GraphNode,
  src: GraphNode,
  met: number,
  choices: ReadonlyMap<GraphNode, KernelChoice>,
  numberOf: (node: GraphNode) => number,
  target: Target,
): GraphNode | undefined {
  const reduction = target.model === 'threads' ? reductionOf(node) : undefined;
  if (!reduction || node.size === 0) return undefined;
  const { axes, ofParts, isKept, isSum } = reduction;
  const found = structureIn(src, axes);
  const readsOther = readsSpread(src, found);
  const atStore = isSum && !readsOther ? rowsAtStore(src, found, choices, numberOf, target) : undefined;
  const isNeededAgain = met > 0 || readsOther;
  if (atStore === undefined && isNeededAgain && suitsStrips(found, Math.max(1, met), target))
    return undefined;
  if (isKept && met > 0 && !found.contiguous && atStore === undefined) return undefined;
  const parts = partsOf(found, target, isKept, atStore);
  return parts && b.reshape(ofParts(b.reshape(src, parts.shape), parts.axes, parts.at), node.shape);
}

/**
 * The rows of a part that a kernel sums where it stores what `src` is made of element by element, if there is such a kernel: the one
 * that runs last of all that make it.
 */
function rowsAtStore(
  src: GraphNode,
  { runs }: Structure,
  choices: ReadonlyMap<GraphNode, KernelChoice>,
  numberOf: (node: GraphNode) => number,
  target: Target,
): number | undefined {
  const [reduced, columns, another] = runs;
  if (!columns || another || !reduced!.marked) return undefined;
  const below = (n: GraphNode): GraphNode[] =>
    isElementwise(n) ? n.src.filter((s) => s.size === src.size && !isRepeated(s)) : [];
  const made = topological([src], below).filter((n) => !isElementwise(n));
  const [last] = made.sort((a, b) => numberOf(b) - numberOf(a));
  const choice = last && choices.get(last);
  if (!choice?.sums || last!.shape.at(-1) !== columns.size) return undefined;
  const rows = choice.sums(target, last!, callOf(last!).arg);
  return rows !== undefined && reduced!.size % rows === 0 && reduced!.size > rows ? rows : undefined;
}

/** Whether `x` is made of a reduction of the same structure, whose result is repeated. */
function readsSpread(x: GraphNode, found: Structure): boolean {
  const isReduced = (n: GraphNode): boolean => n.op === 'reduce' && isEqual(structureOf(n), found);
  return some(
    [x],
    (n) => isReduced(n),
    (n) => (n.isLeaf || n.op === 'reduce' || n.op === 'call' || n.op === 'permute' ? [] : n.src),
  );
}

/**
 * Nodes that are repeated along a dimension, as they are or after elementwise ops on no more elements: of how many tensors the elements
 * are made that they meet there.
 * @param order sources first
 * @param last as many, if the last one is repeated; else 0
 */
export function spreadNodes(order: readonly GraphNode[], last: number): Map<GraphNode, number> {
  const readers = new Map<GraphNode, number>();
  for (const node of order) for (const s of node.src) readers.set(s, (readers.get(s) ?? 0) + 1);
  // What several read has probably memory of its own.
  const tensorsOf = (node: GraphNode): number => {
    const below = (n: GraphNode): GraphNode[] => n.src.filter((s) => s.size === n.size && !isRepeated(s));
    const isInside = (n: GraphNode): boolean => n === node || (isElementwise(n) && readers.get(n) === 1);
    return topological([node], (n) => (isInside(n) ? below(n) : [])).filter((n) => !isInside(n)).length;
  };
  const met = new Map<GraphNode, number>();
  const spread = new Map<GraphNode, number>();
  const raise = (of: Map<GraphNode, number>, node: GraphNode, tensors: number): void => {
    if (tensors > (of.get(node) ?? 0)) of.set(node, tensors);
  };
  if (order.length > 0) raise(spread, order.at(-1)!, last);
  for (const node of order.toReversed()) {
    if (isElementwise(node)) {
      if (!met.has(node)) raise(met, node, tensorsOf(node));
      for (const s of node.src) if (isElementwise(s) || isRepeated(s)) raise(met, s, met.get(node) ?? 0);
    }
    for (const s of node.src) {
      if (node.op === 'expand' && node.size > s.size) raise(spread, s, met.get(node) ?? 0);
      else if (s.size === node.size && spread.has(node)) raise(spread, s, spread.get(node)!);
    }
  }
  return spread;
}

const isElementwise = ({ op, isLeaf }: GraphNode): boolean =>
  !isLeaf && (op === 'map' || op === 'reshape' || op === 'detach');

/** Made where it is used, of fewer elements or none. */
const isRepeated = ({ op, isLeaf }: GraphNode): boolean =>
  !isLeaf && (op === 'expand' || op === 'full' || op === 'iota');

/** As many parts as keep the GPU busy, of at least 4096 elements. */
function wantedOfRow(rows: number, columns: number, { units }: Target): number {
  if (columns <= MOST_COLUMNS || rows >= 2 * units) return 1;
  return Math.min(Math.ceil((8 * units) / rows), Math.floor(columns / 4096));
}

/** The same of columns, and as many as leave no more of each than a block keeps. */
function wantedOfColumn(rows: number, columns: number, isKept: boolean, { units }: Target): number {
  const blocks = Math.ceil(rows / 128);
  if (rows * columns < 2 ** 18) return 1;
  const busy = blocks >= 4 * units ? 1 : Math.ceil((8 * units) / blocks);
  const kept = isKept ? Math.ceil(columns / MOST_ALONE) : 1;
  return Math.min(Math.max(busy, kept), Math.floor(columns / LEAST_PART));
}

/** The largest divisor of `size` up to `wanted`, if it is at least an eighth of it. */
function divisorNear(size: number, wanted: number): number {
  for (let d = Math.min(size, wanted); d >= Math.max(2, wanted / 8); d--) if (size % d === 0) return d;
  return 1;
}
