/** Pooling as functions. Sources: PyTorch's torch.nn.functional. */
import { aBoolean, integerFrom, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import type { DTypeName } from '../core/dtype.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { formatShape, type Shape } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { WindowArg } from '../graph/node.js';
import { aPair, outputSize, type Pair, pair } from '../ops/conv2d/op.js';
import { MAX_POOL2D, type MaxPool2dOptions, maxPool2d as maxPool2dNode } from '../ops/max-pool2d/op.js';
import { windowSumOp } from '../ops/window-sum/op.js';
import { type AnyTensor, requireFloat, requireIndexable, requireRank, requireTensor } from './checks.js';
import { tensor } from './create.js';
import type { Pooled } from './shape-types.js';
import { type DTypeOf, type ShapeOf, Tensor, widely } from './tensor.js';

export { MAX_POOL2D, type MaxPool2dOptions } from '../ops/max-pool2d/op.js';

/**
 * The largest element of each window.
 * @example
 * ```ts
 * import { maxPool2d, randn } from 'heddle';
 *
 * console.log(maxPool2d(randn([8, 16, 28, 28]), 2).shape); // → [ 8, 16, 14, 14 ]
 * ```
 * @param x (N, C, H, W)
 * @param kernel the window's size
 * @returns (N, C, outH, outW), out = ⌊(in + 2·padding − dilation·(k − 1) − 1) / stride⌋ + 1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function maxPool2d<T extends AnyTensor>(
  x: T,
  kernel: Pair,
  options: MaxPool2dOptions = {},
): Tensor<Pooled<ShapeOf<T>>, DTypeOf<T>> {
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
export function avgPool2d<T extends AnyTensor>(
  x: T,
  kernel: Pair,
  options: AvgPool2dOptions = {},
): Tensor<Pooled<ShapeOf<T>>, DTypeOf<T>> {
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
  const isSideBySide = size.every((n, i) => arg.stride[i] === n && padding[i] === 0);
  const sums = (image: AnyTensor): AnyTensor => {
    if (isSideBySide) return new Tensor(b.call(windowSumOp, [image.node], size));
    const padded = image.pad([[0, 0], [0, 0], ...around]);
    return new Tensor(b.window(padded.node, arg)).sum([-2, -1]);
  };
  const means = widely(
    (x) =>
      (options.countIncludePad ?? true)
        ? sums(x).mul(1 / (size[0] * size[1]))
        : sums(x).div(sums(new Tensor(b.full([1, 1, ...image], x.dtype, 1)))),
    x,
  );
  return new Tensor(means.node);
}

/** Options of `maxPool1d`. */
export interface MaxPool1dOptions {
  /** Default: the kernel's size. */
  readonly stride?: number;
  /** −Infinity before and after the signal, at most half the kernel; default 0. */
  readonly padding?: number;
  /** Distance between the elements of a window; default 1. */
  readonly dilation?: number;
}

/** @internal */
export const MAX_POOL1D: Rules<MaxPool1dOptions> = {
  stride: integerFrom(1),
  padding: integerFrom(0),
  dilation: integerFrom(1),
};

/**
 * The largest element of each window of a signal.
 * @param x (N, C, L)
 * @returns (N, C, out), out = ⌊(L + 2·padding − dilation·(k − 1) − 1) / stride⌋ + 1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function maxPool1d<D extends DTypeName>(
  x: Tensor<Shape, D>,
  kernel: number,
  options: MaxPool1dOptions = {},
): Tensor<Shape, D> {
  requireRank('maxPool1d', 'x', x, 3, '(N,C,L)');
  requireArgument('maxPool1d', 'kernel', kernel, integerFrom(1));
  requireOptions('maxPool1d', options, MAX_POOL1D);
  const { stride = kernel, padding = 0, dilation = 1 } = options;
  const row = { stride: [1, stride], padding: [0, padding], dilation: [1, dilation] } as const;
  return maxPool2d(x.unsqueeze(2), [1, kernel], row).squeeze(2);
}

/** Options of `avgPool1d`. */
export interface AvgPool1dOptions {
  /** Default: the kernel's size. */
  readonly stride?: number;
  /** Zeros before and after the signal, at most half the kernel; default 0. */
  readonly padding?: number;
  /** Whether the zeros of the padding count in the mean (default true). */
  readonly countIncludePad?: boolean;
}

/** @internal */
export const AVG_POOL1D: Rules<AvgPool1dOptions> = {
  stride: integerFrom(1),
  padding: integerFrom(0),
  countIncludePad: aBoolean,
};

/**
 * The mean of each window of a signal.
 * @param x (N, C, L)
 * @returns (N, C, out), out = ⌊(L + 2·padding − k) / stride⌋ + 1
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function avgPool1d<D extends DTypeName>(
  x: Tensor<Shape, D>,
  kernel: number,
  options: AvgPool1dOptions = {},
): Tensor<Shape, D> {
  requireRank('avgPool1d', 'x', x, 3, '(N,C,L)');
  requireArgument('avgPool1d', 'kernel', kernel, integerFrom(1));
  requireOptions('avgPool1d', options, AVG_POOL1D);
  const { stride = kernel, padding = 0, countIncludePad = true } = options;
  const row = { stride: [1, stride], padding: [0, padding], countIncludePad } as const;
  return avgPool2d(x.unsqueeze(2), [1, kernel], row).squeeze(2);
}

/** Windows of a dimension that differ in size by one at most: [⌊i·n/out⌋, ⌈(i + 1)·n/out⌉). */
const adaptiveWindows = (n: number, out: number): readonly (readonly [from: number, to: number])[] =>
  Array.from({ length: out }, (_, i) => [Math.floor((i * n) / out), Math.ceil(((i + 1) * n) / out)]);

/** The kernel of windows that are all alike and do not overlap, if they are. */
const evenKernel = (x: AnyTensor, size: readonly [number, number]): readonly [number, number] | undefined => {
  const [height, width] = x.shape.slice(2) as [number, number];
  const isEven = height % size[0] === 0 && width % size[1] === 0 && height > 0 && width > 0;
  return isEven ? [height / size[0], width / size[1]] : undefined;
};

function requireAdaptive(op: string, x: AnyTensor, outputSize: Pair): readonly [number, number] {
  requireRank(op, 'x', x, 4, '(N,C,H,W)');
  requireFloat(op, 'x', x);
  const size = pair(op, 'outputSize', outputSize, 1);
  if (x.shape[2] === 0 || x.shape[3] === 0)
    throw new ShapeError(`[${op}] x is ${formatShape(x.shape)}: there is nothing to pool.`);
  requireIndexable([...x.shape.slice(0, 2), ...size]);
  return size;
}

/**
 * The mean of as many windows as asked for, in each direction: `adaptiveAvgPool2d(x, 1)` is the mean of each channel.
 * @param x (N, C, H, W)
 * @param outputSize of the result; window i reaches from ⌊i·in/out⌋ to ⌈(i + 1)·in/out⌉
 * @returns (N, C, outH, outW)
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function adaptiveAvgPool2d<D extends DTypeName>(
  x: Tensor<Shape, D>,
  outputSize: Pair,
): Tensor<Shape, D> {
  const size = requireAdaptive('adaptiveAvgPool2d', x, outputSize);
  if (size[0] === 1 && size[1] === 1) return x.mean([2, 3], { keepdim: true });
  const kernel = evenKernel(x, size);
  if (kernel) return avgPool2d(x, kernel);
  /** (in, out), 1 where an element is in a window. */
  const membership = (at: number): readonly [Tensor, Tensor] => {
    const n = x.shape[2 + at]!;
    const windows = adaptiveWindows(n, size[at]!);
    const rows = Array.from({ length: n }, (_, k) =>
      windows.map(([from, to]) => Number(k >= from && k < to)),
    );
    return [tensor(rows), tensor(windows.map(([from, to]) => to - from))];
  };
  const [rows, heights] = membership(0);
  const [columns, widths] = membership(1);
  return widely((x) => {
    const precision = { precision: 'f32' } as const;
    const sums = rows
      .transpose()
      .cast(x.dtype)
      .matmul(x.matmul(columns.cast(x.dtype), precision), precision);
    return sums.div(heights.unsqueeze(1).mul(widths).cast(x.dtype));
  }, x);
}

