/**
 * Chains of groups whose results need each other only row by row, as one launch: a block takes a row through all of them, and
 * what is only used inside is never in memory. In a small network this is the end of the forward pass and the beginning of the
 * backward pass: the last products, the loss with its gradient, and the products behind it. Each of these launches takes a
 * microsecond or two, most of it for its start and its end.
 *
 * Each block reads the weights of all products. A product joins where this takes no longer than another launch would.
 */
import { topological } from '../../core/node.js';
import { callOf } from '../../graph/fused-op.js';
import { argOf, GraphNode } from '../../graph/node.js';
import { replaced } from '../../graph/rewrites.js';
import { FITTED } from '../../kernel/ir/machine.js';
import { GPU, type Target } from '../../kernel/ir/target.js';
import { type Group, madeBy, type RowLink, type RowProduct } from '../group.js';
import { chainThreads } from '../lower/chain-shares.js';
import type { Plan, PlanSetting } from '../plan.js';
import { isReduction } from './finish.js';
import { knownReads, needsGroup, type Reads, readsOfGroup } from './followers.js';
import { inOrder, type Partition } from './partition.js';

/** Reduced elements of a row, each warp of a block reducing all of them. */
const MOST_REDUCED = 256;
/** Elements of a row in a group without a product: more are computed better by more than a block. */
const MOST_ELEMENTS = 1024;

/** Bytes of a row in shared memory: as much as leaves several blocks to a multiprocessor. */
const MOST_KEPT = GPU.freeSharedBytes / 2;

/** The groups, with those that a block can compute row by row as one, each chain as long as it can be. */
export function chainRows({ groups, stored, roots }: Plan, { target }: PlanSetting): Partition {
  const isRoot = new Set(roots);
  let plan: Partition = { groups, stored };
  let reads = knownReads(stored);
  for (const first of groups) {
    if (!(isOfRows(first) || sumOfParts(first)) || !plan.groups.includes(first)) continue;
    const draft = new Draft(first, plan, reads, target);
    if (draft.chain.length < 2) continue;
    plan = joined(draft, plan, isRoot);
    reads = knownReads(plan.stored);
  }
  return plan;
}

/** A group, and how it is computed row by row. */
interface Chained {
  readonly group: Group;
  readonly link: RowLink;
}

/** A chain that begins with a product, or with the sum of the parts of one, in the making. */
class Draft {
  readonly chain: Chained[] = [];
  readonly rows: number;
  readonly #stored: ReadonlySet<GraphNode>;
  readonly #target: Target;
  /** What later links may read of the whole row. */
  readonly #made = new Set<GraphNode>();
  /** The weights of the products. */
  readonly #weights = new Set<GraphNode>();

