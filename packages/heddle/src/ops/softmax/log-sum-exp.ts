import * as b from '../../graph/build.js';
import type { FusedOp } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';

export interface LogSumExpArg {
  readonly axes: readonly number[];
}

const logSumExp = (x: GraphNode, axes: readonly number[]): GraphNode => b.call(logSumExpOp, [x], { axes });

/**
 * log Σ e^x along `axes`, kept as size 1, computed on x − max x; −∞ of nothing, and where all are −∞. It is associative: of parts
 * it is that of their own. M. Milakov and N. Gimelshein, Online normalizer calculation for softmax (2018).
 */
export const logSumExpOp: FusedOp<LogSumExpArg> = {
  name: 'logSumExp',
  infer: ([x], { axes }) => ({ shape: x!.shape.map((d, i) => (axes.includes(i) ? 1 : d)), dtype: x!.dtype }),
  compose: ([x], { axes }) => {
    const top = b.withoutGradients(() => {
      if (axes.some((i) => x!.shape[i] === 0)) return b.sum(x!, axes);
      const largest = b.reduce('max', x!, axes);
      const isInfinite = b.map('eq', b.map('abs', largest), b.like(largest, Number.POSITIVE_INFINITY));
      return b.where(isInfinite, b.like(largest, 0), largest);
    });
    const total = b.sum(b.map('exp', b.sub(x!, top)), axes);
    return b.add(b.map('log', total), top);
  },
  reduction: {
    axes: ({ axes }) => axes,
    along: (_, axes) => ({ axes }),
    ofParts: (cut, axes, at) => logSumExp(logSumExp(cut, axes), [at]),
  },
  kernels: [],
};
