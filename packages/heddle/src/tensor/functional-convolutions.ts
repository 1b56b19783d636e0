/** Convolutions as functions, in one to three dimensions, and their adjoints. Sources: PyTorch's torch.nn.functional. */
import { integerFrom, type Rule, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import type { DTypeName } from '../core/dtype.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { aPrecision, type Precision } from '../core/precision.js';
import { formatShape, type Shape } from '../core/shape.js';
import * as b from '../graph/build.js';
import {
  CONV2D,
  type Conv2dArg,
  type Conv2dOptions,
  conv2dInputOp,
  conv2d as conv2dNode,
  type Pair,
  pair,
} from '../ops/conv2d/op.js';
import { forProduct } from './autocast.js';
import {
  type AnyTensor,
  requireBias,
  requireFloat,
  requireRank,
  requireSameDtype,
  requireTensor,
} from './checks.js';
import { stack } from './create.js';
import { getPrecision } from './precision.js';
import type { Convolved } from './shape-types.js';
import { type DTypeOf, type ShapeOf, Tensor } from './tensor.js';

export { CONV2D, type Conv2dOptions, type Pair, pair } from '../ops/conv2d/op.js';

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
  const precision = options.precision ?? getPrecision().conv;
  const y = conv2dNode(forProduct(x.node), forProduct(weight.node), { ...options, precision });
  if (bias === undefined) return new Tensor(y);
  const outputs = weight.shape[0]!;
  requireBias('conv2d', x, bias, outputs);
  return new Tensor(new Tensor(y).add(bias.cast(y.dtype).reshape([outputs, 1, 1])).node);
}

/** Options of `conv1d`. */
export interface Conv1dOptions {
  /** Default 1. */
  readonly stride?: number;
  /** Zeros before and after the signal; default 0. */
  readonly padding?: number;
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
  padding: integerFrom(0),
  dilation: integerFrom(1),
  groups: integerFrom(1),
  precision: aPrecision,
};

/** A number along a signal as the pair for an image of one row. @param across the number along the other dimension */
const along = (across: number, n: number | undefined): Pair | undefined =>
  n === undefined ? n : [across, n];

