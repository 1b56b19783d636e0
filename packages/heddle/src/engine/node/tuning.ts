/** Kernels are chosen by timing them, where the device can. A browser has no such device: see engine/browser/tuning.ts. */
export { tuning } from '../tuner.js';
