import * as b from '../../graph/build.js';
import type { FusedOp } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';

export interface StandardizeArg {
  readonly axes: readonly number[];
  /** Added to the variance. */
  readonly eps: number;
}

export interface Moments {
  readonly mean: GraphNode;
  /** Biased: the mean of the squared deviations. */
  readonly variance: GraphNode;
}

const mean = (x: GraphNode, axes: readonly number[]): GraphNode => {
  const total = b.sum(x, axes);
  return b.mul(total, b.like(total, total.size / x.size));
};

export interface DeviationsArg {
  readonly axes: readonly number[];
}

const times = (node: GraphNode, factor: number): GraphNode => b.mul(node, b.like(node, factor));
const square = (node: GraphNode): GraphNode => b.mul(node, node);

/** A source in parts, each of which is read once. */
function partial(cut: GraphNode, axes: readonly number[], at: number) {
  const totals = b.sum(cut, axes);
  const length = cut.size / totals.size;
  const centred = b.sub(cut, times(totals, 1 / length));
  const start = totals.shape.map(() => 0);
  const size = totals.shape.map((d, i) => (i === at ? 1 : d));
  const first = b.slice(totals, start, size);
  /** How far the parts' means are from that of the first. */
  const distances = times(b.sub(totals, first), 1 / length);
  return { totals, length, count: cut.shape[at]!, centred, first: times(first, 1 / length), distances };
}

const inferSums: FusedOp<DeviationsArg>['infer'] = ([x], { axes }) => ({
  shape: x!.shape.map((d, i) => (axes.includes(i) ? 1 : d)),
  dtype: x!.dtype,
});

/**
 * Σ(x − x̄)² along `axes`, kept as size 1. Of parts that are each read once it is summed around a part's own mean xₚ, and
 * from there to the mean of all: with q the distance of xₚ from the first part's, n elements a part and P parts it is
 * Σₚ(Σ(x − xₚ)² + n·q²) − n/P·(Σₚ q)². What cancels are distances between parts, which are short, so it is as exact as a
 * second pass over x would be. T. Chan, G. Golub and R. LeVeque, Updating formulae and a pairwise algorithm for computing
 * sample variances (1979).
 */
export const squaredDeviationsOp: FusedOp<DeviationsArg> = {
  name: 'squaredDeviations',
  infer: inferSums,
  compose: ([x], { axes }) => b.sum(square(b.sub(x!, mean(x!, axes))), axes),
  reduction: {
    axes: ({ axes }) => axes,
    along: (_, axes) => ({ axes }),
    ofParts: (cut, axes, at) => {
      const { length, count, centred, distances } = partial(cut, axes, at);
      const within = b.sum(square(centred), axes);
      const around = b.sum(b.add(within, times(square(distances), length)), [at]);
      return b.sub(around, times(square(b.sum(distances, [at])), length / count));
    },
  },
  kernels: [],
};

/**
 * Σ(x − x̄) along `axes`, kept as size 1: what the mean was rounded by, times the number of elements. Of parts it is the sum of
 * their own, and of the distances of their means from the mean of all, which are those from the first part's less its own.
 */
const deviationsOp: FusedOp<DeviationsArg> = {
  name: 'deviations',
  infer: inferSums,
  compose: ([x], { axes }) => b.sum(b.sub(x!, mean(x!, axes)), axes),
  reduction: {
    axes: ({ axes }) => axes,
    along: (_, axes) => ({ axes }),
    ofParts: (cut, axes, at) => {
      const { totals, length, count, centred, first, distances } = partial(cut, axes, at);
      const within = b.sum(b.sum(centred, axes), [at]);
      const all = times(b.sum(totals, [at]), 1 / (length * count));
      const around = b.sub(b.sum(distances, [at]), times(b.sub(all, first), count));
      return b.add(within, times(around, length));
    },
  },
  kernels: [],
};

/** Mean and variance of `x` along `axes`, whose sizes become 1. Of 16-bit floats in f32. */
export function moments(x: GraphNode, axes: readonly number[]): Moments {
  const values = b.wide(x);
  const centre = mean(values, axes);
  const squares = b.call(squaredDeviationsOp, [values], { axes });
  return { mean: centre, variance: b.mul(squares, b.like(squares, squares.size / x.size)) };
}

/** x less its mean, and 1/√(variance + eps). */
function parts(x: GraphNode, { axes, eps }: StandardizeArg): { centred: GraphNode; scale: GraphNode } {
  const { mean: centre, variance } = moments(x, axes);
  const deviation = b.map('sqrt', b.add(variance, b.like(variance, eps)));
  return { centred: b.sub(b.wide(x), centre), scale: b.div(b.like(deviation, 1), deviation) };
}

/**
 * (x − mean) / √(variance + eps) along `axes`, times a factor, if there is one, that does not vary along them: its size
 * there is 1.
 */
export const standardizeOp: FusedOp<StandardizeArg> = {
  name: 'standardize',
  infer: ([x]) => x!,
  compose: ([x, factor], arg) => {
    const { centred, scale } = parts(x!, arg);
    return b.cast(b.mul(centred, factor ? b.mul(scale, b.cast(factor, scale.dtype)) : scale), x!.dtype);
  },
  grad: ({ src: [x, factor] }, g, arg) => {
    const { centred, scale } = parts(x!, arg);
    const upstream = b.cast(g, centred.dtype);
    const share = (total: GraphNode): GraphNode => b.mul(total, b.like(total, total.size / x!.size));
    // Rounding the mean moves all of `centred` by as much, which the sum of many upstream gradients would magnify.
    const total = b.sum(upstream, arg.axes);
    const deviations = b.call(deviationsOp, [b.wide(x!)], { axes: arg.axes });
    const moved = b.mul(share(deviations), total);
    const along = b.mul(scale, b.sub(b.sum(b.mul(upstream, centred), arg.axes), moved));
    const rest = b.sub(b.sub(upstream, share(total)), b.mul(centred, b.mul(scale, share(along))));
    if (!factor) return [b.cast(b.mul(rest, scale), x!.dtype)];
    const both = b.mul(scale, b.cast(factor, scale.dtype));
    return [b.cast(b.mul(rest, both), x!.dtype), b.cast(along, factor.dtype)];
  },
  kernels: [],
};

/** @param factor of the size of x, but 1 along `axes` */
export const standardize = (
  x: GraphNode,
  axes: readonly number[],
  eps: number,
  factor?: GraphNode,
): GraphNode => b.call(standardizeOp, factor ? [x, factor] : [x], { axes, eps });
