/**
 * What depends on constant leaves alone, as launches of their own that run once: weights packed for a kernel, converted, or in
 * another order. The others find what those make in further leaves.
 */
import { u8 } from '../../core/dtype.js';
import { some } from '../../core/node.js';
import { GraphNode } from '../../graph/node.js';
import type { KernelIr, Node } from '../../kernel/ir/ir.js';
import type { UnplacedArgument, Work } from '../launch.js';
import type { Plan, PlanSetting } from '../plan.js';

/** A group's launches that run once, and those that remain. */
interface SplitWork {
  readonly first: Work | undefined;
  readonly rest: Work | undefined;
  /** What the first launches make for later ones: nodes, and pieces of scratch memory. */
  readonly kept: readonly GraphNode[];
}

/** Take the launches that run once out of the work. */
export function splitConstants(
  { work, leaves, roots }: Plan,
  { constants }: PlanSetting,
): Pick<Plan, 'work' | 'leaves' | 'before'> {
  const known = new Set([...constants].map((leaf) => leaves[leaf]!));
  const first: Work[] = [];
  const rest: Work[] = [];
  const kept: GraphNode[] = [];
  for (const w of work) {
    const split = splitWork(w, known, new Set(roots));
    if (split.first) first.push(split.first);
    if (split.rest) rest.push(split.rest);
    kept.push(...split.kept);
    for (const node of split.kept) known.add(node);
  }
  const read = kept.filter((node) => rest.some(({ reads }) => reads.has(node)));
  if (read.length === 0) return { work, leaves, before: undefined };
  return { work: rest, leaves: [...leaves, ...read], before: { work: first, leaves, roots: read } };
}

function splitWork(work: Work, known: ReadonlySet<GraphNode>, results: ReadonlySet<GraphNode>): SplitWork {
  const { group, stages } = work;
  // Each run writes all parts of what is put together.
  if (group.regions) return { first: undefined, rest: work, kept: [] };
  const isKnown = (slot: UnplacedArgument): boolean =>
    !('node' in slot) || known.has(slot.node) || group.roots.includes(slot.node);
  let count = stages.findIndex(({ slots }) => !slots.every(isKnown));
  if (count < 0) count = stages.length;
  // A result of the program is made by each run.
  if (count === stages.length && group.roots.some((root) => results.has(root))) count--;
  while (count > 0 && count < stages.length && sharedScratch(work, count) === undefined) count--;
  if (count === 0) return { first: undefined, rest: work, kept: [] };
  if (count === stages.length) return { first: work, rest: undefined, kept: group.roots };
  return cut(work, count);
}

/** The scratch memory that the first `count` stages make for the others; undefined if the others write to it, too. */
function sharedScratch({ stages }: Work, count: number): ReadonlySet<number> | undefined {
  const made = new Set(scratchOf(stages.slice(0, count)));
  const shared = new Set<number>();
  for (const { work, slots } of stages.slice(count))
    for (const [i, slot] of slots.entries()) {
      if (!('scratch' in slot) || !made.has(slot.scratch)) continue;
      if (!('kernel' in work) || !onlyLoads(work.kernel, i)) return undefined;
      shared.add(slot.scratch);
    }
  return shared;
}

const scratchOf = (stages: Work['stages']): number[] =>
  stages.flatMap(({ slots }) => slots.flatMap((slot) => ('scratch' in slot ? [slot.scratch] : [])));

/** Whether a kernel does nothing else with a buffer than to load from it. */
function onlyLoads({ params, body }: KernelIr, param: number): boolean {
  const isIt = (node: Node): boolean => node.op === 'buffer' && node.arg === params[param];
  return !some<Node>([body], (node) => node.op !== 'load' && (node.src as readonly Node[]).some(isIt));
}

function cut(work: Work, count: number): SplitWork {
  const { group, stages, scratch } = work;
  const shared = sharedScratch(work, count)!;
  const nodes = new Map<number, GraphNode>();
  for (const i of shared)
    nodes.set(i, new GraphNode('leaf', { shape: [scratch[i]!.bytes], dtype: u8 }, [], null, false));
  const kept = [...nodes.values()];
  return {
    first: part(work, stages.slice(0, count), nodes, { ...group, roots: kept }),
    rest: part(work, stages.slice(count), nodes, group),
    kept,
  };
}

/** Some stages of a group, with nodes in the place of some of its scratch memory. */
function part(
  work: Work,
  stages: Work['stages'],
  nodes: ReadonlyMap<number, GraphNode>,
  group: Work['group'],
): Work {
  const own = [...new Set(scratchOf(stages))].filter((i) => !nodes.has(i));
  const uses = (i: number): number[] =>
    stages.flatMap(({ slots }, at) => (slots.some((s) => 'scratch' in s && s.scratch === i) ? [at] : []));
  const placed = stages.map((stage) => ({
    ...stage,
    slots: stage.slots.map((slot): UnplacedArgument => {
      if (!('scratch' in slot)) return slot;
      const node = nodes.get(slot.scratch);
      return node ? { node } : { scratch: own.indexOf(slot.scratch) };
    }),
  }));
  const reads = placed.flatMap(({ slots }) =>
    slots.flatMap((slot) => ('node' in slot && !group.roots.includes(slot.node) ? [slot.node] : [])),
  );
  return {
    ...work,
    group,
    reads: new Set(reads),
    stages: placed,
    scratch: own.map((i) => ({ ...work.scratch[i]!, from: uses(i)[0]!, to: uses(i).at(-1)! })),
  };
}
