/** Stands in for the passes that only save the CUDA compiler time. */
import type { KernelPass } from '../pass.js';

export const promotionForCuda: readonly KernelPass[] = [];
export const unrollingForCuda: readonly KernelPass[] = [];
