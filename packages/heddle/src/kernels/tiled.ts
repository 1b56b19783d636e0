/** What the kernels of this folder come as, on a target whose blocks are one thread of work each. */
import type { KernelIr } from '../kernel/ir.js';

/** A kernel with the number of blocks to launch. */
export interface Tiled {
  readonly kernel: KernelIr;
  readonly blocks: number;
}
