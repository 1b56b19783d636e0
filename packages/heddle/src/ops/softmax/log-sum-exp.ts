import * as b from '../../graph/build.js';
import type { FusedOp } from '../../graph/fused-op.js';

export interface LogSumExpArg {
  readonly axes: readonly number[];
  /** The function e^x: one with fewer digits, if the result is rounded to 16 bits. */
  readonly exp: 'exp' | 'exp16';
}

/**
 * log Σ e^x along `axes`, kept as size 1, computed on x − max x; −∞ of nothing, and where all are −∞. It is associative: of parts
 * it is that of their own. M. Milakov and N. Gimelshein, Online normalizer calculation for softmax (2018).
 */
export const logSumExpOp: FusedOp<LogSumExpArg> = {
  name: 'logSumExp',
  infer: ([x], { axes }) => ({ shape: x!.shape.map((d, i) => (axes.includes(i) ? 1 : d)), dtype: x!.dtype }),
  compose: ([x], { axes, exp }) => {
    const top = b.withoutGradients(() => {
      if (axes.some((i) => x!.shape[i] === 0)) return b.sum(x!, axes);
      const largest = b.reduce('max', x!, axes);
      const isInfinite = b.map('eq', b.map('abs', largest), b.like(largest, Number.POSITIVE_INFINITY));
      return b.where(isInfinite, b.like(largest, 0), largest);
    });
    const total = b.sum(b.map(exp, b.sub(x!, top)), axes);
    return b.add(b.map('log', total), top);
  },
  reduction: {
    axes: ({ axes }) => axes,
    along: ({ exp }, axes) => ({ axes, exp }),
    ofParts: (cut, axes, at, { exp }) =>
      b.call(logSumExpOp, [b.call(logSumExpOp, [cut], { axes, exp })], { axes: [at], exp }),
  },
  kernels: [],
};
