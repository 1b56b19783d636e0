/**
 * A long reduction of few results as two, on a GPU: of parts, then of the parts' results, so that all multiprocessors
 * have work.
 */
import * as b from '../../graph/build.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import type { ScalarOp } from '../../kernel/ir/ops.js';
import type { Target } from '../../kernel/ir/target.js';
import { structureOf } from './reductions.js';

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

/** undefined if it is as well in one, or has no fitting divisor. */
function partsOf(node: GraphNode, target: Target): Parts | undefined {
  const { runs, rows, columns, contiguous } = structureOf(node);
  const wanted = contiguous ? wantedOfRow(rows, columns, target) : wantedOfColumn(rows, columns, target);
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

/** The reduction as two, or undefined where one does as well. `src` stands for its source. */
export function inTwo(node: GraphNode, src: GraphNode, target: Target): GraphNode | undefined {
  if (target.model !== 'threads') return undefined;
  const parts = partsOf(node, target);
  if (!parts) return undefined;
  if (structureOf(node).contiguous && sumsSquaredDeviations(node))
    return b.reshape(deviations(src.src[0]!.src[0]!, parts), node.shape);
  const { op } = argOf(node, 'reduce');
  const partial = b.reduce(op, b.reshape(src, parts.shape), parts.axes);
  return b.reshape(b.reduce(op, partial, [parts.at]), node.shape);
}

/** Whether it sums the squares of what it takes from its mean along the same axes: Σ(x − x̄)². */
function sumsSquaredDeviations(node: GraphNode): boolean {
  const { op, axes } = argOf(node, 'reduce');
  const [centred, again] = operands('mul', node.src[0]!);
  if (op !== 'sum' || !centred || centred !== again) return false;
  const [x, mean] = operands('sub', centred);
  const [total, share] = mean?.op === 'expand' && !mean.isLeaf ? operands('mul', mean.src[0]!) : [];
  if (total?.op !== 'reduce' || total.isLeaf || total.src[0] !== x) return false;
  const { op: inner, axes: along } = argOf(total, 'reduce');
  const expected = b.knownValue(b.like(share!, total.size / x!.size));
  return inner === 'sum' && `${along}` === `${axes}` && b.knownValue(share!) === expected;
}

/** None of what has been computed: its sources are no part of the program. */
const operands = (op: ScalarOp, node: GraphNode): readonly GraphNode[] =>
  !node.isLeaf && node.op === 'map' && argOf(node, 'map').op === op ? node.src : [];

/**
 * Σ(x − x̄)² of parts that are each read once: around a part's own mean xₚ, and from there to the mean of all. With q the
 * distance of xₚ from the first part's, n elements a part and P parts it is Σₚ(Σ(x − xₚ)² + n·q²) − n/P·(Σₚ q)². What
 * cancels are distances between parts, which are short, so it is as exact as a second pass over x would be.
 * T. Chan, G. Golub and R. LeVeque, Updating formulae and a pairwise algorithm for computing sample variances (1979).
 */
function deviations(x: GraphNode, { count, at, shape, axes }: Parts): GraphNode {
  const cut = b.reshape(x, shape);
  const total = b.sum(cut, axes);
  const length = x.size / total.size;
  const times = (node: GraphNode, factor: number): GraphNode => b.mul(node, b.like(node, factor));
  const square = (node: GraphNode): GraphNode => b.mul(node, node);
  const mean = times(total, 1 / length);
  const first = total.shape.map((d, i) => (i === at ? 1 : d));
  const q = b.sub(
    mean,
    b.slice(
      mean,
      first.map(() => 0),
      first,
    ),
  );
  const within = b.sum(square(b.sub(cut, mean)), axes);
  const around = b.sum(b.add(within, times(square(q), length)), [at]);
  return b.sub(around, times(square(b.sum(q, [at])), length / count));
}

/** As many parts as keep the GPU busy, of at least 4096 elements. */
function wantedOfRow(rows: number, columns: number, { units }: Target): number {
  if (columns <= MOST_COLUMNS || rows >= 2 * units) return 1;
  return Math.min(Math.ceil((8 * units) / rows), Math.floor(columns / 4096));
}

function wantedOfColumn(rows: number, columns: number, { units }: Target): number {
  const blocks = Math.ceil(rows / 128);
  if (rows * columns < 2 ** 18 || blocks >= 4 * units) return 1;
  return Math.min(Math.ceil((8 * units) / blocks), Math.floor(columns / LEAST_PART));
}

/** The largest divisor of `size` up to `wanted`, if it is at least an eighth of it. */
function divisorNear(size: number, wanted: number): number {
  for (let d = Math.min(size, wanted); d >= Math.max(2, wanted / 8); d--) if (size % d === 0) return d;
  return 1;
}
