/** Signals: windows, Fourier transforms as products with their matrices, filters of the mel scale; and random numbers. */
import { type AnyTensor, f32, rand, randn, type Tensor } from 'heddle';
import { ELEMENT_TYPES, elementTypeOf } from '../file/element-types.js';
import { hostTensor } from '../values/host-ops.js';
import { listOf } from '../values/limits.js';
import { Value } from '../values/value.js';
import { float, int, ints, required } from './attributes.js';
import { type Call, type Operator, operator } from './operator.js';

const { f32: FLOAT, f64: DOUBLE } = ELEMENT_TYPES;

/** A window of `size` elements: Σ coefficients · cos(2π k n / period) */
const windowOf = (coefficients: readonly number[]): Operator =>
  operator({
    since: [17],
    inputs: [1],
    known: [0],
    attributes: { output_datatype: int(1), periodic: int(1) },
    compute: (call) => {
      const { output_datatype, periodic } = call.attributes;
      const size = call.number(0)!;
      if (size < 0) throw call.shapeError(`the size is ${size}, must be at least 0.`);
      const period = periodic ? size : size - 1;
      const values = listOf(size, (_, n) =>
        coefficients.reduce((sum, c, k) => sum + c * Math.cos((2 * Math.PI * k * n) / period), 0),
      );
      const made = Value.host(hostTensor(DOUBLE, [size], values));
      return made.cast(elementTypeOf(output_datatype, call.where));
    },
  });

/** Elements of a matrix of a transform, at most. */
const MOST_ELEMENTS = 2 ** 24;

/** Cosines or sines of 2π · row · column / length, (rows, columns), perhaps with a factor for each row. */
function turns(
  call: Call,
  of: (angle: number) => number,
  [rows, columns, length]: readonly [number, number, number],
  factor: (row: number) => number = () => 1,
): Tensor {
  if (rows * columns > MOST_ELEMENTS)
    throw call.shapeError(`a transform of ${length} elements is not supported: it is a product of matrices.`);
  const values = listOf(rows * columns, (_, i) => {
    const [row, column] = [Math.floor(i / columns), i % columns];
    return factor(row) * of((2 * Math.PI * ((row * column) % length)) / length);
  });
  return Value.host(hostTensor(DOUBLE, [rows, columns], values)).tensor as Tensor;
}

const times = (x: AnyTensor, matrix: Tensor): AnyTensor =>
  (x as Tensor).matmul(matrix.cast(x.dtype) as Tensor) as AnyTensor;

/** The transform of (…, N, 1 or 2), parts real and imaginary, along N. @returns (…, count, 2) */
function transformed(call: Call, x: AnyTensor, count: number, isInverse: boolean): AnyTensor {
  const length = x.shape.at(-2)!;
  const size = [length, count, length] as const;
  const [cos, sin] = [turns(call, Math.cos, size), turns(call, Math.sin, size)];
  const real = x.at('...', 0);
  const [rc, rs] = [times(real, cos), times(real, sin)];
  let parts: readonly [AnyTensor, AnyTensor] = [rc, isInverse ? rs : rs.neg()];
  if (x.shape.at(-1) === 2) {
    const imaginary = x.at('...', 1);
    const [ic, is] = [times(imaginary, cos), times(imaginary, sin)];
    parts = isInverse ? [rc.sub(is), rs.add(ic)] : [rc.add(is), ic.sub(rs)];
  }
  const scaled = isInverse ? parts.map((part) => part.div(length)) : parts;
  return Value.concat(
    scaled.map((part) => Value.of(part.unsqueeze(-1))),
    x.ndim - 1,
  ).tensor;
}

/** The real signal (…, length, 1) whose transform begins with x (…, ⌊length/2⌋ + 1, 2): the rest is its mirror image. */
function realSignal(call: Call, x: AnyTensor, length: number): AnyTensor {
  const count = x.shape.at(-2)!;
  const weight = (k: number): number => (k === 0 || 2 * k === length ? 1 : 2) / length;
  const size = [count, length, length] as const;
  const cosines = times(x.at('...', 0), turns(call, Math.cos, size, weight));
  return cosines.sub(times(x.at('...', 1), turns(call, Math.sin, size, weight))).unsqueeze(-1);
}

