/**
 * Sums of columns where a kernel stores them. A long sum is cut into parts (parts.ts); where a hand-written kernel stores what
 * is summed, and has the rows of a part at hand, it computes the part's sums as well: nobody reads them from memory for that.
 * The statistics of a batch norm come so out of the convolution before it, the gradient of a bias out of the product that makes
 * the gradient of a layer's result.
 */
import { f32, isHalf } from '../../core/dtype.js';
import { callOf } from '../../graph/fused-op.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { type Group, type MatrixReduction, readsOf } from '../group.js';
import type { Plan, PlanSetting } from '../plan.js';
import { canFinish, comesInVectors } from './finish.js';
import { needsGroup } from './followers.js';
import type { Partition } from './partition.js';

/** Each sum of parts with the kernel that stores what it sums, where that has the rows at hand. */
export function joinSums({ groups, stored }: Plan, { target }: PlanSetting): Partition {
  let joined = groups;
  for (const sums of groups) {
    const host = sums.reduction && joined.find((group) => takes(group, sums, joined, stored, target));
    if (!host) continue;
    const both = { ...host, roots: [...host.roots, ...sums.roots], reduction: sums.reduction! };
    joined = joined.filter((group) => group !== sums).map((group) => (group === host ? both : group));
  }
  return { groups: joined, stored };
}

/** Whether the kernel of `host` can compute `sums` where it stores its result. */
function takes(
  host: Group,
  sums: Group,
  groups: readonly Group[],
  stored: ReadonlySet<GraphNode>,
  target: Target,
): boolean {
  if (!host.call || host.call.windows || host.reduction || sums.call) return false;
  const [made] = host.roots as [GraphNode];
  const { node, choice } = host.call;
  const rows = choice.sums?.(target, node, callOf(node).arg);
  const isFloat = made.dtype === f32 || isHalf(made.dtype);
  if (rows === undefined || !isFloat || !areParts(sums.reduction!, made, rows)) return false;
  const reads = new Set(sums.roots.flatMap((root) => [...readsOf(root, stored)]));
  for (const root of sums.roots) reads.delete(root);
  if (!reads.has(made) || host.roots.some((root) => root !== made && reads.has(root))) return false;
  const { members } = sums.reduction!;
  const ofRows = members.flatMap((member) => (member.per === 'row' ? [member.node] : []));
  if (!sums.roots.every((root) => ofRows.includes(root) && comesInVectors(root.dtype, target.model)))
    return false;
  const known = new Set([...stored, ...ofRows]);
  const canSum = (n: GraphNode): boolean =>
    n.dtype === f32 && argOf(n, 'reduce').op === 'sum' && canFinish(n.src[0]!, made, known, target.model);
  if (!ofRows.every((n) => n.op !== 'reduce' || canSum(n))) return false;
  reads.delete(made);
  return !needsGroup(reads, host, groups, stored);
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
