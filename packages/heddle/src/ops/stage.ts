/** Launches of kernels whose blocks are one thread of work each. */
import type { Stage, StageArgument } from '../graph/fused-op.js';
import type { GridKernel, Tiled } from './tiled.js';

/** The launch of all blocks of a kernel. */
export const stage = ({ kernel, blocks }: Tiled, ...args: readonly StageArgument[]): Stage => ({
  ...{ kernel, args, grid: [blocks, 1, 1], block: [1, 1, 1] },
});

/** Blocks per worker to aim for: enough for an even spread. */
export const SPREAD = 4;

/** The launch of a kernel for GPUs. */
export const gridStage = (
  { kernel, grid, threads, sharedBytes }: GridKernel,
  ...args: readonly StageArgument[]
): Stage => ({ kernel, args, grid, block: [threads, 1, 1], sharedBytes });
