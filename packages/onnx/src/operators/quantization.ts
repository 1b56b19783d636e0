/**
 * Quantization: integers q stand for (q − zero point) · scale. Bytes with one scale, or one for each channel, are the library's own
 * quantization, which engines compute in 8 bits; what it lacks (16 and 4 bits, blocks, scales of 16 bits) is composed here. Products of
 * integers are computed in f64, where they are exact, and rounded once.
 */
import { type AnyTensor, type DType, f32, f64, type Tensor } from 'heddle';
import { dequantizeLinear, quantizeLinear } from 'heddle/quantization';
import { ELEMENT_TYPES, type ElementType, elementTypeOf, limitsOf } from '../file/element-types.js';
import { Value } from '../values/value.js';
import { float, int } from './attributes.js';
import { convolve } from './convolution.js';
import { multiply } from './matrices.js';
import { type Call, operator } from './operator.js';
import { GROUP, WINDOW } from './windows.js';

const { u8: UINT8, i32: INT32 } = ELEMENT_TYPES;

/** Scales or zero points as broadcast with x: one for all, one per slice of `axis`, or one per block along it. */
function spread(call: Call, v: AnyTensor, x: Value, axis: number, block: number): AnyTensor {
  if (v.size === 1 && v.ndim <= 1) return v.reshape([]);
  if (block > 0) {
    const repeated = v.repeatInterleave(block, axis);
    return repeated.at(...x.shape.map((d, i) => (i === axis ? `0:${d}` : ':')));
  }
  if (v.ndim !== 1 || v.shape[0] !== x.shape[axis])
    throw call.shapeError(
      `scale and zero point are (${v.shape}), must be one or ${x.shape[axis]} for axis ${axis}.`,
    );
  return v.reshape(x.shape.map((_, i) => (i === axis ? -1 : 1)));
}

/** round(x / scale) + zero point, ties to even, limited to the range of a type. @param x of floats */
export function quantized(
  x: AnyTensor,
  scale: AnyTensor,
  zeroPoint: AnyTensor | undefined,
  type: ElementType,
): Value {
  const [least, most] = limitsOf(type).map(Number) as [number, number];
  const rounded = x.div(scale).round();
  const shifted = zeroPoint ? rounded.add(zeroPoint.cast(rounded.dtype)) : rounded;
  return Value.of(shifted.clamp(least, most).cast(type.dtype!), type);
}

/** (q − zero point) · scale */
export function dequantized(q: AnyTensor, scale: AnyTensor, zeroPoint: AnyTensor | undefined): AnyTensor {
  const wide = q.cast(INT32.dtype!);
  const centred = zeroPoint ? wide.sub(zeroPoint.cast(INT32.dtype!)) : wide;
  const computed = centred
    .cast(scale.dtype.bytes < 4 ? f32 : scale.dtype)
    .mul(scale.cast(scale.dtype.bytes < 4 ? f32 : scale.dtype));
  return computed.dtype === scale.dtype ? computed : computed.cast(scale.dtype);
}

/** Scales and zero points as the library's own quantization takes them; undefined for what it does not have. */
function ofBytes(x: Value, bytes: ElementType, scale: Value, zero: Value | undefined, block: number) {
  const isSimple = scale.type.name === 'f32' && scale.rank <= 1 && (!zero || zero.size === scale.size);
  if (block > 0 || !isSimple || (bytes.name !== 'i8' && bytes.name !== 'u8')) return undefined;
  if (scale.size !== 1 && x.rank === 0) return undefined;
  const known = scale.host && scale.size === 1 ? Number(scale.host.values[0]) : undefined;
  if (known !== undefined && !(known > 0 && Number.isFinite(known))) return undefined;
  const isZero = !zero || (zero.host !== undefined && [...zero.host.values].every((v) => Number(v) === 0));
  return { by: known ?? (scale.tensor as Tensor), zeroPoint: isZero ? 0 : zero.tensor };
}

const AXIS = { axis: int(1, { from: 13 }), block_size: int(0, { from: 21 }) };

/** The axis that scales belong to; one scale belongs to none. */
const axisOf = (call: Call, x: Value, scale: Value, axis: number): number =>
  scale.size === 1 && scale.rank <= 1 ? 0 : call.axis(axis, x.rank);

