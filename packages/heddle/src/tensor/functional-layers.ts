/** What layers compute, as functions. Sources: PyTorch's torch.nn.functional. */
import {
  aBoolean,
  integerFrom,
  type Rules,
  requireArgument,
  requireOptions,
  within,
} from '../core/arguments.js';
import { type DTypeName, f32 } from '../core/dtype.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { formatShape } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { WindowArg } from '../graph/node.js';
import {
  aPair,
  CONV2D,
  type Conv2dOptions,
  conv2d as conv2dNode,
  outputSize,
  type Pair,
  pair,
} from '../ops/conv2d/op.js';
import { MAX_POOL2D, type MaxPool2dOptions, maxPool2d as maxPool2dNode } from '../ops/max-pool2d/op.js';
import { forProduct } from './autocast.js';
import {
  type AnyTensor,
  requireFloat,
  requireLabels,
  requireRank,
  requireSameDtype,
  requireTensor,
} from './checks.js';
import { getPrecision } from './precision.js';
import { rand } from './random.js';
import { MATMUL, type MatmulOptions, Tensor, widely } from './tensor.js';

export { CONV2D, type Conv2dOptions, type Pair, pair } from '../ops/conv2d/op.js';
export { MAX_POOL2D, type MaxPool2dOptions } from '../ops/max-pool2d/op.js';

function requireBias(op: string, x: AnyTensor, bias: AnyTensor, size: number): void {
  requireSameDtype(op, 'x', x, 'bias', bias);
  if (bias.ndim !== 1 || bias.shape[0] !== size)
    throw new ShapeError(`[${op}] bias is ${formatShape(bias.shape)}, must be (${size}): one per output.`);
}

/**
 * x · weightᵀ + bias.
 * @param x (…, in)
 * @param weight (out, in)
 * @param bias (out)
 * @param options.precision of the product and of those for its gradients; default: `getPrecision().matmul`
 * @returns (…, out)
 * @throws ShapeError, DTypeError
 */
export function linear<D extends DTypeName>(
  x: Tensor<D>,
  weight: AnyTensor,
  bias?: AnyTensor,
  options: MatmulOptions = {},
): Tensor<D> {
  requireOptions('linear', options, MATMUL);
  requireRank('linear', 'weight', weight, 2, '(out, in)');
  requireSameDtype('linear', 'x', x, 'weight', weight);
  const [outputs, inputs] = weight.shape as [number, number];
  if (x.ndim === 0 || x.shape.at(-1) !== inputs)
    throw new ShapeError(
      `[linear] x is ${formatShape(x.shape)}, weight (${outputs},${inputs}): the last size of x must be ${inputs}. ` +
        'Flatten images first: .flatten(1).',
    );
  const rows = x.ndim === 1 ? x.unsqueeze(0) : x;
  const product = rows.matmul(weight.transpose(), options);
  if (bias !== undefined) requireBias('linear', x, bias, outputs);
  const y = bias ? product.add(bias.cast(product.dtype)) : product;
  return x.ndim === 1 ? y.squeeze(0) : y;
}

/**
 * Cross-correlation of images with `weight`, plus `bias`.
 * @param x (N, C, H, W)
 * @param weight (O, C/groups, kH, kW)
 * @param bias (O)
 * @returns (N, O, outH, outW), out = ⌊(in + 2·padding − dilation·(k − 1) − 1) / stride⌋ + 1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function conv2d<D extends DTypeName>(
  x: Tensor<D>,
  weight: AnyTensor,
  bias?: AnyTensor,
  options: Conv2dOptions = {},
): Tensor<D> {
  requireTensor('conv2d', 'x', x);
  requireTensor('conv2d', 'weight', weight);
  requireOptions('conv2d', options, CONV2D);
  const precision = options.precision ?? getPrecision().conv;
  const y = new Tensor<D>(conv2dNode(forProduct(x.node), forProduct(weight.node), { ...options, precision }));
  if (bias === undefined) return y;
  const outputs = weight.shape[0]!;
  requireBias('conv2d', x, bias, outputs);
  return y.add(bias.cast(y.dtype).reshape([outputs, 1, 1])) as Tensor<D>;
}

/**
 * The largest element of each window.
 * @param x (N, C, H, W)
 * @param kernel the window's size
 * @returns (N, C, outH, outW), out = ⌊(in + 2·padding − dilation·(k − 1) − 1) / stride⌋ + 1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function maxPool2d<D extends DTypeName>(
  x: Tensor<D>,
  kernel: Pair,
  options: MaxPool2dOptions = {},
): Tensor<D> {
  requireTensor('maxPool2d', 'x', x);
  requireOptions('maxPool2d', options, MAX_POOL2D);
  return new Tensor(maxPool2dNode(x.node, kernel, options));
}

/** Options of `avgPool2d`. */
export interface AvgPool2dOptions {
  /** Default: the kernel's size, so that windows do not overlap. */
  readonly stride?: Pair;
  /** Zeros around the image, on each side, at most half the kernel; default 0. */
  readonly padding?: Pair;
  /** Whether the zeros of the padding count in the mean (default true). */
  readonly countIncludePad?: boolean;
}

