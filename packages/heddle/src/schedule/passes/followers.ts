/**
 * Several results of one kernel: elementwise ops after a kernel join it even if they are not its only users. An
 * optimizer's update needs this: the new momentum and the new parameter are both made where the gradient is, which
 * then needs no memory.
 */

import { topological } from '../../core/node.js';
import type { GraphNode } from '../../graph/node.js';
import { type Group, readsOf } from '../group.js';
import { canFinish, isReduction } from './finish.js';

interface Joined {
  readonly groups: readonly Group[];
  readonly stored: ReadonlySet<GraphNode>;
}

/** @param isRoot nodes that must have memory whether or not a kernel reads them */
export function joinFollowers(
  groups: readonly Group[],
  stored: ReadonlySet<GraphNode>,
  isRoot: ReadonlySet<GraphNode>,
): Joined {
  const kept = [...groups];
  const left = new Set(stored);
  for (let at = 0; at < kept.length; at++) {
    const host = kept[at]!;
    const [made, ...besides] = host.roots as [GraphNode, ...GraphNode[]];
    if (host.reduction || (host.call ? !host.call.choice.finishes : !reduces(made, left))) continue;
    const readers = kept.filter((g) => g !== host && readsOfGroup(g, left).has(made));
    const followers = readers.filter((g) => follows(g, host, kept, left));
    if (followers.length === 0) continue;
    const joined = followers.flatMap((g) => g.roots);
    // A hand-written kernel stores elements of one dtype: what takes the place of `made` has it too.
    const successor = host.call ? joined.find((r) => r.dtype === made.dtype) : joined[0];
    const needed = isRoot.has(made) || followers.length < readers.length || !successor;
    if (!needed) left.delete(made);
    const first = needed ? made : successor;
    kept[at] = { ...host, roots: [first, ...joined.filter((r) => r !== first), ...besides] };
    for (const follower of followers) kept.splice(kept.indexOf(follower), 1);
    at = kept.findIndex((g) => g.roots.includes(joined[0]!));
  }
  return { groups: kept, stored: left };
}

/** Whether the kernel of a group, which stores `root`, has a reduction in it. */
const reduces = (root: GraphNode, stored: ReadonlySet<GraphNode>): boolean =>
  topological([root], (n) => (n !== root && stored.has(n) ? [] : n.src)).some(
    (n) => isReduction(n) && (n === root || !stored.has(n)),
  );

const readsOfGroup = ({ roots }: Group, stored: ReadonlySet<GraphNode>): Set<GraphNode> =>
  new Set(roots.flatMap((root) => [...readsOf(root, stored)].filter((r) => !roots.includes(r))));

/** Whether `group` can be computed where `host` stores its one result. */
function follows(
  group: Group,
  host: Group,
  groups: readonly Group[],
  stored: ReadonlySet<GraphNode>,
): boolean {
  const [made] = host.roots as [GraphNode];
  if (group.call || group.reduction) return false;
  if (!group.roots.every((root) => canFinish(root, made, stored))) return false;
  // What else it reads must not need the host.
  const makerOf = (node: GraphNode): Group | undefined => groups.find((g) => g.roots.includes(node));
  const stack = [...readsOfGroup(group, stored)].filter((r) => r !== made);
  const seen = new Set<Group>();
  while (stack.length > 0) {
    const maker = makerOf(stack.pop()!);
    if (maker === host) return false;
    if (!maker || seen.has(maker)) continue;
    seen.add(maker);
    stack.push(...readsOfGroup(maker, stored));
  }
  return true;
}
