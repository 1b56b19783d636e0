/**
 * Graph → launches. The passes, in order:
 *   canonicalize  share equal nodes; fused ops get a hand-written kernel or become their composition
 *   partition     decide which nodes get memory; everything else is computed inside the kernels that use it
 *   merge         one kernel for elementwise groups that work on the same elements
 *   join          what follows a hand-written kernel element by element becomes a further result of it
 *   lower         each group to kernel IR (generic), or to its plan's stages (hand-written)
 *   levels        a launch needs only launches of lower levels, in-place updates the last reader; what nobody waits
 *                 for runs where it costs least (GPU)
 *   memory        one arena for all that lives inside the program
 *   side by side  the smallest launches of a level join others (GPU)
 *   needs         the launches that each needs, by the memory they touch (GPU)
 */

import { env } from '../core/env.js';
import { debug } from '../core/log.js';
import { sizeOf } from '../core/shape.js';
import { callOf, type Variant } from '../graph/fused-op.js';
import { type GraphNode, requireIndexable } from '../graph/node.js';
import type { Target } from '../kernel/ir/target.js';
import { type Group, readsOf } from './group.js';
import type { Place, PlacedLaunch, Schedule, Slot, Work } from './launch.js';
import { lowerGroup } from './lower/lower.js';
import { canonicalize } from './passes/canonical.js';
import { onlyInPlace } from './passes/finish.js';
import { joinFollowers } from './passes/followers.js';
import { type OpenCall, openCall } from './passes/hand-written.js';
import { mergeLaunches } from './passes/horizontal.js';
import { levelsOf, stepsOf } from './passes/levels.js';
import { type Lifetime, planArena } from './passes/memory.js';
import { launchNeeds, type Touch } from './passes/needs.js';
import { mergeGroups, partition } from './passes/partition.js';
import { type Trial, type Tune, type TuneRequest, tuningKey } from './passes/tuning.js';
import { verifyGroups } from './passes/verify.js';
import { viewOf } from './passes/views.js';

export interface ScheduleOptions {
  /** For a root, the leaf (by its number) whose memory it may take over when nothing needs the old values. */
  readonly updates?: ReadonlyMap<number, number>;
  /** false: compositions only, no hand-written kernels. */
  readonly kernels?: boolean;
  /** Chooses among the ways of a hand-written kernel; without it, each takes its best guess. */
  readonly tune?: Tune;
}

export function schedule(
  roots: readonly GraphNode[],
  target: Target,
  options: ScheduleOptions = {},
): Schedule {
  const canonical = canonicalize(roots, target, options.kernels);
  const parts = partition(canonical, target, (node, stored) => viewOf(node, stored)?.base);
  const merged = mergeGroups(parts).filter((g) => g.roots[0]!.size > 0);
  const { groups, stored } = joinFollowers(merged, parts.stored, new Set(canonical.roots));
  if (env('HEDDLE_CHECK') === 1) {
    verifyGroups(merged, parts.stored, 'merge');
    verifyGroups(groups, stored, 'join');
  }
  const calls = new Map(groups.filter((g) => g.call).map((g) => [g, openCall(g, stored, target)]));
  const chosen = options.tune ? tuneCalls(calls, stored, options.tune) : new Map<Group, Variant>();
  const work = groups.map((group) => {
    const call = calls.get(group);
    return call ? callToWork(group, call, chosen.get(group)) : toWork(group, stored, target);
  });
  const { updates = new Map<number, number>() } = options;
  const updated = claimUpdates(work, canonical.roots, canonical.leaves, stored, updates);
  const steps = stepsOf(work, updated);
  const levels = levelsOf([...steps.values()].flat(), target);
  const levelOf = (w: Work, stage: number): number => levels.get(steps.get(w)!.at(stage)!)!;
  const placed = place(work, levelOf, canonical.roots, canonical.leaves, updated, updates);
  const together = mergeLaunches(placed.launches, target);
  const needs = target.model === 'threads' ? launchNeeds(together) : [];
  const launches = together.map(({ touches: _, ...launch }, i) => ({ ...launch, needs: needs[i] }));
  const result: Schedule = { ...placed, launches };
  debug(
    3,
    () =>
      `schedule: ${result.launches.length} launches on ${1 + Math.max(-1, ...levels.values())} levels, arena ${result.arenaBytes} bytes`,
  );
  return result;
}

