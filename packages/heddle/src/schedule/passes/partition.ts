/**
 * Which nodes get memory, and which are computed inside the kernels that use them. Reductions and hand-written
 * kernels take the elementwise ops after them along; an elementwise node gets its own memory only where
 * computing it again would cost more than reading it.
 */

import { topological } from '../../core/node.js';
import { callOf, type KernelChoice } from '../../graph/fused-op.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { type Group, type GroupCall, type MatrixReduction, makersOf, memoryOf, readsOf } from '../group.js';
import { ownWeight } from '../own-weight.js';
import { type Canonical, jsonOf } from './canonical.js';
import { finishable, isReduction, keepsOrder } from './finish.js';
import { MOST_IN_CHAIN, reductionsOf } from './reductions.js';
import { isWorthStoring, type MadeSoFar, sharedValues, type Users } from './shared-values.js';
import { viewOf } from './views.js';
import { windowsOfCalls } from './windows.js';

export interface Partition {
  /** In an order in which they can run. */
  readonly groups: readonly Group[];
  readonly stored: ReadonlySet<GraphNode>;
}

/** A graph to be cut into kernels. */
interface Uncut extends Pick<Canonical, 'choices'> {
  /** All nodes, sources first. */
  readonly order: readonly GraphNode[];
  readonly users: Users;
  readonly isRoot: ReadonlySet<GraphNode>;
  readonly target: Target;
}

/** What kernels have been found for so far. */
interface Draft extends MadeSoFar {
  /** The hand-written kernels, by the node that each is known by. */
  readonly calls: ReadonlyMap<GraphNode, GroupCall>;
  /** Results of a call's kernel besides that one. */
  readonly others: ReadonlySet<GraphNode>;
}

type Step = (graph: Uncut, draft: Draft) => Draft;

/** Each finds kernels for nodes that the ones before have left. */
const STEPS: readonly Step[] = [handWritten, matrixReductions, loneReductions, shared];

export function partition({ roots, choices }: Canonical, target: Target): Partition {
  const order = topological(roots);
  const users = new Map<GraphNode, GraphNode[]>(order.map((n) => [n, []]));
  for (const node of order) for (const s of new Set(node.src)) users.get(s)!.push(node);
  const graph: Uncut = { order, users, choices, target, isRoot: new Set(roots) };
  const nothing: Draft = {
    stored: new Set([...order.filter((n) => n.op === 'leaf'), ...roots]),
    ...{ claimed: new Set(), inReduction: new Map(), calls: new Map(), others: new Set() },
  };
  const draft = STEPS.reduce((now, step) => step(graph, now), nothing);
  return { groups: groupsOf(order, draft), stored: draft.stored };
}

/** Calls with a hand-written kernel, what their kernels make of windows, and the ops that they finish with. */
function handWritten(graph: Uncut, draft: Draft): Draft {
  const { order, users, choices, isRoot, target } = graph;
  const stored = new Set(draft.stored);
  const claimed = new Set(draft.claimed);
  const calls = new Map(draft.calls);
  const isOther = new Set(draft.others);
  const windowsOf = windowsOfCalls(order, users, choices, isRoot, target);
  for (const { between, functions } of windowsOf.values())
    for (const node of [...between, ...functions]) claimed.add(node);
  const canFinish = finishable(order, target.model);
  const sumsRows = (call: GraphNode): boolean =>
    choices.get(call)?.sums?.(target, call, callOf(call).arg) !== undefined;
  const alsoOf = computedToo(order, choices);
  for (const also of alsoOf.values()) for (const node of also) claimed.add(node);
  for (const node of order) {
    const choice = choices.get(node);
    if (!choice || claimed.has(node)) continue;
    claimed.add(node);
    const windows = windowsOf.get(node);
    const [made = node, ...others] = windows?.functions ?? [];
    const late = usersOf(others, order);
    // What comes behind two calls is left to the one whose kernel can also sum its columns.
    const sumsLater = (user: GraphNode, before: readonly GraphNode[]): boolean =>
      !sumsRows(node) &&
      user.src.some((s) => !before.includes(s) && finishedCalls(s, graph, claimed).some(sumsRows));
    const fits = (user: GraphNode, before: readonly GraphNode[]): boolean =>
      canFinish.has(made) &&
      choice.finishes &&
      canFinish.has(user) &&
      user.src.every((s) => claimed.has(s) || before.includes(s) || !late.has(s)) &&
      !sumsLater(user, before);
    const ends = (last: GraphNode): boolean => last.dtype === made.dtype;
    const chain =
      (choice.storesAny && narrowedFrom(made, { users, isRoot, choices }, claimed, fits)) ||
      chainFrom(made, { users, isRoot }, claimed, { fits, ends });
    for (const follower of chain.slice(1)) claimed.add(follower);
    const final = chain.at(-1)!;
    const also = alsoOf.get(node) ?? [];
    for (const result of [final, ...others, ...also]) stored.add(result);
    for (const other of [...others, ...also]) isOther.add(other);
    calls.set(final, { node, choice, made, windows, also });
    node.src.forEach((s, i) => {
      stored.add((choice.strided?.[i] && viewOf(s, stored)?.base) || memoryOf(s, stored));
    });
  }
  return { ...draft, stored, claimed, calls, others: isOther };
}

