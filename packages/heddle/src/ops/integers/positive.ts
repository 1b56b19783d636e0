/** Which values are known not to be negative: products of bytes have a faster instruction for them. */
import { isFloat } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import { callOf, type FusedOp } from '../../graph/fused-op.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import { quantizeOp } from '../quantize/op.js';

const MOVED: ReadonlySet<string> = new Set(['reshape', 'permute', 'expand', 'slice', 'detach', 'window']);

/** Whether no element is below 0: of floats after ReLU, and of bytes that were quantized from such with zero point 0. */
export function isPositive(node: GraphNode): boolean {
  if (node.isLeaf) return false;
  const [x, y] = node.src as [GraphNode, GraphNode];
  if (MOVED.has(node.op)) return isPositive(x);
  if (node.op === 'pad') return argOf(node, 'pad').value >= 0 && isPositive(x);
  if (node.op === 'map') {
    const { op } = argOf(node, 'map');
    if (op === 'max') return [x, y].some((s) => Number(b.knownValue(s) ?? -1) >= 0 || isPositive(s));
    return op === 'cast' && isFloat(node.dtype) && isPositive(x);
  }
  if (node.op !== 'call') return false;
  const { op, arg } = callOf(node);
  if (op === (quantizeOp as unknown as FusedOp)) return node.src.length === 2 && isPositive(x);
  if (op.name === 'relu') return true;
  return op.selects?.(arg) === true && isPositive(x);
}
