/**
 * Images of other sizes. Each dimension is resized by itself: an element of the result is a weighted sum of a few elements, and
 * which ones, and their weights, are known from the sizes alone.
 */
import { type AnyTensor, f32, type Tensor, tensor } from 'heddle';
import { listOf, requireParts } from '../values/limits.js';
import { Value } from '../values/value.js';
import { float, int, ints, text } from './attributes.js';
import { type Call, operator } from './operator.js';

/** How a dimension is resized. */
interface Axis {
  readonly from: number;
  readonly to: number;
  readonly scale: number;
  /** `from` · `scale`, which `to` is rounded from. */
  readonly length: number;
  /** The region of interest, of `tf_crop_and_resize`. */
  readonly region: readonly [start: number, end: number];
}

/** The elements that one of the result is made of, with their weights. */
type Taps = readonly (readonly [at: number, weight: number])[];

/** Where an element of the result lies among those before. */
function coordinate(
  mode: string,
  i: number,
  { from, to, scale, length, region: [start, end] }: Axis,
): number | undefined {
  switch (mode) {
    case 'half_pixel':
      return (i + 0.5) / scale - 0.5;
    case 'half_pixel_symmetric': {
      const adjusted = (from / 2) * (1 - to / length);
      return adjusted + (i + 0.5) / scale - 0.5;
    }
    case 'pytorch_half_pixel':
      return length !== 1 ? (i + 0.5) / scale - 0.5 : -0.5;
    case 'align_corners':
      return length !== 1 ? (i * (from - 1)) / (length - 1) : 0;
    case 'asymmetric':
      return i / scale;
    case 'tf_half_pixel_for_nn':
      return (i + 0.5) / scale;
    case 'tf_crop_and_resize':
      return length !== 1
        ? start * (from - 1) + (i * (end - start) * (from - 1)) / (length - 1)
        : 0.5 * (start + end) * (from - 1);
    default:
      return undefined;
  }
}

const NEAREST: Readonly<Record<string, (x: number) => number>> = {
  round_prefer_floor: (x) => Math.ceil(x - 0.5),
  round_prefer_ceil: (x) => Math.floor(x + 0.5),
  floor: Math.floor,
  ceil: Math.ceil,
};

/** Keys' cubic convolution, 1981. */
function cubic(distance: number, a: number): number {
  const d = Math.abs(distance);
  if (d <= 1) return (a + 2) * d ** 3 - (a + 3) * d ** 2 + 1;
  return d < 2 ? a * d ** 3 - 5 * a * d ** 2 + 8 * a * d - 4 * a : 0;
}

/** The taps of a filter that is `stretch` times as wide. */
function filtered(
  x: number,
  from: number,
  radius: number,
  stretch: number,
  weight: (d: number) => number,
  exclude: boolean,
): Taps {
  const reach = radius * stretch;
  requireParts(2 * reach, 'neighbours');
  const taps: [number, number][] = [];
  for (let at = Math.floor(x - reach) + 1; at < x + reach; at++) {
    if (exclude && (at < 0 || at >= from)) continue;
    taps.push([Math.min(Math.max(at, 0), from - 1), weight((at - x) / stretch)]);
  }
  const total = taps.reduce((sum, [, w]) => sum + w, 0);
  return total === 0 ? taps : taps.map(([at, w]) => [at, w / total]);
}

interface ResizeAttributes {
  readonly antialias: number;
  readonly coordinate_transformation_mode: string;
  readonly cubic_coeff_a: number;
  readonly exclude_outside: number;
  readonly extrapolation_value: number;
  readonly mode: string;
  readonly nearest_mode: string;
}

/** The taps of every element of a resized dimension; undefined where the value is extrapolated. */
function tapsOf(call: Call, a: ResizeAttributes, axis: Axis): (Taps | undefined)[] {
  return listOf(axis.to, (_, i) => {
    const x = coordinate(a.coordinate_transformation_mode, i, axis);
    if (x === undefined)
      throw call.shapeError(`the coordinate mode '${a.coordinate_transformation_mode}' is not known.`);
    const { from } = axis;
    if (a.coordinate_transformation_mode === 'tf_crop_and_resize' && (x < 0 || x > from - 1))
      return undefined;
    if (a.mode === 'nearest') {
      const nearest = NEAREST[a.nearest_mode];
      if (!nearest) throw call.shapeError(`the nearest mode '${a.nearest_mode}' is not known.`);
      return [[Math.min(Math.max(nearest(x), 0), from - 1), 1]];
    }
    const stretch = a.antialias ? Math.max(1, 1 / axis.scale) : 1;
    if (a.mode === 'linear') {
      // At the edges the outermost element stands for those beyond it.
      const within = stretch > 1 ? x : Math.min(Math.max(x, 0), from - 1);
      return filtered(within, from, 1, stretch, (d) => Math.max(0, 1 - Math.abs(d)), a.exclude_outside === 1);
    }
    if (a.mode === 'cubic')
      return filtered(x, from, 2, stretch, (d) => cubic(d, a.cubic_coeff_a), a.exclude_outside === 1);
    throw call.shapeError(`the mode '${a.mode}' is not known.`);
  });
}

