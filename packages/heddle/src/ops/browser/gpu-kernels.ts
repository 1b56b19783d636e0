/**
 * In place of the kernels for GPUs, which are a tenth of the library: there is no GPU in a browser, and the simulator there
 * runs what is generated, and kernels of users' own.
 */
import type { FusedOp, KernelChoice } from '../../graph/fused-op.js';

/** A kernel for no target. */
const none = (name: string): KernelChoice<never> => ({
  name,
  when: () => false,
  finishes: false,
  plan: () => [],
});

export const convolveChoice = none;
export const weightChoice = none;
export const matmulChoice = none('matmul-cuda');
export const forwardChoice = none('recurrent-cuda');
export const backwardChoice = none('recurrentGradient-cuda');
export const reorderedBy = (): NonNullable<FusedOp['reordered']> => () => undefined;
