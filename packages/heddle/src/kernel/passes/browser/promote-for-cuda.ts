/** Stands in for promotion for the CUDA compiler, which only saves that compiler time. */
import type { KernelPass } from '../pass.js';

export const promotionForCuda: readonly KernelPass[] = [];
