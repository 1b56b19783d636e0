/**
 * When launches run: each on a level, and all that it needs on lower ones. The stages of a group are launches of their
 * own: only the one that writes over old values waits for those who read them.
 */

import { besideLongLaunches } from '#schedule/gpu-passes.js';
import type { GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { writtenBy } from '../group.js';
import type { LaunchStep, Work } from '../launch.js';
import type { Plan, PlanSetting } from '../plan.js';

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
 * it: the padded images of a weight gradient would otherwise stay in memory from the forward pass on.
 */
export function levelsOf(steps: readonly LaunchStep[], target: Target): Map<LaunchStep, number> {
  const levels = new Map<LaunchStep, number>();
  const lowest = (step: LaunchStep): number =>
    Math.max(0, ...[...step.needs].map((need) => levels.get(need)! + 1));
  const order = inOrder(steps);
  for (const step of order) levels.set(step, lowest(step));
  if (steps.length === 0) return levels;
  if (target.model !== 'threads') return withLateStages(order, levels);

  return besideLongLaunches(order, levels, lowest, target);
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
