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

const isSum = (node: GraphNode): boolean =>
  !node.isLeaf && node.op === 'map' && argOf(node, 'map').op === 'add';

/** `value`, a tensor or a list or record of them, with `use` of each tensor. */
function eachTensor(value: unknown, use: (tensor: Tensor) => AnyTensor): unknown {
  if (value instanceof Tensor) return use(value);
  if (Array.isArray(value)) return value.map((v) => eachTensor(v, use));
  if (!isPlainObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, v]) => [name, eachTensor(v, use)]));
}

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
    const src = node.isLeaf
      ? []
      : node.src.map((source) => {
          // Not there yet: a layer that the sum does not depend on.
          const rounding = isSum(node) ? made.get(roundings.get(source)!) : undefined;
          const isSameType = rounding?.src[1]?.dtype === source.dtype;
          return isSameType ? valuesOf(rounding!) : made.get(source)!;
        });
    const isSame = node.isLeaf || src.every((s, i) => s === node.src[i]);
    made.set(node, isSame ? node : new GraphNode(node.op, node.type, src, node.arg, node.requiresGrad));
  }
  return roots.map((root) => made.get(root)!);
}

/** What stands for a layer's output in a graph. */
type Outputs<Layer> = readonly (readonly [layer: Layer, output: Tensor])[];

/**
 * Of two layers whose outputs are added to each other and not read otherwise, the later one: the convolution beside a residual block
 * is such. One of the two has to be in memory, in bytes if it is rounded to these.
 * @param outputs of the layers, in the order of their calls
 */
export function addedLayers<Layer>(result: unknown, outputs: Outputs<Layer>): Set<Layer> {
  const places = new Map(outputs.map(([, { node }], i) => [node, i]));
  const readers = new Map<GraphNode, number>();
  const added = new Set<number>();
  const roots: GraphNode[] = [];
  eachTensor(result, (tensor) => {
    roots.push(tensor.node);
    return tensor;
  });
  const order = topological(roots, (n) => (n.isLeaf ? [] : n.src));
  for (const read of [...roots, ...order.flatMap((n) => (n.isLeaf ? [] : n.src))])
    readers.set(read, (readers.get(read) ?? 0) + 1);
  for (const node of order) {
    if (!isSum(node)) continue;
    const [one, other] = node.src.map((s) => places.get(s)) as [number | undefined, number | undefined];
    if (one === undefined || other === undefined || one === other) continue;
    if (node.src.every((s) => readers.get(s) === 1)) added.add(Math.max(one, other));
  }
  return new Set([...added].map((i) => outputs[i]![0]));
}

/** What a model gives (a tensor, or a list or record of them), with such sums. */
export function withSumsOfBytes<T>(result: T): T {
  const tensors: Tensor[] = [];
  eachTensor(result, (tensor) => {
    tensors.push(tensor);
    return tensor;
  });
  const nodes = sumsOfBytes(tensors.map(({ node }) => node));
  const made = new Map(tensors.map((tensor, i) => [tensor, nodes[i]!]));
  return eachTensor(result, (tensor) =>
    made.get(tensor) === tensor.node ? tensor : new Tensor(made.get(tensor)!),
  ) as T;
}
