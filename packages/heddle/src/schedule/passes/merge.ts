/** One kernel for elementwise groups that work on the same elements. */

import { firstExchange } from '#schedule/exchanges.js';
import { topological } from '../../core/node.js';
import type { GraphNode } from '../../graph/node.js';
import { type Group, readsOf } from '../group.js';
import type { Plan, PlanSetting } from '../plan.js';
import { isReduction, onlyInPlace } from './finish.js';

/** Put elementwise groups of one size that share inputs, or feed each other in place, into one kernel; none for nothing. */
export function mergeGroups(
  { roots, groups, stored }: Plan,
  { target }: PlanSetting,
): Pick<Plan, 'groups' | 'stored'> {
  const exchangeOf = firstExchange(topological(roots));
  // On a GPU, a number that several read says nothing: all updates read the learning rate. See passes/lists.ts.
  const shares = (read: GraphNode, { size }: GraphNode): boolean =>
    target.model === 'blocks' || size === 1 || read.size > 1;
  const merged: { group: Group; reads: Set<GraphNode>; loops: boolean }[] = [];
  const makes = new Map<GraphNode, number>();
  const readers = new Map<GraphNode, number>();
  const dependsOn = (reads: ReadonlySet<GraphNode>, target: number, avoid: number): boolean => {
    const stack = [...reads].flatMap((r) => makes.get(r) ?? []).filter((i) => i !== avoid);
    const seen = new Set<number>();
    while (stack.length > 0) {
      const at = stack.pop()!;
      if (at === target) return true;
      if (seen.has(at)) continue;
      seen.add(at);
      for (const r of merged[at]!.reads) {
        const next = makes.get(r);
        if (next !== undefined) stack.push(next);
      }
    }
    return false;
  };
  for (const group of numbersFirst(groups, stored)) {
    const root = group.roots[0]!;
    const reads = new Set(
      group.roots.flatMap((r) => [...readsOf(r, stored)].filter((read) => !group.roots.includes(read))),
    );
    for (const read of reads) readers.set(read, (readers.get(read) ?? 0) + 1);
    const loops = group.call !== undefined || group.reduction !== undefined || hasLoops(root, stored);
    const host = loops
      ? -1
      : merged.findIndex((other, i) => {
          const [made] = other.group.roots as [GraphNode];
          if (other.loops || made.size !== root.size || exchangeOf(made) !== exchangeOf(root)) return false;
          const related =
            other.group.roots.some((r) => reads.has(r)) ||
            [...reads].some((r) => shares(r, root) && other.reads.has(r));
          const inPlace = other.group.roots.every((r) => !reads.has(r) || onlyInPlace(root, r, stored));
          // Other groups that this one reads must not need the host first, nor come after it
          const late = [...reads].some((r) => (makes.get(r) ?? -1) > i);
          return related && inPlace && !late && !dependsOn(reads, i, i);
        });
    if (host >= 0) {
      const into = merged[host]!;
      into.group.roots.push(root);
      for (const r of reads) if (!into.group.roots.includes(r)) into.reads.add(r);
      makes.set(root, host);
    } else {
      for (const r of group.roots) makes.set(r, merged.length);
      merged.push({ group: { ...group, roots: [...group.roots] }, reads, loops });
    }
  }
  // What several needed, all of which have come into the group that makes it, gets no memory.
  const needed = new Set([...roots, ...merged.flatMap(({ reads }) => [...reads])]);
  const unused = new Set(
    merged.flatMap(({ group, loops }) =>
      loops ? [] : group.roots.filter((root) => !needed.has(root) && readers.get(root)! > 1),
    ),
  );
  const isUsed = (node: GraphNode): boolean => !unused.has(node);
  return {
    groups: merged
      .map(({ group }) => ({ ...group, roots: group.roots.filter(isUsed) }))
      .filter(({ roots: [root] }) => root && root.size > 0),
    stored: new Set([...stored].filter(isUsed)),
  };
}

/** Single numbers that need nothing else before all other groups, so that those that read them may join any. */
function numbersFirst(groups: readonly Group[], stored: ReadonlySet<GraphNode>): Group[] {
  const made = new Set(groups.flatMap(({ roots }) => roots));
  const first = new Set<Group>();
  for (const group of groups) {
    const { roots, call, reduction } = group;
    if (call || reduction || roots.some(({ size }) => size !== 1)) continue;
    if (roots.some((root) => [...readsOf(root, stored)].some((read) => made.has(read)))) continue;
    first.add(group);
    for (const root of roots) made.delete(root);
  }
  return [...first, ...groups.filter((group) => !first.has(group))];
}

const hasLoops = (root: GraphNode, stored: ReadonlySet<GraphNode>): boolean =>
  topological([root], (n) => (n !== root && stored.has(n) ? [] : n.src)).some(
    (n) => (n === root || !stored.has(n)) && isReduction(n),
  );