  constructor(first: Group, { groups, stored }: Partition, readsIn: Reads, target: Target) {
    const { shape, size } = first.call?.node ?? first.roots[0]!;
    this.rows = size / shape.at(-1)!;
    this.#stored = stored;
    this.#target = target;
    if (this.rows === 1 || !this.#take(first)) return;
    const depths = depthsOf(groups, readsIn);
    const start = depths.get(first.roots[0]!)!;
    for (const group of groups) {
      const reads = [...readsIn(group)];
      if (group === first || !reads.some((n) => this.#made.has(n))) continue;
      // It waits for nothing that is made beside the chain.
      const others = reads.filter((n) => !this.#made.has(n));
      if (others.some((n) => (depths.get(n) ?? -1) >= start)) continue;
      if (this.chain.some((before) => needsGroup(others, before.group, groups, readsIn))) continue;
      this.#take(group);
    }
  }

  /** Take a group, if its rows are made of those of the chain, and a block computes one in no more time than a launch takes. */
  #take(group: Group): boolean {
    const { roots, call, reduction, regions, chain } = group;
    const { rows } = this;
    if (regions || chain || roots.some(({ size }) => size % rows !== 0)) return false;
    const isRead = (n: GraphNode): boolean =>
      this.#made.has(n) || (this.#stored.has(n) && !roots.includes(n));
    const areRows = (nodes: readonly GraphNode[]): boolean => staysInRows(nodes, this.#made, isRead, rows);
    if (call || sumOfParts(group)) {
      const product = productOf(group);
      const [source] = product?.sum.src ?? [];
      if (!product || !source || !areRows([source]) || !isInRow(product.sum, rows)) return false;
      const after = new Set([...this.#made, product.call]);
      const isKnown = (n: GraphNode): boolean => n === product.call || isRead(n);
      if (!staysInRows(roots, after, isKnown, rows)) return false;
      return this.#add(group, product);
    }
    if (!areRows(roots) || roots.some(({ size }) => size > rows * MOST_ELEMENTS)) return false;
    if (reduction) {
      const { structure, members } = reduction;
      if (!structure.contiguous || structure.rows !== rows || structure.columns > MOST_REDUCED) return false;
      if (!members.every(({ node }) => node.op !== 'reduce' || isInRow(node, rows))) return false;
    } else {
      const inside = topological(roots, (n) => (isRead(n) ? [] : n.src)).filter((n) => !isRead(n));
      if (inside.some(isReduction)) return false;
    }
    return this.#add(group);
  }

  #add(group: Group, product?: RowProduct): boolean {
    if (product && !this.#isQuick(product)) return false;
    const { roots, reduction } = group;
    const link: RowLink = { roots, reduction: product ? undefined : reduction, product };
    if (!this.#isResident([...this.chain.map((c) => c.link), link])) return false;
    this.chain.push({ group, link });
    for (const root of roots) this.#made.add(root);
    if (product) for (const node of this.#weightsOf(product)) this.#weights.add(node);
    return true;
  }

  /** Whether the blocks of a chain run all at once, and have room for what they keep of a row. */
  #isResident(links: readonly RowLink[]): boolean {
    const { units, limits } = this.#target;
    const threads = this.rows * chainThreads(links, this.rows);
    const kept = links.flatMap(({ roots }) => roots);
    const bytes = kept.reduce((n, { size, dtype }) => n + size * dtype.bytes, 0) / this.rows;
    return threads <= units * limits.threadsPerMultiprocessor && bytes <= MOST_KEPT;
  }

  /** Whether a block receives the weights of a product in the time of a launch, besides those that it has. */
  #isQuick(product: RowProduct): boolean {
    const terms = product.sum.src[0]!.size / product.sum.size;
    const bytes = (product.sum.size / this.rows) * terms * product.call.src.at(-1)!.dtype.bytes;
    const { anotherKernel, received } = FITTED.matmul;
    const perUnit = Math.ceil(this.rows / this.#target.units);
    return (
      bytes * perUnit <= anotherKernel * received ||
      this.#weightsOf(product).every((node) => this.#weights.has(node))
    );
  }

  #weightsOf({ call }: RowProduct): GraphNode[] {
    const below = topological([call.src.at(-1)!], (n) => (this.#stored.has(n) ? [] : n.src));
    return below.filter((n) => this.#stored.has(n));
  }
}

/** The chain in the place of its groups. What nobody else reads needs no memory. */
function joined(
  { chain, rows }: Draft,
  { groups, stored }: Partition,
  isRoot: ReadonlySet<GraphNode>,
): Partition {
  const own = new Set(chain.map(({ group }) => group));
  const others = groups.filter((group) => !own.has(group));
  const read = new Set(others.flatMap((group) => [...readsOfGroup(group, stored)]));
  const made = chain.flatMap(({ group }) => group.roots);
  const results = made.filter((node) => isRoot.has(node) || read.has(node));
  const memory = new Set([...stored].filter((n) => results.includes(n) || !made.includes(n)));
  const group: Group = { roots: results, chain: { rows, links: chain.map(({ link }) => link) } };
  const at = groups.findIndex((g) => own.has(g));
  return { groups: inOrder([...others.slice(0, at), group, ...others.slice(at)], memory), stored: memory };
}

/** How many launches one after the other come before what makes a node. */
function depthsOf(groups: readonly Group[], readsIn: Reads): Map<GraphNode, number> {
  const depths = new Map<GraphNode, number>();
  for (const group of groups) {
    const depth = Math.max(0, ...[...readsIn(group)].map((n) => (depths.get(n) ?? -1) + 1));
    for (const node of madeBy(group)) depths.set(node, Math.max(depth, depths.get(node) ?? 0));
  }
  return depths;
}

const isOfRows = ({ call }: Group): boolean => call !== undefined && callOf(call.node).op.ofRows === true;

/** The sum of a group that only adds up parts of each of its elements, as those of a long product. */
function sumOfParts({ call, chain, reduction, roots }: Group): GraphNode | undefined {
  const [member, another] = reduction?.members.filter(({ node }) => node.op === 'reduce') ?? [];
  if (call || chain || !member || another || reduction!.structure.contiguous) return undefined;
  const { node } = member;
  const isSmall = node.src[0]!.size <= (node.size / node.shape.at(-1)!) * MOST_ELEMENTS;
  const isSum = argOf(node, 'reduce').op === 'sum' && roots.every(({ size }) => size === node.size);
  return isSmall && isSum ? node : undefined;
}

/** What a group computes as a sum for each of its elements. */
function productOf(group: Group): RowProduct | undefined {
  const sumOnly = sumOfParts(group);
  if (sumOnly) return { call: sumOnly, composed: sumOnly, sum: sumOnly };
  if (group.reduction) return undefined;
  const { call, roots } = group;
  const { node, windows, also } = call!;
  if (!isOfRows(group) || windows || also.length > 0 || roots.some(({ size }) => size !== node.size))
    return undefined;
  const composed = compositionOf(node);
  const inside = topological([composed], (n) => (node.src.includes(n) ? [] : n.src));
  // There is none of single terms.
  const sum = inside.find((n) => n.op === 'reduce' && !node.src.includes(n));
  return sum && { call: node, composed, sum };
}

/** What a call is composed of, of its sources as they are: the makers of nodes would look through what has memory. */
function compositionOf(node: GraphNode): GraphNode {
  const { src } = node;
  const stands = src.map(({ type }) => new GraphNode('leaf', type, [], null, false));
  const { op, arg: argument } = callOf(node);
  const places = new Map(stands.map((stand, i) => [stand, src[i]!]));
  return replaced([op.compose(stands, argument)], places)[0]!;
}

/** How many of the first dimensions count rows; undefined if rows do not begin where one of them does. */
function rowDims({ shape }: GraphNode, rows: number): number | undefined {
  let count = 1;
  for (let i = 0; i < shape.length; i++) {
    count *= shape[i]!;
    if (count === rows) return i + 1;
    if (count > rows) return undefined;
  }
  return undefined;
}

/** Whether a reduction is of elements of a row each. */
function isInRow(node: GraphNode, rows: number): boolean {
  const dims = rowDims(node.src[0]!, rows);
  return dims !== undefined && argOf(node, 'reduce').axes.every((axis) => axis >= dims);
}

/**
 * Whether nodes, at each row, need what the chain has made only at that row.
 * @param isRead known, or in memory
 */
function staysInRows(
  nodes: readonly GraphNode[],
  made: ReadonlySet<GraphNode>,
  isRead: (node: GraphNode) => boolean,
  rows: number,
): boolean {
  const known = new Map<GraphNode, 'free' | 'in rows' | 'mixed'>();
  for (const node of topological(nodes, (n) => (isRead(n) ? [] : n.src))) {
    const isGuarded = node.op === 'pad' || node.op === 'fold' || node.op === 'scatterAdd';
    const sources = isRead(node) ? [] : node.src.map((s) => known.get(s)!);
    if (made.has(node)) known.set(node, 'in rows');
    else if (isGuarded && !isRead(node)) known.set(node, 'mixed');
    else if (sources.every((s) => s === 'free')) known.set(node, 'free');
    else known.set(node, !sources.includes('mixed') && keepsRows(node, rows, sources) ? 'in rows' : 'mixed');
  }
  return nodes.every((node) => known.get(node) !== 'mixed');
}

/** Whether each row of a node is made of the same row of its sources, of those that are `in rows`. */
function keepsRows(
  node: GraphNode,
  rows: number,
  sources: readonly ('free' | 'in rows' | 'mixed')[],
): boolean {
  const dims = rowDims(node, rows);
  switch (node.op) {
    case 'map':
    case 'detach':
      return true;
    case 'reshape':
      return node.size % rows === 0;
    case 'permute':
      return (
        dims !== undefined &&
        argOf(node, 'permute')
          .axes.slice(0, dims)
          .every((axis, i) => axis === i)
      );
    case 'expand':
      return (
        dims !== undefined && node.shape.slice(0, dims).every((size, i) => size === node.src[0]!.shape[i])
      );
    case 'reduce':
      return isInRow(node, rows);
    case 'gather': {
      const own = rowDims(node.src[0]!, rows);
      return own !== undefined && dims === own && argOf(node, 'gather').axis >= own && sources[1] === 'free';
    }
    default:
      return false;
  }
}
