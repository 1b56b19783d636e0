/** Values that several kernels would compute again, or one would again and again: they get memory. */
import type { GraphNode } from '../../graph/node.js';
import { FITTED } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { type MatrixReduction, memoryOf } from '../group.js';
import { ownWeight } from '../own-weight.js';
import { keepsOrder } from './finish.js';
import { MOST_IN_CHAIN } from './reductions.js';

/** Work from which recomputing in every kernel that uses a node costs more than a trip to memory. */
const WORTH_STORING = 10;
/** Positions (a view of a node is read at another one) from which a kernel that computes a node at each has too much to do. */
const MOST_POSITIONS = 4;
/** The same for a value that is repeated along a new dimension; a launch on a GPU costs more than such a value. */
const WORTH_STORING_REPEATED = { blocks: 3, threads: WORTH_STORING } as const;

/** Bytes that a GPU moves while it starts another kernel. */
export const bytesOfLaunch = (units: number): number => units * FITTED.strips.memory * FITTED.strips.kernel;

const VIEWS: ReadonlySet<GraphNode['op']> = new Set<GraphNode['op']>(['expand', 'reshape', 'detach']);

/** Bytes of a value. */
const bytesOf = ({ size, dtype }: GraphNode): number => size * dtype.bytes;

/** Bytes that a kernel reads to compute a value: of everything below it that has memory, and of a slice its own. */
function bytesBelow(node: GraphNode, hasMemory: (node: GraphNode) => boolean): number {
  const seen = new Set<GraphNode>();
  let bytes = 0;
  const visit = (at: GraphNode): void => {
    for (const s of at.src) {
      if (seen.has(s)) continue;
      seen.add(s);
      if (hasMemory(s)) bytes += at.op === 'slice' ? bytesOf(at) : bytesOf(s);
      else visit(s);
    }
  };
  visit(node);
  return bytes;
}

/** Bytes of memory traffic that it saves if `kernels` kernels read a value instead of what it is computed from. */
const trafficSaved = (
  node: GraphNode,
  kernels: number,
  hasMemory: (node: GraphNode) => boolean,
  isMade: boolean,
): number => {
  const below = bytesBelow(node, hasMemory);
  return kernels * below - (isMade ? 0 : below) - (kernels + 1) * bytesOf(node);
};

/** Multiply-adds of a multiprocessor per cycle, in f32, outside of tensor cores. */
const OPERATIONS = 128;

/** Bytes that a GPU moves while it computes so many additions (`OpRecord.cost`) for each element of a node. */
const bytesOfWork = ({ size }: GraphNode, weight: number): number =>
  (size * weight * FITTED.strips.memory) / OPERATIONS;

/** A value that kernels use. */
export interface SharedValue {
  readonly node: GraphNode;
  /** How many kernels would read it, or compute it again. */
  readonly kernels: number;
  /** What computing an element takes (`OpRecord.cost`). */
  readonly weight: number;
  readonly hasMemory: (node: GraphNode) => boolean;
  /** A kernel computes the value anyway, and only has to store it. */
  readonly isMade: boolean;
}

/**
 * Whether a value gets memory because kernels would take longer without. On a GPU, what takes much work is computed again
 * nevertheless if moving it takes longer by more than a launch: kernels compute while they wait for memory.
 */
export function isWorthStoring(value: SharedValue, { model, units }: Target): boolean {
  const { node, kernels, weight, hasMemory, isMade } = value;
  const isHeavy = weight >= WORTH_STORING;
  if (model !== 'threads') return isHeavy;
  const saved =
    trafficSaved(node, kernels, hasMemory, isMade) + bytesOfWork(node, weight * (kernels - (isMade ? 0 : 1)));
  const launch = bytesOfLaunch(units);
  return saved > (isHeavy ? -launch : isMade ? 0 : launch);
}

/** The nodes that use a node. */
export type Users = ReadonlyMap<GraphNode, readonly GraphNode[]>;

