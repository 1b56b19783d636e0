/**
 * Operators of ONNX that are several nodes in the graph: Concat, ReduceMean, and convolutions and products with their bias. Engines are fast where they find those.
 */
import { knownValue } from 'heddle/internal/graph/build.js';
import { callOf } from 'heddle/internal/graph/fused-op.js';
import { argOf, type GraphNode } from 'heddle/internal/graph/node.js';
import type { Conv2dArg } from 'heddle/internal/ops/conv2d/arg.js';
import type { Emission } from './emission.js';
import { convolutionAttributes } from './fused-ops.js';
import { int } from './graph-writer.js';

/** Write a map that ends one of the patterns. @returns its value; undefined for others */
export function writePattern(io: Emission, node: GraphNode): string | undefined {
  const { op } = argOf(node, 'map');
  if (op === 'select') return concat(io, node);
  if (op === 'add') return convolution(io, node) ?? gemm(io, node);
  return op === 'mul' ? mean(io, node) : undefined;
}

const isMap = (node: GraphNode, op: string): boolean => node.op === 'map' && argOf(node, 'map').op === op;

// ── Concat ───────────────────────────────────────────────────────────────────────────────────────────────────────
// The library joins tensors by padding each to the whole and choosing by position: where(position < n, left, right).

/** What is chosen by position along an axis: `left` before `at`. */
interface Choice {
  readonly axis: number;
  readonly at: number;
  readonly left: GraphNode;
  readonly right: GraphNode;
}

function choiceOf(node: GraphNode): Choice | undefined {
  if (!isMap(node, 'select')) return undefined;
  const [condition, left, right] = node.src as [GraphNode, GraphNode, GraphNode];
  const isBefore = unexpanded(condition);
  if (!isMap(isBefore, 'lt')) return undefined;
  const position = unexpanded(isBefore.src[0]!);
  const at = knownValue(isBefore.src[1]!);
  if (position.op !== 'iota' || typeof at !== 'number' || position.shape.length !== node.shape.length)
    return undefined;
  return { axis: argOf(position, 'iota').axis, at, left, right };
}

function unexpanded(node: GraphNode): GraphNode {
  return node.op === 'expand' ? unexpanded(node.src[0]!) : node;
}

/** The tensors that elements `from` to `to` of a node along an axis are joined of; undefined if they are not. */
function partsOf(node: GraphNode, axis: number, from: number, to: number): GraphNode[] | undefined {
  const choice = choiceOf(node);
  if (choice?.axis === axis) {
    const { at, left, right } = choice;
    if (to <= at) return partsOf(left, axis, from, to);
    if (from >= at) return partsOf(right, axis, from, to);
    const [first, rest] = [partsOf(left, axis, from, at), partsOf(right, axis, at, to)];
    return first && rest && [...first, ...rest];
  }
  if (from === 0 && to === node.shape[axis]) return [node];
  if (node.op !== 'pad') return undefined;
  const { before, after } = argOf(node, 'pad');
  const isAlong = before.every((n, i) => i === axis || (n === 0 && after[i] === 0));
  const start = before[axis]!;
  const isWithin = from >= start && to <= node.shape[axis]! - after[axis]!;
  return isAlong && isWithin ? partsOf(node.src[0]!, axis, from - start, to - start) : undefined;
}

function concat(io: Emission, node: GraphNode): string | undefined {
  const twins = io.traces.twins(node);
  const axes = twins.map((twin) => choiceOf(twin)?.axis);
  const [axis] = axes;
  if (axis === undefined || axes.some((a) => a !== axis)) return undefined;
  const parts = twins.map((twin) => partsOf(twin, axis, 0, twin.shape[axis]!));
  const [first] = parts;
  // The same tensors in every trace.
  const agree = parts.every(
    (of, k) =>
      of?.length === first?.length && of?.every((part, i) => io.traces.twins(first![i]!)[k] === part),
  );
  if (!first || !agree) return undefined;
  return io.add(
    'Concat',
    first.map((part) => io.value(part)),
    { axis: int(axis) },
  );
}

// ── ReduceMean ───────────────────────────────────────────────────────────────────────────────────────────────────

/** The sum that a node is, perhaps without the dimensions of size 1 that it leaves. */
const sumOf = (node: GraphNode): GraphNode | undefined => {
  const sum = node.op === 'reshape' ? node.src[0]! : node;
  return sum.op === 'reduce' && argOf(sum, 'reduce').op === 'sum' ? sum : undefined;
};

function mean(io: Emission, node: GraphNode): string | undefined {
  const isMean = io.traces.twins(node).every((twin) => {
    const [x, factor] = twin.src as [GraphNode, GraphNode];
    const sum = sumOf(x);
    const by = knownValue(factor);
    return sum !== undefined && typeof by === 'number' && by === Math.fround(sum.size / sum.src[0]!.size);
  });
  if (!isMean) return undefined;
  const [shown] = node.src as [GraphNode];
  const sum = sumOf(shown)!;
  const value = io.add('ReduceMean', [io.value(sum.src[0]!), io.integers(argOf(sum, 'reduce').axes)]);
  return io.reshape(value, io.traces.sizes(sum), io.traces.sizes(shown));
}

// ── Conv, Gemm ───────────────────────────────────────────────────────────────────────────────────────────────────

/** A convolution, which nothing else uses, and a bias for each channel. */
function convolution(io: Emission, node: GraphNode): string | undefined {
  const [product, added] = node.src as [GraphNode, GraphNode];
  const bias = isOnlyUse(product, 'conv2d') ? vectorAlong(added, -3, product.shape[1]!) : undefined;
  if (!bias) return undefined;
  const values = [...product.src, bias].map((source) => io.value(source));
  return io.add('Conv', values, convolutionAttributes(callOf(product).arg as Conv2dArg));
}

/** A product of matrices, which nothing else uses, and a bias for each column; the right one as it is before it is transposed. */
function gemm(io: Emission, node: GraphNode): string | undefined {
  const [product, added] = node.src as [GraphNode, GraphNode];
  if (product.shape.length !== 2 || !isOnlyUse(product, 'matmul')) return undefined;
  const bias = vectorAlong(added, -1, product.shape[1]!);
  if (!bias) return undefined;
  const [left, right] = product.src as [GraphNode, GraphNode];
  const isTransposed = right.op === 'permute';
  const values = [left, isTransposed ? right.src[0]! : right, bias].map((source) => io.value(source));
  return io.add('Gemm', values, isTransposed ? { transB: int(1) } : {});
}

/** Whether a node is the call of a fused op, and only one node is made from it. */
const isOnlyUse = (node: GraphNode, name: string): boolean =>
  node.op === 'call' && callOf(node).op.name === name && node.users <= 1;

/** The vector that is laid out along a dimension, counted from the last, and repeated along all others. */
function vectorAlong(node: GraphNode, axis: number, size: number): GraphNode | undefined {
  const laidOut = unexpanded(node);
  const vector = laidOut.op === 'reshape' ? laidOut.src[0]! : laidOut;
  const isAlong = laidOut.shape.at(axis) === size && laidOut.size === size;
  return isAlong && vector.shape.length === 1 ? vector : undefined;
}