/**
 * The largest element of as many windows as asked for, in each direction.
 * @param x (N, C, H, W)
 * @param outputSize of the result; window i reaches from ⌊i·in/out⌋ to ⌈(i + 1)·in/out⌉
 * @returns (N, C, outH, outW)
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function adaptiveMaxPool2d<D extends DTypeName>(
  x: Tensor<Shape, D>,
  outputSize: Pair,
): Tensor<Shape, D> {
  const size = requireAdaptive('adaptiveMaxPool2d', x, outputSize);
  const kernel = evenKernel(x, size);
  if (kernel) return maxPool2d(x, kernel);
  // First the largest of each row of a window, then of these, so that of equal ones the first gets the gradient.
  return [3, 2].reduce((y, axis) => {
    const pieces = adaptiveWindows(y.shape[axis]!, size[axis - 2]!);
    const longest = Math.max(...pieces.map(([from, to]) => to - from));
    const positions = pieces.map(([from, to]) =>
      Array.from({ length: longest }, (_, k) => Math.min(from + k, to - 1)),
    );
    const last = axis === 3 ? y : y.transpose(2, 3);
    const windows = last.at(
      '...',
      tensor(Int32Array.from(positions.flat()), { shape: [pieces.length, longest] }),
    );
    const largest = windows.gather(-1, windows.argmax(-1, { keepdim: true })).squeeze(-1);
    return axis === 3 ? largest : largest.transpose(2, 3);
  }, x);
}

/** As `adaptiveAvgPool2d`, of signals (N, C, L) → (N, C, outputSize). @throws ShapeError, DTypeError, ArgumentError */
export function adaptiveAvgPool1d<D extends DTypeName>(
  x: Tensor<Shape, D>,
  outputSize: number,
): Tensor<Shape, D> {
  requireRank('adaptiveAvgPool1d', 'x', x, 3, '(N,C,L)');
  requireArgument('adaptiveAvgPool1d', 'outputSize', outputSize, integerFrom(1));
  return adaptiveAvgPool2d(x.unsqueeze(2), [1, outputSize]).squeeze(2);
}

/** As `adaptiveMaxPool2d`, of signals (N, C, L) → (N, C, outputSize). @throws ShapeError, DTypeError, ArgumentError */
export function adaptiveMaxPool1d<D extends DTypeName>(
  x: Tensor<Shape, D>,
  outputSize: number,
): Tensor<Shape, D> {
  requireRank('adaptiveMaxPool1d', 'x', x, 3, '(N,C,L)');
  requireArgument('adaptiveMaxPool1d', 'outputSize', outputSize, integerFrom(1));
  return adaptiveMaxPool2d(x.unsqueeze(2), [1, outputSize]).squeeze(2);
}
