/** What the kernels of this folder come as. */
import type { KernelIr } from '../kernel/ir/ir.js';

/** A kernel whose blocks are one thread of work each, with their number. */
export interface Tiled {
  readonly kernel: KernelIr;
  readonly blocks: number;
}

/** A kernel for a GPU, with its launch. */
export interface GridKernel {
  readonly kernel: KernelIr;
  readonly grid: readonly [number, number, number];
  readonly threads: number;
  /** Of its dynamic shared array; 0 if it has none. */
  readonly sharedBytes: number;
}
