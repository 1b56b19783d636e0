/**
 * Stands in for the kernels for GPUs in a browser, where Heddle has no GPU to run on: they are a tenth of the library. The
 * simulator there runs generated kernels and the user's own.
 */
import type { FusedOp, KernelChoice } from '../../graph/fused-op.js';

/** A kernel for no target. */
const none = (name: string): KernelChoice<never> => ({
  name,
  when: () => false,
  finishes: false,
  plan: () => [],
});

export const attentionChoice = none('attention-cuda');
export const logSumExpChoice = none('attentionLogSumExp-cuda');
export const queryGradientChoice = none('attentionQueryGradient-cuda');
export const keyGradientChoice = none('attentionKeyGradient-cuda');
export const valueGradientChoice = none('attentionValueGradient-cuda');
export const convolveChoice = none;
export const weightChoice = none;
export const indexAddChoice = none('indexAdd-cuda');
export const matmulBytesChoice = none('matmulInteger-cuda');
export const matmulChoice = none('matmul-cuda');
export const matmulOfHalvesChoice = none('matmulOfHalves-cuda');
export const maxPoolChoice = none('maxPool2d-cuda');
export const maxPoolPositionsChoice = none('maxPool2dPositions-cuda');
export const maxPoolGradientChoice = none('maxPool2dGradient-cuda');
export const forwardChoice = none('recurrent-cuda');
export const backwardChoice = none('recurrentGradient-cuda');
export const scanChoice = none;
export const lastAtChoice = none('lastAt-cuda');
export const scatterAddChoice = none('scatterAdd-cuda');
export const argsortChoice = none('argsort-cuda');
export const reorderedBy = (): NonNullable<FusedOp['reordered']> => () => undefined;
export const poolingLast = reorderedBy;
export const selectedOfRounded = (): undefined => undefined;
export const alignedProduct = selectedOfRounded;
export const productInParts = selectedOfRounded;
export const unalignedSources = (): readonly never[] => [];
export const windowsToPositions = selectedOfRounded;
