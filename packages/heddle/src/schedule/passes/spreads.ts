/**
 * Windows that come from one element each, as the gradient of max pooling side by side, stored by the kernel that makes the
 * elements: no launch reads them for that.
 */
import { callOf } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { type Group, memoryOf } from '../group.js';
import type { Plan } from '../plan.js';
import { comesInVectors } from './finish.js';
import { knownReads, needsGroup } from './followers.js';
import { inOrder, type Partition } from './partition.js';

/** The groups, with calls that give windows among the results of those that make their sources. */
export function joinSpreads({ groups, stored }: Plan): Partition {
  let plan = groups;
  for (const group of groups) {
    const host = hostOf(group, plan, stored);
    if (!host) continue;
    const { node } = group.call!;
    const spreads = [...(host.spreads ?? []), node];
    const both = { ...host, roots: [...host.roots, node], spreads };
    plan = inOrder(
      plan.filter((g) => g !== group).map((g) => (g === host ? both : g)),
      stored,
    );
  }
  return { groups: plan, stored };
}

/** Whose kernel can store the windows that a call gives. */
function hostOf(
  { call, roots, regions }: Group,
  groups: readonly Group[],
  stored: ReadonlySet<GraphNode>,
): Group | undefined {
  if (!call || regions || roots.length > 1 || roots[0] !== call.node) return undefined;
  const { op, arg } = callOf(call.node);
  if (!op.spreads?.(arg)) return undefined;
  const reads = call.node.src.map((s) => memoryOf(s, stored));
  if (![call.node, ...reads].every(({ dtype }) => comesInVectors(dtype, 'threads'))) return undefined;
  const readsIn = knownReads(stored);
  return groups.find((host) => {
    const isMade = (n: GraphNode): boolean =>
      host.roots.includes(n) && !host.spreads?.includes(n) && n.size !== host.chain?.rows;
    const others = reads.filter((n) => !isMade(n));
    return canSpread(host) && others.length < reads.length && !needsGroup(others, host, groups, readsIn);
  });
}

/** Whether a kernel can store more for each element of its results. */
function canSpread({ call, chain, reduction, regions }: Group): boolean {
  if (!call) return chain !== undefined;
  const finishesMore = call.choice.finishes && !call.windows && call.also.length === 0;
  return finishesMore && !reduction && !regions;
}
