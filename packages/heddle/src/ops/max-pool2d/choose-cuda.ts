/** The kernels of max pooling for GPUs, as choices of the fused ops. */
import { isFloat } from '../../core/dtype.js';
import type { KernelChoice, KernelIo, Stage } from '../../graph/fused-op.js';
import { gridStage } from '../stage.js';
import { cudnnPoolingVariants } from '../vendor.js';
import { maxPool, maxPoolGradient, maxPoolPositions } from './cuda.js';
import { problemOf } from './problem.js';
import type { PoolArg } from './windows.js';

const poolStages = (io: KernelIo, arg: PoolArg): readonly Stage[] => [
  gridStage(maxPool(problemOf(io, arg)), { input: 0 }, { output: true }),
];

export const maxPoolChoice: KernelChoice<PoolArg> = {
  name: 'maxPool2d-cuda',
  when: ({ model }, { dtype, size }) => model === 'threads' && isFloat(dtype) && size > 0,
  finishes: true,
  plan: poolStages,
  variants: (io, arg) => [{ name: 'own', plan: () => poolStages(io, arg) }, ...cudnnPoolingVariants(io, arg)],
};

export const maxPoolPositionsChoice: KernelChoice<PoolArg> = {
  name: 'maxPool2dPositions-cuda',
  when: ({ model }, { src, size }) => model === 'threads' && isFloat(src[0]!.dtype) && size > 0,
  finishes: false,
  plan: (io, arg) => [gridStage(maxPoolPositions(problemOf(io, arg)), { input: 0 }, { output: true })],
};

export const maxPoolGradientChoice: KernelChoice<PoolArg> = {
  name: 'maxPool2dGradient-cuda',
  when: ({ model }, { dtype, size }) => model === 'threads' && isFloat(dtype) && size > 0,
  finishes: true,
  plan: (io, arg) => [
    gridStage(maxPoolGradient(problemOf(io, arg)), { input: 0 }, { input: 1 }, { output: true }),
  ],
};
