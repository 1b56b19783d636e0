/**
 * Products of bytes, summed in i32: ONNX's MatMulInteger and ConvInteger without zero points. Users do not call them. A product
 * or convolution of dequantized bytes becomes one of the bytes (`matmulOfBytes`, `conv2dOfBytes`), and its scales are what
 * is left of the dequantization: they are elementwise, and are computed where the kernel stores its sums.
 */
import { matmulBytesChoice } from '#ops/gpu-kernels.js';
import { f32, i8, i32 } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import { callOf, type FusedOp, type OfIntegers } from '../../graph/fused-op.js';
import { argOf, GraphNode } from '../../graph/node.js';
import { type Conv2dArg, outputSize } from '../conv2d/arg.js';
import { dequantizeOp } from '../quantize/op.js';
import type { BytesArg, ConvolveBytesArg } from './arg.js';
import { convolveBytesCpu, matmulBytesCpu } from './cpu.js';
import { isPositive } from './positive.js';

/** x (M, K) · wᵀ, w (N, K): i8 → (M, N), i32. */
export const matmulIntegerOp: FusedOp<BytesArg> = {
  name: 'matmulInteger',
  infer: ([x, w]) => ({ shape: [x!.shape[0]!, w!.shape[0]!], dtype: i32 }),
  compose: ([x, w]) => {
    const [M, K] = x!.shape as [number, number];
    const [N] = w!.shape as [number, number];
    const left = b.reshape(b.cast(x!, i32), [M, 1, K]);
    return b.reshape(b.sum(b.mul(left, b.reshape(b.cast(w!, i32), [1, N, K])), [2]), [M, N]);
  },
  flops: (node) => 2 * node.size * node.src[0]!.shape[1]!,
  kernels: [matmulBytesChoice, matmulBytesCpu],
};

/** x (N, C, H, W), w (O, C/G, kH, kW): i8 → (N, O, outH, outW), i32. */
export const convolveIntegerOp: FusedOp<ConvolveBytesArg> = {
  name: 'convInteger',
  infer: ([x, w], arg) => ({ shape: [x!.shape[0]!, w!.shape[0]!, ...outputSize(arg)], dtype: i32 }),
  compose: ([x, w], arg) => {
    const { padding, groups, kernel } = arg;
    const by = [0, 0, ...padding];
    const seen = b.window(b.pad(b.cast(x!, i32), by, by), arg);
    const [n, c, ...rest] = seen.shape as [number, number, ...number[]];
    const windows = b.reshape(seen, [n, groups, 1, c / groups, ...rest]);
    const [outputs, inputs] = w!.shape as [number, number];
    const weights = b.reshape(b.cast(w!, i32), [1, groups, outputs / groups, inputs, 1, 1, ...kernel]);
    return b.reshape(b.sum(b.mul(windows, weights), [3, 6, 7]), [n, outputs, ...outputSize(arg)]);
  },
  flops: (node) => 2 * node.size * (node.src[1]!.size / node.src[1]!.shape[0]!),
  kernels: [convolveBytesCpu],
};

/** Bytes, and the scale that they were dequantized by: of one element, or broadcast to them. */
interface Dequantized {
  readonly bytes: GraphNode;
  readonly scale: GraphNode;
}

/** The bytes that a node stands for: those of a dequantization to f32 without zero points, moved as it was. */
function dequantized(node: GraphNode): Dequantized | undefined {
  if (node.isLeaf || node.dtype !== f32) return undefined;
  if (node.op === 'call') {
    const [bytes, scale, zeroPoint] = node.src;
    const isBytes = callOf(node).op === (dequantizeOp as FusedOp) && bytes!.dtype === i8;
    return isBytes && zeroPoint === undefined && scale!.dtype === f32
      ? { bytes: bytes!, scale: scale! }
      : undefined;
  }
  const isTransposed = node.op === 'permute';
  if (!isTransposed && node.op !== 'reshape' && node.op !== 'detach') return undefined;
  const inner = dequantized(node.src[0]!);
  if (!inner) return undefined;
  const bytes = new GraphNode(node.op, { shape: node.shape, dtype: i8 }, [inner.bytes], node.arg, false);
  if (inner.scale.size === 1) return { bytes, scale: inner.scale };
  return isTransposed && inner.scale.shape.length === node.shape.length
    ? { bytes, scale: b.permute(inner.scale, argOf(node, 'permute').axes) }
    : undefined;
}

/** i32 sums as what they stand for: both scales, that of the weights in the shape in which it broadcasts to the sums. */
function valuesOf(sums: GraphNode, x: Dequantized, scale: GraphNode, shape: readonly number[]): OfIntegers {
  const both = b.mul(b.reshape(x.scale, []), b.reshape(scale, scale.size === 1 ? [] : shape));
  return { sums, values: b.mul(b.cast(sums, f32), both) };
}

/** A product of two matrices, where both were dequantized. */
export function matmulOfBytes([left, right]: readonly GraphNode[]): OfIntegers | undefined {
  if (left!.shape.length !== 2) return undefined;
  const [x, w] = [dequantized(left!), dequantized(right!)];
  if (!x || !w || x.scale.size !== 1) return undefined;
  const N = right!.shape[1]!;
  if (w.scale.size !== 1 && w.scale.shape.at(-1) !== N) return undefined;
  const sums = b.call(matmulIntegerOp, [x.bytes, b.transpose(w.bytes)], { positive: isPositive(x.bytes) });
  return valuesOf(sums, x, w.scale, [1, N]);
}

/** A convolution, where both sources were dequantized. */
export function conv2dOfBytes([image, weight]: readonly GraphNode[], arg: Conv2dArg): OfIntegers | undefined {
  const [x, w] = [dequantized(image!), dequantized(weight!)];
  if (!x || !w || x.scale.size !== 1) return undefined;
  const outputs = weight!.shape[0]!;
  if (w.scale.size !== 1 && w.scale.shape[0] !== outputs) return undefined;
  const { precision: _, ...rest } = arg;
  const sums = b.call(convolveIntegerOp, [x.bytes, w.bytes], { ...rest, positive: isPositive(x.bytes) });
  return valuesOf(sums, x, w.scale, [1, outputs, 1, 1]);
}
