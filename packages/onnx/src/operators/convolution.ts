/** Convolutions and their transposes, of one to three spatial dimensions. */
import {
  type AnyTensor,
  conv1d,
  conv2d,
  conv3d,
  convTranspose1d,
  convTranspose2d,
  convTranspose3d,
  type Tensor,
} from 'heddle';
import { requireParts } from '../values/limits.js';
import { Value } from '../values/value.js';
import { ints } from './attributes.js';
import { type Call, operator } from './operator.js';
import { GROUP, WINDOW, type WindowAttributes, type Windows, windowsOf } from './windows.js';

/** Cross-correlation of x (N, C, …) with weight (O, C/groups, …). */
export function convolve(
  call: Pick<Call, 'shapeError'>,
  attributes: WindowAttributes & { readonly group: number },
  x: Tensor,
  weight: Tensor,
  bias: AnyTensor | undefined,
): AnyTensor {
  const spatial = x.shape.slice(2);
  const kernel = weight.shape.slice(2);
  const given = attributes.kernel_shape;
  if (spatial.length < 1 || spatial.length > 3 || weight.ndim !== x.ndim)
    throw call.shapeError('convolutions of one to three dimensions are supported.');
  if (given && (given.length !== kernel.length || given.some((k, i) => k !== kernel[i])))
    throw call.shapeError(`kernel_shape is (${given}), the weight's (${kernel}).`);
  const w = windowsOf(call, attributes, spatial, kernel);
  const groups = attributes.group;
  // The library pads both ends alike; other padding is made before.
  const isEven = w.before.every((p, i) => p === w.after[i]);
  const padded = isEven
    ? x
    : (x.pad([[0, 0], [0, 0], ...w.before.map((p, i) => [p, w.after[i]!] as const)]) as Tensor);
  const padding = isEven ? w.before : w.before.map(() => 0);
  const [a, b, c] = [0, 1, 2].map((i) => padding[i]!) as [number, number, number];
  const { strides: s, dilations: d } = w as { strides: number[]; dilations: number[] } & Windows;
  if (spatial.length === 1)
    return conv1d(padded, weight, bias, { stride: s[0]!, dilation: d[0]!, padding: a, groups });
  if (spatial.length === 2)
    return conv2d(padded, weight, bias, { stride: pair(s), dilation: pair(d), padding: [a, b], groups });
  return conv3d(padded, weight, bias, { stride: triple(s), dilation: triple(d), padding: [a, b, c], groups });
}

const pair = (v: readonly number[]): [number, number] => [v[0]!, v[1]!];
const triple = (v: readonly number[]): [number, number, number] => [v[0]!, v[1]!, v[2]!];

const Conv = operator({
  since: [1, 11, 22],
  inputs: [2, 3],
  attributes: { ...WINDOW, ...GROUP },
  compute: (call) =>
    Value.of(
      convolve(
        call,
        call.attributes,
        call.tensor(0) as Tensor,
        call.tensor(1) as Tensor,
        call.optional(2)?.tensor,
      ),
    ),
});

/** How many elements are cut off at both ends of the full result, and how many are added behind it. */
function transposedEnds(
  call: Call,
  a: TransposedAttributes,
  spatial: readonly number[],
  kernel: readonly number[],
) {
  const n = spatial.length;
  const strides = a.strides ?? new Array<number>(n).fill(1);
  const dilations = a.dilations ?? new Array<number>(n).fill(1);
  const extra = a.output_padding ?? new Array<number>(n).fill(0);
  const full = spatial.map((d, i) => (d - 1) * strides[i]! + (kernel[i]! - 1) * dilations[i]! + 1);
  const auto = a.auto_pad;
  const isSame = auto === 'SAME_UPPER' || auto === 'SAME_LOWER';
  let sizes = a.output_shape?.slice(-n) ?? (isSame ? spatial.map((d, i) => d * strides[i]!) : undefined);
  if ([strides, dilations, extra].some((list) => list.length !== n))
    throw call.shapeError(`strides, dilations and output_padding must have ${n} numbers.`);
  let before: readonly number[];
  if (sizes) {
    const total = sizes.map((size, i) => Math.max(0, full[i]! + extra[i]! - size));
    before = total.map((t) => (auto === 'SAME_UPPER' ? Math.floor(t / 2) : t - Math.floor(t / 2)));
  } else {
    const pads = auto === 'VALID' ? undefined : a.pads;
    if (pads && pads.length !== 2 * n) throw call.shapeError(`pads are (${pads}), must be ${2 * n} numbers.`);
    before = pads?.slice(0, n) ?? new Array<number>(n).fill(0);
    sizes = full.map((d, i) => d + extra[i]! - before[i]! - (pads?.[n + i] ?? 0));
  }
  if (sizes.some((size) => size < 1)) throw call.shapeError(`the result would have the sizes (${sizes}).`);
  return { strides, dilations, before, sizes, full };
}

