/** How much a launch has to do, roughly: what decides whether more than one thread is worth it. */
import { costOfThread, INSTRUCTIONS } from '../../kernel/ir/cost.js';
import type { KernelIr } from '../../kernel/ir/ir.js';
import type { KernelLaunch } from '../device.js';

/** Instructions that all blocks of a launch take together. `ir` is the launch's kernel after compilation. */
export function estimateWork(ir: KernelIr, launch: KernelLaunch): number {
  const [x, y, z] = launch.grid;
  return x * y * z * costOfThread(ir, launch, INSTRUCTIONS);
}
