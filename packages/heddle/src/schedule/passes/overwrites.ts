/**
 * Which results may be written over what they are made of, where that lives inside the program and is not read any more. No launch
 * waits for it that would not come later anyway: whether it saves memory is seen when all of it is placed.
 */
import type { GraphNode } from '../../graph/node.js';
import type { Plan, PlanSetting } from '../plan.js';
import { mayOverwrite } from './updates.js';
import { usesOf } from './uses.js';

export function claimOverwrites(plan: Plan, { target }: PlanSetting): Pick<Plan, 'overwrites'> {
  const { work, roots, leaves, stored } = plan;
  const { of, regions } = usesOf(plan, target);
  const wholes = new Set([...regions.values()].map(({ whole }) => whole));
  const kept = new Set([...roots, ...leaves, ...regions.keys(), ...wholes]);
  const overwrites = new Map<GraphNode, GraphNode>();
  const taken = new Set<GraphNode>();
  for (const w of work)
    for (const node of w.group.roots) {
      const [first] = (of.get(node) ?? []).toSorted((a, b) => a.from - b.from);
      if (kept.has(node) || !first) continue;
      const fits = (old: GraphNode): boolean =>
        old.size === node.size && old.dtype.bytes === node.dtype.bytes && !kept.has(old) && !taken.has(old);
      const isLast = (old: GraphNode): boolean =>
        of.get(old)!.every((use) => (use.work === w && use.stage === first.stage) || use.to < first.from);
      const found = [...w.reads].find(
        (old) => fits(old) && isLast(old) && mayOverwrite(w, node, old, stored),
      );
      if (!found) continue;
      overwrites.set(node, found);
      taken.add(found);
    }
  return { overwrites };
}
