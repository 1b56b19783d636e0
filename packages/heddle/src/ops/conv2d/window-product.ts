/**
 * Convolutions whose windows lie side by side, as those that cut images into patches for a transformer, as products. Each pixel is in
 * one window at most, so that the windows, one in a row, are a matrix no larger than the images: the convolution and its gradient of
 * the weights are products with it, and the gradient of the images is one that is put back in place.
 */
import type { Precision } from '../../core/precision.js';
import { sizeOf } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { Reordered } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { irFunction } from '../../kernel/ir/ir-function.js';
import { FITTED } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { productCycles } from '../matmul/choose-cuda.js';
import { type Conv2dArg, type Direction, outputSize } from './arg.js';
import { convolveCycles, weightCycles } from './cuda-tiles.js';
import { geometryOf, LAST } from './last-op.js';
import { aligned, cut } from './space-to-depth.js';
import { convolveTensorCycles, weightTensorCycles } from './tensor-core-tiles.js';

/** A product of matrices. */
export type MatrixProduct = (x: GraphNode, y: GraphNode, precision: Precision) => GraphNode;

/** The order of images and weights: as they are. */
const PLAIN = [0, 1, 2, 3] as const;

/** Rows, columns and terms of a sum. */
type ProductSizes = readonly [M: number, N: number, K: number];

/** Cycles of an H200 in a microsecond, at its highest clock. */
const CYCLES = 1980;

/**
 * The product of windows, if they lie side by side, and the microseconds that it takes less than a kernel with channels first, by the
 * model of both. What is left over at the ends of the images is in no window.
 */
export function windowProduct(
  target: Target,
  node: GraphNode,
  arg: Conv2dArg,
  direction: Direction,
  product: MatrixProduct,
): (Reordered & { readonly saves: number }) | undefined {
  const isPlain = arg.groups === 1 && arg.padding.every((n) => n === 0) && arg.kernel.some((n) => n > 1);
  if (!isPlain || !b.apart(arg)) return undefined;
  const weights = direction === 'weight' ? node : node.src[1]!;
  const windows = node.src[0]!.shape[0]! * sizeOf(outputSize(arg));
  const outputs = weights.shape[0]!;
  const each = weights.size / outputs;
  const ways = {
    forward: { sizes: [windows, outputs, each], order: LAST, sources: [PLAIN, PLAIN] },
    input: { sizes: [windows, each, outputs], order: PLAIN, sources: [LAST, PLAIN] },
    weight: { sizes: [outputs, each, windows], order: PLAIN, sources: [PLAIN, LAST] },
  } as const;
  const { sizes, order, sources } = ways[direction];
  // A pass over the images puts windows into rows, or back in place.
  const moved = 2 * windows * each * node.dtype.bytes;
  const pass = FITTED.matmul.anotherKernel + moved / (target.units * FITTED.strips.memory);
  const cycles = productCycles(...sizes, node.dtype, target) + pass;
  return {
    ...{ order, sources },
    saves: (firstCycles(target, node, arg, direction) - cycles) / CYCLES,
    make: (src) => byWindows(direction, src, arg, sizes, product),
  };
}

/** Cycles of the best kernel with channels first. */
function firstCycles(
  target: Target,
  { src, shape }: GraphNode,
  arg: Conv2dArg,
  direction: Direction,
): number {
  const [first, second] = src as [GraphNode, GraphNode];
  const isWeight = direction === 'weight';
  const [images, inputs] = first.shape as [number, number];
  const outputs = isWeight ? second.shape[1]! : shape[1]!;
  const sizes = { images, inputs, outputs, dtype: first.dtype };
  const geometry = geometryOf(arg, direction, sizes);
  const p = { ...geometry, weightOffset: 0, gradientOffset: 0, finish: irFunction(([v]) => v!) };
  const byTensorCores = isWeight ? weightTensorCycles(p, target) : convolveTensorCycles(p, target);
  if (byTensorCores < Infinity) return byTensorCores;
  return isWeight ? weightCycles(p, target) : convolveCycles(p, target);
}

/** (N, C, H, W) → (N·outH·outW, C·kH·kW): as in the weights, of which nothing is moved then. */
function windowsOf(x: GraphNode, arg: Conv2dArg): GraphNode {
  const windows = b.permute(b.window(x, arg), [0, 2, 3, 1, 4, 5]);
  const rows = x.shape[0]! * sizeOf(outputSize(arg));
  return b.reshape(windows, [rows, windows.size / rows]);
}

/** Windows in their places, and zeros in what is in none: (N·outH·outW, C·kH·kW) → (N, C, H, W) */
function inPlace(windows: GraphNode, arg: Conv2dArg): GraphNode {
  const [rows, columns] = outputSize(arg);
  const [all, each] = windows.shape as [number, number];
  const [images, channels] = [all / (rows * columns), each / sizeOf(arg.kernel)];
  const seen = b.reshape(windows, [images, rows, columns, channels, ...arg.kernel]);
  return b.fold(b.permute(seen, [0, 3, 1, 2, 4, 5]), arg.size, arg);
}

/** The convolution or gradient. Outputs have their channels last; images and weights are as they were. */
function byWindows(
  direction: Direction,
  src: readonly GraphNode[],
  arg: Conv2dArg,
  [M, N]: ProductSizes,
  product: MatrixProduct,
): GraphNode {
  const [first, second] = src as [GraphNode, GraphNode];
  // As by a convolution, bf16 is computed as tf32.
  const precision = arg.precision === 'f32' ? 'f32' : 'tf32';
  const images = (x: GraphNode): GraphNode => aligned(windowsOf(x, arg), [1]);
  const weights = (w: GraphNode): GraphNode =>
    aligned(b.reshape(w, [w.shape[0]!, w.size / w.shape[0]!]), [0, 1]);
  const outputs = (y: GraphNode): GraphNode =>
    aligned(b.reshape(y, [y.size / y.shape.at(-1)!, y.shape.at(-1)!]), [1]);
  const multiply = (x: GraphNode, y: GraphNode): GraphNode => cut(product(x, y, precision), [M, N]);
  switch (direction) {
    case 'forward': {
      const made = multiply(images(first), b.transpose(weights(second)));
      return b.reshape(made, [first.shape[0]!, ...outputSize(arg), N]);
    }
    case 'input':
      return inPlace(multiply(outputs(first), weights(second)), arg);
    case 'weight': {
      const made = multiply(b.transpose(outputs(second)), images(first));
      return b.reshape(made, [M, first.shape[1]!, ...arg.kernel]);
    }
  }
}
