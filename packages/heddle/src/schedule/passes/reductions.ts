/**
 * Reductions on a GPU: which of them, and which ops around them, one kernel computes. A matrix is reduced along its
 * rows (softmax: the maximum, the sum, and what is made of them), or along its columns; "matrix" means the dimensions
 * kept against those reduced, wherever they stand.
 */

import { firstExchange } from '#schedule/exchanges.js';
import { suitsStrips } from '#schedule/strips.js';
import { isFloat } from '../../core/dtype.js';
import { some, topological } from '../../core/node.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import type { MatrixReduction, Structure } from '../group.js';
import { runsOf } from '../lower/movement.js';

/** Ops one after the other in a kernel. A longer chain goes through memory: compiling recurses along it. */
export const MOST_IN_CHAIN = 128;
/**
 * Bytes of one result of each of a kernel's reductions along columns, at most: 4 KiB of shared memory belong to one of f32,
 * and a block has 48 KiB (in the gradients of a deep residual network all bias gradients read the same sums).
 */
const MOST_RESULT_BYTES = 48;
/** Of two kernels whose results a node needs, one with so many times the elements takes it: they may meet it again there. */
const FAR_MORE = 16;
/** Reduced elements up to which a window's reduction is left to one thread. */
const SERIAL = 64;

export const structure = (
  { shape }: { readonly shape: readonly number[] },
  marked: (axis: number) => boolean,
  bytes = 4,
): Structure => {
  const axes = shape.flatMap((d, i) => (d === 1 ? [] : [i]));
  const runs = runsOf(
    axes.map((i) => shape[i]!),
    (i) => marked(axes[i]!),
  );
  const size = (of: boolean): number => runs.reduce((n, r) => (r.marked === of ? n * r.size : n), 1);
  return { runs, rows: size(false), columns: size(true), contiguous: runs.at(-1)?.marked ?? true, bytes };
};

export const structureOf = (node: GraphNode): Structure => {
  const { axes } = argOf(node, 'reduce');
  return structureIn(node.src[0]!, axes);
};

/** How a tensor is reduced along these axes. */
export const structureIn = (src: GraphNode, axes: readonly number[]): Structure =>
  structure(src, (i) => axes.includes(i), bytesOf(src));

const widths = new WeakMap<GraphNode, number>();

/** Of an element of what `x` is made of: the narrowest of as many. */
function bytesOf(x: GraphNode): number {
  const known = widths.get(x);
  if (known !== undefined) return known;
  const isElementwise = !x.isLeaf && (x.op === 'map' || x.op === 'detach');
  const made = isElementwise ? x.src.filter((s) => s.size === x.size && isFloat(s.dtype)) : [];
  const bytes = Math.min(x.dtype.bytes, ...made.map(bytesOf));
  widths.set(x, bytes);
  return bytes;
}

export const isEqual = (a: Structure, b: Structure): boolean =>
  a.runs.length === b.runs.length &&
  a.runs.every((r, i) => r.size === b.runs[i]!.size && r.marked === b.runs[i]!.marked);

/** A kernel in the making. */
interface Draft {
  readonly structure: Structure;
  readonly members: Map<GraphNode, 'row' | 'element'>;
  /** Kernels that must run later. */
  readonly before: Set<Draft>;
}

/**
 * Whether one of these kernels, other than `draft` itself, must follow it. The search begins at `draft`: hundreds run before the
 * kernel of a node, but few are known yet to run after it.
 */
const mustFollow = (drafts: ReadonlySet<Draft>, draft: Draft): boolean => {
  const following = new Set([draft]);
  for (const at of following)
    for (const later of at.before) {
      if (later !== draft && drafts.has(later)) return true;
      following.add(later);
    }
  return false;
};

/**
 * The kernels that compute reductions, each with all that can be computed where its rows are in registers.
 * @param order all nodes, sources first
 * @param taken nodes that are computed elsewhere
 * @param target a GPU
 */
