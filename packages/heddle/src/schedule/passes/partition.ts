/**
 * Which nodes get memory, and which are computed inside the kernels that use them. Reductions and hand-written
 * kernels take the elementwise ops after them along; an elementwise node gets its own memory only where
 * computing it again would cost more than reading it.
 */

import { topological } from '../../core/node.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import { OPS } from '../../kernel/ir/ops.js';
import type { Target } from '../../kernel/ir/target.js';
import { type Group, type GroupCall, type MatrixReduction, memoryOf, readsOf } from '../group.js';
import type { Canonical } from './canonical.js';
import { finishable, isReduction, keepsOrder } from './finish.js';
import { MOST_IN_CHAIN, reductionsOf } from './reductions.js';
import { viewOf } from './views.js';
import { windowsOfCalls } from './windows.js';

export interface Partition {
  /** In an order in which they can run. */
  readonly groups: readonly Group[];
  readonly stored: ReadonlySet<GraphNode>;
}

/** Work from which recomputing in every kernel that uses a node costs more than a trip to memory. */
const WORTH_STORING = 10;
/** Positions (a view of a node is read at another one) from which a kernel that computes a node at each has too much to do. */
const MOST_POSITIONS = 4;
/** The same for a value that is repeated along a new dimension; a launch on a GPU costs more than such a value. */
const WORTH_STORING_REPEATED = { blocks: 3, threads: WORTH_STORING } as const;

export function partition({ roots, choices }: Canonical, target: Target): Partition {
  const order = topological(roots);
  const users = new Map<GraphNode, GraphNode[]>(order.map((n) => [n, []]));
  for (const node of order) for (const s of new Set(node.src)) users.get(s)!.push(node);
  const isRoot = new Set(roots);
  const stored = new Set<GraphNode>([...order.filter((n) => n.op === 'leaf'), ...roots]);
  const claimed = new Set<GraphNode>();
  const callOf = new Map<GraphNode, GroupCall>();
  /** Results of a call's kernel besides the one that it is known by. */
  const isOther = new Set<GraphNode>();
  const tilesOf = windowsOfCalls(order, users, choices, isRoot, target);
  for (const { between, functions } of tilesOf.values())
    for (const node of [...between, ...functions]) claimed.add(node);
  const canFinish = finishable(order);

  /** Follow the only user as long as it works element by element; the last node that `ends` allows gets memory. */
  const extend = (
    from: GraphNode,
    fits: (user: GraphNode) => boolean,
    ends: (last: GraphNode) => boolean = () => true,
  ): GraphNode => {
    const chain = [from];
    for (let at = from; chain.length <= MOST_IN_CHAIN && !isRoot.has(at); at = chain.at(-1)!) {
      const [user, another] = users.get(at)!;
      if (!user || another || !keepsOrder(user) || user.size !== at.size || claimed.has(user) || !fits(user))
        break;
      chain.push(user);
      claimed.add(user);
    }
    // Other groups look for the memory of a reshape below it.
    const isView = ({ op }: GraphNode): boolean => op === 'reshape' || op === 'detach';
    for (;;) {
      const last = chain.at(-1)!;
      if (last === from || (ends(last) && (isRoot.has(last) || !isView(last)))) return last;
      claimed.delete(last);
      chain.pop();
    }
  };

  for (const node of order) {
    const choice = choices.get(node);
    if (!choice || claimed.has(node)) continue;
    claimed.add(node);
    const windows = tilesOf.get(node);
    const [made = node, ...others] = windows?.functions ?? [];
    const late = usersOf(others, order);
    const fits = (user: GraphNode): boolean =>
      choice.finishes && canFinish.has(user) && user.src.every((s) => claimed.has(s) || !late.has(s));
    const final = canFinish.has(made) ? extend(made, fits, (last) => last.dtype === made.dtype) : made;
    for (const result of [final, ...others]) stored.add(result);
    for (const other of others) isOther.add(other);
    callOf.set(final, { node, choice, made, windows });
    node.src.forEach((s, i) => {
      stored.add((choice.strided?.[i] && viewOf(s, stored)?.base) || memoryOf(s, stored));
    });
  }
  const reductions =
    target.model === 'threads' ? reductionsOf(order, (n) => n.op === 'leaf' || claimed.has(n)) : [];
  const inReduction = new Map(reductions.flatMap((r) => r.members.map(({ node }) => [node, r] as const)));
  for (const reduction of reductions) storeResults(reduction, users, stored, inReduction);
  for (const node of inReduction.keys()) claimed.add(node);
  for (const node of order) {
    if (isReduction(node) && !stored.has(node) && !inReduction.has(node))
      stored.add(extend(node, (user) => !stored.has(user) || isRoot.has(user)));
  }
  storeShared(order, users, stored, claimed, inReduction, WORTH_STORING_REPEATED[target.model]);

  const groups: Group[] = [];
  const made = new Set<MatrixReduction>();
  for (const node of order) {
    if (!stored.has(node) || node.op === 'leaf' || isOther.has(node)) continue;
    const call = callOf.get(node);
    const reduction = inReduction.get(node);
    if (!reduction)
      groups.push(
        call ? { roots: [node, ...(call.windows?.functions.slice(1) ?? [])], call } : { roots: [node] },
      );
    else if (!made.has(reduction)) {
      made.add(reduction);
      const roots = reduction.members.flatMap((m) => (stored.has(m.node) ? [m.node] : []));
      groups.push({ roots, reduction: neededFor(roots, reduction, stored) });
    }
  }
  const mixed = reductions.length > 0 || isOther.size > 0;
  return { groups: mixed ? inOrder(groups, stored) : groups, stored };
}

