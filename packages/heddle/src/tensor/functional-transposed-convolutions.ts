/** Transposed convolutions as functions, in one to three dimensions. Sources: PyTorch's torch.nn.functional. */
import { integerFrom, type Rules, requireOptions } from '../core/arguments.js';
import type { DTypeName } from '../core/dtype.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { formatShape, type Shape } from '../core/shape.js';
import * as b from '../graph/build.js';
import { aPair, type Conv2dArg, conv2dInputOp } from '../ops/conv2d/op.js';
import { forProduct } from './autocast.js';
import { type AnyTensor, requireBias, requireFloat, requireRank, requireSameDtype } from './checks.js';
import {
  aTriple,
  CONV1D,
  CONV2D,
  CONV3D,
  type Conv1dOptions,
  type Conv2dOptions,
  type Conv3dOptions,
  ofRow,
  type Pair,
  pair,
  type Triple,
  triple,
} from './functional-convolutions.js';
import { getPrecision } from './precision.js';
import { Tensor } from './tensor.js';

/** Options of `convTranspose2d`. */
export interface ConvTranspose2dOptions extends Conv2dOptions {
  /** Zeros less around the result, on each side; default 0. */
  readonly padding?: Pair;
  /** Rows and columns more at the end, less than the stride or the dilation; default 0. */
  readonly outputPadding?: Pair;
}

/** @internal */
export const CONV_TRANSPOSE2D: Rules<ConvTranspose2dOptions> = {
  ...CONV2D,
  padding: aPair(0),
  outputPadding: aPair(0),
};

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

/** The part of images or volumes that begins at `from` and has this size; beyond them 0. */
function cutOut<D extends DTypeName>(
  x: Tensor<Shape, D>,
  from: readonly number[],
  size: readonly number[],
): Tensor<Shape, D> {
  const missing = size.map((n, i) => [0, Math.max(0, from[i]! + n - x.shape[2 + i]!)] as const);
  const parts = size.map((n, i) => `${from[i]}:${from[i]! + n}`);
  return x.pad([[0, 0], [0, 0], ...missing]).at('...', ...parts);
}

/** Options of `convTranspose1d`. */
export interface ConvTranspose1dOptions extends Conv1dOptions {
  /** Elements less before and after the result; default 0. */
  readonly padding?: number;
  /** Elements more at the end, less than the stride or the dilation; default 0. */
  readonly outputPadding?: number;
}

/** @internal */
export const CONV_TRANSPOSE1D: Rules<ConvTranspose1dOptions> = {
  ...CONV1D,
  padding: integerFrom(0),
  outputPadding: integerFrom(0),
};

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

/** Options of `convTranspose3d`. */
export interface ConvTranspose3dOptions extends Conv3dOptions {
  /** Slices, rows and columns less on each side of the result; default 0. */
  readonly padding?: Triple;
  /** Slices, rows and columns more at the end, less than the stride or the dilation; default 0. */
  readonly outputPadding?: Triple;
}

/** @internal */
export const CONV_TRANSPOSE3D: Rules<ConvTranspose3dOptions> = {
  ...CONV3D,
  padding: aTriple(0),
  outputPadding: aTriple(0),
};

/**
 * The adjoint of `conv3d` in its volumes, plus `bias`: one transposed convolution of images, whose channels are those of all
 * the slices that the kernel covers; slices that meet are added up.
 * @param x (N, C, D, H, W)
 * @param weight (C, O/groups, kD, kH, kW)
 * @param bias (O)
 * @returns (N, O, outD, outH, outW), out = (in − 1)·stride − 2·padding + dilation·(k − 1) + outputPadding + 1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function convTranspose3d<D extends DTypeName>(
  x: Tensor<Shape, D>,
  weight: AnyTensor,
  bias?: AnyTensor,
  options: ConvTranspose3dOptions = {},
): Tensor<Shape, D> {
  const op = 'convTranspose3d';
  requireRank(op, 'x', x, 5, '(N,C,D,H,W)');
  requireRank(op, 'weight', weight, 5, '(C,O/groups,kD,kH,kW)');
  requireOptions(op, options, CONV_TRANSPOSE3D);
  const [stride, ...strides] = triple(op, 'stride', options.stride ?? 1, 1);
  const [padding, ...paddings] = triple(op, 'padding', options.padding ?? 0, 0);
  const [dilation, ...dilations] = triple(op, 'dilation', options.dilation ?? 1, 1);
  const [extra, ...extras] = triple(op, 'outputPadding', options.outputPadding ?? 0, 0);
  const { groups = 1, precision } = options;
  const [n, c, depth, height, width] = x.shape as [number, number, number, number, number];
  const [from, perGroup, kernel, ...kernels] = weight.shape as [number, number, number, number, number];
  if (extra >= Math.max(stride, dilation))
    throw new ArgumentError(
      `[${op}] outputPadding ${extra} must be less than the stride ${stride} or the dilation ${dilation}.`,
    );
  const covered = (depth - 1) * stride + dilation * (kernel - 1) + 1;
  const slices = covered - 2 * padding + extra;
  if (slices < 1)
    throw new ShapeError(
      `[${op}] x ${formatShape(x.shape)} with padding ${padding} makes the result empty: ${slices} slices. Pad less.`,
    );
  // (N, C, D, H, W) → (N·D, C, H, W) → (N·D, O·kD, outH, outW)
  const images = x.permute([0, 2, 1, 3, 4]).reshape([n * depth, c, height, width]);
  const taps = convTranspose2d(images, weight.reshape([from, perGroup * kernel, ...kernels]), undefined, {
    stride: strides,
    padding: paddings,
    dilation: dilations,
    outputPadding: extras,
    groups,
    ...(precision && { precision }),
  });
  const outputs = perGroup * groups;
  const [outHeight, outWidth] = taps.shape.slice(2) as [number, number];
  const places = taps.reshape([n, depth, outputs, kernel, outHeight, outWidth]).permute([0, 2, 4, 5, 1, 3]);
  const folded = b.fold(
    b.reshape(places.node, [n, outputs, outHeight, outWidth, depth, 1, kernel, 1]),
    [covered, 1],
    { kernel: [kernel, 1], stride: [stride, 1], dilation: [dilation, 1] },
  );
  const volumes = new Tensor<Shape, D>(b.reshape(folded, [n, outputs, outHeight, outWidth, covered])).permute(
    [0, 1, 4, 2, 3],
  );
  const y = cutOut(volumes, [padding, 0, 0], [slices, outHeight, outWidth]);
  if (bias === undefined) return y;
  requireBias(op, x, bias, outputs);
  return y.add(bias.cast(y.dtype).reshape([outputs, 1, 1, 1])) as Tensor<Shape, D>;
}
