/** Sums of values that a layer rounds to bytes anyway. */
import { isPlainObject } from '../core/arguments.js';
import { topological } from '../core/node.js';
import * as b from '../graph/build.js';
import { callOf, type FusedOp } from '../graph/fused-op.js';
import { argOf, GraphNode } from '../graph/node.js';
import { dequantizeOp, fakeQuantizeOp, quantizeOp } from '../ops/quantize/op.js';
import { type AnyTensor, Tensor } from '../tensor/tensor.js';

const isCallOf = <Arg>(node: GraphNode, op: FusedOp<Arg>): boolean =>
  node.op === 'call' && callOf(node).op === (op as unknown as FusedOp);

/** Whether it rounds its source with one scale and zero point 0. */
const isRounding = (node: GraphNode): boolean =>
  (isCallOf(node, quantizeOp) || isCallOf(node, fakeQuantizeOp)) &&
  node.src.length === 2 &&
  node.src[1]!.size === 1;

/** What the bytes of a rounding stand for. */
const valuesOf = (rounding: GraphNode): GraphNode =>
  isCallOf(rounding, quantizeOp) ? b.call(dequantizeOp, [rounding, rounding.src[1]!], null) : rounding;

/**
 * The graph of `roots` in which additions take what a layer has rounded to bytes as the layer does. The connection around a residual
 * block is one: its value is in memory as bytes alone, of which sum and activation behind it are computed where the convolution before
 * stores its result. TensorRT and ONNX Runtime place the same roundings.
 */
function sumsOfBytes(roots: readonly GraphNode[]): GraphNode[] {
  const order = topological(roots, (n) => (n.isLeaf ? [] : n.src));
  /** By value: the first that rounds it. */
  const roundings = new Map<GraphNode, GraphNode>();
  for (const node of order)
    if (!node.isLeaf && isRounding(node) && !roundings.has(node.src[0]!)) roundings.set(node.src[0]!, node);
  const made = new Map<GraphNode, GraphNode>();
  for (const node of order) {
    const isSum = !node.isLeaf && node.op === 'map' && argOf(node, 'map').op === 'add';
    const src = node.isLeaf
      ? []
      : node.src.map((source) => {
          // Not there yet: a layer that the sum does not depend on.
          const rounding = isSum ? made.get(roundings.get(source)!) : undefined;
          const isSameType = rounding?.src[1]?.dtype === source.dtype;
          return isSameType ? valuesOf(rounding!) : made.get(source)!;
        });
    const isSame = node.isLeaf || src.every((s, i) => s === node.src[i]);
    made.set(node, isSame ? node : new GraphNode(node.op, node.type, src, node.arg, node.requiresGrad));
  }
  return roots.map((root) => made.get(root)!);
}

/** What a model gives (a tensor, or a list or record of them), with such sums. */
export function withSumsOfBytes<T>(result: T): T {
  const tensors: Tensor[] = [];
  const each = (value: unknown, use: (tensor: Tensor) => AnyTensor): unknown => {
    if (value instanceof Tensor) return use(value);
    if (Array.isArray(value)) return value.map((v) => each(v, use));
    if (!isPlainObject(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([name, v]) => [name, each(v, use)]));
  };
  each(result, (tensor) => {
    tensors.push(tensor);
    return tensor;
  });
  const nodes = sumsOfBytes(tensors.map(({ node }) => node));
  const made = new Map(tensors.map((tensor, i) => [tensor, nodes[i]!]));
  return each(result, (tensor) =>
    made.get(tensor) === tensor.node ? tensor : new Tensor(made.get(tensor)!),
  ) as T;
}
