/** How much a launch has to do, roughly: what decides whether more than one thread is worth it. */
import type { KernelIr } from '../../kernel/ir.js';
import type { ScalarOp } from '../../kernel/ops.js';
import type { KernelLaunch } from '../device.js';
import { type Cost, costOfThread } from '../launch-cost.js';

/** What an op costs, in additions; 1 if it is not here. */
const COST: Partial<Record<ScalarOp, number>> = {
  div: 4,
  idiv: 10,
  mod: 10,
  sqrt: 5,
  exp: 18,
  exp2: 16,
  log: 25,
  log2: 25,
  sin: 20,
  cos: 20,
  tanh: 30,
  pow: 80,
};
const INSTRUCTIONS: Cost = {
  statement: 1,
  expression: (e) => {
    if (e.src.length === 0) return 0;
    return e.op === 'alu' ? (COST[e.arg] ?? 1) : e.op === 'intrinsic' ? 20 : 1;
  },
};

/** Instructions that all blocks of a launch take together. `ir` is the launch's kernel after compilation. */
export function estimateWork(ir: KernelIr, launch: KernelLaunch): number {
  const [x, y, z] = launch.grid;
  return x * y * z * costOfThread(ir, launch, INSTRUCTIONS);
}