/** Weighted sums along a dimension. */
function weighted(x: Value, axis: number, taps: readonly (Taps | undefined)[], extrapolated: number): Value {
  const most = taps.reduce((n, t) => Math.max(n, t?.length ?? 0), 1);
  const along = (values: readonly number[]): AnyTensor =>
    tensor(Float32Array.from(values), { shape: x.shape.map((_, i) => (i === axis ? taps.length : 1)) });
  const isPlain = taps.every((t) => t?.length === 1 && t[0]![1] === 1);
  if (isPlain) return x.take(Value.int64s(taps.map((t) => t![0]![0])), axis);
  let sum: AnyTensor | undefined;
  for (let k = 0; k < most; k++) {
    const picked = x.take(Value.int64s(taps.map((t) => t?.[k]?.[0] ?? 0)), axis).tensor.cast(f32);
    const part = picked.mul(along(taps.map((t) => t?.[k]?.[1] ?? 0)));
    sum = sum ? sum.add(part) : part;
  }
  const outside = taps.some((t) => !t);
  const whole = outside ? sum!.add(along(taps.map((t) => (t ? 0 : extrapolated)))) : sum!;
  return Value.of(whole, x.type);
}

/** Sizes of a result that keeps the proportions. */
function proportional(
  policy: string,
  from: readonly number[],
  sizes: readonly number[],
): { sizes: number[]; scale: number } {
  const ratios = sizes.map((size, i) => size / from[i]!);
  const scale = policy === 'not_larger' ? Math.min(...ratios) : Math.max(...ratios);
  return { sizes: from.map((d) => Math.floor(scale * d + 0.5)), scale };
}

const Resize = operator({
  since: [10, 11, 13, 18, 19],
  inputs: [1, 4],
  known: [1, 2, 3],
  attributes: {
    antialias: int(0, { from: 18 }),
    axes: ints(undefined, { from: 18 }),
    coordinate_transformation_mode: text('half_pixel', { from: 11 }),
    cubic_coeff_a: float(-0.75, { from: 11 }),
    exclude_outside: int(0, { from: 11 }),
    extrapolation_value: float(0, { from: 11 }),
    keep_aspect_ratio_policy: text('stretch', { from: 18 }),
    mode: text('nearest'),
    nearest_mode: text('round_prefer_floor', { from: 11 }),
  },
  compute: (call) => {
    const x = call.value(0);
    const isFirst = call.version < 11;
    const axes = call.axes(call.attributes.axes ?? x.shape.map((_, i) => i), x.rank);
    const nonempty = (list: number[] | undefined): number[] | undefined => (list?.length ? list : undefined);
    const scales = nonempty(call.numbers(isFirst ? 1 : 2));
    const given = isFirst ? undefined : nonempty(call.numbers(3));
    const roi = isFirst ? undefined : nonempty(call.numbers(1));
    const from = axes.map((a) => x.shape[a]!);
    const policy = call.attributes.keep_aspect_ratio_policy;
    const kept = given && policy !== 'stretch' ? proportional(policy, from, given) : undefined;
    const sizes = kept?.sizes ?? given ?? scales?.map((scale, i) => Math.floor(from[i]! * scale));
    if (!sizes || sizes.length !== axes.length || (roi && roi.length < 2 * axes.length))
      throw call.shapeError(`sizes or scales must be given for each of ${axes.length} dimensions.`);
    // Version 10 has what is called asymmetric and floor since.
    const attributes = isFirst
      ? { ...call.attributes, coordinate_transformation_mode: 'asymmetric', nearest_mode: 'floor' }
      : call.attributes;
    const native = x.type.kind === 'float' ? x.type : undefined;
    const made = axes.reduce<Value>((y, axis, i) => {
      const scale = kept?.scale ?? scales?.[i] ?? sizes[i]! / from[i]!;
      const isCrop = attributes.coordinate_transformation_mode === 'tf_crop_and_resize';
      if (scale === 1 && sizes[i] === from[i] && !isCrop) return y;
      if (sizes[i]! < 1 || from[i]! < 1)
        throw call.shapeError(`cannot make ${sizes[i]} of ${from[i]} elements.`);
      const region = [roi?.[i] ?? 0, roi?.[i + axes.length] ?? 1] as const;
      const taps = tapsOf(call, attributes, {
        from: from[i]!,
        to: sizes[i]!,
        scale,
        length: scale * from[i]!,
        region,
      });
      return weighted(y, axis, taps, attributes.extrapolation_value);
    }, x);
    if (made.host || (native && made.tensor.dtype === x.tensor.dtype)) return made;
    return Value.of(native ? made.tensor.cast(native.dtype!) : roundedTo(made, x), x.type);
  },
});

/** Sums of integers, which `weighted` made in f32, as integers. */
const roundedTo = (made: Value, x: Value): AnyTensor =>
  made.tensor.dtype === x.tensor.dtype ? made.tensor : (made.tensor as Tensor).round().cast(x.tensor.dtype);

export const RESIZE = { Resize };
