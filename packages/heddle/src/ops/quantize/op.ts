/**
 * Quantization to bytes and back, with ONNX's meaning (QuantizeLinear, DequantizeLinear): q = saturate(round(x / scale) +
 * zeroPoint), rounded half to even, and x ≈ (q − zeroPoint) · scale. These are elementwise ops without kernels of their own,
 * fused with what is around them.
 */
import { DTYPES, f32, i32, NUMBER_LIMITS } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import type { FusedOp } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';

/** What values are rounded to. The sources are (x, scale) or (x, scale, zeroPoint), the last two broadcast to x. */
export interface Quantized {
  readonly dtype: 'i8' | 'u8';
}

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
  kernels: [],
};

/** q, bytes or i32 → floats of the scale's dtype. The difference from the zero point is exact. */
export const dequantizeOp: FusedOp<null> = {
  name: 'dequantizeLinear',
  infer: ([q, scale]) => ({ shape: q!.shape, dtype: scale!.dtype }),
  compose: ([q, scale, zeroPoint]) => {
    const steps = zeroPoint ? b.sub(b.cast(q!, i32), b.cast(zeroPoint, i32)) : q!;
    return b.cast(b.mul(b.cast(steps, f32), b.cast(scale!, f32)), scale!.dtype);
  },
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
