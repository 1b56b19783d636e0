/** Where everything is in memory: leaves, results, and one arena for all that lives inside the program. */
import { sizeOf } from '../../core/shape.js';
import { type GraphNode, requireIndexable } from '../../graph/node.js';
import type { Group } from '../group.js';
import type { Place, PlacedLaunch, Schedule, UnplacedArgument, Work } from '../launch.js';
import type { Plan, PlanSetting } from '../plan.js';
import { type Lifetime, planArena } from './memory.js';
import type { Touch } from './needs.js';

/** The launches, level by level, with the places of their arguments. */
export function place(
  { work, levels, roots, leaves, updated }: Plan,
  { updates }: PlanSetting,
): Pick<Plan, 'launches' | 'arenaBytes' | 'results'> {
  const levelOf = (w: Work, stage: number): number => levels.get(w)!.at(stage)!;
  for (const { group } of work) for (const { shape } of group.roots) requireIndexable(shape);
  const results: GraphNode[] = [];
  const rootPlaces = roots.map((root, i): Schedule['roots'][number] => {
    const leaf = leaves.indexOf(updated.get(root) ?? root);
    // The same value may be the update of several leaves: it is written over one of them.
    if (leaf >= 0) return { leaf, updated: updated.has(root) && updates.get(i) === leaf };
    if (!results.includes(root)) results.push(root);
    return { result: results.indexOf(root), bytes: sizeOf(root.shape) * root.dtype.bytes };
  });

  // Lifetimes in the arena: nodes from their writer to their last reader, scratch within its plan
  const lifetimes: Lifetime[] = [];
  const arenaOf = new Map<GraphNode, number>();
  for (const w of work) {
    for (const root of w.group.roots) {
      if (results.includes(root) || updated.has(root)) continue;
      const readers = work.filter((o) => o.reads.has(root));
      arenaOf.set(root, lifetimes.length);
      const to = Math.max(...[w, ...readers].map((r) => levelOf(r, -1)));
      lifetimes.push({ bytes: root.size * root.dtype.bytes, from: levelOf(w, 0), to });
    }
  }
  const scratchAt = new Map<Work, number>();
  for (const w of work) {
    scratchAt.set(w, lifetimes.length);
    for (const s of w.scratch)
      lifetimes.push({ bytes: s.bytes, from: levelOf(w, s.from), to: levelOf(w, s.to) });
  }
  const { offsets, bytes } = planArena(lifetimes);

  const toPlace = (slot: UnplacedArgument, w: Work): Place => {
    if ('value' in slot) return slot;
    if ('scratch' in slot) return { arena: offsets[scratchAt.get(w)! + slot.scratch]! };
    const leaf = leaves.indexOf(updated.get(slot.node) ?? slot.node);
    if (leaf >= 0) return { leaf };
    const result = results.indexOf(slot.node);
    return result >= 0 ? { result } : { arena: offsets[arenaOf.get(slot.node)!]! };
  };
  const bytesOf = (slot: UnplacedArgument, w: Work): number => {
    if ('value' in slot) return 0;
    return 'node' in slot ? slot.node.size * slot.node.dtype.bytes : w.scratch[slot.scratch]!.bytes;
  };
  const touchOf = (slot: UnplacedArgument, w: Work): Touch[] => {
    const place = toPlace(slot, w);
    if ('value' in slot || 'value' in place) return [];
    const writes = 'scratch' in slot || ('node' in slot && w.group.roots.includes(slot.node));
    const from = 'arena' in place ? place.arena : 0;
    const memory = 'arena' in place ? 'arena' : JSON.stringify(place);
    const value = 'node' in slot ? slot.node : w.scratch[slot.scratch]!;
    return [{ memory, from, to: from + bytesOf(slot, w), writes, value }];
  };
  const launches = work
    .flatMap((w) =>
      w.stages.map(
        (s, i): PlacedLaunch => ({
          work: s.work,
          anySize: s.anySize,
          level: levelOf(w, i),
          bytes: s.slots.reduce((sum, slot) => sum + bytesOf(slot, w), 0),
          call: w.call,
          origins: originsOf(w.group),
          args: s.slots.map((slot) => toPlace(slot, w)),
          touches: s.slots.flatMap((slot) => touchOf(slot, w)),
        }),
      ),
    )
    .sort((a, b) => a.level - b.level);
  return { launches, arenaBytes: bytes, results: rootPlaces };
}

/** Undefined unless origins are recorded. */
function originsOf({ call, roots }: Group): readonly string[] | undefined {
  const origins = [...(call ? [call.node] : []), ...roots].flatMap(({ origin }) => origin || []);
  return origins.length > 0 ? [...new Set(origins)] : undefined;
}