/** The first elements of a dimension, or all and zeros behind them. */
function resized(x: AnyTensor, axis: number, length: number): AnyTensor {
  const size = x.shape[axis]!;
  if (size >= length) return x.at(...x.shape.map((_, i) => (i === axis ? `0:${length}` : ':')));
  return x.pad(x.shape.map((_, i) => (i === axis ? [0, length - size] : [0, 0])));
}

const DFT = operator({
  since: [17, 20],
  inputs: [1, 3],
  known: [1, 2],
  attributes: { axis: int(1, { until: 19 }), inverse: int(0), onesided: int(0) },
  compute: (call) => {
    const x = call.value(0);
    const { inverse, onesided } = call.attributes;
    const axis = call.axis(call.version < 20 ? call.attributes.axis : (call.number(2) ?? -2), x.rank);
    if (axis === x.rank - 1 || ![1, 2].includes(x.shape.at(-1)!))
      throw call.shapeError('the last dimension must have the real, or the real and imaginary parts.');
    const isReal = inverse === 1 && onesided === 1;
    const length = call.number(1) ?? (isReal ? 2 * (x.shape[axis]! - 1) : x.shape[axis]!);
    if (length < 1) throw call.shapeError(`the length is ${length}, must be at least 1.`);
    const half = Math.floor(length / 2) + 1;
    const order = x.shape.map((_, i) => i);
    order.splice(axis, 1);
    order.splice(x.rank - 2, 0, axis);
    const signal = resized(x.tensor, axis, isReal ? half : length).permute(order);
    const made = isReal
      ? realSignal(call, signal, length)
      : transformed(call, signal, onesided ? half : length, inverse === 1);
    return Value.of(made.permute(order.map((_, i) => order.indexOf(i))));
  },
});

const STFT = operator({
  since: [17],
  inputs: [2, 4],
  known: [1, 3],
  attributes: { onesided: int(1) },
  compute: (call) => {
    const [signal, window] = [call.value(0), call.optional(2)];
    const step = call.number(1)!;
    const length = call.number(3) ?? window?.shape[0] ?? signal.shape[1]!;
    const frames = Math.floor((signal.shape[1]! - length) / step) + 1;
    if (step < 1 || length < 1 || frames < 1)
      throw call.shapeError(`frames of ${length} elements, ${step} apart, do not fit ${signal.shape[1]}.`);
    const at = listOf(frames * length, (_, i) => Math.floor(i / length) * step + (i % length));
    const cut = signal.take(Value.int64s(at, [frames, length]), 1).tensor;
    const weighted = window ? cut.mul(window.tensor.reshape([length, 1])) : cut;
    const count = call.attributes.onesided ? Math.floor(length / 2) + 1 : length;
    return Value.of(transformed(call, weighted, count, false));
  },
});

/** Triangles of equal width on the mel scale, as weights of the frequencies of a transform. */
const MelWeightMatrix = operator({
  since: [17],
  inputs: [5],
  known: 'all',
  attributes: { output_datatype: int(1) },
  compute: (call) => {
    const [bins, length, rate] = [call.number(0)!, call.number(1)!, call.number(2)!];
    const [low, high] = [3, 4].map((i) => 2595 * Math.log10(1 + call.number(i)! / 700)) as [number, number];
    const rows = Math.floor(length / 2) + 1;
    if (bins < 1 || length < 1) throw call.shapeError('there must be at least one bin and one frequency.');
    const edges = listOf(bins + 2, (_, i) => {
      const hertz = 700 * (10 ** ((low + (i * (high - low)) / (bins + 2)) / 2595) - 1);
      return Math.floor(((length + 1) * hertz) / rate);
    });
    const weights = listOf(rows * bins, (_, i) => {
      const [row, bin] = [Math.floor(i / bins), i % bins];
      const [start, centre, end] = edges.slice(bin, bin + 3) as [number, number, number];
      if (row === centre && start === centre) return 1;
      if (row >= start && row <= centre) return (row - start) / (centre - start);
      return row > centre && row < end ? (end - row) / (end - centre) : 0;
    });
    const made = Value.host(hostTensor(DOUBLE, [rows, bins], weights));
    return made.cast(elementTypeOf(call.attributes.output_datatype, call.where));
  },
});

