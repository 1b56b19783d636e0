/**
 * A product or convolution of dequantized bytes as one of the bytes. Its scales are what is left of the dequantization: they are
 * elementwise, and are computed where the kernel stores its sums. Zero points p and r leave three sums more (gemmlowp; B. Jacob et
 * al., 2018, section 2.3):
 *
 *   Σ (x − p)(w − r) = Σ xw − p Σ w − r (Σ x − p Σ 1)
 *
 * Those without x are constants where the weights are. Around an image they are sums of the taps that are inside, since what pads it
 * is 0 after the dequantization: a convolution of ones. All sums are of i32, and exact.
 */
import { f32, i8, i32, u8 } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import { callOf, type FusedOp, type OfIntegers } from '../../graph/fused-op.js';
import { argOf, GraphNode } from '../../graph/node.js';
import type { Conv2dArg } from '../conv2d/arg.js';
import { dequantizeOp, signedBytes, signedZero } from '../quantize/op.js';
import { convolveIntegerOp, matmulIntegerOp } from './op.js';
import { isPositive } from './positive.js';

/** i8, and what they were dequantized by: of one element each, or broadcast to the bytes. */
interface Dequantized {
  readonly bytes: GraphNode;
  readonly scale: GraphNode;
  /** Undefined: 0. */
  readonly zeroPoint: GraphNode | undefined;
}

/** The bytes that a node stands for: those of a dequantization to f32, moved as it was. */
function dequantized(node: GraphNode): Dequantized | undefined {
  if (node.isLeaf || node.dtype !== f32) return undefined;
  if (node.op === 'call') {
    const [bytes, scale, zeroPoint] = node.src;
    if (callOf(node).op !== (dequantizeOp as FusedOp) || scale!.dtype !== f32) return undefined;
    if (bytes!.dtype === i8) return { bytes: bytes!, scale: scale!, zeroPoint };
    return bytes!.dtype === u8
      ? { bytes: signedBytes(bytes!), scale: scale!, zeroPoint: signedZero(scale!, zeroPoint) }
      : undefined;
  }
  const isTransposed = node.op === 'permute';
  if (!isTransposed && node.op !== 'reshape' && node.op !== 'detach') return undefined;
  const inner = dequantized(node.src[0]!);
  if (!inner) return undefined;
  const { scale, zeroPoint } = inner;
  const bytes = new GraphNode(node.op, { shape: node.shape, dtype: i8 }, [inner.bytes], node.arg, false);
  if (scale.size === 1) return { bytes, scale, zeroPoint };
  if (!isTransposed || scale.shape.length !== node.shape.length) return undefined;
  const { axes } = argOf(node, 'permute');
  return { bytes, scale: b.permute(scale, axes), zeroPoint: zeroPoint && b.permute(zeroPoint, axes) };
}

/** A product and its three further sums, as they broadcast to it. Those of x are taken where the weights have zero points. */
interface Sums {
  readonly products: GraphNode;
  readonly ofWeights: () => GraphNode;
  readonly ofInputs: () => GraphNode;
  readonly ofOnes: () => GraphNode;
}

/** i32 sums as what they stand for; scales and zero points of the weights are broadcast to them in this shape. */
function valuesOf(x: Dequantized, w: Dequantized, shape: readonly number[], sums: Sums): OfIntegers {
  const ofX = (v: GraphNode): GraphNode => b.reshape(v, []);
  const ofW = (v: GraphNode): GraphNode => b.reshape(v, w.scale.size === 1 ? [] : shape);
  const p = x.zeroPoint && ofX(b.cast(x.zeroPoint, i32));
  const r = w.zeroPoint && ofW(b.cast(w.zeroPoint, i32));
  let total = sums.products;
  if (p) total = b.sub(total, b.mul(sums.ofWeights(), p));
  if (r) {
    const inputs = sums.ofInputs();
    total = b.sub(total, b.mul(p ? b.sub(inputs, b.mul(sums.ofOnes(), p)) : inputs, r));
  }
  const scale = b.mul(ofX(x.scale), ofW(w.scale));
  return { sums: sums.products, values: b.mul(b.cast(total, f32), scale) };
}

const wide = (bytes: GraphNode): GraphNode => b.cast(bytes, i32);

/** A product of two matrices, where both were dequantized. */
export function matmulOfBytes([left, right]: readonly GraphNode[]): OfIntegers | undefined {
  if (left!.shape.length !== 2) return undefined;
  const [x, w] = [dequantized(left!), dequantized(right!)];
  if (!x || !w || x.scale.size !== 1) return undefined;
  const [K, N] = right!.shape as [number, number];
  if (w.scale.size !== 1 && w.scale.shape.at(-1) !== N) return undefined;
  const arg = { positive: isPositive(x.bytes) };
  return valuesOf(x, w, [1, N], {
    products: b.call(matmulIntegerOp, [x.bytes, b.transpose(w.bytes)], arg),
    ofWeights: () => b.sum(wide(w.bytes), [0]),
    ofInputs: () => b.sum(wide(x.bytes), [1]),
    ofOnes: () => b.full([], i32, K),
  });
}

/** A convolution, where both sources were dequantized. */
export function conv2dOfBytes([image, weight]: readonly GraphNode[], arg: Conv2dArg): OfIntegers | undefined {
  const [x, w] = [dequantized(image!), dequantized(weight!)];
  if (!x || !w || x.scale.size !== 1) return undefined;
  const [outputs, ...window] = weight!.shape as [number, number, number, number];
  if (w.scale.size !== 1 && w.scale.shape[0] !== outputs) return undefined;
  const { precision: _, ...rest } = arg;
  const convolved = (x: GraphNode, w: GraphNode): GraphNode =>
    b.call(convolveIntegerOp, [x, w], { ...rest, positive: isPositive(x) });
  const [, ...channels] = image!.shape;
  const oneImage = b.full([1, ...channels], i8, 1);
  const oneWeight = b.full([arg.groups, ...window], i8, 1);
  const isPadded = arg.padding.some((by) => by > 0);
  /** A sum for each group, for each output of it. */
  const repeated = (v: GraphNode): GraphNode => {
    const [n, groups, ...size] = v.shape as [number, number, number, number];
    const each = b.expand(b.reshape(v, [n, groups, 1, ...size]), [n, groups, outputs / groups, ...size]);
    return b.reshape(each, [n, outputs, ...size]);
  };
  return valuesOf(x, w, [1, outputs, 1, 1], {
    products: convolved(x.bytes, w.bytes),
    ofWeights: () =>
      isPadded
        ? convolved(oneImage, w.bytes)
        : b.reshape(b.sum(wide(w.bytes), [1, 2, 3]), [1, outputs, 1, 1]),
    ofInputs: () => repeated(convolved(x.bytes, oneWeight)),
    ofOnes: () => repeated(convolved(oneImage, oneWeight)),
  });
}
