/** Stands in for promotion for the CUDA compiler, which only saves that compiler time. */
import type { KernelPass } from '../pipeline.js';

export const promotionForCuda: readonly KernelPass[] = [];