/** Options of a signal for an image of one row. */
const ofRow = ({ stride, padding, dilation, ...rest }: Conv1dOptions): Conv2dOptions => ({
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
  return conv2d(x.unsqueeze(2), weight.unsqueeze(2), bias, ofRow(options)).squeeze(2);
}

/** One number for all, or depth, height and width. */
export type Triple = number | readonly [number, number, number];

/** Options of `conv3d`. */
export interface Conv3dOptions {
  /** Default 1. */
  readonly stride?: Triple;
  /** Zeros around the volume, on each side; default 0. */
  readonly padding?: Triple;
  /** Distance between the taps of the kernel; default 1. */
  readonly dilation?: Triple;
  /** Channels in as many separate groups; default 1. */
  readonly groups?: number;
  /** How exactly products are computed; default: `getPrecision().conv`. */
  readonly precision?: Precision;
}

const aTriple = (least: number): Rule => {
  const { must, holds } = integerFrom(least);
  return {
    must: `${must}, or three of them: [depth, height, width]`,
    holds: (v) => (Array.isArray(v) ? v.length === 3 && v.every(holds) : holds(v)),
  };
};

/** @internal */
export const CONV3D: Rules<Conv3dOptions> = {
  stride: aTriple(1),
  padding: aTriple(0),
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

/** Options of `convTranspose2d`. */
export interface ConvTranspose2dOptions extends Conv2dOptions {
  /** Rows and columns more at the end, less than the stride or the dilation; default 0. */
  readonly outputPadding?: Pair;
}

/** @internal */
export const CONV_TRANSPOSE2D: Rules<ConvTranspose2dOptions> = { ...CONV2D, outputPadding: CONV2D.padding };

/**
 * The adjoint of `conv2d` in its images, plus `bias`: each pixel of x adds the kernel to a window of the result.
 * @param x (N, C, H, W)
 * @param weight (C, O/groups, kH, kW)
 * @param bias (O)
 * @returns (N, O, outH, outW), out = (in − 1)·stride − 2·padding + dilation·(k − 1) + outputPadding + 1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function convTranspose2d<D extends DTypeName>(
  x: Tensor<Shape, D>,
  weight: AnyTensor,
  bias?: AnyTensor,
  options: ConvTranspose2dOptions = {},
): Tensor<Shape, D> {
  requireOptions('convTranspose2d', options, CONV_TRANSPOSE2D);
  requireRank('convTranspose2d', 'x', x, 4, '(N,C,H,W)');
  requireRank('convTranspose2d', 'weight', weight, 4, '(C,O/groups,kH,kW)');
  requireSameDtype('convTranspose2d', 'x', x, 'weight', weight);
  requireFloat('convTranspose2d', 'x', x);
  const of = (name: 'stride' | 'padding' | 'dilation' | 'outputPadding', least: 0 | 1) =>
    pair('convTranspose2d', name, options[name] ?? least, least);
  const { groups = 1, precision = getPrecision().conv } = options;
  const [stride, padding, dilation, extra] = [
    of('stride', 1),
    of('padding', 0),
    of('dilation', 1),
    of('outputPadding', 0),
  ];
  const [, channels, height, width] = x.shape as [number, number, number, number];
  const [from, perGroup, kernelHeight, kernelWidth] = weight.shape as [number, number, number, number];
  if (channels !== from || channels % groups !== 0)
    throw new ShapeError(
      `[convTranspose2d] channels do not fit: x ${formatShape(x.shape)}, weight ${formatShape(weight.shape)}, ${groups} ` +
        `group${groups === 1 ? '' : 's'}. weight must be (${channels}, O/groups, kH, kW), and groups divide ${channels}.`,
    );
  if (extra.some((e, i) => e >= Math.max(stride[i]!, dilation[i]!)))
    throw new ArgumentError(
      `[convTranspose2d] outputPadding ${extra.join('×')} must be less than the stride ${stride.join('×')} or the dilation ${dilation.join('×')}.`,
    );
  const kernel = [kernelHeight, kernelWidth] as const;
  const size = [height, width].map(
    (d, i) => (d - 1) * stride[i]! - 2 * padding[i]! + dilation[i]! * (kernel[i]! - 1) + extra[i]! + 1,
  ) as [number, number];
  if (size.some((d) => d < 1))
    throw new ShapeError(
      `[convTranspose2d] x ${formatShape(x.shape)} with padding ${padding.join('×')} makes the result empty: ${size.join('×')}. Pad less.`,
    );
  const y = extra.every((e, i) => e < stride[i]!)
    ? new Tensor<Shape, D>(
        b.call(conv2dInputOp, [forProduct(x.node), forProduct(weight.node)], {
          size,
          kernel,
          stride,
          padding,
          dilation,
          groups,
          precision,
        } satisfies Conv2dArg),
      )
    : cutOut(convTranspose2d(x, weight, undefined, { stride, dilation, groups, precision }), padding, size);
  if (bias === undefined) return y;
  requireBias('convTranspose2d', x, bias, perGroup * groups);
  return y.add(bias.cast(y.dtype).reshape([perGroup * groups, 1, 1])) as Tensor<Shape, D>;
}

/** The part of images that begins at `from` and has this size; beyond them 0. */
function cutOut<D extends DTypeName>(
  x: Tensor<Shape, D>,
  from: readonly [number, number],
  size: readonly [number, number],
): Tensor<Shape, D> {
  const missing = size.map((n, i) => [0, Math.max(0, from[i]! + n - x.shape[2 + i]!)] as const);
  const [rows, columns] = size.map((n, i) => `${from[i]}:${from[i]! + n}`) as [string, string];
  return x.pad([[0, 0], [0, 0], ...missing]).at('...', rows, columns);
}

/** Options of `convTranspose1d`. */
export interface ConvTranspose1dOptions extends Conv1dOptions {
  /** Elements more at the end, less than the stride or the dilation; default 0. */
  readonly outputPadding?: number;
}

/** @internal */
export const CONV_TRANSPOSE1D: Rules<ConvTranspose1dOptions> = { ...CONV1D, outputPadding: CONV1D.padding };

/**
 * The adjoint of `conv1d` in its signals, plus `bias`.
 * @param x (N, C, L)
 * @param weight (C, O/groups, k)
 * @param bias (O)
 * @returns (N, O, out), out = (L − 1)·stride − 2·padding + dilation·(k − 1) + outputPadding + 1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function convTranspose1d<D extends DTypeName>(
  x: Tensor<Shape, D>,
  weight: AnyTensor,
  bias?: AnyTensor,
  options: ConvTranspose1dOptions = {},
): Tensor<Shape, D> {
  requireRank('convTranspose1d', 'x', x, 3, '(N,C,L)');
  requireRank('convTranspose1d', 'weight', weight, 3, '(C,O/groups,k)');
  requireOptions('convTranspose1d', options, CONV_TRANSPOSE1D);
  const { outputPadding = 0, ...rest } = options;
  const row = { ...ofRow(rest), outputPadding: [0, outputPadding] as const };
  return convTranspose2d(x.unsqueeze(2), weight.unsqueeze(2), bias, row).squeeze(2);
}
