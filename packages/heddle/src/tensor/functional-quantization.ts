/** Quantization to bytes and back: QuantizeLinear and DequantizeLinear of ONNX, for one scale or one for each channel. */
import { above, type Rule, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import { type DType, type DTypeName, f32, i8, i32, isByte, isFloat, isOf, u8 } from '../core/dtype.js';
import { DTypeError, ShapeError } from '../core/errors.js';
import { formatShape, normalizeAxis, type Shape } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { dequantizeOp, fakeQuantizeOp, quantizeOp } from '../ops/quantize/op.js';
import { type AnyTensor, aTensor, requireFloat, requireTensor } from './checks.js';
import { Tensor } from './tensor.js';

/** The dtypes that values are quantized to. */
export type ByteDType = 'i8' | 'u8';

/** The distance of two levels: one for all elements, or a tensor with one for each index along `axis`. */
export type Scale = number | Tensor;

/** The level that stands for 0: a number, or a tensor of the scale's shape and the levels' dtype. */
export type ZeroPoint = number | AnyTensor;

/** Options of `dequantizeLinear`. */
export interface DequantizeOptions {
  /** The dimension that scales and zero points are for, where there are several; default 1. */
  readonly axis?: number;
}

/** Options of `quantizeLinear` and `fakeQuantize`. */
export interface QuantizeOptions<D extends ByteDType = ByteDType> extends DequantizeOptions {
  /** What x is rounded to: i8 (default) or u8. */
  readonly dtype?: DType<D>;
}

const aByteDType: Rule = {
  must: "one of the dtypes i8, u8, as in import { i8 } from 'heddle'",
  holds: (v) => v === i8 || v === u8,
  error: DTypeError,
};
const anAxis: Rule = { must: 'an integer', holds: Number.isInteger };
const DEQUANTIZE: Rules<DequantizeOptions> = { axis: anAxis };
const QUANTIZE: Rules<QuantizeOptions> = { axis: anAxis, dtype: aByteDType };

const aScale: Rule = {
  must: 'a finite number greater than 0, or a tensor of floats',
  holds: (v) => (typeof v === 'number' ? Number.isFinite(v) && above(0).holds(v) : aTensor.holds(v)),
};
const aZeroPoint: Rule = {
  must: 'an integer, or a tensor of them',
  holds: (v) => Number.isInteger(v) || aTensor.holds(v),
};

/** A scale or zero point as it broadcasts to x: of one value, or of one for each index along `axis`. */
function broadcastable(
  op: string,
  name: string,
  parameter: AnyTensor,
  x: AnyTensor,
  axis: number,
): GraphNode {
  const { shape, size } = parameter;
  if (size === 1 && shape.length <= 1) return b.reshape(parameter.node, []);
  const at = normalizeAxis(op, axis, x.ndim);
  if (shape.length !== 1 || size !== x.shape[at])
    throw new ShapeError(
      `[${op}] ${name} is ${formatShape(shape)} for x ${formatShape(x.shape)}: it must have one value, or ` +
        `${x.shape[at]}, one for each index along axis ${at}. Name another axis with { axis }.`,
    );
  return b.reshape(
    parameter.node,
    x.shape.map((_, i) => (i === at ? size : 1)),
  );
}

/** The sources of the op: x, the scale, and the zero point where it is not 0. */
function sources(
  op: string,
  x: AnyTensor,
  scale: Scale,
  zeroPoint: ZeroPoint,
  axis: number,
  levels: DType,
): GraphNode[] {
  requireArgument(op, 'scale', scale, aScale);
  requireArgument(op, 'zeroPoint', zeroPoint, aZeroPoint);
  if (typeof scale !== 'number' && !isFloat(scale.dtype))
    throw new DTypeError(`[${op}] scale must be floats, got ${scale.dtype.name}. Convert with .cast(f32).`);
  const scaleNode =
    typeof scale === 'number' ? b.full([], f32, scale) : broadcastable(op, 'scale', scale, x, axis);
  if (zeroPoint === 0) return [x.node, scaleNode];
  if (typeof zeroPoint === 'number') {
    if (!isOf(levels, zeroPoint))
      throw new DTypeError(`[${op}] zeroPoint ${zeroPoint} cannot be represented as ${levels.name}.`);
    return [x.node, scaleNode, b.full([], levels, zeroPoint)];
  }
  if (zeroPoint.dtype !== levels)
    throw new DTypeError(
      `[${op}] zeroPoint must be of the levels' dtype ${levels.name}, got ${zeroPoint.dtype.name}.`,
    );
  const zero = broadcastable(op, 'zeroPoint', zeroPoint, x, axis);
  if (zero.size !== scaleNode.size)
    throw new ShapeError(
      `[${op}] scale has ${scaleNode.size} values and zeroPoint ${zero.size}: they must be as many.`,
    );
  return [x.node, scaleNode, zero];
}

/**
 * Floats as bytes: saturate(round(x / scale) + zeroPoint), rounded half to even.
 * @example
 * ```ts
 * import { tensor } from 'heddle';
 * import { quantizeLinear } from 'heddle/quantization';
 *
 * console.log(await quantizeLinear(tensor([-1, 0.25, 0.75, 99]), 0.5).array()); // → [ -2, 0, 2, 127 ]
 * ```
 * @param x floats, any shape
 * @param scale greater than 0: a number, a tensor of one value, or (n) for x.shape[axis] = n
 * @param zeroPoint of the dtype quantized to; default 0
 * @returns i8 or u8, of the shape of x
 * @throws DTypeError, ShapeError, ArgumentError
 */
export function quantizeLinear<S extends Shape, D extends ByteDType = 'i8'>(
  x: Tensor<S>,
  scale: Scale,
  zeroPoint: ZeroPoint = 0,
  options: QuantizeOptions<D> = {},
): Tensor<S, D> {
  requireFloat('quantizeLinear', 'x', x);
  requireOptions('quantizeLinear', options, QUANTIZE);
  const { axis = 1, dtype = i8 } = options;
  const src = sources('quantizeLinear', x, scale, zeroPoint, axis, dtype);
  return new Tensor(b.call(quantizeOp, src, { dtype: dtype.name as ByteDType }));
}

/**
 * Bytes as floats: (q − zeroPoint) · scale.
 * @example
 * ```ts
 * import { i8, tensor } from 'heddle';
 * import { dequantizeLinear } from 'heddle/quantization';
 *
 * console.log(await dequantizeLinear(tensor([-2, 0, 127], { dtype: i8 }), 0.5).array()); // → [ -1, 0, 63.5 ]
 * ```
 * @param q i8, u8 or i32, any shape
 * @param scale a number, a tensor of one value, or (n) for q.shape[axis] = n
 * @param zeroPoint of q's dtype; default 0
 * @returns floats of the scale's dtype (f32 for a number), of the shape of q
 * @throws DTypeError, ShapeError, ArgumentError
 */
export function dequantizeLinear<S extends Shape>(
  q: Tensor<S, DTypeName>,
  scale: Scale,
  zeroPoint: ZeroPoint = 0,
  options: DequantizeOptions = {},
): Tensor<S, 'f32'> {
  requireTensor('dequantizeLinear', 'q', q);
  requireOptions('dequantizeLinear', options, DEQUANTIZE);
  if (!isByte(q.dtype) && q.dtype !== i32)
    throw new DTypeError(`[dequantizeLinear] q must be i8, u8 or i32, got ${q.dtype.name}.`);
  const src = sources('dequantizeLinear', q as AnyTensor, scale, zeroPoint, options.axis ?? 1, q.dtype);
  return new Tensor(b.call(dequantizeOp, src, null));
}

/**
 * x as it is after `quantizeLinear` and `dequantizeLinear`, with a gradient: that of the result where x is within the bytes'
 * reach, else 0 (Y. Bengio et al., Estimating or propagating gradients through stochastic neurons, 2013; B. Jacob et al.,
 * Quantization and training of neural networks for efficient integer-arithmetic-only inference, 2018).
 * @example
 * ```ts
 * import { tensor } from 'heddle';
 * import { fakeQuantize } from 'heddle/quantization';
 *
 * const x = tensor([0.3, 99], { requiresGrad: true });
 * const y = fakeQuantize(x, 0.5);
 * y.sum().backward();
 * console.log(await y.array(), await x.grad!.array()); // → [ 0.5, 63.5 ] [ 1, 0 ]
 * ```
 * @param x floats, any shape
 * @param scale greater than 0: a number, a tensor of one value, or (n) for x.shape[axis] = n; it has no gradient
 * @param zeroPoint of the dtype quantized to; default 0
 * @throws DTypeError, ShapeError, ArgumentError
 */
export function fakeQuantize<T extends AnyTensor>(
  x: T,
  scale: Scale,
  zeroPoint: ZeroPoint = 0,
  options: QuantizeOptions = {},
): T {
  requireFloat('fakeQuantize', 'x', x);
  requireOptions('fakeQuantize', options, QUANTIZE);
  const { axis = 1, dtype = i8 } = options;
  const src = sources('fakeQuantize', x, scale, zeroPoint, axis, dtype);
  return new Tensor(b.call(fakeQuantizeOp, src, { dtype: dtype.name })) as AnyTensor as T;
}
