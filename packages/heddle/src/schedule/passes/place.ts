/** Where everything is in memory: leaves, results, and one arena for all that lives inside the program. */

import { arenaFor } from '#schedule/gpu-passes.js';
import { sizeOf } from '../../core/shape.js';
import { type GraphNode, requireIndexable } from '../../graph/node.js';
import { type Group, writtenBy } from '../group.js';
import type { Place, PlacedLaunch, Schedule, UnplacedArgument, Work } from '../launch.js';
import type { Plan, PlanSetting } from '../plan.js';
import { ARENA, type Arena, type Lifetime } from './memory.js';
import type { Touch } from './needs.js';
import { usesOf } from './uses.js';

/** The launches, level by level, with the places of their arguments. */
export function place(plan: Plan, setting: PlanSetting): Pick<Plan, 'launches' | 'arenaBytes' | 'results'> {
  const { work, levels, roots, leaves, updated, overwrites } = plan;
  const { target, updates } = setting;
  const levelOf = (w: Work, stage: number): number => levels.get(w)!.at(stage)!;
  for (const { group } of work) for (const { shape } of writtenBy(group)) requireIndexable(shape);
  const results: GraphNode[] = [];
  const rootPlaces = roots.map((root, i): Schedule['roots'][number] => {
    const leaf = leaves.indexOf(updated.get(root) ?? root);
    // The same value may be the update of several leaves: it is written over one of them.
    if (leaf >= 0) return { leaf, updated: updated.has(root) && updates.get(i) === leaf };
    if (!results.includes(root)) results.push(root);
    return { result: results.indexOf(root), bytes: sizeOf(root.shape) * root.dtype.bytes };
  });

  // Lifetimes in the arena: nodes from their first writer to their last reader, scratch within its plan
  const lifetimes: Lifetime[] = [];
  const arenaOf = new Map<GraphNode, number>();
  const { of: uses, regions, awaited, endOf } = usesOf(plan, target);
  const partsOf = new Map<GraphNode, GraphNode[]>();
  for (const [part, { whole }] of regions) partsOf.set(whole, [...(partsOf.get(whole) ?? []), part]);
  for (const [node, all] of uses) {
    if (results.includes(node) || leaves.includes(updated.get(node) ?? node)) continue;
    arenaOf.set(node, lifetimes.length);
    const from = Math.min(...all.map((use) => use.from));
    const to = Math.max(...all.map((use) => use.to));
    lifetimes.push({
      bytes: node.size * node.dtype.bytes,
      from,
      to,
      over: arenaOf.get(overwrites.get(node)!),
    });
  }
  const holderOf = (node: GraphNode): GraphNode => regions.get(node)?.whole ?? node;
  const scratchAt = new Map<Work, number>();
  for (const w of work) {
    scratchAt.set(w, lifetimes.length);
    for (const s of w.scratch)
      lifetimes.push({ bytes: s.bytes, from: levelOf(w, s.from), to: endOf(w, s.to) });
  }
  const toPlace = (slot: UnplacedArgument, w: Work, { offsets }: Arena): Place => {
    if ('value' in slot) return slot;
    if ('scratch' in slot) return { arena: offsets[scratchAt.get(w)! + slot.scratch]! };
    const node = holderOf(slot.node);
    const leaf = leaves.indexOf(updated.get(node) ?? node);
    if (leaf >= 0) return { leaf };
    const result = results.indexOf(node);
    return result >= 0 ? { result } : { arena: offsets[arenaOf.get(node)!]! };
  };
  const bytesOf = (slot: UnplacedArgument, w: Work): number => {
    if ('value' in slot) return 0;
    return 'node' in slot ? slot.node.size * slot.node.dtype.bytes : w.scratch[slot.scratch]!.bytes;
  };
  const touchOf = (slot: UnplacedArgument, w: Work, arena: Arena): Touch[] => {
    const place = toPlace(slot, w, arena);
    if ('value' in slot || 'value' in place) return [];
    const writes = 'scratch' in slot || ('node' in slot && w.group.roots.includes(slot.node));
    const from = 'arena' in place ? place.arena : 0;
    const memory = 'arena' in place ? ARENA : JSON.stringify(place);
    if ('scratch' in slot)
      return [{ memory, from, to: from + bytesOf(slot, w), writes, value: w.scratch[slot.scratch]! }];
    // Whoever reads a whole reads all its parts.
    const whole = holderOf(slot.node);
    const parts = slot.node === whole ? partsOf.get(whole) : [slot.node];
    const to = from + bytesOf({ node: whole }, w);
    return parts
      ? parts.map((value) => ({ memory, from, to, writes, value, ...(whole !== value && { whole }) }))
      : [{ memory, from, to, writes, value: whole, over: updated.get(whole) ?? overwrites.get(whole) }];
  };
  const launchesIn = (arena: Arena): PlacedLaunch[] =>
    work
      .flatMap((w) =>
        w.stages.map(
          (s, i): PlacedLaunch => ({
            work: s.work,
            anySize: s.anySize,
            level: levelOf(w, i),
            awaits: awaited.get(w) ?? 0,
            bytes: s.slots.reduce((sum, slot) => sum + bytesOf(slot, w), 0),
            call: w.call,
            origins: originsOf(w.group),
            args: s.slots.map((slot) => toPlace(slot, w, arena)),
            touches: s.slots.flatMap((slot) => touchOf(slot, w, arena)),
          }),
        ),
      )
      .sort((a, b) => a.level - b.level);
  const arena = arenaFor(lifetimes, launchesIn, target);
  return { launches: launchesIn(arena), arenaBytes: arena.bytes, results: rootPlaces };
}

/** Undefined unless origins are recorded. */
function originsOf({ call, roots }: Group): readonly string[] | undefined {
  const origins = [...(call ? [call.node] : []), ...roots].flatMap(({ origin }) => origin || []);
  return origins.length > 0 ? [...new Set(origins)] : undefined;
}