interface TransposedAttributes extends WindowAttributes {
  readonly output_padding: readonly number[] | undefined;
  readonly output_shape: readonly number[] | undefined;
}

const ConvTranspose = operator({
  since: [1, 11, 22],
  inputs: [2, 3],
  attributes: { ...WINDOW, ...GROUP, output_padding: ints(undefined), output_shape: ints(undefined) },
  compute: (call) => {
    const [x, weight] = [call.tensor(0) as Tensor, call.tensor(1) as Tensor];
    const bias = call.optional(2)?.tensor;
    const spatial = x.shape.slice(2);
    if (spatial.length < 1 || spatial.length > 3 || weight.ndim !== x.ndim)
      throw call.shapeError('convolutions of one to three dimensions are supported.');
    const {
      strides: s,
      dilations: d,
      before,
      sizes,
      full,
    } = transposedEnds(call, call.attributes, spatial, weight.shape.slice(2));
    const groups = call.attributes.group;
    const made =
      spatial.length === 1
        ? convTranspose1d(x, weight, undefined, { stride: s[0]!, dilation: d[0]!, groups })
        : spatial.length === 2
          ? convTranspose2d(x, weight, undefined, { stride: pair(s), dilation: pair(d), groups })
          : convTranspose3d(x, weight, undefined, { stride: triple(s), dilation: triple(d), groups });
    const longer = made.pad([
      [0, 0],
      [0, 0],
      ...sizes.map((size, i) => [0, Math.max(0, before[i]! + size - full[i]!)] as const),
    ]);
    const cut = longer.at(':', ':', ...sizes.map((size, i) => `${before[i]}:${before[i]! + size}`));
    return Value.of(bias ? cut.add(bias.reshape([-1, ...sizes.map(() => 1)])) : cut);
  },
});

/** The columns of windows summed into images: the adjoint of taking them. */
const Col2Im = operator({
  since: [18],
  inputs: [3],
  known: [1, 2],
  attributes: { dilations: ints(undefined), pads: ints(undefined), strides: ints(undefined) },
  compute: (call) => {
    const x = call.value(0);
    const [sizes, block] = [call.numbers(1)!, call.numbers(2)!];
    const attributes = { ...call.attributes, auto_pad: 'NOTSET', kernel_shape: block };
    const w = windowsOf(call, attributes, sizes, block);
    const [n, rows] = x.shape as [number, number];
    const taps = block.reduce((p, k) => p * k, 1);
    requireParts(taps, 'elements of a kernel');
    const c = rows / taps;
    const columns = x.tensor.reshape([n, c, taps, ...w.count]) as Tensor;
    const padded = sizes.map((d, i) => d + w.before[i]! + w.after[i]!);
    let sum: AnyTensor | undefined;
    for (let t = 0; t < taps; t++) {
      const offset = offsetsOf(t, block).map((o, i) => o * w.dilations[i]!);
      const spread = spreadOut(columns.at(':', ':', t) as Tensor, w.strides, offset, padded);
      sum = sum ? sum.add(spread) : spread;
    }
    return Value.of(sum!.at(':', ':', ...sizes.map((d, i) => `${w.before[i]}:${w.before[i]! + d}`)));
  },
});

/** The position of tap `t` of a kernel in each dimension. */
export function offsetsOf(t: number, kernel: readonly number[]): number[] {
  const offsets = new Array<number>(kernel.length);
  let rest = t;
  for (let i = kernel.length - 1; i >= 0; i--) {
    offsets[i] = rest % kernel[i]!;
    rest = Math.floor(rest / kernel[i]!);
  }
  return offsets;
}

/** Elements of the spatial dimensions `stride` apart, from `offset` on, in zeros of `sizes`. */
function spreadOut(
  x: Tensor,
  strides: readonly number[],
  offset: readonly number[],
  sizes: readonly number[],
): AnyTensor {
  return sizes.reduce<AnyTensor>((y, size, i) => {
    const axis = 2 + i;
    const [count, stride] = [y.shape[axis]!, strides[i]!];
    const apart = y
      .unsqueeze(axis + 1)
      .pad([
        ...y.shape.slice(0, axis + 1).map(() => [0, 0] as const),
        [0, stride - 1],
        ...y.shape.slice(axis + 1).map(() => [0, 0] as const),
      ])
      .reshape([...y.shape.slice(0, axis), count * stride, ...y.shape.slice(axis + 1)]);
    const long = apart.pad(
      apart.shape.map((_, k) => (k === axis ? ([offset[i]!, size] as const) : ([0, 0] as const))),
    );
    return long.at(...long.shape.map((_, k) => (k === axis ? `0:${size}` : ':')));
  }, x);
}

export const CONVOLUTION = { Conv, ConvTranspose, Col2Im };
