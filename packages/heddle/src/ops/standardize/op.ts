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

/**
 * Σ(x − x̄)² along `axes`, kept as size 1. Of parts that are each read once it is summed around a part's own mean xₚ, and
 * from there to the mean of all: with q the distance of xₚ from the first part's, n elements a part and P parts it is
 * Σₚ(Σ(x − xₚ)² + n·q²) − n/P·(Σₚ q)². What cancels are distances between parts, which are short, so it is as exact as a
 * second pass over x would be. T. Chan, G. Golub and R. LeVeque, Updating formulae and a pairwise algorithm for computing
 * sample variances (1979).
 */
export const squaredDeviationsOp: FusedOp<DeviationsArg> = {
  name: 'squaredDeviations',
  infer: ([x], { axes }) => ({ shape: x!.shape.map((d, i) => (axes.includes(i) ? 1 : d)), dtype: x!.dtype }),
  compose: ([x], { axes }) => {
    const centred = b.sub(x!, mean(x!, axes));
    return b.sum(b.mul(centred, centred), axes);
  },
  reduction: {
    axes: ({ axes }) => axes,
    ofParts: (cut, axes, at) => {
      const times = (node: GraphNode, factor: number): GraphNode => b.mul(node, b.like(node, factor));
      const square = (node: GraphNode): GraphNode => b.mul(node, node);
      const centre = mean(cut, axes);
      const length = cut.size / centre.size;
      const start = centre.shape.map(() => 0);
      const first = centre.shape.map((d, i) => (i === at ? 1 : d));
      const q = b.sub(centre, b.slice(centre, start, first));
      const within = b.sum(square(b.sub(cut, centre)), axes);
      const around = b.sum(b.add(within, times(square(q), length)), [at]);
      return b.sub(around, times(square(b.sum(q, [at])), length / cut.shape[at]!));
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
    const moved = b.mul(share(b.sum(centred, arg.axes)), total);
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
