/**
 * What may be computed where a kernel stores its result: the rule for every kernel, on every device.
 *
 * A kernel that makes the values of a node `made` calls `finish(value, …coordinates)` once for each element, at the
 * element's store. There, a node can be computed if
 *   - it has as many elements as `made`, and uses `made` only at the element's own position;
 *   - between it, `made` and what it reads from memory there are only straight-line ops, so that no loop and no
 *     condition is needed: a reduction, a window or another call must be in memory;
 *   - all values, read or in between, have dtypes that fit into vectors of 4, or are masks. Those of 16 bits do on a GPU.
 * What is stored is not a mask, and the node that takes the place of `made` in the kernel's output has its dtype.
 */
import { bool, type DType, isByte, isHalf } from '../../core/dtype.js';
import type { GraphNode } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { VECTOR_DTYPES } from '../lower/evaluate.js';

const STRAIGHT: ReadonlySet<GraphNode['op']> = new Set([
  'full',
  'iota',
  'map',
  'reshape',
  'permute',
  'expand',
  'detach',
]);

export const keepsOrder = (node: GraphNode): boolean =>
  node.op === 'map' || node.op === 'reshape' || node.op === 'detach';

export const isReduction = (node: GraphNode): boolean =>
  node.op === 'reduce' || node.op === 'fold' || node.op === 'scatterAdd';

const isStraight = (node: GraphNode): boolean =>
  STRAIGHT.has(node.op) || (node.op === 'slice' && node.size === 1);

/** Whether vectors of the dtype may be passed on by a finish. */
export const comesInVectors = (dtype: DType, model: Target['model']): boolean =>
  VECTOR_DTYPES.has(dtype) || isByte(dtype) || (model === 'threads' && isHalf(dtype));
const isVectorOrMask = ({ dtype }: GraphNode, model: Target['model']): boolean =>
  comesInVectors(dtype, model) || dtype === bool;

/**
 * Before it is decided which nodes get memory: the nodes that a finish can compute. Leaves, calls and reductions count
 * as read from memory; those that stay without memory are computed in the group of a node that has some.
 */
export function finishable(order: readonly GraphNode[], model: Target['model']): ReadonlySet<GraphNode> {
  const found = new Set<GraphNode>();
  for (const node of order) {
    const read = node.isLeaf || node.op === 'call' || isReduction(node);
    if (isVectorOrMask(node, model) && (read || (isStraight(node) && node.src.every((s) => found.has(s)))))
      found.add(node);
  }
  return found;
}

/** Whether the kernel that makes `made` can compute `root` where it stores an element, given the nodes with memory. */
export function canFinish(
  root: GraphNode,
  made: GraphNode,
  stored: ReadonlySet<GraphNode>,
  model: Target['model'],
): boolean {
  if (root.size !== made.size || !comesInVectors(made.dtype, model) || !comesInVectors(root.dtype, model))
    return false;
  const isRead = (node: GraphNode): boolean => node !== root && stored.has(node);
  const known = new Map<GraphNode, boolean>();
  const visit = (node: GraphNode): boolean => {
    if (node === made) return true;
    if (isRead(node)) return isVectorOrMask(node, model);
    let fits = known.get(node);
    if (fits === undefined) {
      fits = isStraight(node) && isVectorOrMask(node, model) && node.src.every(visit);
      known.set(node, fits);
    }
    return fits;
  };
  return visit(root) && onlyInPlace(root, made, stored);
}

/** Whether `root` uses `node` (if at all) only at its own position: a kernel may overwrite it as it goes. */
export function onlyInPlace(root: GraphNode, node: GraphNode, stored: ReadonlySet<GraphNode>): boolean {
  const uses = new Map<GraphNode, boolean>();
  const visit = (at: GraphNode): boolean => {
    if (at === node) return true;
    const known = uses.get(at);
    if (known !== undefined) return known;
    const found = (at === root || !stored.has(at)) && at.src.some(visit);
    uses.set(at, found);
    return found;
  };
  const inPlace = new Map<GraphNode, boolean>();
  const check = (at: GraphNode): boolean => {
    if (at === node || (at !== root && stored.has(at))) return true;
    const known = inPlace.get(at);
    if (known !== undefined) return known;
    const found = at.src.every((s) => !visit(s) || (keepsOrder(at) && s.size === at.size && check(s)));
    inPlace.set(at, found);
    return found;
  };
  return check(root);
}