const nameOf = (group: Group): string => {
  const root = group.roots[0]!;
  return `${root.op}_${root.shape.join('x') || 'scalar'}`;
};

function toWork(group: Group, stored: ReadonlySet<GraphNode>, target: Target): Work {
  const { ir, params, grid, block } = lowerGroup(nameOf(group), group, (n) => stored.has(n), target);
  const reads = new Set(params.filter((p) => !group.roots.includes(p)));
  return {
    group,
    reads,
    stages: [{ work: { kernel: ir, grid, block }, slots: params.map((node) => ({ node })) }],
    scratch: [],
  };
}

/** Undefined unless origins are recorded. */
function originsOf({ call, roots }: Group): readonly string[] | undefined {
  const origins = [...(call ? [call.node] : []), ...roots].flatMap(({ origin }) => origin || []);
  return origins.length > 0 ? [...new Set(origins)] : undefined;
}

function callToWork(group: Group, open: OpenCall, variant?: Variant): Work {
  const plan = open.plan(variant);
  const names = new Map<string, number>();
  const scratch: { bytes: number; from: number; to: number }[] = [];
  const reads = new Set(plan.inputs);
  const stages = plan.stages.map((stage, at) => {
    const slots = stage.args.map((arg): Slot => {
      if ('input' in arg) return { node: plan.inputs[arg.input]! };
      if ('output' in arg) return { node: group.roots[0]! };
      if ('value' in arg) return arg;
      let id = names.get(arg.scratch);
      if (id === undefined) {
        id = scratch.length;
        names.set(arg.scratch, id);
        scratch.push({ bytes: arg.bytes, from: at, to: at });
      }
      scratch[id]!.to = at;
      return { scratch: id };
    });
    for (const node of stage.extra) {
      slots.push({ node });
      if (!group.roots.includes(node)) reads.add(node);
    }
    const { args: _, extra: __, ...work } = stage;
    return { work, slots };
  });
  const { node } = group.call!;
  const { op, arg } = callOf(node);
  const call = { op: op.name, flops: op.flops?.(node, arg) };
  return { group, reads, stages, scratch, call };
}

/** The variants that `tune` takes for the calls that can be done in several ways. */
function tuneCalls(
  calls: ReadonlyMap<Group, OpenCall>,
  stored: ReadonlySet<GraphNode>,
  tune: Tune,
): Map<Group, Variant> {
  const several: { readonly group: Group; readonly variants: readonly Variant[] }[] = [];
  const requests: TuneRequest[] = [];
  for (const [group, open] of calls) {
    const variants = open.variants();
    if (variants.length < 2) continue;
    several.push({ group, variants });
    requests.push({
      key: tuningKey(group, stored, open.inputs, variants),
      variants: variants.map((variant) => ({
        name: variant.name,
        leastUs: variant.leastUs ?? 0,
        make: () => trialOf(callToWork(group, open, variant)),
      })),
    });
  }
  const names = requests.length > 0 ? tune(requests) : [];
  return new Map(
    several.flatMap(({ group, variants }, i): [Group, Variant][] => {
      const variant = variants.find((v) => v.name === names[i]);
      return variant ? [[group, variant]] : [];
    }),
  );
}

/** Work by itself, all its memory numbered. */
function trialOf({ stages, scratch }: Work): Trial {
  const nodes: GraphNode[] = [];
  const numberOf = (node: GraphNode): number => {
    const known = nodes.indexOf(node);
    return known >= 0 ? known : nodes.push(node) - 1;
  };
  const numbered = stages.map(({ work, slots }) => ({
    work,
    slots: slots.map((slot) => {
      if ('value' in slot) return slot;
      return { memory: 'node' in slot ? scratch.length + numberOf(slot.node) : slot.scratch };
    }),
  }));
  return { stages: numbered, memory: [...scratch.map((s) => s.bytes), ...nodes] };
}

