/** The kernels of max pooling for GPUs, as choices of the fused ops, and as ops on images with channels last. */
import { type DType, i8, isFloat } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import type { FusedOp, KernelChoice } from '../../graph/fused-op.js';
import type { TensorType } from '../../graph/node.js';
import { gridStage } from '../stage.js';
import { cudnnPoolingVariants } from '../vendor.js';
import { maxPool, maxPoolGradient, maxPoolPositions } from './cuda.js';
import { maxPoolBytes, wordsOf } from './cuda-bytes.js';
import { problemOf } from './problem.js';
import type { PoolArg } from './windows.js';

const KERNELS = {
  maxPool2d: maxPool,
  maxPool2dPositions: maxPoolPositions,
  maxPool2dGradient: maxPoolGradient,
} as const;

/** Floats, and what is pooled may be of bytes. */
const takes = (op: keyof typeof KERNELS, dtype: DType): boolean =>
  isFloat(dtype) || (op === 'maxPool2d' && dtype === i8);

const choiceOf = (op: keyof typeof KERNELS, isLast = false): KernelChoice<PoolArg> => ({
  name: `${op}-${isLast ? 'last' : 'cuda'}`,
  when: ({ model }, { src, size }) => model === 'threads' && takes(op, src.at(-1)!.dtype) && size > 0,
  finishes: op !== 'maxPool2dPositions',
  plan: (io, arg) => {
    const p = problemOf(io, arg, isLast);
    const words = op === 'maxPool2d' ? wordsOf(p, io.target.units) : undefined;
    const kernel = words ? maxPoolBytes(p, words) : KERNELS[op](p);
    return [gridStage(kernel, ...io.inputs.map((_, input) => ({ input })), { output: true })];
  },
});

const forward = choiceOf('maxPool2d');

export const maxPoolChoice: KernelChoice<PoolArg> = {
  ...forward,
  variants: (io, arg) => [
    { name: 'own', plan: () => forward.plan(io, arg) },
    ...cudnnPoolingVariants(io, arg),
  ],
};

export const maxPoolPositionsChoice = choiceOf('maxPool2dPositions');

export const maxPoolGradientChoice = choiceOf('maxPool2dGradient');

/** NCHW → NHWC */
const LAST = [0, 2, 3, 1] as const;
const FIRST = [0, 3, 1, 2] as const;

const reorder = ({ shape, dtype }: TensorType, order: readonly number[]): TensorType => ({
  shape: order.map((axis) => shape[axis]!),
  dtype,
});

/** How `of` is computed with channels last, where its images are so. */
export function poolingLast(of: FusedOp<PoolArg>): NonNullable<FusedOp<PoolArg>['reordered']> {
  const choice = choiceOf(of.name as keyof typeof KERNELS, true);
  const last: FusedOp<PoolArg> = {
    name: `${of.name}ChannelsLast`,
    infer: (src, arg) =>
      reorder(
        of.infer(
          src.map((s) => reorder(s, FIRST)),
          arg,
        ),
        LAST,
      ),
    compose: (src, arg) => {
      const first = src.map((s) => b.permute(s, FIRST));
      return b.permute(b.call(of, first, arg), LAST);
    },
    kernels: [choice],
  };
  return (target, node, arg) =>
    choice.when(target, node, arg)
      ? { order: LAST, follows: true, make: (src) => b.call(last, src, arg) }
      : undefined;
}
