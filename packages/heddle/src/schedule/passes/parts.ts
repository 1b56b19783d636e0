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

interface Reduction {
  readonly axes: readonly number[];
  /** How it is put together of parts. */
  readonly ofParts: (cut: GraphNode, axes: readonly number[], at: number) => GraphNode;
  /** A part is needed again after a first reduction of it. */
  readonly isKept: boolean;
  /** It is made of sums alone. */
  readonly isSum: boolean;
}

/** The node as a reduction: undefined for all others. */
function reductionOf(node: GraphNode): Reduction | undefined {
  if (node.op === 'reduce') {
    const { op, axes } = argOf(node, 'reduce');
    const ofParts: Reduction['ofParts'] = (cut, axes, at) => b.reduce(op, b.reduce(op, cut, axes), [at]);
    return { axes, ofParts, isKept: false, isSum: op === 'sum' };
  }
  if (node.op !== 'call') return undefined;
  const { op, arg } = callOf(node);
  if (!op.reduction) return undefined;
  const ofParts: Reduction['ofParts'] = (cut, axes, at) => op.reduction!.ofParts(cut, axes, at, arg);
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
 * @param isSpread its result is repeated, and meets the elements again that it was made of
 * @param choices the kernels of calls among what `src` is made of
 */
export function inTwo(
  node: GraphNode,
  src: GraphNode,
  isSpread: boolean,
  choices: ReadonlyMap<GraphNode, KernelChoice>,
  target: Target,
): GraphNode | undefined {
  const reduction = target.model === 'threads' ? reductionOf(node) : undefined;
  if (!reduction || node.size === 0) return undefined;
  const { axes, ofParts, isKept, isSum } = reduction;
  const found = structureIn(src, axes);
  const readsOther = readsSpread(src, found);
  const atStore = isSum && !readsOther ? rowsAtStore(src, found, choices, target) : undefined;
  if (atStore === undefined && (isSpread || readsOther) && suitsStrips(found, target)) return undefined;
  if (isKept && isSpread && !found.contiguous && atStore === undefined) return undefined;
  const parts = partsOf(found, target, isKept, atStore);
  return parts && b.reshape(ofParts(b.reshape(src, parts.shape), parts.axes, parts.at), node.shape);
}

/** The rows of a part that a kernel sums where it stores what `src` is made of element by element, if there is such a kernel. */
function rowsAtStore(
  src: GraphNode,
  { runs }: Structure,
  choices: ReadonlyMap<GraphNode, KernelChoice>,
  target: Target,
): number | undefined {
  const [reduced, columns, another] = runs;
  if (!columns || another || !reduced!.marked) return undefined;
  const cuts = (rows: number): boolean => reduced!.size % rows === 0 && reduced!.size > rows;
  const inPlace = (n: GraphNode): readonly GraphNode[] =>
    n.op === 'map' || n.op === 'reshape' || n.op === 'detach' ? n.src.filter((s) => s.size === src.size) : [];
  for (const call of topological([src], inPlace)) {
    const choice = choices.get(call);
    if (choice?.sums && call.shape.at(-1) === columns.size) {
      const rows = choice.sums(target, call, callOf(call).arg);
      if (rows !== undefined && cuts(rows)) return rows;
    }
  }
  return undefined;
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
 * Nodes that are repeated along a dimension, as they are or after elementwise ops on no more elements.
 * @param order sources first
 * @param last whether this is so for the last
 */
export function spreadNodes(order: readonly GraphNode[], last: boolean): Set<GraphNode> {
  const spread = new Set<GraphNode>(last ? order.slice(-1) : []);
  for (const node of order.toReversed())
    for (const s of node.src) {
      const passesOn = node.op !== 'expand' && s.size === node.size && spread.has(node);
      if (passesOn || (node.op === 'expand' && node.size > s.size)) spread.add(s);
    }
  return spread;
}

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