/** Which roots may be written over a leaf: it is read in place only, and every other reader can run before. */
function claimUpdates(
  work: readonly Work[],
  roots: readonly GraphNode[],
  leaves: readonly GraphNode[],
  stored: ReadonlySet<GraphNode>,
  updates: ReadonlyMap<number, number>,
): Map<GraphNode, GraphNode> {
  const updated = new Map<GraphNode, GraphNode>();
  const taken = new Set<GraphNode>();
  for (const [root, leaf] of updates) {
    const node = roots[root]!;
    const old = leaves[leaf]!;
    const writer = work.find((w) => w.group.roots.includes(node));
    if (!writer || taken.has(old) || updated.has(node)) continue;
    // Threads of a reduction's kernel read of what the others write, also by way of its own results.
    const own = writer.group.reduction ? new Set(writer.group.roots) : undefined;
    const before = own ? new Set([...stored].filter((n) => !own.has(n))) : stored;
    if (!writer.group.roots.every((r) => onlyInPlace(r, old, before))) continue;
    const uses = (of: GraphNode) => (s: Work['stages'][number]) =>
      s.slots.some((slot) => 'node' in slot && slot.node === of);
    if (writer.stages.some((s) => uses(old)(s) && !uses(node)(s))) continue;
    // A hand-written kernel reads its operands wherever it likes: what it computes of the old values is not safe.
    const read = new Set([...stored, old]);
    const operands = writer.group.call?.node.src ?? [];
    if (operands.some((s) => s === old || (!read.has(s) && readsOf(s, read).has(old)))) continue;
    const needs = ancestors(work, writer, updated);
    const readers = work.filter((w) => w !== writer && w.reads.has(old));
    if (readers.some((r) => ancestors(work, r, updated).has(writer)) || needs.has(writer)) continue;
    updated.set(node, old);
    taken.add(old);
  }
  return updated;
}

/** What must run before `w`: the makers of what it reads, and the readers of what it overwrites. */
function needsOf(work: readonly Work[], w: Work, updated: ReadonlyMap<GraphNode, GraphNode>): Work[] {
  const overwritten = w.group.roots.flatMap((r) => updated.get(r) ?? []);
  return work.filter(
    (o) =>
      o !== w && (o.group.roots.some((r) => w.reads.has(r)) || overwritten.some((old) => o.reads.has(old))),
  );
}

function ancestors(work: readonly Work[], of: Work, updated: ReadonlyMap<GraphNode, GraphNode>): Set<Work> {
  const found = new Set<Work>();
  const stack = [of];
  while (stack.length > 0) {
    for (const need of needsOf(work, stack.pop()!, updated)) {
      if (found.has(need)) continue;
      found.add(need);
      stack.push(need);
    }
  }
  return found;
}

function place(
  work: readonly Work[],
  levelOf: (w: Work, stage: number) => number,
  roots: readonly GraphNode[],
  leaves: readonly GraphNode[],
  updated: ReadonlyMap<GraphNode, GraphNode>,
  updates: ReadonlyMap<number, number>,
): Omit<Schedule, 'launches'> & { readonly launches: readonly PlacedLaunch[] } {
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

  const toPlace = (slot: Slot, w: Work): Place => {
    if ('value' in slot) return slot;
    if ('scratch' in slot) return { arena: offsets[scratchAt.get(w)! + slot.scratch]! };
    const leaf = leaves.indexOf(updated.get(slot.node) ?? slot.node);
    if (leaf >= 0) return { leaf };
    const result = results.indexOf(slot.node);
    return result >= 0 ? { result } : { arena: offsets[arenaOf.get(slot.node)!]! };
  };
  const bytesOf = (slot: Slot, w: Work): number => {
    if ('value' in slot) return 0;
    return 'node' in slot ? slot.node.size * slot.node.dtype.bytes : w.scratch[slot.scratch]!.bytes;
  };
  const touchOf = (slot: Slot, w: Work): Touch[] => {
    const place = toPlace(slot, w);
    if ('value' in place) return [];
    const writes = 'scratch' in slot || ('node' in slot && w.group.roots.includes(slot.node));
    const from = 'arena' in place ? place.arena : 0;
    const memory = 'arena' in place ? 'arena' : JSON.stringify(place);
    return [{ memory, from, to: from + bytesOf(slot, w), writes }];
  };
  const launches = work
    .flatMap((w) =>
      w.stages.map((s, i) => ({
        work: s.work,
        level: levelOf(w, i),
        bytes: s.slots.reduce((sum, slot) => sum + bytesOf(slot, w), 0),
        call: w.call,
        origins: originsOf(w.group),
        args: s.slots.map((slot) => toPlace(slot, w)),
        touches: s.slots.flatMap((slot) => touchOf(slot, w)),
      })),
    )
    .sort((a, b) => a.level - b.level);
  return { launches, arenaBytes: bytes, roots: rootPlaces };
}
