/** Pooling: the largest, the mean or the norm of windows. */
import { type AnyTensor, avgPool2d, f64, maxPool2d, ShapeError, type Tensor, tensor, where } from 'heddle';
import { sizeOf } from 'heddle/internal/core/shape.js';
import { ELEMENT_TYPES, type ElementType, limitsOf } from '../file/element-types.js';
import { listOf, requireParts } from '../values/limits.js';
import { Value } from '../values/value.js';
import { int } from './attributes.js';
import { offsetsOf } from './convolution.js';
import { type Call, type Operator, operator } from './operator.js';
import { WINDOW, type WindowAttributes, type Windows, windowsOf } from './windows.js';

const CEIL = { ...WINDOW, ceil_mode: int(0) };

function windows(
  call: Call,
  attributes: WindowAttributes & { readonly ceil_mode: number },
  x: Value,
): Windows {
  const kernel = attributes.kernel_shape;
  if (!kernel || x.rank < 3)
    throw call.shapeError('kernel_shape is missing, or there is no spatial dimension.');
  return windowsOf(call, attributes, x.shape.slice(2), kernel, attributes.ceil_mode === 1);
}

/** How many elements each dimension has, padding included, such that every window fits. */
const reached = (w: Windows): number[] =>
  w.count.map((n, i) => (n - 1) * w.strides[i]! + (w.kernel[i]! - 1) * w.dilations[i]! + 1);

/** The elements of all windows at each tap of the kernel. @param value of the padding */
function* taps(x: Tensor, w: Windows, value: number): Generator<AnyTensor> {
  requireParts(sizeOf(w.kernel), 'elements of a kernel');
  const sizes = reached(w);
  const around = sizes.map(
    (size, i) => [w.before[i]!, Math.max(0, size - x.shape[2 + i]! - w.before[i]!)] as const,
  );
  const isPadded = around.some(([b, a]) => b + a > 0);
  const padded = isPadded ? x.pad([[0, 0], [0, 0], ...around], { value }) : x;
  for (let t = 0; t < sizeOf(w.kernel); t++) {
    const at = offsetsOf(t, w.kernel).map((o, i) => {
      const start = o * w.dilations[i]!;
      return `${start}:${start + (w.count[i]! - 1) * w.strides[i]! + 1}:${w.strides[i]}`;
    });
    yield padded.at(':', ':', ...at);
  }
}

/** Whether the library's pooling of images has the same windows. */
const isPlain = (x: Value, w: Windows): boolean =>
  x.rank === 4 &&
  x.type.kind === 'float' &&
  w.dilations.every((d) => d === 1) &&
  w.before.every((p, i) => p === w.after[i] && 2 * p <= w.kernel[i]!) &&
  w.count.every(
    (n, i) => n === Math.floor((x.shape[2 + i]! + 2 * w.before[i]! - w.kernel[i]!) / w.strides[i]!) + 1,
  );

const pairOf = (v: readonly number[]): [number, number] => [v[0]!, v[1]!];

/** The least value of a type. */
const leastOf = (type: ElementType): number =>
  type.kind === 'float' ? Number.NEGATIVE_INFINITY : Number(limitsOf(type)[0]);

const MaxPool = operator({
  since: [1, 8, 10, 11, 12, 22],
  inputs: [1],
  attributes: { ...CEIL, storage_order: int(0, { from: 8 }) },
  compute: (call) => {
    const x = call.value(0);
    const w = windows(call, call.attributes, x);
    if (!call.outputs[1]) {
      if (isPlain(x, w)) {
        const options = { stride: pairOf(w.strides), padding: pairOf(w.before) };
        return Value.of(maxPool2d(x.tensor, pairOf(w.kernel), options), x.type);
      }
      const all = [...taps(x.tensor as Tensor, w, leastOf(x.type))];
      return Value.of(
        all.reduce((most, y) => most.maximum(y)),
        x.type,
      );
    }
    const places = [...taps(placesOf(x, call.attributes.storage_order === 1), w, -1)];
    const values = [...taps(x.tensor as Tensor, w, leastOf(x.type))];
    let [most, place] = [values[0]!, places[0]!];
    for (const [i, value] of values.entries()) {
      const isNew = value.gt(most).or(place.lt(0));
      [most, place] = [where(isNew, value, most) as AnyTensor, where(isNew, places[i]!, place) as AnyTensor];
    }
    return [Value.of(most, x.type), Value.of(place).cast(ELEMENT_TYPES.i64)];
  },
});

/** The place of every element in the flattened tensor, exact in f64. */
function placesOf(x: Value, columnMajor: boolean): Tensor {
  const spatial = x.shape.slice(2);
  const size = sizeOf(spatial);
  if (x.size > 2 ** 24)
    throw new ShapeError(`[onnx] places of ${x.size} elements are not told, of ${2 ** 24} they are.`);
  const places = Float64Array.from({ length: x.size }, (_, i) => {
    if (!columnMajor) return i;
    const [image, within] = [Math.floor(i / size), offsetsOf(i % size, spatial)];
    return image * size + within.reduceRight((n, o, k) => n * 1 + o * sizeOf(spatial.slice(0, k)), 0);
  });
  return tensor(places, { dtype: f64, shape: x.shape as number[] }) as unknown as Tensor;
}

