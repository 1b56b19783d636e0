/**
 * In-place updates: which roots are written over the leaf that they replace. A parameter after an optimizer's step takes
 * the memory of the one before, if all readers of the old values can run before.
 */
import type { GraphNode } from '../../graph/node.js';
import { readsOf, writtenBy } from '../group.js';
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
  const users = new MakersAndReaders(work);
  for (const [root, leaf] of updates) {
    const node = roots[root]!;
    const old = leaves[leaf]!;
    const [writer, another] = users.makers(node);
    if (!writer || another || taken.has(old) || updated.has(node)) continue;
    if (!mayOverwrite(writer, node, old, stored)) continue;
    const followers = users.followers(writer);
    if (followers.has(writer) || users.readers(old).some((w) => followers.has(w))) continue;
    users.overwrite(old, writer);
    updated.set(node, old);
    taken.add(old);
  }
  return { updated };
}

/**
 * Whether a group may write `node` over `old`, which is as large and which it reads: each thread reads an element of it where it
 * stores one, or, of a line that its threads share, before any of them stores.
 */
export function mayOverwrite(
  { group, stages, readsFirst }: Work,
  node: GraphNode,
  old: GraphNode,
  stored: ReadonlySet<GraphNode>,
): boolean {
  const { roots, reduction, chain, call } = group;
  // Other threads read later what one would write over.
  if (chain) return false;
  const uses = (of: GraphNode) => (s: Work['stages'][number]) =>
    s.slots.some((slot) => 'node' in slot && slot.node === of);
  // A library reads wherever it likes.
  if (stages.some((s) => uses(old)(s) && ('library' in s.work || !uses(node)(s)))) return false;
  // So does a hand-written kernel with its operands: what it computes of the old values is not safe.
  const isRead = (n: GraphNode): boolean =>
    n === old || (!stored.has(n) && readsOf(n, new Set([...stored, old])).has(old));
  if (call?.node.src.some(isRead)) return false;
  const ofLine = new Set<GraphNode>();
  if (readsFirst)
    for (const { node: member } of reduction!.members)
      if (member.op === 'reduce' || member.op === 'gather') ofLine.add(member);
  // Threads of a reduction's kernel read of what the others write, also by way of its own results.
  const before = reduction ? new Set([...[...stored].filter((n) => !roots.includes(n)), ...ofLine]) : stored;
  const isInPlace = (n: GraphNode): boolean => before.has(n) || onlyInPlace(n, old, before);
  return (
    roots.every((root) => (reduction ? isInPlace(root) : onlyInPlace(root, old, before))) &&
    [...ofLine].every(({ src: [elements, index] }) => isInPlace(elements!) && !(index && isRead(index)))
  );
}

/** Who makes and who reads a node. */
class MakersAndReaders {
  readonly #makers = new Map<GraphNode, Work[]>();
  readonly #readers = new Map<GraphNode, Work[]>();
  /** Of leaves. */
  readonly #overwriters = new Map<GraphNode, Work>();

  constructor(work: readonly Work[]) {
    for (const w of work) {
      for (const node of writtenBy(w.group)) this.#makers.set(node, [...this.makers(node), w]);
      for (const node of w.reads) {
        const readers = this.#readers.get(node) ?? [];
        readers.push(w);
        this.#readers.set(node, readers);
      }
    }
  }

  /** Several where each makes a part. */
  makers(node: GraphNode): readonly Work[] {
    return this.#makers.get(node) ?? [];
  }

  readers(node: GraphNode): readonly Work[] {
    return this.#readers.get(node) ?? [];
  }

  /** From now on `writer` overwrites a leaf. */
  overwrite(leaf: GraphNode, writer: Work): void {
    this.#overwriters.set(leaf, writer);
  }

  /** All that must run after `of`: the readers of what it makes, and those that overwrite what it reads. */
  followers(of: Work): Set<Work> {
    const found = new Set<Work>();
    const stack = [of];
    for (let at = stack.pop(); at; at = stack.pop()) {
      const readers = writtenBy(at.group).flatMap((node) => this.readers(node));
      const overwriters = [...at.reads].flatMap((node) => this.#overwriters.get(node) ?? []);
      for (const follower of [...readers, ...overwriters]) {
        if (follower === at || found.has(follower)) continue;
        found.add(follower);
        stack.push(follower);
      }
    }
    return found;
  }
}
