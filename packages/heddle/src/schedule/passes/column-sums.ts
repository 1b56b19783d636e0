/**
 * Sums of columns where a kernel stores them. A long sum is cut into parts (parts.ts); where a hand-written kernel stores what
 * is summed, and has the rows of a part at hand, it computes the part's sums as well: nobody reads them from memory for that.
 * The statistics of a batch norm come so out of the convolution before it, the gradient of a bias out of the product that makes
 * the gradient of a layer's result.
 */
import { f32, isHalf } from '../../core/dtype.js';
import { topological } from '../../core/node.js';
import { callOf } from '../../graph/fused-op.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { type Group, type MatrixReduction, readsOf } from '../group.js';
import type { Plan, PlanSetting } from '../plan.js';
import { canFinish, comesInVectors } from './finish.js';
import { knownReads, needsGroup, type Reads } from './followers.js';
import { neededFor, type Partition } from './partition.js';

/**
 * Sums of parts with the kernels that store what they sum, where these have the rows at hand. Of the sums that one kernel would
 * compute, each goes where its own elements are stored.
 */
export function joinSums({ groups, stored }: Plan, { target }: PlanSetting): Partition {
  const reads = knownReads(stored);
  let joined = groups;
  for (const host of groups) {
    const rows = rowsOf(host, target);
    if (rows === undefined) continue;
    for (const sums of joined) {
      if (sums.call || !sums.reduction || !areParts(sums.reduction, host.roots[0]!, rows)) continue;
      const [own, others] = parted(
        sums,
        (root) => takes(host, root, sums, joined, stored, target, reads),
        stored,
      );
      if (!own) continue;
      const both = { ...host, roots: [...host.roots, ...own.roots], reduction: own.reduction! };
      joined = joined.flatMap((group) => (group === host ? both : group === sums ? (others ?? []) : group));
      break;
    }
  }
  return { groups: joined, stored };
}

/** Rows of the parts whose sums the kernel of a group can compute where it stores its result. */
function rowsOf({ call, roots }: Group, target: Target): number | undefined {
  const [made] = roots as [GraphNode];
  if (!call || call.windows || !(made.dtype === f32 || isHalf(made.dtype))) return undefined;
  return call.choice.sums?.(target, call.node, callOf(call.node).arg);
}

/** Sums as those that hold, and the others. */
function parted(
  { roots, reduction }: Group,
  holds: (root: GraphNode) => boolean,
  stored: ReadonlySet<GraphNode>,
): [Group | undefined, Group | undefined] {
  const own = roots.filter(holds);
  const others = roots.filter((root) => !own.includes(root));
  const groupOf = (some: GraphNode[]): Group | undefined => {
    if (some.length === 0) return undefined;
    const needed = neededFor(some, reduction!, stored);
    // What is made of stored sums alone reduces nothing.
    return needed.members.some(({ node }) => node.op === 'reduce')
      ? { roots: some, reduction: needed }
      : { roots: some };
  };
  return [groupOf(own), groupOf(others)];
}

/** Whether the kernel of `host` can compute this one of some sums where it stores its result. */
function takes(
  host: Group,
  root: GraphNode,
  sums: Group,
  groups: readonly Group[],
  stored: ReadonlySet<GraphNode>,
  target: Target,
  readsIn: Reads,
): boolean {
  const { roots, reduction } = sums;
  const { model } = target;
  const [made] = host.roots as [GraphNode];
  const reads = readsOf(root, stored);
  if (!reads.has(made) || host.roots.some((n) => n !== made && reads.has(n))) return false;
  // With all sums that it is made of.
  const before = sums.roots.filter((n) => n !== root && reads.has(n));
  if (!before.every((n) => takes(host, n, sums, groups, stored, target, readsIn))) return false;
  const ofRows = reduction!.members.flatMap((member) => (member.per === 'row' ? [member.node] : []));
  if (!ofRows.includes(root) || !comesInVectors(root.dtype, model)) return false;
  const known = new Set([...stored, ...ofRows]);
  const canSum = (n: GraphNode): boolean =>
    n.dtype === f32 && argOf(n, 'reduce').op === 'sum' && canFinish(n.src[0]!, made, known, model);
  const inside = topological([root], (n) => (n !== root && stored.has(n) && !roots.includes(n) ? [] : n.src));
  if (!inside.every((n) => n.op !== 'reduce' || !ofRows.includes(n) || canSum(n))) return false;
  const others = [...reads].filter((n) => n !== made && !roots.includes(n));
  return !needsGroup(others, host, groups, readsIn);
}

/** Whether what is reduced are so many rows of `made` at a time, seen as a matrix whose columns are its last dimension. */
function areParts({ structure: { runs } }: MatrixReduction, made: GraphNode, rows: number): boolean {
  const [parts, part, columns, another] = runs;
  if (!columns || another || parts!.marked || !part!.marked) return false;
  return (
    part!.size === rows &&
    columns.size === made.shape.at(-1) &&
    parts!.size * rows * columns.size === made.size
  );
}