const QuantizeLinear = operator({
  since: [10, 13, 19, 21, 23, 24, 25, 28],
  inputs: [2, 3],
  fixed: [1, 2],
  attributes: {
    ...AXIS,
    saturate: int(1, { from: 19 }),
    output_dtype: int(0, { from: 21 }),
    precision: int(0, { from: 23 }),
  },
  compute: (call) => {
    const [x, scale, zero] = [call.value(0), call.value(1), call.optional(2)];
    const { output_dtype: code, block_size: block, axis: given } = call.attributes;
    const type = zero?.type ?? (code === 0 ? UINT8 : elementTypeOf(code, call.where));
    if (type.kind !== 'int' && type.kind !== 'uint')
      throw call.typeError(`quantization to ${type.name} is not supported: integers are.`);
    const axis = axisOf(call, x, scale, given);
    const own = x.type.name === 'f32' ? ofBytes(x, type, scale, zero, block) : undefined;
    if (own) {
      const dtype = type.dtype as DType<'i8' | 'u8'>;
      return Value.of(quantizeLinear(x.tensor as Tensor, own.by, own.zeroPoint, { axis, dtype }));
    }
    const wide = x.type.bits < 32 || x.type.kind !== 'float' ? x.tensor.cast(f32) : x.tensor;
    const by = spread(call, scale.tensor.cast(wide.dtype), x, axis, block);
    return quantized(wide, by, zero && spread(call, zero.tensor, x, axis, block), type);
  },
});

const DequantizeLinear = operator({
  since: [10, 13, 19, 21, 23, 24, 25, 28],
  inputs: [2, 3],
  fixed: [1, 2],
  attributes: { ...AXIS, output_dtype: int(0, { from: 23 }) },
  compute: (call) => {
    const [q, scale, zero] = [call.value(0), call.value(1), call.optional(2)];
    if (q.type.kind !== 'int' && q.type.kind !== 'uint')
      throw call.typeError(`quantization of ${q.type.name} is not supported: integers are.`);
    const { output_dtype: code, block_size: block, axis: given } = call.attributes;
    const axis = axisOf(call, q, scale, given);
    const own = ofBytes(q, q.type, scale, zero, block);
    if (own && code === 0) return Value.of(dequantizeLinear(q.tensor, own.by, own.zeroPoint, { axis }));
    const by = spread(call, scale.tensor, q, axis, block);
    const made = dequantized(q.tensor, by, zero && spread(call, zero.tensor, q, axis, block));
    return code === 0 ? Value.of(made) : Value.of(made).cast(elementTypeOf(code, call.where));
  },
});

/** Bytes with the scale and zero point that x itself asks for: its range, with 0 in it. */
export function dynamicallyQuantized(x: Tensor): {
  readonly levels: Value;
  readonly scale: AnyTensor;
  readonly zero: AnyTensor;
} {
  const low = x.min().minimum(0);
  const high = x.max().maximum(0);
  const scale = high.sub(low).div(255);
  // All zeros have the scale 0; they are quantized by 1.
  const safe = scale.eq(0).where(1, scale) as AnyTensor;
  const zero = low.neg().div(safe).round().clamp(0, 255);
  return { levels: quantized(x, safe, zero, UINT8), scale, zero };
}

const DynamicQuantizeLinear = operator({
  since: [11],
  inputs: [1],
  compute: (call) => {
    const { levels, scale, zero } = dynamicallyQuantized(call.tensor(0) as Tensor);
    return [levels, Value.of(scale), Value.of(zero.cast(UINT8.dtype!))];
  },
});

/** Integers without their zero point, in f64. */
export const centred = (x: AnyTensor, zero: AnyTensor | undefined): AnyTensor =>
  zero ? x.cast(f64).sub(zero.cast(f64)) : x.cast(f64);

/** Of a matrix (…, M, K), a value for each row. */
export const perRow = (v: AnyTensor | undefined): AnyTensor | undefined =>
  v && v.ndim === 1 && v.size > 1 ? v.reshape([-1, 1]) : v && v.size === 1 ? v.reshape([]) : v;
/** Of weights (O, …), a value for each output channel. */
const perOutput = (v: AnyTensor | undefined, rank: number): AnyTensor | undefined =>
  v && (v.size === 1 ? v.reshape([]) : v.reshape([-1, ...new Array<number>(rank - 1).fill(1)]));
/** One value for all, without dimensions. */
export const scalar = (v: AnyTensor | undefined): AnyTensor | undefined =>
  v && v.size === 1 ? v.reshape([]) : v;

const MatMulInteger = operator({
  since: [10],
  inputs: [2, 4],
  fixed: [2, 3],
  compute: (call) => {
    const a = centred(call.tensor(0), perRow(call.optional(2)?.tensor));
    const b = centred(call.tensor(1), scalar(call.optional(3)?.tensor));
    return Value.of(multiply(a, b)).cast(INT32);
  },
});

const QLinearMatMul = operator({
  since: [10, 21],
  inputs: [8],
  fixed: [1, 2, 4, 5, 6, 7],
  compute: (call) => {
    const a = centred(call.tensor(0), perRow(call.tensor(2)));
    const b = centred(call.tensor(3), scalar(call.tensor(5)));
    const scale = scalar(call.tensor(6))!
      .cast(f64)
      .div(perRow(call.tensor(1))!.cast(f64))
      .div(scalar(call.tensor(4))!.cast(f64));
    return quantized(multiply(a, b), scale, scalar(call.tensor(7)), call.value(7).type);
  },
});

