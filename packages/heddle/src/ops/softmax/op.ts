/** Softmax and its logarithm over one axis. */
import { f32, requireFloats } from '../../core/dtype.js';
import { normalizeAxis, sizeOf } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { stage } from '../stage.js';
import { LONGEST, softmaxRows } from './cpu.js';

export interface SoftmaxArg {
  readonly axis: number;
  /** The logarithm of the probabilities instead of the probabilities. */
  readonly log: boolean;
}

/** (…, C, …) → the same shape; exp(x) / Σ exp(x) along `axis`, computed on x − max x. */
export const softmaxOp: FusedOp<SoftmaxArg> = {
  name: 'softmax',
  infer: ([x]) => x!,
  compose: ([x], { axis, log }) =>
    b.widened((x) => {
      const shifted = b.sub(x, b.reduce('max', x, [axis]));
      const e = b.map('exp', shifted);
      const total = b.sum(e, [axis]);
      // One quotient for a row: the sum is at least 1.
      return log ? b.sub(shifted, b.map('log', total)) : b.mul(e, b.div(b.like(total, 1), total));
    }, x!),
  grad: (y, g, { axis, log }) => [
    b.widened(
      (y, g) =>
        log
          ? b.sub(g, b.mul(b.map('exp', y), b.sum(g, [axis])))
          : b.mul(y, b.sub(g, b.sum(b.mul(g, y), [axis]))),
      y,
      g,
    ),
  ],
  kernels: [
    {
      name: 'softmax-cpu',
      when: ({ model }, { dtype, shape }, { axis }) =>
        model === 'blocks' && dtype === f32 && axis === shape.length - 1 && shape[axis]! <= LONGEST,
      finishes: true,
      plan: ({ inputs: [x], output, finish }, { log }) => {
        const columns = output.shape.at(-1)!;
        const rows = sizeOf(output.shape) / columns;
        const problem = { rows, columns, offset: x!.offset };
        return [stage(softmaxRows(problem, log, finish([rows, columns])), { input: 0 }, { output: true })];
      },
    },
  ],
};

/**
 * Softmax along `axis` (negative counts from the back), or its logarithm.
 * @throws ShapeError if there is no such axis, DTypeError unless x is of floats
 */
export function softmax(x: GraphNode, axis: number, log: boolean): GraphNode {
  const name = log ? 'logSoftmax' : 'softmax';
  requireFloats(name, 'x', x);
  const at = normalizeAxis(name, axis, x.shape.length);
  return x.size === 0 ? x : b.call(softmaxOp, [x], { axis: at, log });
}