/** Calls that other calls' launches compute as well, by those: of the same sources with the same argument. */
function computedToo(
  order: readonly GraphNode[],
  choices: ReadonlyMap<GraphNode, KernelChoice>,
): Map<GraphNode, readonly GraphNode[]> {
  const named = (node: GraphNode, name: string): GraphNode | undefined =>
    order.find(
      (n) =>
        n.op === 'call' &&
        callOf(n).op.name === name &&
        n.src.length === node.src.length &&
        n.src.every((s, i) => s === node.src[i]) &&
        jsonOf(callOf(n).arg) === jsonOf(callOf(node).arg),
    );
  return new Map(
    order.flatMap((node) => {
      const also = choices.get(node)?.also?.flatMap((name) => named(node, name) ?? []) ?? [];
      return also.length > 0 ? [[node, also] as const] : [];
    }),
  );
}

/** On a GPU: reductions, each with all that can be computed around it. */
function matrixReductions({ order, users, target }: Uncut, draft: Draft): Draft {
  if (target.model !== 'threads') return draft;
  const reductions = reductionsOf(order, (n) => n.op === 'leaf' || draft.claimed.has(n), target);
  const inReduction = new Map(reductions.flatMap((r) => r.members.map(({ node }) => [node, r] as const)));
  const stored = new Set(draft.stored);
  for (const reduction of reductions)
    for (const node of resultsOf(reduction, users, stored, inReduction, target)) stored.add(node);
  return { ...draft, stored, inReduction, claimed: new Set([...draft.claimed, ...inReduction.keys()]) };
}

/** The other reductions, each with the elementwise ops after it. */
function loneReductions({ order, users, isRoot }: Uncut, draft: Draft): Draft {
  const stored = new Set(draft.stored);
  const claimed = new Set(draft.claimed);
  for (const node of order) {
    if (!isReduction(node) || stored.has(node) || draft.inReduction.has(node)) continue;
    const fits = (user: GraphNode): boolean => !stored.has(user) || isRoot.has(user);
    const chain = chainFrom(node, { users, isRoot }, claimed, { fits, ends: () => true });
    for (const follower of chain.slice(1)) claimed.add(follower);
    stored.add(chain.at(-1)!);
  }
  return { ...draft, stored, claimed };
}

function shared({ order, users, choices, target }: Uncut, draft: Draft): Draft {
  const views = (user: GraphNode, node: GraphNode): boolean => {
    const { copiesNothing, strided } = choices.get(user) ?? {};
    const isView = copiesNothing === true && user.src.every((s, i) => s !== node || strided?.[i] === true);
    return isView && viewOf(node, draft.stored)?.base !== node;
  };
  const nodes = sharedValues(order, users, { ...draft, views }, target);
  return { ...draft, stored: new Set([...draft.stored, ...nodes]) };
}

/** Whether `user` works element by element on `node`, or leaves out some of the elements of a fold (those of a padding). */
const follows = (user: GraphNode, node: GraphNode): boolean =>
  (keepsOrder(user) && user.size === node.size) || (user.op === 'slice' && node.op === 'fold');

/**
 * A node and its only users, one after the other, as long as they work element by element and fit; the last is one
 * that `ends` allows. It gets memory.
 */
function chainFrom(
  from: GraphNode,
  { users, isRoot }: Pick<Uncut, 'users' | 'isRoot'>,
  claimed: ReadonlySet<GraphNode>,
  allowed: {
    readonly fits: FitsInChain;
    readonly ends: (last: GraphNode) => boolean;
  },
): GraphNode[] {
  const chain = [from];
  for (let at = from; chain.length <= MOST_IN_CHAIN && !isRoot.has(at); at = chain.at(-1)!) {
    const [user, another] = users.get(at)!;
    if (!user || another || !follows(user, at) || claimed.has(user)) break;
    if (!allowed.fits(user, chain)) break;
    chain.push(user);
  }
  // Other groups look for the memory of a reshape below it.
  const isView = ({ op }: GraphNode): boolean => op === 'reshape' || op === 'detach';
  const mayEnd = (last: GraphNode): boolean => allowed.ends(last) && (isRoot.has(last) || !isView(last));
  while (chain.length > 1 && !mayEnd(chain.at(-1)!)) chain.pop();
  return chain;
}

type FitsInChain = (user: GraphNode, chain: readonly GraphNode[]) => boolean;

/** Calls with an epilogue that give a node, through ops that nobody else reads. */
function finishedCalls(
  node: GraphNode,
  graph: Pick<Uncut, 'users' | 'isRoot' | 'choices'>,
  claimed: ReadonlySet<GraphNode>,
): GraphNode[] {
  if (graph.users.get(node)!.length > 1 || graph.isRoot.has(node)) return [];
  if (node.op === 'call') return graph.choices.get(node)?.finishes ? [node] : [];
  if (node.op !== 'map' || claimed.has(node)) return [];
  return node.src.flatMap((s) => finishedCalls(s, graph, claimed));
}