/** The places of a grid of pixels, turned and moved by matrices (N, 2, 3) or (N, 3, 4). */
const AffineGrid = operator({
  since: [20],
  inputs: [2],
  known: [1],
  attributes: { align_corners: int(0) },
  compute: (call) => {
    const theta = call.tensor(0) as Tensor;
    const [n, , ...sizes] = call.numbers(1)!;
    const dims = sizes.length;
    if (theta.ndim !== 3 || theta.shape[0] !== n || theta.shape[1] !== dims || theta.shape[2] !== dims + 1)
      throw call.shapeError(`matrices (${theta.shape}) do not fit ${n} images of (${sizes}).`);
    const points = sizes.reduce((count, d) => count * d, 1);
    const place = (at: number, d: number): number =>
      call.attributes.align_corners ? (d === 1 ? 0 : (2 * at) / (d - 1) - 1) : (2 * at + 1) / d - 1;
    // The last dimension of the image comes first in the grid; 1 behind them adds the translation.
    const values = listOf(points * (dims + 1), (_, i) => {
      const axis = dims - 1 - (i % (dims + 1));
      if (axis < 0) return 1;
      const inner = sizes.slice(axis + 1).reduce((count, d) => count * d, 1);
      return place(Math.floor(Math.floor(i / (dims + 1)) / inner) % sizes[axis]!, sizes[axis]!);
    });
    const grid = Value.host(hostTensor(DOUBLE, [points, dims + 1], values)).tensor.cast(
      theta.dtype,
    ) as Tensor;
    const made = grid.matmul(theta.transpose() as Tensor) as AnyTensor;
    return Value.of(made.reshape([n!, ...sizes, dims]));
  },
});

// Which numbers a seed stands for is not part of the standard: they are those of the library's generator.
const RANDOM = { dtype: int(undefined), seed: float(undefined) };
const NORMAL = { mean: float(0), scale: float(1) };
const UNIFORM = { low: float(0), high: float(1) };

/** @param code of the dtype that a node asks for @param like of the input, where there is one */
const drawn = (call: Call, made: AnyTensor, code: number | undefined, like = FLOAT): Value =>
  Value.of(made).cast(code === undefined ? like : elementTypeOf(code, call.where));

const normal = (shape: readonly number[], { mean, scale }: { mean: number; scale: number }): AnyTensor =>
  randn([...shape])
    .mul(scale)
    .add(mean);
const uniform = (shape: readonly number[], { low, high }: { low: number; high: number }): AnyTensor =>
  rand([...shape])
    .mul(high - low)
    .add(low);

const RandomNormal = operator({
  since: [1, 22],
  inputs: [0],
  attributes: { ...RANDOM, ...NORMAL, shape: required(ints(undefined)) },
  compute: (call) => drawn(call, normal(call.attributes.shape, call.attributes), call.attributes.dtype),
});

const RandomUniform = operator({
  since: [1, 22],
  inputs: [0],
  attributes: { ...RANDOM, ...UNIFORM, shape: required(ints(undefined)) },
  compute: (call) => drawn(call, uniform(call.attributes.shape, call.attributes), call.attributes.dtype),
});

const RandomNormalLike = operator({
  since: [1, 22],
  inputs: [1],
  attributes: { ...RANDOM, ...NORMAL },
  compute: (call) => {
    const { shape, type } = call.value(0);
    return drawn(call, normal(shape, call.attributes), call.attributes.dtype, type);
  },
});

const RandomUniformLike = operator({
  since: [1, 22],
  inputs: [1],
  attributes: { ...RANDOM, ...UNIFORM },
  compute: (call) => {
    const { shape, type } = call.value(0);
    return drawn(call, uniform(shape, call.attributes), call.attributes.dtype, type);
  },
});

/** 1 with the probability that the input is, else 0. */
const Bernoulli = operator({
  since: [15, 22],
  inputs: [1],
  attributes: RANDOM,
  compute: (call) => {
    const x = call.value(0);
    const ones = rand([...x.shape])
      .lt(x.tensor.cast(f32))
      .cast(f32);
    return drawn(call, ones, call.attributes.dtype, x.type);
  },
});

export const SIGNAL = {
  HannWindow: windowOf([0.5, -0.5]),
  HammingWindow: windowOf([25 / 46, -21 / 46]),
  BlackmanWindow: windowOf([0.42, -0.5, 0.08]),
  ...{ DFT, STFT, MelWeightMatrix, AffineGrid },
  ...{ RandomNormal, RandomUniform, RandomNormalLike, RandomUniformLike, Bernoulli },
};
