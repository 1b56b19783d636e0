/**
 * When launches run: each on a level, and all that it needs on lower ones. The stages of a group are launches of their
 * own: only the one that writes over old values waits for those who read them.
 */

import { isExchange } from '#schedule/exchanges.js';
import type { GraphNode } from '../../graph/node.js';
import { costOfThread, DURATION } from '../../kernel/ir/cost.js';
import { FITTED } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { writtenBy } from '../group.js';
import type { Work } from '../launch.js';
import type { Plan, PlanSetting } from '../plan.js';

/** A stage of a group: one launch. */
export interface LaunchStep {
  readonly work: Work;
  readonly stage: number;
  /** What must have run before. */
  readonly needs: Set<LaunchStep>;
}

export function assignLevels(
  { work, updated }: Plan,
  { target }: PlanSetting,
): { levels: Map<Work, readonly number[]> } {
  const steps = stepsOf(work, updated);
  const levels = levelsOf([...steps.values()].flat(), target);
  return { levels: new Map([...steps].map(([w, own]) => [w, own.map((step) => levels.get(step)!)])) };
}

/**
 * The steps of each group, and what they need.
 * @param updated results that are written over a leaf
 */
function stepsOf(
  work: readonly Work[],
  updated: ReadonlyMap<GraphNode, GraphNode>,
): Map<Work, readonly LaunchStep[]> {
  const steps = new Map(
    work.map((w) => [w, w.stages.map((_, stage): LaunchStep => ({ work: w, stage, needs: new Set() }))]),
  );
  const makers = new Map<GraphNode, LaunchStep[]>();
  const readers = new Map<GraphNode, LaunchStep[]>();
  for (const [{ group, stages }, own] of steps) {
    for (const node of writtenBy(group)) makers.set(node, [...(makers.get(node) ?? []), own.at(-1)!]);
    stages.forEach(({ slots }, i) => {
      for (const slot of slots) {
        if (!('node' in slot) || group.roots.includes(slot.node)) continue;
        readers.set(slot.node, [...(readers.get(slot.node) ?? []), own[i]!]);
      }
    });
  }
  for (const [{ group, stages }, own] of steps) {
    stages.forEach(({ slots }, i) => {
      const { needs } = own[i]!;
      if (i > 0) needs.add(own[i - 1]!);
      for (const slot of slots) {
        if (!('node' in slot)) continue;
        if (!group.roots.includes(slot.node)) {
          for (const maker of makers.get(slot.node) ?? []) needs.add(maker);
          continue;
        }
        const old = updated.get(slot.node);
        for (const reader of (old && readers.get(old)) ?? [])
          if (reader.work !== own[i]!.work) needs.add(reader);
      }
    });
  }
  return steps;
}

/**
 * The level of each step: as low as possible. On a CPU, what a step makes for the next of its kernel is made right before
 * it: the padded images of a weight gradient would otherwise stay in memory from the forward pass on. On a GPU, steps that
 * others do not wait for (weights' gradients and updates) move to where they cost least: next to long launches that leave
 * multiprocessors idle. Exchanges with other processes, and what they wait for, stay where they are.
 */
export function levelsOf(steps: readonly LaunchStep[], target: Target): Map<LaunchStep, number> {
  const levels = new Map<LaunchStep, number>();
  const lowest = (step: LaunchStep): number =>
    Math.max(0, ...[...step.needs].map((need) => levels.get(need)! + 1));
  const order = inOrder(steps);
  for (const step of order) levels.set(step, lowest(step));
  if (steps.length === 0) return levels;
  if (target.model !== 'threads') return withLateStages(order, levels);

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

/** The levels, with all steps but the last of a kernel as late as those that need them allow. */
function withLateStages(
  order: readonly LaunchStep[],
  levels: Map<LaunchStep, number>,
): Map<LaunchStep, number> {
  const latest = new Map<LaunchStep, number>();
  for (const step of order.toReversed()) {
    const { work, stage } = step;
    if (stage < work.stages.length - 1) levels.set(step, latest.get(step)!);
    for (const need of step.needs)
      latest.set(need, Math.min(latest.get(need) ?? Number.POSITIVE_INFINITY, levels.get(step)! - 1));
  }
  return levels;
}

/** Each step after those it needs. */
function inOrder(steps: readonly LaunchStep[]): LaunchStep[] {
  const order = new Set<LaunchStep>();
  const visit = (step: LaunchStep): void => {
    if (order.has(step)) return;
    for (const need of step.needs) visit(need);
    order.add(step);
  };
  steps.forEach(visit);
  return [...order];
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
