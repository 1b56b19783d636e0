/**
 * In-place updates: which roots are written over the leaf that they replace. A parameter after an optimizer's step takes
 * the memory of the one before, if all readers of the old values can run before.
 */
import type { GraphNode } from '../../graph/node.js';
import { readsOf } from '../group.js';
import type { Work } from '../launch.js';
import type { Plan, PlanSetting } from '../plan.js';
import { onlyInPlace } from './finish.js';

/** Which roots may be written over a leaf: it is read in place only, and every other reader can run before. */
export function claimUpdates(
  { work, roots, leaves, stored }: Plan,
  { updates }: PlanSetting,
): { updated: Map<GraphNode, GraphNode> } {
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
  return { updated };
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
