/** Where everything is in memory: leaves, results, and one arena for all that lives inside the program. */

import { awaitedExchanges, isExchange } from '#schedule/exchanges.js';
import { sizeOf } from '../../core/shape.js';
import { type GraphNode, requireIndexable } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { type Group, type Region, writtenBy } from '../group.js';
import type { Place, PlacedLaunch, Schedule, UnplacedArgument, Work } from '../launch.js';
import type { Plan, PlanSetting } from '../plan.js';
import { type Arena, type Lifetime, planArena } from './memory.js';
import { launchNeeds, runsBefore, type Touch } from './needs.js';

/** `Touch.memory` of the arena. */
const ARENA = 'arena';

/** The launches, level by level, with the places of their arguments. */
export function place(
  { work, levels, roots, leaves, updated }: Plan,
  { target, updates }: PlanSetting,
): Pick<Plan, 'launches' | 'arenaBytes' | 'results'> {
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

  // Lifetimes in the arena: nodes from their writer to their last reader, scratch within its plan
  const lifetimes: Lifetime[] = [];
  const arenaOf = new Map<GraphNode, number>();
  const awaited: ReadonlyMap<Work, number> = awaitedExchanges(work);
  // On a CPU launches run one after the other.
  const exchanging = new Set(
    target.model === 'threads' ? work.filter((w) => w.stages.some((stage) => isExchange(stage.work))) : [],
  );
  const lastExchange = Math.max(-1, ...[...exchanging].map((w) => levelOf(w, -1)));
  /** When it has ended, by the levels: exchanges, and what awaits them, may run until the last exchange. */
  const endOf = (w: Work, level: number): number =>
    exchanging.has(w) || (awaited.get(w) ?? 0) > 0 ? Math.max(level, lastExchange) : level;
  const regions = new Map<GraphNode, Region>(work.flatMap(({ group }) => [...(group.regions ?? [])]));
  const partsOf = new Map<GraphNode, GraphNode[]>();
  for (const [part, { whole }] of regions) partsOf.set(whole, [...(partsOf.get(whole) ?? []), part]);
  for (const w of work) {
    for (const node of writtenBy(w.group)) {
      if (results.includes(node) || updated.has(node) || arenaOf.has(node)) continue;
      const writers = partsOf.has(node) ? work.filter((o) => writtenBy(o.group).includes(node)) : [w];
      const readers = work.filter((o) => o.reads.has(node));
      arenaOf.set(node, lifetimes.length);
      const from = Math.min(...writers.map((o) => levelOf(o, 0)));
      const to = Math.max(...[...writers, ...readers].map((r) => endOf(r, levelOf(r, -1))));
      lifetimes.push({ bytes: node.size * node.dtype.bytes, from, to });
    }
  }
  const holderOf = (node: GraphNode): GraphNode => regions.get(node)?.whole ?? node;
  const scratchAt = new Map<Work, number>();
  for (const w of work) {
    scratchAt.set(w, lifetimes.length);
    for (const s of w.scratch)
      lifetimes.push({ bytes: s.bytes, from: levelOf(w, s.from), to: endOf(w, levelOf(w, s.to)) });
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
      : [{ memory, from, to, writes, value: slot.node }];
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

/**
 * The smallest arena; but on a GPU, as long as its cache holds everything, one whose memory is taken over only by launches
 * that follow those who used it anyway: small launches side by side do not wait for each other's memory.
 */
function arenaFor(
  lifetimes: readonly Lifetime[],
  launchesIn: (arena: Arena) => readonly PlacedLaunch[],
  { model, limits }: Target,
): Arena {
  const smallest = planArena(lifetimes);
  if (model !== 'threads' || smallest.bytes > limits.cacheBytes) return smallest;
  const apart = planArena(lifetimes, () => false);
  const launches = launchesIn(apart);
  const isBefore = runsBefore(
    launchNeeds(launches.map(({ work, ...launch }) => ({ ...launch, isExchange: isExchange(work) }))),
  );
  const usersAt = new Map<number, number[]>();
  launches.forEach(({ touches }, i) => {
    for (const { memory, from } of touches)
      if (memory === ARENA) usersAt.set(from, [...(usersAt.get(from) ?? []), i]);
  });
  const users = lifetimes.map((_, i) => usersAt.get(apart.offsets[i]!) ?? []);
  const follow = (i: number, j: number): boolean =>
    users[j]!.every((then) => users[i]!.every((first) => isBefore(first, then)));
  const roomy = planArena(lifetimes, (i, j) => follow(i, j) || follow(j, i));
  return roomy.bytes <= limits.cacheBytes ? roomy : smallest;
}

/** Undefined unless origins are recorded. */
function originsOf({ call, roots }: Group): readonly string[] | undefined {
  const origins = [...(call ? [call.node] : []), ...roots].flatMap(({ origin }) => origin || []);
  return origins.length > 0 ? [...new Set(origins)] : undefined;
}
