/**
 * Quantization to bytes and back, with ONNX's meaning (QuantizeLinear, DequantizeLinear): q = saturate(round(x / scale) +
 * zeroPoint), rounded half to even, and x ≈ (q − zeroPoint) · scale. These are elementwise ops without kernels of their own,
 * fused with what is around them.
 */
import { selectedOfRounded } from '#ops/gpu-kernels.js';
import { DTYPES, f32, i8, i32, NUMBER_LIMITS, u8 } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import { callOf, type FusedOp, type OfIntegers } from '../../graph/fused-op.js';
import { GraphNode } from '../../graph/node.js';
import type { Quantized } from './arg.js';

/** round(x / scale) + zeroPoint, in f32. */
function levels([x, scale, zeroPoint]: readonly GraphNode[]): GraphNode {
  const steps = b.map('rint', b.div(b.cast(x!, f32), b.cast(scale!, f32)));
  return zeroPoint ? b.add(steps, b.cast(zeroPoint, f32)) : steps;
}

/** The least and the largest level, in f32 of the shape of x. */
function limits(x: GraphNode, { dtype }: Quantized): [least: GraphNode, most: GraphNode] {
  const [least, beyond] = NUMBER_LIMITS[dtype]!;
  return [b.full(x.shape, f32, least), b.full(x.shape, f32, beyond - 1)];
}

/** x, floats → bytes. A conversion to an integer saturates; NaN becomes 0. */
export const quantizeOp: FusedOp<Quantized> = {
  name: 'quantizeLinear',
  infer: ([x], { dtype }) => ({ shape: x!.shape, dtype: DTYPES[dtype] }),
  compose: (src, { dtype }) => b.cast(levels(src), DTYPES[dtype]),
  ofIntegers: (src, to) => selectedOfRounded(quantizeOp, src, to),
  ofQuotient: true,
  kernels: [],
};

/** Kernels multiply i8: a u8 is the i8 that is 128 less, with a zero point that is 128 less. */
const SIGN = 128;

/** u8 as i8 that are 128 less. @param v bytes or zero points */
const lessSign = (v: GraphNode): GraphNode => b.cast(b.sub(b.cast(v, i32), b.full(v.shape, i32, SIGN)), i8);

/** The zero point of u8 for the i8 that are 128 less. @param scale has its shape */
export const signedZero = (scale: GraphNode, zeroPoint: GraphNode | undefined): GraphNode =>
  zeroPoint ? lessSign(zeroPoint) : b.full(scale.shape, i8, -SIGN);

const MOVES: ReadonlySet<string> = new Set(['reshape', 'permute', 'detach']);

/** u8 that were rounded to just before, and moved, rounded to the i8 that are 128 less; undefined for others. */
function roundedToSigned(q: GraphNode): GraphNode | undefined {
  if (q.isLeaf) return undefined;
  if (MOVES.has(q.op)) {
    const inner = roundedToSigned(q.src[0]!);
    return inner && new GraphNode(q.op, { shape: q.shape, dtype: i8 }, [inner], q.arg, false);
  }
  if (q.op !== 'call' || callOf(q).op !== (quantizeOp as unknown as FusedOp)) return undefined;
  const [x, scale, zeroPoint] = q.src;
  return b.call(quantizeOp, [x!, scale!, signedZero(scale!, zeroPoint)], { dtype: 'i8' });
}

/** u8 as the i8 that are 128 less. */
export const signedBytes = (q: GraphNode): GraphNode => roundedToSigned(q) ?? lessSign(q);

/** What is rounded to u8 is rounded to i8, so that all who read it read the same memory. */
function ofSigned([q, scale, zeroPoint]: readonly GraphNode[]): OfIntegers | undefined {
  const bytes = q!.dtype === u8 ? roundedToSigned(q!) : undefined;
  const src = bytes && [bytes, scale!, signedZero(scale!, zeroPoint)];
  return src && { values: b.call(dequantizeOp, src, null) };
}

/** q, bytes or i32 → floats of the scale's dtype. The difference from the zero point is exact. */
export const dequantizeOp: FusedOp<null> = {
  name: 'dequantizeLinear',
  infer: ([q, scale]) => ({ shape: q!.shape, dtype: scale!.dtype }),
  compose: ([q, scale, zeroPoint]) => {
    const steps = zeroPoint ? b.sub(b.cast(q!, i32), b.cast(zeroPoint, i32)) : q!;
    return b.cast(b.mul(b.cast(steps, f32), b.cast(scale!, f32)), scale!.dtype);
  },
  ofIntegers: ofSigned,
  kernels: [],
};

/**
 * x as it is after quantization and back. The gradient passes straight through where x is within what bytes reach, and is 0
 * outside (Y. Bengio et al., Estimating or propagating gradients through stochastic neurons, 2013; B. Jacob et al.,
 * Quantization and training of neural networks for efficient integer-arithmetic-only inference, 2018).
 */
export const fakeQuantizeOp: FusedOp<Quantized> = {
  name: 'fakeQuantize',
  infer: ([x]) => x!,
  compose: (src, arg) => {
    const [x, scale, zeroPoint] = src;
    const [least, most] = limits(x!, arg);
    const q = b.map('min', b.map('max', levels(src), least), most);
    const steps = zeroPoint ? b.sub(q, b.cast(zeroPoint, f32)) : q;
    return b.cast(b.mul(steps, b.cast(scale!, f32)), x!.dtype);
  },
  grad: ({ src }, g, arg) => {
    const q = levels(src);
    const [least, most] = limits(src[0]!, arg);
    const isWithin = b.map('and', b.map('ge', q, least), b.map('le', q, most));
    return [b.where(isWithin, g, b.like(g, 0)), undefined, undefined].slice(0, src.length);
  },
  kernels: [],
};