/** What kernels have been found for so far. */
export interface MadeSoFar {
  readonly stored: ReadonlySet<GraphNode>;
  /** Nodes that a kernel computes on its way to what it stores. */
  readonly claimed: ReadonlySet<GraphNode>;
  /** Whether a node reads another as a view of what that is a view of. */
  readonly views?: (user: GraphNode, node: GraphNode) => boolean;
  readonly inReduction: ReadonlyMap<GraphNode, MatrixReduction>;
}

/** The nodes that get memory besides those that have it. @param order all nodes, sources first */
export function sharedValues(
  order: readonly GraphNode[],
  users: Users,
  { stored: before, claimed, inReduction, views }: MadeSoFar,
  target: Target,
): GraphNode[] {
  const shared = new Set<GraphNode>();
  const stored = new Set(before);
  const store = (node: GraphNode): void => {
    shared.add(node);
    stored.add(node);
  };
  /** Whether a value is worth its memory before `user` repeats it: what is computed from that then begins with a load. */
  const isStoredFor = (user: GraphNode, node: GraphNode): boolean =>
    repeats(user, node) &&
    node.op !== 'expand' &&
    !claimed.has(node) &&
    weight.get(node)! >= WORTH_STORING_REPEATED[target.model];
  const weight = new Map<GraphNode, number>();
  const chain = new Map<GraphNode, number>();
  for (const node of order) {
    const length = 1 + node.src.reduce((n, s) => Math.max(n, chain.get(s)!), 0);
    if (length >= MOST_IN_CHAIN && !claimed.has(node) && memoryOf(node, stored) === node) store(node);
    chain.set(node, stored.has(node) ? 0 : length);
    weight.set(
      node,
      stored.has(node)
        ? 0
        : node.src.reduce(
            (n, s) => Math.min(1000, n + (isStoredFor(node, s) ? 0 : weight.get(s)!)),
            ownWeight(node),
          ),
    );
  }
  const positions = new Positions();
  /** Views without memory that are repeated along a new dimension. */
  const repeated = new Set<GraphNode>();
  /** The kernels that compute a node: a stored node, or a reduction, stands for its kernel. */
  const owners = new Map<GraphNode, Set<GraphNode | MatrixReduction>>();
  for (const node of [...order].reverse()) {
    const mine = new Set<GraphNode | MatrixReduction>();
    for (const user of users.get(node)!) {
      const reduction = inReduction.get(user);
      if (views?.(user, node)) continue;
      if (reduction) mine.add(reduction);
      if (stored.has(user)) mine.add(reduction ?? user);
      else for (const o of owners.get(user)!) mine.add(o);
    }
    owners.set(node, mine);
    const evaluations = stored.has(node) ? positions.begin(node) : positions.join(node, users.get(node)!);
    if (stored.has(node) || claimed.has(node)) continue;
    const w = weight.get(node)!;
    const isRepeated = users.get(node)!.some((u) => repeats(u, node) || repeated.has(u));
    const scattered = evaluations > MOST_POSITIONS;
    // What is only repeated or seen in another shape is stored before that.
    const source = VIEWS.has(node.op) ? node.src[0]! : node;
    const isView = source !== node && (stored.has(source) || !claimed.has(source));
    const kernels = mine.size;
    const hasMemory = (n: GraphNode): boolean => stored.has(n);
    const worthStoring =
      (kernels > 1 && isWorthStoring({ node, kernels, weight: w, hasMemory, isMade: false }, target)) ||
      (isRepeated && w >= WORTH_STORING_REPEATED[target.model]) ||
      (scattered && w > 0);
    if (worthStoring && !isView) {
      store(node);
      owners.set(node, new Set([node]));
      positions.begin(node);
    } else if (isRepeated && isView && node.op !== 'expand') repeated.add(node);
  }
  return [...shared];
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

/** Whether `user` has several elements of each of the node's. */
const repeats = ({ op, size }: GraphNode, node: GraphNode): boolean =>
  (op === 'expand' || op === 'window') && size >= 4 * node.size;
