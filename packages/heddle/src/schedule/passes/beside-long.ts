/** Work that nobody waits for, beside launches of a GPU that leave multiprocessors idle. */
import { isExchange } from '#schedule/exchanges.js';
import { costOfThread, DURATION } from '../../kernel/ir/cost.js';
import { FITTED } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import type { LaunchStep } from '../launch.js';

/**
 * Steps that others do not wait for (weights' gradients and updates) move to where they cost least: next to long launches.
 * Exchanges with other processes, and what they wait for, stay where they are.
 * @param order each step after those it needs @param levels as low as possible
 * @param lowest level on which a step may be, by those it needs
 */
export function besideLongLaunches(
  order: readonly LaunchStep[],
  levels: Map<LaunchStep, number>,
  lowest: (step: LaunchStep) => number,
  target: Target,
): Map<LaunchStep, number> {
  const depth = Math.max(...levels.values());
  const highest = new Map(
    order.map((step) => [step, isExchange(step.work.stages[step.stage]!.work) ? levels.get(step)! : depth]),
  );
  for (const step of order.toReversed())
    for (const need of step.needs) highest.set(need, Math.min(highest.get(need)!, highest.get(step)! - 1));
  const loads = Array.from({ length: depth + 1 }, (): Load => ({ path: 0, work: 0 }));
  const add = (step: LaunchStep, level: number): void => {
    loads[level] = together(loads[level]!, loadOf(step, target));
  };
  for (const step of order) if (levels.get(step) === highest.get(step)) add(step, levels.get(step)!);
  for (const step of order) {
    if (levels.get(step) === highest.get(step)) continue;
    const load = loadOf(step, target);
    const costOn = (level: number): number =>
      durationOf(together(loads[level]!, load)) - durationOf(loads[level]!);
    let best = lowest(step);
    for (let level = best + 1; level <= highest.get(step)!; level++)
      if (costOn(level) < costOn(best)) best = level;
    levels.set(step, best);
    add(step, best);
  }
  return levels;
}

/** What launches side by side ask for, in instructions one after the other. */
interface Load {
  /** Of the longest thread. */
  readonly path: number;
  /** Of all threads, spread over the GPU. */
  readonly work: number;
}

const together = (a: Load, b: Load): Load => ({ path: Math.max(a.path, b.path), work: a.work + b.work });
const durationOf = ({ path, work }: Load): number => Math.max(path, work);

function loadOf({ work: of, stage }: LaunchStep, { units }: Target): Load {
  const { work: launch, slots } = of.stages[stage]!;
  if ('library' in launch) return { path: 0, work: FITTED.launch.library };
  const { kernel, grid, block } = launch;
  const threads = [...grid, ...block].reduce((n, d) => n * d, 1);
  const path = FITTED.launch.latency + costOfThread(kernel, { grid, block, args: slots }, DURATION);
  return { path, work: (path * threads) / (units * FITTED.launch.busy) };
}
