/**
 * Several results of one kernel: elementwise ops after a kernel join it even if they are not its only users. An
 * optimizer's update needs this: the new momentum and the new parameter are both made where the gradient is, which
 * then needs no memory.
 */

import { topological } from '../../core/node.js';
import type { GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { type Group, makersOf, readsOf } from '../group.js';
import type { Plan, PlanSetting } from '../plan.js';
import { canFinish, isReduction } from './finish.js';
import type { Partition } from './partition.js';

/** Each kernel, one after the other, with the groups that can be computed where it stores its result. */
export function joinFollowers({ groups, stored, roots }: Plan, { target }: PlanSetting): Partition {
  const isRoot = new Set(roots);
  // A group reads the same whether or not a result is stored that it does not read, and others are not dropped.
  const known = new Map<Group, ReadonlySet<GraphNode>>();
  const readsIn = ({ stored }: Partition): Reads => {
    return (group) => {
      const reads = known.get(group) ?? readsOfGroup(group, stored);
      known.set(group, reads);
      return reads;
    };
  };
  let plan: Partition = { groups, stored };
  for (let at = 0; at < plan.groups.length; at++) {
    const joined = joinedTo(plan.groups[at]!, plan, isRoot, target.model, readsIn(plan));
    if (!joined) continue;
    plan = joined.plan;
    at = plan.groups.indexOf(joined.group);
  }
  return plan;
}

/** The plan in which all groups that can have joined `host`, if there are any. */
function joinedTo(
  host: Group,
  { groups, stored }: Partition,
  isRoot: ReadonlySet<GraphNode>,
  model: Target['model'],
  reads: Reads,
): { readonly plan: Partition; readonly group: Group } | undefined {
  const [made, ...besides] = host.roots as [GraphNode, ...GraphNode[]];
  if (host.reduction || (host.call ? !host.call.choice.finishes : !reduces(made, stored))) return undefined;
  const readersOf = (node: GraphNode, by: Group): Group[] =>
    groups.filter((g) => g !== by && reads(g).has(node));
  const readers = readersOf(made, host);
  // Another kernel may do it as well, and then store none of its own result, which has more bytes.
  const hasLarger = (group: Group): boolean =>
    groups.some((other) => {
      const [larger] = other.roots as [GraphNode];
      const isHost = other.call?.choice.finishes === true && other.roots.length === 1 && !isRoot.has(larger);
      if (!isHost || larger.dtype.bytes <= made.dtype.bytes) return false;
      const [only, another] = readersOf(larger, other);
      return only === group && !another && follows(group, other, groups, stored, model, reads);
    });
  const followers = new Set(
    readers.filter((g) => follows(g, host, groups, stored, model, reads) && !(host.call && hasLarger(g))),
  );
  if (followers.size === 0) return undefined;
  const joined = [...followers].flatMap((g) => g.roots);
  // Most hand-written kernels store elements of the op's dtype: what takes the place of `made` has it too.
  const isFree = !host.call || host.call.choice.storesAny === true;
  const successor = isFree ? joined[0] : joined.find((r) => r.dtype === made.dtype);
  const needed = isRoot.has(made) || followers.size < readers.length || !successor;
  const first = needed ? made : successor;
  const group = { ...host, roots: [first, ...joined.filter((r) => r !== first), ...besides] };
  const left = groups.filter((g) => !followers.has(g)).map((g) => (g === host ? group : g));
  const memory = needed ? stored : new Set([...stored].filter((n) => n !== made));
  return { plan: { groups: left, stored: memory }, group };
}

/** Whether the kernel of a group, which stores `root`, has a reduction in it. */
const reduces = (root: GraphNode, stored: ReadonlySet<GraphNode>): boolean =>
  topological([root], (n) => (n !== root && stored.has(n) ? [] : n.src)).some(
    (n) => isReduction(n) && (n === root || !stored.has(n)),
  );

/** The stored nodes that a group reads. */
export type Reads = (group: Group) => ReadonlySet<GraphNode>;

export const readsOfGroup = ({ roots }: Group, stored: ReadonlySet<GraphNode>): Set<GraphNode> =>
  new Set(roots.flatMap((root) => [...readsOf(root, stored)].filter((r) => !roots.includes(r))));

/** `readsOfGroup` where these nodes are stored: found once for each group. */
export function knownReads(stored: ReadonlySet<GraphNode>): Reads {
  const known = new Map<Group, ReadonlySet<GraphNode>>();
  return (group) => {
    const reads = known.get(group) ?? readsOfGroup(group, stored);
    known.set(group, reads);
    return reads;
  };
}

/** Whether `group` can be computed where `host` stores its one result. */
function follows(
  group: Group,
  host: Group,
  groups: readonly Group[],
  stored: ReadonlySet<GraphNode>,
  model: Target['model'],
  reads: Reads,
): boolean {
  const [made] = host.roots as [GraphNode];
  if (group.call || group.reduction) return false;
  if (!group.roots.every((root) => canFinish(root, made, stored, model))) return false;
  const others = [...reads(group)].filter((r) => r !== made);
  return !needsGroup(others, host, groups, reads);
}

/** Whether `host` must run before some of these nodes are made. */
export function needsGroup(
  nodes: Iterable<GraphNode>,
  host: Group,
  groups: readonly Group[],
  reads: Reads,
): boolean {
  const makers = makersOf(groups);
  const stack = [...nodes];
  const seen = new Set<Group>();
  while (stack.length > 0) {
    for (const maker of makers.get(stack.pop()!) ?? []) {
      if (maker === host) return true;
      if (seen.has(maker)) continue;
      seen.add(maker);
      stack.push(...reads(maker));
    }
  }
  return false;
}