/**
 * Of a call whose kernel stores any dtype: the ops up to one that gives fewer bytes, if what comes later of the same elements meets
 * another call, whose kernel can compute all behind these bytes. One of the two is in memory.
 */
function narrowedFrom(
  made: GraphNode,
  graph: Pick<Uncut, 'users' | 'isRoot' | 'choices'>,
  claimed: ReadonlySet<GraphNode>,
  fits: FitsInChain,
): GraphNode[] | undefined {
  let meets = false;
  const chain = chainFrom(made, graph, claimed, {
    fits: (user, before) => {
      meets ||= user.src.some((s) => !before.includes(s) && finishedCalls(s, graph, claimed).length > 0);
      return !meets && fits(user, before);
    },
    ends: (last) => last.dtype.bytes < made.dtype.bytes,
  });
  return meets && chain.length > 1 ? chain : undefined;
}

/** A group for each kernel, in an order in which they can run. */
function groupsOf(order: readonly GraphNode[], draft: Draft): readonly Group[] {
  const { stored, calls, others, inReduction } = draft;
  const groups: Group[] = [];
  const made = new Set<MatrixReduction>();
  for (const node of order) {
    if (!stored.has(node) || node.op === 'leaf' || others.has(node)) continue;
    const call = calls.get(node);
    const reduction = inReduction.get(node);
    if (!reduction)
      groups.push(
        call
          ? { roots: [node, ...(call.windows?.functions.slice(1) ?? []), ...call.also], call }
          : { roots: [node] },
      );
    else if (!made.has(reduction)) {
      made.add(reduction);
      const roots = reduction.members.flatMap((m) => (stored.has(m.node) ? [m.node] : []));
      groups.push({ roots, reduction: neededFor(roots, reduction, stored) });
    }
  }
  return inReduction.size > 0 || others.size > 0 ? inOrder(groups, stored) : groups;
}

/** All nodes that are computed from `nodes`, and these. */
function usersOf(nodes: readonly GraphNode[], order: readonly GraphNode[]): Set<GraphNode> {
  const found = new Set(nodes);
  if (nodes.length === 0) return found;
  for (const n of order) if (n.src.some((s) => found.has(s))) found.add(n);
  return found;
}

/** Groups after those whose results they read. */
export function inOrder(groups: readonly Group[], stored: ReadonlySet<GraphNode>): Group[] {
  const makers = makersOf(groups);
  const ordered = new Set<Group>();
  const seen = new Set<Group>();
  const visit = (group: Group): void => {
    if (seen.has(group)) return;
    seen.add(group);
    for (const root of group.roots)
      for (const read of readsOf(root, stored)) {
        for (const maker of makers.get(read) ?? []) visit(maker);
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
function resultsOf(
  { members }: MatrixReduction,
  users: Users,
  stored: ReadonlySet<GraphNode>,
  inReduction: ReadonlyMap<GraphNode, MatrixReduction>,
  target: Target,
): GraphNode[] {
  const own = inReduction.get(members[0]!.node);
  const perElement = new Set(members.flatMap(({ node, per }) => (per === 'element' ? [node] : [])));
  const results = new Set<GraphNode>();
  const weights = new Map<GraphNode, number>();
  // What the kernel takes gets memory later, if others that take it as well would have too much to do without.
  const isTaken = (node: GraphNode): boolean =>
    node.op === 'map' && argOf(node, 'map').op !== 'cast' && inReduction.get(node) !== own;
  const isMade = (node: GraphNode): boolean =>
    node.isLeaf ||
    stored.has(node) ||
    results.has(node) ||
    isTaken(node) ||
    (inReduction.has(node) && !perElement.has(node));
  const weightOf = (node: GraphNode): number => {
    if (isMade(node)) return 0;
    let known = weights.get(node);
    if (known === undefined) {
      known = node.src.reduce((n, s) => Math.min(1000, n + weightOf(s)), ownWeight(node));
      weights.set(node, known);
    }
    return known;
  };
  const again = new Set<GraphNode>();
  for (const { node, per } of [...members].reverse()) {
    if (stored.has(node)) continue;
    const outside = users.get(node)!.filter((u) => inReduction.get(u) !== own || again.has(u));
    if (outside.length === 0) continue;
    const kernels = new Set(outside.map((u) => inReduction.get(u) ?? u)).size;
    const weight = weightOf(node);
    const light =
      per === 'element' &&
      !isWorthStoring({ node, kernels, weight, hasMemory: isMade, isMade: true }, target);
    if (light || node.op === 'reshape' || node.op === 'detach') again.add(node);
    else results.add(node);
  }
  return [...results];
}

/** A reduction without what only other kernels compute: its threads read nothing for that. */
export function neededFor(
  roots: readonly GraphNode[],
  { structure, members }: MatrixReduction,
  stored: ReadonlySet<GraphNode>,
): MatrixReduction {
  const isRead = (n: GraphNode): boolean => stored.has(n) && !roots.includes(n);
  const needed = new Set(topological(roots, (n) => (isRead(n) ? [] : n.src)));
  return { structure, members: members.filter(({ node }) => needed.has(node) && !isRead(node)) };
}
