/** Convolutions as functions, in one to three dimensions, and their adjoints. Sources: PyTorch's torch.nn.functional. */
import { integerFrom, type Rule, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import type { DTypeName } from '../core/dtype.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { aPrecision, type Precision } from '../core/precision.js';
import { formatShape, type Shape } from '../core/shape.js';
import { aPair, conv2d as conv2dNode, type Pair, pair } from '../ops/conv2d/op.js';
import { forProduct } from './autocast.js';
import { type AnyTensor, requireBias, requireRank, requireTensor } from './checks.js';
import { stack } from './create.js';
import { getPrecision } from './precision.js';
import type { Convolved } from './shape-types.js';
import { type DTypeOf, type ShapeOf, Tensor } from './tensor.js';

export { type Pair, pair } from '../ops/conv2d/op.js';

/**
 * A padding by its name: 'valid' is none; 'same' is the zeros with which the result has the size of the input, of an odd
 * number one more at the end. It takes a stride of 1.
 */
export type NamedPadding = 'same' | 'valid';

/** @internal */
export const orNamed = ({ must, holds }: Rule): Rule => ({
  must: `${must}, or 'same' or 'valid'`,
  holds: (v) => v === 'same' || v === 'valid' || holds(v),
});

/** Settings of a convolution, a number for each dimension. */
interface Windows {
  readonly kernel: readonly number[];
  readonly stride: readonly number[];
  readonly dilation: readonly number[];
}

/** What a padding by its name is in numbers, and x (N, C, …) with the zeros that its ends alone get. @throws ArgumentError */
function byName<T extends AnyTensor>(
  op: string,
  x: T,
  name: NamedPadding,
  { kernel, stride, dilation }: Windows,
): { readonly x: T; readonly padding: readonly number[] } {
  if (name === 'valid') return { x, padding: kernel.map(() => 0) };
  if (stride.some((s) => s !== 1))
    throw new ArgumentError(
      `[${op}] padding 'same' takes a stride of 1, got ${stride.join('×')}. Give the padding in numbers.`,
    );
  const zeros = kernel.map((k, i) => dilation[i]! * (k - 1));
  const more = zeros.map((n) => [0, n % 2] as const);
  const isEven = zeros.every((n) => n % 2 === 0);
  return {
    x: isEven ? x : (x.pad([[0, 0], [0, 0], ...more]) as T),
    padding: zeros.map((n) => Math.floor(n / 2)),
  };
}

/** Options of `conv2d`. */
export interface Conv2dOptions {
  /** Default 1. */
  readonly stride?: Pair;
  /** Zeros around the image, on each side; default 0. */
  readonly padding?: Pair | NamedPadding;
  /** Distance between the taps of the kernel; default 1. */
  readonly dilation?: Pair;
  /** Channels in as many separate groups; default 1. */
  readonly groups?: number;
  /** How exactly products are computed; default: `getPrecision().conv`. */
  readonly precision?: Precision;
}

/** @internal */
export const CONV2D: Rules<Conv2dOptions> = {
  stride: aPair(1),
  padding: orNamed(aPair(0)),
  dilation: aPair(1),
  groups: integerFrom(1),
  precision: aPrecision,
};

/**
 * Cross-correlation of images with `weight`, plus `bias`.
 * @example
 * ```ts
 * import { conv2d, randn } from 'heddle';
 *
 * const images = randn([8, 3, 32, 32]);
 * const weight = randn([16, 3, 5, 5]);
 * console.log(conv2d(images, weight, undefined, { padding: 2, stride: 2 }).shape); // → [ 8, 16, 16, 16 ]
 * ```
 * @param x (N, C, H, W)
 * @param weight (O, C/groups, kH, kW)
 * @param bias (O)
 * @returns (N, O, outH, outW), out = ⌊(in + 2·padding − dilation·(k − 1) − 1) / stride⌋ + 1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function conv2d<T extends AnyTensor, W extends AnyTensor>(
  x: T,
  weight: W,
  bias?: AnyTensor,
  options: Conv2dOptions = {},
): Tensor<Convolved<ShapeOf<T>, ShapeOf<W>[0]>, DTypeOf<T>> {
  requireTensor('conv2d', 'x', x);
  requireTensor('conv2d', 'weight', weight);
  requireOptions('conv2d', options, CONV2D);
  const { padding = 0, precision = getPrecision().conv, ...rest } = options;
  const numbers = typeof padding === 'string' ? namedPair(x, weight, padding, rest) : { x, padding };
  const y = conv2dNode(forProduct(numbers.x.node), forProduct(weight.node), {
    ...rest,
    precision,
    padding: numbers.padding,
  });
  if (bias === undefined) return new Tensor(y);
  const outputs = weight.shape[0]!;
  requireBias('conv2d', x, bias, outputs);
  return new Tensor(new Tensor(y).add(bias.cast(y.dtype).reshape([outputs, 1, 1])).node);
}

/** @throws ShapeError, ArgumentError */
function namedPair<T extends AnyTensor>(
  x: T,
  weight: AnyTensor,
  name: NamedPadding,
  options: Conv2dOptions,
): { readonly x: T; readonly padding: Pair } {
  requireRank('conv2d', 'x', x, 4, '(N,C,H,W)');
  requireRank('conv2d', 'weight', weight, 4, '(O,C/groups,kH,kW)');
  const stride = pair('conv2d', 'stride', options.stride ?? 1, 1);
  const dilation = pair('conv2d', 'dilation', options.dilation ?? 1, 1);
  const all = byName('conv2d', x, name, { kernel: weight.shape.slice(2), stride, dilation });
  return { x: all.x, padding: all.padding as readonly [number, number] };
}

/** Options of `conv1d`. */
export interface Conv1dOptions {
  /** Default 1. */
  readonly stride?: number;
  /** Zeros before and after the signal; default 0. */
  readonly padding?: number | NamedPadding;
  /** Distance between the taps of the kernel; default 1. */
  readonly dilation?: number;
  /** Channels in as many separate groups; default 1. */
  readonly groups?: number;
  /** How exactly products are computed; default: `getPrecision().conv`. */
  readonly precision?: Precision;
}

/** @internal */
export const CONV1D: Rules<Conv1dOptions> = {
  stride: integerFrom(1),
  padding: orNamed(integerFrom(0)),
  dilation: integerFrom(1),
  groups: integerFrom(1),
  precision: aPrecision,
};

/** A number along a signal as the pair for an image of one row. @param across the number along the other dimension */
const along = (across: number, n: number | undefined): Pair | undefined =>
  n === undefined ? n : [across, n];

/** @internal Options of a signal for an image of one row. */
export const ofRow = <O extends Omit<Conv1dOptions, 'padding'> & { readonly padding?: number }>({
  stride,
  padding,
  dilation,
  ...rest
}: O) => ({
  stride: along(1, stride) ?? 1,
  padding: along(0, padding) ?? 0,
  dilation: along(1, dilation) ?? 1,
  ...rest,
});

/**
 * Cross-correlation of signals with `weight`, plus `bias`.
 * @param x (N, C, L)
 * @param weight (O, C/groups, k)
 * @param bias (O)
 * @returns (N, O, out), out = ⌊(L + 2·padding − dilation·(k − 1) − 1) / stride⌋ + 1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function conv1d<D extends DTypeName>(
  x: Tensor<Shape, D>,
  weight: AnyTensor,
  bias?: AnyTensor,
  options: Conv1dOptions = {},
): Tensor<Shape, D> {
  requireRank('conv1d', 'x', x, 3, '(N,C,L)');
  requireRank('conv1d', 'weight', weight, 3, '(O,C/groups,k)');
  requireOptions('conv1d', options, CONV1D);
  const { padding = 0, stride = 1, dilation = 1 } = options;
  const windows = { kernel: weight.shape.slice(2), stride: [stride], dilation: [dilation] };
  const all = typeof padding === 'string' ? byName('conv1d', x, padding, windows) : { x, padding: [padding] };
  const row = ofRow({ ...options, padding: all.padding[0]! });
  return conv2d(all.x.unsqueeze(2), weight.unsqueeze(2), bias, row).squeeze(2);
}

/** One number for all, or depth, height and width. */
export type Triple = number | readonly [number, number, number];

/** Options of `conv3d`. */
export interface Conv3dOptions {
  /** Default 1. */
  readonly stride?: Triple;
  /** Zeros around the volume, on each side; default 0. */
  readonly padding?: Triple | NamedPadding;
  /** Distance between the taps of the kernel; default 1. */
  readonly dilation?: Triple;
  /** Channels in as many separate groups; default 1. */
  readonly groups?: number;
  /** How exactly products are computed; default: `getPrecision().conv`. */
  readonly precision?: Precision;
}

/** @internal */
export const aTriple = (least: number): Rule => {
  const { must, holds } = integerFrom(least);
  return {
    must: `${must}, or three of them: [depth, height, width]`,
    holds: (v) => (Array.isArray(v) ? v.length === 3 && v.every(holds) : holds(v)),
  };
};

/** @internal */
export const CONV3D: Rules<Conv3dOptions> = {
  stride: aTriple(1),
  padding: orNamed(aTriple(0)),
  dilation: aTriple(1),
  groups: integerFrom(1),
  precision: aPrecision,
};

/** @internal @throws ArgumentError unless integers from `least` on */
export function triple(
  op: string,
  name: string,
  given: Triple,
  least: number,
): readonly [number, number, number] {
  requireArgument(op, name, given, aTriple(least));
  return typeof given === 'number' ? [given, given, given] : given;
}

/**
 * Cross-correlation of volumes with `weight`, plus `bias`: one convolution of images, whose channels are those of all the
 * slices that the kernel covers.
 * @param x (N, C, D, H, W)
 * @param weight (O, C/groups, kD, kH, kW)
 * @param bias (O)
 * @returns (N, O, outD, outH, outW), out = ⌊(in + 2·padding − dilation·(k − 1) − 1) / stride⌋ + 1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function conv3d<D extends DTypeName>(
  x: Tensor<Shape, D>,
  weight: AnyTensor,
  bias?: AnyTensor,
  options: Conv3dOptions = {},
): Tensor<Shape, D> {
  requireRank('conv3d', 'x', x, 5, '(N,C,D,H,W)');
  requireRank('conv3d', 'weight', weight, 5, '(O,C/groups,kD,kH,kW)');
  requireOptions('conv3d', options, CONV3D);
  if (typeof options.padding === 'string') {
    const stride = triple('conv3d', 'stride', options.stride ?? 1, 1);
    const dilation = triple('conv3d', 'dilation', options.dilation ?? 1, 1);
    const all = byName('conv3d', x, options.padding, { kernel: weight.shape.slice(2), stride, dilation });
    const padding = all.padding as readonly [number, number, number];
    return conv3d(all.x, weight, bias, { ...options, padding });
  }
  const [stride, ...strides] = triple('conv3d', 'stride', options.stride ?? 1, 1);
  const [padding, ...paddings] = triple('conv3d', 'padding', options.padding ?? 0, 0);
  const [dilation, ...dilations] = triple('conv3d', 'dilation', options.dilation ?? 1, 1);
  const { groups = 1, precision } = options;
  const [n, c, depth, height, width] = x.shape as [number, number, number, number, number];
  const [o, perGroup, kernel, ...kernels] = weight.shape as [number, number, number, number, number];
  if (c !== perGroup * groups || o % groups !== 0)
    throw new ShapeError(
      `[conv3d] channels do not fit: x ${formatShape(x.shape)}, weight ${formatShape(weight.shape)}, ${groups} ` +
        `group${groups === 1 ? '' : 's'}. weight must be (O, ${c}/groups, kD, kH, kW) with O a multiple of groups.`,
    );
  const slices = Math.floor((depth + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1;
  if (slices < 1)
    throw new ShapeError(
      `[conv3d] a kernel of depth ${kernel} (dilation ${dilation}) does not fit into depth ${depth} with padding ${padding}. Pad more, or use a smaller kernel.`,
    );
  const none = [0, 0] as const;
  const padded = x.pad([none, none, [padding, padding], none, none]);
  const taps = Array.from({ length: kernel }, (_, k) => {
    const first = k * dilation;
    return padded.at(':', ':', `${first}:${first + (slices - 1) * stride + 1}:${stride}`);
  });
  // (N, C, kD, outD, H, W) → (N·outD, C·kD, H, W)
  const images = stack(taps, 2)
    .permute([0, 3, 1, 2, 4, 5])
    .reshape([n * slices, c * kernel, height, width]);
  const y = conv2d(images, weight.reshape([o, perGroup * kernel, ...kernels]), bias, {
    stride: strides,
    padding: paddings,
    dilation: dilations,
    groups,
    ...(precision && { precision }),
  });
  const [outHeight, outWidth] = y.shape.slice(2) as [number, number];
  return y.reshape([n, slices, o, outHeight, outWidth]).permute([0, 2, 1, 3, 4]);
}