/** All nodes that are computed from `nodes`, and these. */
function usersOf(nodes: readonly GraphNode[], order: readonly GraphNode[]): Set<GraphNode> {
  const found = new Set(nodes);
  if (nodes.length === 0) return found;
  for (const n of order) if (n.src.some((s) => found.has(s))) found.add(n);
  return found;
}

/** Groups after those whose results they read. */
function inOrder(groups: readonly Group[], stored: ReadonlySet<GraphNode>): Group[] {
  const makerOf = new Map(groups.flatMap((g) => g.roots.map((r) => [r, g] as const)));
  const ordered = new Set<Group>();
  const seen = new Set<Group>();
  const visit = (group: Group): void => {
    if (seen.has(group)) return;
    seen.add(group);
    for (const root of group.roots)
      for (const read of readsOf(root, stored)) {
        const maker = makerOf.get(read);
        if (maker) visit(maker);
      }
    ordered.add(group);
  };
  groups.forEach(visit);
  return [...ordered];
}

/**
 * Which nodes of a reduction's kernel get memory: what others use, but for what is quicker computed again from the
 * results of the rows.
 */
function storeResults(
  { members }: MatrixReduction,
  users: ReadonlyMap<GraphNode, readonly GraphNode[]>,
  stored: Set<GraphNode>,
  inReduction: ReadonlyMap<GraphNode, MatrixReduction>,
): void {
  const own = inReduction.get(members[0]!.node);
  const perElement = new Set(members.flatMap(({ node, per }) => (per === 'element' ? [node] : [])));
  const weight = new Map<GraphNode, number>();
  const weightOf = (node: GraphNode): number => {
    if (node.isLeaf || stored.has(node) || (inReduction.has(node) && !perElement.has(node))) return 0;
    let known = weight.get(node);
    if (known === undefined) {
      known = node.src.reduce((n, s) => Math.min(1000, n + weightOf(s)), ownWeight(node));
      weight.set(node, known);
    }
    return known;
  };
  const again = new Set<GraphNode>();
  for (const { node, per } of [...members].reverse()) {
    if (stored.has(node)) continue;
    const outside = users.get(node)!.some((u) => inReduction.get(u) !== own || again.has(u));
    if (!outside) continue;
    const light = per === 'element' && weightOf(node) < WORTH_STORING;
    if (light || node.op === 'reshape' || node.op === 'detach') again.add(node);
    else stored.add(node);
  }
}

/** A reduction without what only kernels compute that make it again: its threads read nothing for that. */
function neededFor(
  roots: readonly GraphNode[],
  { structure, members }: MatrixReduction,
  stored: ReadonlySet<GraphNode>,
): MatrixReduction {
  const needed = new Set(topological(roots, (n) => (stored.has(n) && !roots.includes(n) ? [] : n.src)));
  return { structure, members: members.filter(({ node }) => needed.has(node)) };
}

