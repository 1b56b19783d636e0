/** What one kernel computes: the nodes it stores, and what is around them. */

import { topological } from '../core/node.js';
import type { KernelChoice, WindowSizes } from '../graph/fused-op.js';
import type { GraphNode } from '../graph/node.js';

/** Nodes computed by one kernel (or, for a hand-written one, by its launches). */
export interface Group {
  /** Nodes that the kernel writes, of one size but for `spreads`. */
  readonly roots: GraphNode[];
  /** The hand-written kernel, and the node it is for; what lies between that node and the root is its finish. */
  readonly call?: GroupCall;
  /**
   * On a GPU: the reductions in it, and what surrounds them. The roots are of rows or of all their elements. Beside a call these
   * are sums of the columns that its kernel stores, and their results come last.
   */
  readonly reduction?: MatrixReduction;
  /** On a GPU: what was several groups, and is computed row by row, one after the other. */
  readonly chain?: RowChain;
  /** On a GPU: roots whose windows each come from one element of another root: see passes/spreads.ts. */
  readonly spreads?: readonly GraphNode[];
  /** Roots that are stored as regions of other nodes' memory: see passes/regions.ts. */
  readonly regions?: ReadonlyMap<GraphNode, Region>;
}

/** Groups whose results, at each row, need each other only at that row: a block computes a row of all of them. */
export interface RowChain {
  /** Each result has this many rows: as many elements one after the other are one. */
  readonly rows: number;
  /** In an order in which they can be computed. */
  readonly links: readonly RowLink[];
}

/** One of the groups of a chain: elementwise ops, reductions of each row, or a product of each row with a matrix. */
export interface RowLink {
  readonly roots: readonly GraphNode[];
  readonly reduction?: MatrixReduction | undefined;
  readonly product?: RowProduct | undefined;
}

/**
 * A call that is computed by its composition, which has one reduction, and what is elementwise of it. Where a product comes in
 * parts, all three are the sum of these.
 */
export interface RowProduct {
  readonly call: GraphNode;
  readonly composed: GraphNode;
  readonly sum: GraphNode;
}

/** Where in the memory of a whole one of its parts lies: element (i, j, …) of the part at offset + i·strides[0] + j·strides[1] … */
export interface Region {
  readonly whole: GraphNode;
  readonly strides: readonly number[];
  readonly offset: number;
}

/** The nodes whose memory a group writes: its roots, and the wholes that some of these are parts of. */
export const writtenBy = ({ roots, regions }: Group): GraphNode[] => [
  ...new Set(roots.map((root) => regions?.get(root)?.whole ?? root)),
];

/** The nodes whose values are there, or some of them, when a group is done: its roots, and the wholes. */
export const madeBy = (group: Group): Set<GraphNode> => new Set([...group.roots, ...writtenBy(group)]);

const knownMakers = new WeakMap<readonly Group[], ReadonlyMap<GraphNode, readonly Group[]>>();

/** The groups that make each node: several where it is put together of parts. They are found once for a list, which stays as it is. */
export function makersOf(groups: readonly Group[]): ReadonlyMap<GraphNode, readonly Group[]> {
  const known = knownMakers.get(groups);
  if (known) return known;
  const makers = new Map<GraphNode, Group[]>();
  for (const group of groups)
    for (const node of madeBy(group)) makers.set(node, [...(makers.get(node) ?? []), group]);
  knownMakers.set(groups, makers);
  return makers;
}

/** The results of the sums beside a call. */
export const sumsOf = ({ roots, call, reduction }: Group): GraphNode[] =>
  call && reduction ? roots.filter((root) => reduction.members.some(({ node }) => node === root)) : [];

export interface GroupCall {
  readonly node: GraphNode;
  readonly choice: KernelChoice;
  /** What the kernel would store if nothing followed: the node, or the first of the functions of its windows. */
  readonly made: GraphNode;
  readonly windows?: WindowsOf | undefined;
  /** Calls of other ops on the same sources that its launches compute as well: the group's last roots. */
  readonly also: readonly GraphNode[];
}

/** What a kernel makes of the windows of a call's values, which themselves are not wanted. */
export interface WindowsOf {
  readonly sizes: WindowSizes;
  /** Functions of the windows, that of the kernel's dtype first. */
  readonly functions: readonly GraphNode[];
  /** What lies between the call and the functions, element by element. */
  readonly between: readonly GraphNode[];
}

/** How a reduction's elements lie. */
export interface Structure {
  /** Neighbouring dimensions of one kind together, outermost first; sizes of 1 left out. Marked ones are reduced. */
  readonly runs: readonly { readonly size: number; readonly marked: boolean }[];
  readonly rows: number;
  readonly columns: number;
  /** The innermost dimension is reduced. */
  readonly contiguous: boolean;
  /** Of an element, as it comes from memory. */
  readonly bytes: number;
}

/**
 * Elements of a column that one block keeps for another reduction, where it stores nothing for each: of longer ones parts are
 * computed, since the blocks of a cluster wait for each other.
 */
export const MOST_ALONE = 512;

/** What one kernel does around its reductions. */
export interface MatrixReduction {
  readonly structure: Structure;
  /** In an order in which they can be computed. */
  readonly members: readonly Member[];
}

/** A node computed for every row (a reduction, or element by element of such) or for every element. */
export interface Member {
  readonly node: GraphNode;
  readonly per: 'row' | 'element';
}

/** The node whose memory serves for `node`: the same elements in the same order. A stored node has its own. */
export function memoryOf(node: GraphNode, stored: ReadonlySet<GraphNode>): GraphNode {
  let at = node;
  while ((at.op === 'reshape' || at.op === 'detach') && !stored.has(at)) at = at.src[0]!;
  return at;
}

/** The stored nodes that computing `root` reads. */
export function readsOf(root: GraphNode, stored: ReadonlySet<GraphNode>): Set<GraphNode> {
  const reads = new Set<GraphNode>();
  topological([root], (n) => (n !== root && stored.has(n) ? [] : n.src)).forEach((n) => {
    if (n !== root && stored.has(n)) reads.add(n);
  });
  return reads;
}