const AveragePool = operator({
  since: [1, 7, 10, 11, 19, 22],
  inputs: [1],
  attributes: { ...CEIL, count_include_pad: int(0, { from: 7 }) },
  compute: (call) => {
    const x = call.value(0);
    const w = windows(call, call.attributes, x);
    const countIncludePad = call.attributes.count_include_pad === 1;
    if (isPlain(x, w))
      return Value.of(
        avgPool2d(x.tensor, pairOf(w.kernel), {
          stride: pairOf(w.strides),
          padding: pairOf(w.before),
          countIncludePad,
        }),
      );
    const sum = [...taps(x.tensor as Tensor, w, 0)].reduce((a, b) => a.add(b));
    const counts = w.count.map((n, i) => countsOf(w, i, n, x.shape[2 + i]!, countIncludePad));
    const shape = w.count;
    const all = listOf(sizeOf(shape), (_, i) =>
      offsetsOf(i, shape).reduce((product, at, k) => product * counts[k]![at]!, 1),
    );
    return Value.of(sum.div(tensor(Float32Array.from(all), { shape: shape as number[] }).cast(sum.dtype)));
  },
});

/** Of how many elements each window along a dimension is the mean. */
function countsOf(w: Windows, i: number, count: number, size: number, includePad: boolean): number[] {
  const [low, high] = includePad ? [-w.before[i]!, size + w.after[i]!] : [0, size];
  return listOf(count, (_, n) => {
    const start = n * w.strides[i]! - w.before[i]!;
    const places = listOf(w.kernel[i]!, (_, k) => start + k * w.dilations[i]!);
    return Math.max(1, places.filter((at) => at >= low && at < high).length);
  });
}

/** (Σ |x|^p)^(1/p) */
const norm = (parts: readonly AnyTensor[], p: number): AnyTensor =>
  parts
    .map((y) => y.abs().pow(p))
    .reduce((a, b) => a.add(b))
    .pow(1 / p);

const LpPool = operator({
  since: [2, 11, 18, 22],
  inputs: [1],
  attributes: { ...CEIL, p: int(2) },
  compute: (call) => {
    const x = call.value(0);
    return Value.of(
      norm([...taps(x.tensor as Tensor, windows(call, call.attributes, x), 0)], call.attributes.p),
    );
  },
});

/** Over all spatial dimensions, which keep size 1. */
const global = (
  since: readonly number[],
  f: (x: Tensor, axes: readonly number[], p: number) => AnyTensor,
  attributes = {},
): Operator =>
  operator({
    since,
    inputs: [1],
    attributes: attributes as { p: ReturnType<typeof int<number>> },
    compute: (call) => {
      const x = call.tensor(0) as Tensor;
      if (x.ndim < 3) throw call.shapeError(`the input has ${x.ndim} dimensions, at least 3 are needed.`);
      return Value.of(
        f(
          x,
          x.shape.slice(2).map((_, i) => 2 + i),
          call.attributes.p,
        ),
      );
    },
  });

const GlobalAveragePool = global([1, 22], (x, axes) => x.mean(axes, { keepdim: true }));
const GlobalMaxPool = global([1, 22], (x, axes) => x.max(axes, { keepdim: true }));
const GlobalLpPool = global(
  [2, 22],
  (x, axes, p) =>
    x
      .abs()
      .pow(p)
      .sum(axes, { keepdim: true })
      .pow(1 / p),
  { p: int(2) },
);

/** Puts the largest elements back to their places. */
const MaxUnpool = operator({
  since: [9, 11, 22],
  inputs: [2, 3],
  known: [2],
  attributes: { kernel_shape: WINDOW.kernel_shape, pads: WINDOW.pads, strides: WINDOW.strides },
  compute: (call) => {
    const [x, places] = [call.value(0), call.value(1)];
    const { kernel_shape: kernel = [], strides, pads } = call.attributes;
    const sizes = x.shape.slice(2).map((d, i) => {
      const ends = (pads?.[i] ?? 0) + (pads?.[i + x.rank - 2] ?? 0);
      return (d - 1) * (strides?.[i] ?? 1) - ends + (kernel[i] ?? 1);
    });
    const natural = [...x.shape.slice(0, 2), ...sizes];
    if (natural.some((d) => d < 0) || sizeOf(natural) > 2 ** 28)
      throw call.shapeError(`the result would have the sizes (${natural}).`);
    const shape = call.numbers(2) ?? natural;
    // Places count in the tensor of natural size, of which a larger one is an extension in every dimension.
    const flat = tensor(new Float32Array(sizeOf(natural)));
    const index = places.cast(ELEMENT_TYPES.i32).tensor.reshape([-1]);
    const filled = flat.scatter(0, index, x.tensor.reshape([-1])).reshape(natural);
    return Value.of(filled.pad(shape.map((d, i) => [0, Math.max(0, d - natural[i]!)])));
  },
});

export const POOLING = {
  MaxPool,
  AveragePool,
  LpPool,
  GlobalAveragePool,
  GlobalMaxPool,
  GlobalLpPool,
  MaxUnpool,
};