/** Store what several kernels would compute again, or one would again and again. */
function storeShared(
  order: readonly GraphNode[],
  users: ReadonlyMap<GraphNode, readonly GraphNode[]>,
  stored: Set<GraphNode>,
  claimed: ReadonlySet<GraphNode>,
  inReduction: ReadonlyMap<GraphNode, MatrixReduction>,
  repeated: number,
): void {
  const weight = new Map<GraphNode, number>();
  const chain = new Map<GraphNode, number>();
  for (const node of order) {
    const length = 1 + node.src.reduce((n, s) => Math.max(n, chain.get(s)!), 0);
    if (length >= MOST_IN_CHAIN && !claimed.has(node) && memoryOf(node, stored) === node) stored.add(node);
    chain.set(node, stored.has(node) ? 0 : length);
    weight.set(
      node,
      stored.has(node) ? 0 : node.src.reduce((n, s) => Math.min(1000, n + weight.get(s)!), ownWeight(node)),
    );
  }
  const positions = new Positions();
  /** The kernels that compute a node: a stored node, or a reduction, stands for its kernel. */
  const owners = new Map<GraphNode, Set<GraphNode | MatrixReduction>>();
  for (const node of [...order].reverse()) {
    const mine = new Set<GraphNode | MatrixReduction>();
    for (const user of users.get(node)!) {
      const reduction = inReduction.get(user);
      if (reduction) mine.add(reduction);
      if (stored.has(user)) mine.add(reduction ?? user);
      else for (const o of owners.get(user)!) mine.add(o);
    }
    owners.set(node, mine);
    const evaluations = stored.has(node) ? positions.begin(node) : positions.join(node, users.get(node)!);
    if (stored.has(node) || claimed.has(node)) continue;
    const w = weight.get(node)!;
    const repeats = users
      .get(node)!
      .some((u) => (u.op === 'expand' || u.op === 'window') && u.size >= 4 * node.size);
    const scattered = evaluations > MOST_POSITIONS;
    if ((mine.size > 1 && w >= WORTH_STORING) || (repeats && w >= repeated) || (scattered && w > 0)) {
      stored.add(node);
      owners.set(node, new Set([node]));
      positions.begin(node);
    }
  }
}

/**
 * Where kernels compute nodes: at the element's own position (number 0), or at one that movement ops lead to. In
 * `x + flip(x)` x is computed at two positions; n such steps, one after the other, compute the first x at 2^n.
 */
class Positions {
  /** Per node: how many elements are computed at each position. */
  readonly #elements = new Map<GraphNode, ReadonlyMap<number, number>>();
  /** Per movement op: the number of the position that it makes of another. */
  readonly #moves = new Map<GraphNode, Map<number, number>>();
  #numbers = 0;

  /** A node with memory is computed once. */
  begin(node: GraphNode): number {
    this.#elements.set(node, new Map([[0, node.size]]));
    return 1;
  }

  /** A node without memory is computed wherever its users are. @returns how often each element is, on average */
  join(node: GraphNode, users: readonly GraphNode[]): number {
    const all = new Map<number, number>();
    for (const user of users)
      for (const [position, elements] of this.#elements.get(user)!)
        all.set(keepsOrder(user) ? position : this.#moved(user, position), Math.min(elements, node.size));
    this.#elements.set(node, all);
    return [...all.values()].reduce((sum, n) => sum + n, 0) / Math.max(1, node.size);
  }

  #moved(by: GraphNode, from: number): number {
    const moves = this.#moves.get(by) ?? new Map<number, number>();
    this.#moves.set(by, moves);
    const to = moves.get(from) ?? ++this.#numbers;
    moves.set(from, to);
    return to;
  }
}

function ownWeight(node: GraphNode): number {
  if (node.op === 'map') {
    const { op } = argOf(node, 'map');
    return op === 'select' || op === 'cast' || op === 'bitcast' ? 1 : OPS[op].cost;
  }
  if (node.op === 'random') return 60;
  return node.op === 'gather' || node.op === 'pad' ? 2 : 0;
}