export function reductionsOf(
  order: readonly GraphNode[],
  taken: (node: GraphNode) => boolean,
  target: Target,
): MatrixReduction[] {
  const exchangeOf = firstExchange(order);
  const drafts: Draft[] = [];
  const draftOf = new Map<GraphNode, Draft>();
  /** What must run before a node is made. Nodes share their sets, which stay as they are. */
  const needs = new Map<GraphNode, ReadonlySet<Draft>>();
  const chain = new Map<GraphNode, number>();
  const lengthOf = (node: GraphNode): number =>
    1 + node.src.reduce((n, s) => Math.max(n, chain.get(s) ?? 0), 0);

  /** A kernel can take a node whose other sources do not need that kernel. */
  const fits = (node: GraphNode, draft: Draft): boolean =>
    lengthOf(node) < MOST_IN_CHAIN &&
    node.src.every((s) => draftOf.get(s) === draft || !needs.get(s)!.has(draft)) &&
    !mustFollow(needs.get(node)!, draft);

  /** Whether a kernel can take more reductions. */
  const hasRoom = ({ structure: { contiguous }, members }: Draft, more: Iterable<GraphNode>): boolean => {
    let bytes = 0;
    for (const { op, dtype } of [...members.keys(), ...more]) if (op === 'reduce') bytes += dtype.bytes;
    return contiguous || bytes <= MOST_RESULT_BYTES;
  };

  /** Whether no exchange waits for one of both only. */
  const isForSame = (node: GraphNode, { members }: Draft): boolean => {
    const [member] = members.keys();
    return exchangeOf(member!) === exchangeOf(node);
  };

  const join = (node: GraphNode, per: 'row' | 'element', draft: Draft): void => {
    draft.members.set(node, per);
    draftOf.set(node, draft);
    chain.set(node, lengthOf(node));
    for (const other of needs.get(node)!) if (other !== draft) other.before.add(draft);
    needs.set(node, united([needs.get(node)!, new Set([draft])]));
  };

  /**
   * One kernel instead of two of the same rows, where a node needs both and neither needs the other: what both read is read
   * once (in the gradient of a layer norm, one sums g, the other standardizes x, and what comes out needs both).
   */
  const unite = (into: Draft, other: Draft): void => {
    for (const [member, per] of other.members) {
      into.members.set(member, per);
      draftOf.set(member, into);
    }
    for (const later of other.before) into.before.add(later);
    for (const { before } of drafts) if (before.delete(other)) before.add(into);
    const renamed = new Map<ReadonlySet<Draft>, ReadonlySet<Draft>>();
    for (const [node, set] of needs) {
      if (!set.has(other)) continue;
      const made = renamed.get(set) ?? new Set([...set].map((d) => (d === other ? into : d)));
      renamed.set(set, made);
      needs.set(node, made);
    }
    drafts.splice(drafts.indexOf(other), 1);
  };
  /** Whether a kernel has what it reduces at hand when the results are known. */
  const keepsElements = ({ structure: own }: Draft): boolean => own.contiguous || suitsStrips(own, 1, target);
  const elementsOf = ({ structure: { rows, columns } }: Draft): number => rows * columns;
  const areOfSameRows = (a: Draft, b: Draft): boolean =>
    a !== b &&
    keepsElements(a) &&
    hasRoom(a, b.members.keys()) &&
    isEqual(a.structure, b.structure) &&
    !mustFollow(new Set([a]), b) &&
    !mustFollow(new Set([b]), a);

  for (const node of order) {
    needs.set(node, united(node.src.map((s) => needs.get(s)!)));
    if (taken(node)) continue;
    const sources = new Set(node.src.flatMap((s) => draftOf.get(s) ?? []));
    if (node.op === 'reduce') {
      const own = structureOf(node);
      if (own.columns === 1 || (own.columns <= SERIAL && isWindowed(node))) continue;
      const x = node.src[0]!;
      const suits = (d: Draft): boolean => isEqual(d.structure, own) && hasRoom(d, [node]);
      const found =
        [...sources].find((d) => suits(d) && d.members.get(x) === 'element') ??
        drafts.find((d) => suits(d) && !needs.get(node)!.has(d) && isForSame(node, d) && readSame(node, d));
      const draft =
        found && fits(node, found) ? found : { structure: own, members: new Map(), before: new Set<Draft>() };
      if (draft !== found) drafts.push(draft);
      join(node, 'row', draft);
    } else if (node.op === 'map' || node.op === 'reshape' || node.op === 'detach') {
      const [first, ...others] = sources;
      for (const other of others) {
        if (!areOfSameRows(first!, other)) continue;
        unite(first!, other);
        sources.delete(other);
      }
      const fitting = [...sources].filter((d) => fits(node, d));
      const most = Math.max(...fitting.map(elementsOf));
      const draft = fitting.find((d) => FAR_MORE * elementsOf(d) > most);
      if (draft) join(node, draft.members.get(node.src.find((s) => draftOf.get(s) === draft)!)!, draft);
    } else if (node.op === 'expand') {
      const [x] = node.src as [GraphNode];
      const draft = [...sources].find(
        (d) =>
          keepsElements(d) &&
          d.members.get(x) === 'row' &&
          isEqual(
            d.structure,
            structure(node, (i) => x.shape[i] !== node.shape[i]),
          ),
      );
      if (draft && fits(node, draft)) join(node, 'element', draft);
    } else if (node.op === 'gather') {
      // One element of each row, which is made where the row's reductions are known.
      const [x] = node.src as [GraphNode];
      const { axis } = argOf(node, 'gather');
      const draft = [...sources].find(
        (d) =>
          d.structure.contiguous &&
          d.members.get(x) === 'element' &&
          node.size === d.structure.rows &&
          isEqual(
            d.structure,
            structure(x, (i) => i === axis),
          ),
      );
      if (draft && fits(node, draft)) join(node, 'row', draft);
    }
  }
  return drafts.map(({ structure: own, members }) => ({
    structure: own,
    members: [...members].map(([node, per]) => ({ node, per })),
  }));
}

/** All of these: one of the sets, where it has what the others have. */
function united<T>(sets: readonly ReadonlySet<T>[]): ReadonlySet<T> {
  const [largest = new Set<T>(), ...others] = [...new Set(sets)].sort((a, b) => b.size - a.size);
  const more = others.flatMap((set) => [...set].filter((x) => !largest.has(x)));
  return more.length === 0 ? largest : new Set([...largest, ...more]);
}

/** Whether what is reduced are windows that slide over an image. */
const isWindowed = (node: GraphNode): boolean =>
  some(
    node.src,
    (n) => n.op === 'window' && !n.isLeaf,
    (n) => (n.isLeaf || n.op === 'reduce' || n.op === 'call' ? [] : n.src),
  );

/** Whether a reduction reads what a kernel's reductions read: they had better read it once. */
function readSame(node: GraphNode, { members }: Draft): boolean {
  const { size } = node.src[0]!;
  const below = (n: GraphNode): readonly GraphNode[] => n.src.filter((s) => s.size === size);
  const goesOn = ({ op }: GraphNode): boolean => op === 'map' || op === 'reshape' || op === 'detach';
  const collect = (of: GraphNode): GraphNode[] => topological(below(of), (n) => (goesOn(n) ? below(n) : []));
  const mine = new Set(collect(node));
  return [...members.keys()].some((m) => m.op === 'reduce' && collect(m).some((r) => mine.has(r)));
}
