/** What holds of a partition into groups, checked after the passes that make it under HEDDLE_CHECK=1. */
import { InternalError } from '../../core/errors.js';
import { topological } from '../../core/node.js';
import type { GraphNode } from '../../graph/node.js';
import { type Group, readsOf } from '../group.js';
import { canFinish } from './finish.js';

/**
 * @param after the pass that made the groups
 * @throws InternalError if a node with memory is not made by exactly one group, if groups wait for each other, or if one
 * computes what its kernel cannot
 */
export function verifyGroups(groups: readonly Group[], stored: ReadonlySet<GraphNode>, after: string): void {
  const fail = (rule: string, node: GraphNode): never => {
    throw new InternalError(`after ${after}: ${rule}: ${node.op} of (${node.shape}), ${node.dtype.name}`);
  };
  const makers = new Map<GraphNode, Group>();
  for (const group of groups) {
    for (const root of group.roots) {
      if (!stored.has(root)) fail('a result has no memory', root);
      if (makers.has(root)) fail('two groups make a node', root);
      makers.set(root, group);
    }
    verifyResults(group, stored, fail);
  }
  for (const node of stored)
    if (!node.isLeaf && node.size > 0 && !makers.has(node)) fail('no group makes a node', node);

  const done = new Map<Group, boolean>();
  const visit = (group: Group): void => {
    done.set(group, false);
    for (const read of group.roots.flatMap((root) => [...readsOf(root, stored)])) {
      const maker = makers.get(read);
      if (!maker || maker === group || done.get(maker)) continue;
      if (done.has(maker)) fail('two groups wait for each other', read);
      visit(maker);
    }
    done.set(group, true);
  };
  for (const group of groups) if (!done.has(group)) visit(group);
}

/** A hand-written kernel makes its node, and what can be computed where that is stored; others make no calls. */
function verifyResults(
  { roots, call }: Group,
  stored: ReadonlySet<GraphNode>,
  fail: (rule: string, node: GraphNode) => never,
): void {
  const results = roots.filter((root) => root !== call?.second);
  if (!call) {
    const computed = results.flatMap((root) =>
      topological([root], (n) => (n !== root && stored.has(n) ? [] : n.src)),
    );
    const missing = computed.find((n) => n.op === 'call' && !stored.has(n));
    if (missing) fail('a generated kernel cannot compute a call', missing);
    return;
  }
  const [first] = results as [GraphNode];
  if (first.dtype !== call.node.dtype)
    fail(`a kernel that stores ${call.node.dtype.name} cannot store this`, first);
  // The results of one kernel are computed, not read.
  const others = new Set([...stored].filter((node) => !roots.includes(node)));
  for (const root of results)
    if (root !== call.node && !canFinish(root, call.node, others))
      fail(`${call.choice.name} cannot finish`, root);
}
