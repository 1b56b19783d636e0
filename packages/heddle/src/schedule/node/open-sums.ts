/** Sums of columns in kernels for GPUs. A browser has none: see schedule/browser/open-sums.ts. */
export { openSums } from '../passes/open-sums.js';