/** @internal */
export const AVG_POOL2D: Rules<AvgPool2dOptions> = {
  stride: aPair(1),
  padding: aPair(0),
  countIncludePad: aBoolean,
};

/**
 * The mean of each window.
 * @param x (N, C, H, W)
 * @returns (N, C, outH, outW), out = ⌊(in + 2·padding − k) / stride⌋ + 1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function avgPool2d<D extends DTypeName>(
  x: Tensor<D>,
  kernel: Pair,
  options: AvgPool2dOptions = {},
): Tensor<D> {
  requireRank('avgPool2d', 'x', x, 4, '(N,C,H,W)');
  requireFloat('avgPool2d', 'x', x);
  requireOptions('avgPool2d', options, AVG_POOL2D);
  const size = pair('avgPool2d', 'kernel', kernel, 1);
  const padding = pair('avgPool2d', 'padding', options.padding ?? 0, 0);
  const arg: WindowArg = {
    kernel: size,
    stride: pair('avgPool2d', 'stride', options.stride ?? size, 1),
    dilation: [1, 1],
  };
  if (padding.some((p, i) => p > size[i]! / 2))
    throw new ArgumentError(
      `[avgPool2d] padding ${padding.join('×')} is more than half the kernel ${size.join('×')}. Pad less.`,
    );
  const image = [x.shape[2]!, x.shape[3]!] as const;
  if (outputSize({ ...arg, size: image, padding, groups: 1 }).some((n) => n < 1))
    throw new ShapeError(
      `[avgPool2d] a ${size.join('×')} window does not fit into ${image.join('×')} with padding ${padding.join('×')}.`,
    );
  const around = padding.map((p) => [p, p] as const);
  const sums = (image: AnyTensor): AnyTensor => {
    const padded = image.pad([[0, 0], [0, 0], ...around]);
    return new Tensor(b.window(padded.node, arg)).sum([-2, -1]);
  };
  return widely(
    (x) =>
      (options.countIncludePad ?? true)
        ? sums(x).mul(1 / (size[0] * size[1]))
        : sums(x).div(sums(new Tensor(b.full([1, 1, ...image], x.dtype, 1)))),
    x,
  );
}

/** Options of `dropout`. */
export interface DropoutOptions {
  /** The probability that an element becomes 0: 0 to 1, default 0.5. */
  readonly p?: number;
  /** Whether anything is dropped at all (default true). */
  readonly training?: boolean;
}

/** @internal */
export const DROPOUT: Rules<DropoutOptions> = { p: within(0, 1), training: aBoolean };

/**
 * In training, each element becomes 0 with probability p, the others are divided by 1 − p; otherwise x unchanged.
 * @param x floats, any shape
 * @throws ArgumentError if p is outside 0 … 1, DTypeError
 */
export function dropout<D extends DTypeName>(x: Tensor<D>, options: DropoutOptions = {}): Tensor<D> {
  requireFloat('dropout', 'x', x);
  requireOptions('dropout', options, DROPOUT);
  const { p = 0.5, training = true } = options;
  if (!training || p === 0) return x;
  if (p === 1) return x.mul(0);
  const kept = rand(x.shape).ge(p);
  return widely((x) => kept.where(x.mul(1 / (1 - p)), 0), x);
}

/**
 * 1 where the class is the label, 0 elsewhere.
 * @param labels i32, any shape (…), each 0 … classes−1; others give a row of zeros
 * @returns f32 (…, classes)
 */
export function oneHot(labels: AnyTensor, classes: number): Tensor<'f32'> {
  requireLabels('oneHot', labels);
  requireArgument('oneHot', 'classes', classes, integerFrom(1));
  const shape = [...labels.shape, classes];
  return new Tensor(b.iota(shape, labels.ndim)).eq(labels.unsqueeze(-1)).cast(f32);
}