const ConvInteger = operator({
  since: [10],
  inputs: [2, 4],
  fixed: [2, 3],
  attributes: { ...WINDOW, ...GROUP },
  compute: (call) => {
    const x = centred(call.tensor(0), scalar(call.optional(2)?.tensor)) as Tensor;
    const w = call.tensor(1);
    const weight = centred(w, perOutput(call.optional(3)?.tensor, w.ndim)) as Tensor;
    return Value.of(convolve(call, call.attributes, x, weight, undefined)).cast(INT32);
  },
});

const QLinearConv = operator({
  since: [10],
  inputs: [8, 9],
  fixed: [1, 2, 4, 5, 6, 7],
  attributes: { ...WINDOW, ...GROUP },
  compute: (call) => {
    const x = centred(call.tensor(0), scalar(call.tensor(2))) as Tensor;
    const w = call.tensor(3);
    const weight = centred(w, perOutput(call.tensor(5), w.ndim)) as Tensor;
    // The bias is of integers in units of both scales.
    const sum = convolve(call, call.attributes, x, weight, call.optional(8)?.tensor.cast(f64));
    const channels = [-1, ...new Array<number>(w.ndim - 2).fill(1)];
    const weightScale = call.tensor(4).cast(f64);
    const byChannel = weightScale.size === 1 ? weightScale.reshape([]) : weightScale.reshape(channels);
    const scale = scalar(call.tensor(6))!
      .cast(f64)
      .div(scalar(call.tensor(1))!.cast(f64))
      .div(byChannel);
    return quantized(sum, scale, scalar(call.tensor(7)), call.value(7).type);
  },
});

/** A function of two quantized tensors, computed on what they stand for. */
const quantizedBinary = (f: (a: AnyTensor, b: AnyTensor) => AnyTensor) =>
  operator({
    since: [1],
    inputs: [8],
    fixed: [1, 2, 4, 5, 6, 7],
    compute: (call) => {
      const [a, b] = [0, 3].map((i) =>
        dequantized(call.tensor(i), scalar(call.tensor(i + 1))!, scalar(call.tensor(i + 2))),
      ) as [AnyTensor, AnyTensor];
      return quantized(f(a, b), scalar(call.tensor(6))!, scalar(call.tensor(7)), call.value(7).type);
    },
  });

const QGemm = operator({
  since: [1],
  inputs: [6, 9],
  fixed: [1, 2, 4, 5, 7, 8],
  attributes: { alpha: float(1), transA: int(0), transB: int(0) },
  compute: (call) => {
    const { alpha, transA, transB } = call.attributes;
    const a = centred(call.tensor(0), scalar(call.tensor(2)));
    const b = centred(call.tensor(3), scalar(call.tensor(5)));
    const product = multiply(transA ? a.transpose() : a, transB ? b.transpose() : b);
    const bias = call.optional(6)?.tensor;
    const sum = bias ? product.add(bias.cast(f64)) : product;
    const unit = scalar(call.tensor(1))!
      .cast(f64)
      .mul(scalar(call.tensor(4))!.cast(f64))
      .mul(alpha);
    const outScale = call.optional(7);
    if (!outScale) return Value.of(sum.mul(unit).cast(f32));
    return quantized(
      sum,
      scalar(outScale.tensor)!.cast(f64).div(unit),
      scalar(call.tensor(8)),
      call.value(8).type,
    );
  },
});

const QLinearGlobalAveragePool = operator({
  since: [1],
  inputs: [5],
  fixed: [1, 2, 3, 4],
  attributes: { channels_last: int(0) },
  compute: (call) => {
    const x = dequantized(call.tensor(0), scalar(call.tensor(1))!, scalar(call.tensor(2)));
    if (call.attributes.channels_last) throw call.shapeError('channels_last is not supported.');
    const mean = x.mean(
      x.shape.slice(2).map((_, i) => 2 + i),
      { keepdim: true },
    );
    return quantized(mean, scalar(call.tensor(3))!, scalar(call.tensor(4)), call.value(4).type);
  },
});

export const QUANTIZATION = {
  'com.microsoft.QLinearAdd': quantizedBinary((a, b) => a.add(b)),
  'com.microsoft.QLinearMul': quantizedBinary((a, b) => a.mul(b)),
  'com.microsoft.QGemm': QGemm,
  'com.microsoft.QLinearGlobalAveragePool': QLinearGlobalAveragePool,
  ...{
    QuantizeLinear,
    DequantizeLinear,
    DynamicQuantizeLinear,
    MatMulInteger,
    QLinearMatMul,
    ConvInteger,
    QLinearConv,
  },
};
