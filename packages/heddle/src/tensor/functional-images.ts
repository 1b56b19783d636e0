/** Images of other sizes, and their windows as columns. Sources: PyTorch's torch.nn.functional. */
import {
  aBoolean,
  above,
  integerFrom,
  listOf,
  oneOf,
  type Rule,
  type Rules,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import type { DTypeName } from '../core/dtype.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { formatShape, type Shape, sizeOf } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { WindowArg } from '../graph/node.js';
import { aPair, outputSize, type Pair, pair } from '../ops/conv2d/op.js';
import { windowRepeatOp } from '../ops/window-sum/op.js';
import { type AnyTensor, requireFloat, requireIndexable, requireRank, requireTensor } from './checks.js';
import { tensor } from './create.js';
import { Tensor, widely } from './tensor.js';

/** Options of `interpolate`: either a size or a factor. */
export interface InterpolateOptions {
  /** Of the result: one number for all dimensions, or one for each. */
  readonly size?: number | readonly number[] | undefined;
  /** By what the size is multiplied, rounded down: one number, or one for each dimension. */
  readonly scaleFactor?: number | readonly number[] | undefined;
  /**
   * The element at the lower corner (default), the nearest one, a polynomial through 2 or 4 of them in each direction, or
   * the mean of those that an element of the result covers: 'area' is `adaptiveAvgPool2d` to the size.
   */
  readonly mode?: 'nearest' | 'nearest-exact' | 'linear' | 'bilinear' | 'bicubic' | 'area';
  /** Whether the first and the last elements stay where they are, not the outer edges (default false). */
  readonly alignCorners?: boolean;
}

const onceOrEach = (each: Rule): Rule => ({
  must: `${each.must}, or an array of these`,
  holds: (v) => each.holds(v) || (listOf(each).holds(v) && (v as unknown[]).length > 0),
});

const INTERPOLATE: Rules<InterpolateOptions> = {
  size: onceOrEach(integerFrom(1)),
  scaleFactor: onceOrEach(above(0)),
  mode: oneOf('nearest', 'nearest-exact', 'linear', 'bilinear', 'bicubic', 'area'),
  alignCorners: aBoolean,
};

/** @internal @throws ArgumentError unless exactly one of size and scaleFactor is given */
export function requireInterpolation(op: string, options: InterpolateOptions): void {
  requireOptions(op, options, INTERPOLATE);
  if ((options.size === undefined) === (options.scaleFactor === undefined))
    throw new ArgumentError(`[${op}] give either size or scaleFactor.`);
}

/** Of which dimensions inputs of a mode are. */
const RANKS = {
  ...{ nearest: [3, 4], 'nearest-exact': [3, 4], area: [3, 4] },
  ...{ linear: [3], bilinear: [4], bicubic: [4] },
} as const;
/** The modes that can be aligned at their corners. */
const POLYNOMIALS: readonly unknown[] = ['linear', 'bilinear', 'bicubic'];

/** A dimension before and after, and the distance of neighbours of the result in elements of x. */
interface Resize {
  readonly from: number;
  readonly to: number;
  readonly step: number;
}

/**
 * Signals or images of another size.
 * @example
 * ```ts
 * import { interpolate, randn } from 'heddle';
 *
 * const images = randn([1, 3, 16, 16]);
 * console.log(interpolate(images, { scaleFactor: 2, mode: 'bilinear' }).shape); // → [ 1, 3, 32, 32 ]
 * ```
 * @param x (N, C, L) for nearest, nearest-exact, area and linear, (N, C, H, W) for all modes but linear
 * @returns (N, C, …size)
 * @throws ShapeError, DTypeError, ArgumentError unless exactly one of size and scaleFactor is given
 */
export function interpolate<D extends DTypeName>(
  x: Tensor<Shape, D>,
  options: InterpolateOptions,
): Tensor<Shape, D> {
  requireFloat('interpolate', 'x', x);
  requireInterpolation('interpolate', options);
  const { mode = 'nearest', alignCorners = false } = options;
  if (!(RANKS[mode] as readonly number[]).includes(x.ndim))
    throw new ShapeError(
      `[interpolate] x is ${formatShape(x.shape)}, must have ${RANKS[mode].join(' or ')} dimensions for mode '${mode}'.`,
    );
  if (alignCorners && !POLYNOMIALS.includes(mode))
    throw new ArgumentError(
      "[interpolate] alignCorners is for the modes 'linear', 'bilinear' and 'bicubic'.",
    );
  const sizes = resizes(x, options, alignCorners);
  requireIndexable([...x.shape.slice(0, 2), ...sizes.map(({ to }) => to)]);
  const isNearest = mode === 'nearest' || mode === 'nearest-exact';
  if (isNearest && sizes.every(isRepeat)) return repeated(x, sizes);
  return sizes.reduce((y, resize, i) => {
    if (isNearest) return nearest(y, 2 + i, resize, mode === 'nearest' ? 0 : 0.5);
    const tapsOf = mode === 'area' ? areaTaps : mode === 'bicubic' ? cubicTaps : linearTaps;
    const taps = Array.from({ length: resize.to }, (_, at) => tapsOf(at, resize, alignCorners));
    return weighted(y, 2 + i, resize, taps);
  }, x);
}

function resizes(x: AnyTensor, { size, scaleFactor }: InterpolateOptions, alignCorners: boolean): Resize[] {
  const given = (size ?? scaleFactor)!;
  const dimensions = x.shape.slice(2);
  const each = typeof given === 'number' ? dimensions.map(() => given) : given;
  if (each.length !== dimensions.length)
    throw new ArgumentError(
      `[interpolate] ${size ? 'size' : 'scaleFactor'} has ${each.length} numbers, x ${formatShape(x.shape)} has ${dimensions.length} dimensions to resize.`,
    );
  return dimensions.map((from, i) => {
    const to = size === undefined ? Math.floor(from * each[i]!) : each[i]!;
    if (from === 0 || to === 0)
      throw new ShapeError(`[interpolate] cannot make ${to} of the ${from} elements of dimension ${2 + i}.`);
    const aligned = to > 1 ? (from - 1) / (to - 1) : 0;
    return { from, to, step: alignCorners ? aligned : size === undefined ? 1 / each[i]! : from / to };
  });
}

/** Whether each element stands for as many of the result. */
const isRepeat = ({ from, to, step }: Resize): boolean => to % from === 0 && step === from / to;

/** Every element as a block of the result: the gradient is one sum over all dimensions of the block. */
function repeated<D extends DTypeName>(x: Tensor<Shape, D>, sizes: readonly Resize[]): Tensor<Shape, D> {
  const [h, w] = sizes.map(({ from, to }) => to / from) as [number, number?];
  if (w !== undefined) return new Tensor(b.call(windowRepeatOp, [x.node], [h, w]));
  const row = b.call(windowRepeatOp, [x.unsqueeze(2).node], [1, h]);
  return new Tensor<Shape, D>(row).squeeze(2);
}

/** @param middle where in an element of the result its place in x is taken: 0 at its beginning */
function nearest<D extends DTypeName>(
  x: Tensor<Shape, D>,
  axis: number,
  resize: Resize,
  middle: number,
): Tensor<Shape, D> {
  const { from, to, step } = resize;
  if (isRepeat(resize)) return x.repeatInterleave(to / from, axis);
  const positions = Int32Array.from({ length: to }, (_, at) =>
    Math.min(from - 1, Math.floor((at + middle) * step)),
  );
  return x.at(...x.shape.slice(0, axis).map(() => ':'), tensor(positions));
}

/** Positions of x and their weights, for one element of the result. */
type Taps = readonly (readonly [position: number, weight: number])[];

/** Where an element of the result is, counted in elements of x. */
const placeOf = (at: number, { step }: Resize, alignCorners: boolean): number =>
  alignCorners ? at * step : (at + 0.5) * step - 0.5;

function linearTaps(at: number, resize: Resize, alignCorners: boolean): Taps {
  const place = Math.max(0, placeOf(at, resize, alignCorners));
  const before = Math.min(resize.from - 1, Math.floor(place));
  const share = place - before;
  return [
    [before, 1 - share],
    [Math.min(resize.from - 1, before + 1), share],
  ];
}

/** R. Keys, Cubic convolution interpolation (1981), with a = −0.75; the outermost elements are repeated. */
function cubicTaps(at: number, resize: Resize, alignCorners: boolean): Taps {
  const a = -0.75;
  const place = placeOf(at, resize, alignCorners);
  const before = Math.floor(place);
  return [-1, 0, 1, 2].map((offset) => {
    const d = Math.abs(place - before - offset);
    const weight = d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    return [Math.max(0, Math.min(resize.from - 1, before + offset)), weight];
  });
}

/** The elements that one of the result overlaps, each with the same weight. */
function areaTaps(at: number, { from, to }: Resize): Taps {
  const [first, end] = [Math.floor((at * from) / to), Math.ceil(((at + 1) * from) / to)];
  return Array.from({ length: end - first }, (_, i) => [first + i, 1 / (end - first)] as const);
}

/** Along an axis, sums of weighted elements: a product with a matrix, and so are its gradients. */
function weighted<D extends DTypeName>(
  x: Tensor<Shape, D>,
  axis: number,
  { from, to }: Resize,
  taps: readonly Taps[],
): Tensor<Shape, D> {
  const values = new Float64Array(from * to);
  taps.forEach((list, at) => {
    for (const [position, weight] of list) values[position * to + at]! += weight;
  });
  return widely((x) => {
    const matrix = tensor(values, { shape: [from, to], dtype: x.dtype });
    const exactly = { precision: 'f32' } as const;
    return axis === x.ndim - 1 ? x.matmul(matrix, exactly) : matrix.transpose().matmul(x, exactly);
  }, x);
}

/**
 * Channels to pixels: W. Shi et al., Real-time single image and video super-resolution (2016).
 * @param x (…, C·r², H, W)
 * @param upscaleFactor r, an integer ≥ 1
 * @returns (…, C, r·H, r·W)
 * @throws ShapeError, ArgumentError
 */
export function pixelShuffle<D extends DTypeName>(
  x: Tensor<Shape, D>,
  upscaleFactor: number,
): Tensor<Shape, D> {
  const [lead, c, h, w] = imageOf('pixelShuffle', 'upscaleFactor', x, upscaleFactor);
  const r = upscaleFactor;
  if (c % (r * r) !== 0)
    throw new ShapeError(
      `[pixelShuffle] x is ${formatShape(x.shape)}, its ${c} channels must be a multiple of ${r}².`,
    );
  return x
    .reshape([sizeOf(lead), c / (r * r), r, r, h, w])
    .permute([0, 1, 4, 2, 5, 3])
    .reshape([...lead, c / (r * r), h * r, w * r]);
}

/**
 * Pixels to channels: what `pixelShuffle` takes back.
 * @param x (…, C, r·H, r·W)
 * @param downscaleFactor r, an integer ≥ 1
 * @returns (…, C·r², H, W)
 * @throws ShapeError, ArgumentError
 */
export function pixelUnshuffle<D extends DTypeName>(
  x: Tensor<Shape, D>,
  downscaleFactor: number,
): Tensor<Shape, D> {
  const [lead, c, h, w] = imageOf('pixelUnshuffle', 'downscaleFactor', x, downscaleFactor);
  const r = downscaleFactor;
  if (h % r !== 0 || w % r !== 0)
    throw new ShapeError(
      `[pixelUnshuffle] x is ${formatShape(x.shape)}, its ${h}×${w} pixels must be multiples of ${r}.`,
    );
  return x
    .reshape([sizeOf(lead), c, h / r, r, w / r, r])
    .permute([0, 1, 3, 5, 2, 4])
    .reshape([...lead, c * r * r, h / r, w / r]);
}

function imageOf(
  op: string,
  name: string,
  x: AnyTensor,
  factor: number,
): readonly [lead: readonly number[], channels: number, height: number, width: number] {
  requireTensor(op, 'x', x);
  requireArgument(op, name, factor, integerFrom(1, 2 ** 15));
  if (x.ndim < 3) throw new ShapeError(`[${op}] x is ${formatShape(x.shape)}, must be (…, C, H, W).`);
  const [c, h, w] = x.shape.slice(-3) as [number, number, number];
  return [x.shape.slice(0, -3), c, h, w];
}

/** Options of `unfold` and `fold`. */
export interface UnfoldOptions {
  /** Default 1. */
  readonly stride?: Pair;
  /** Zeros around the image, on each side; default 0. */
  readonly padding?: Pair;
  /** Distance between the elements of a window; default 1. */
  readonly dilation?: Pair;
}

/** @internal */
export const UNFOLD: Rules<UnfoldOptions> = { stride: aPair(1), padding: aPair(0), dilation: aPair(1) };

/** Windows over images of this size, with their padding, and how many there are in each direction. */
function windowsOf(
  op: string,
  size: readonly [number, number],
  kernel: Pair,
  options: UnfoldOptions,
): {
  readonly arg: WindowArg;
  readonly padding: readonly [number, number];
  readonly places: readonly [number, number];
} {
  const arg = {
    kernel: pair(op, 'kernel', kernel, 1),
    stride: pair(op, 'stride', options.stride ?? 1, 1),
    dilation: pair(op, 'dilation', options.dilation ?? 1, 1),
  };
  const padding = pair(op, 'padding', options.padding ?? 0, 0);
  const places = outputSize({ ...arg, size, padding, groups: 1 });
  if (places.some((n) => n < 1))
    throw new ShapeError(
      `[${op}] a ${arg.kernel.join('×')} window does not fit into ${size.join('×')} with padding ${padding.join('×')}.`,
    );
  return { arg, padding, places };
}

/**
 * Each window as a column.
 * @param x floats (N, C, H, W)
 * @param kernel the window's size
 * @returns (N, C·kH·kW, L), L windows, row by row
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function unfold<D extends DTypeName>(
  x: Tensor<Shape, D>,
  kernel: Pair,
  options: UnfoldOptions = {},
): Tensor<Shape, D> {
  requireRank('unfold', 'x', x, 4, '(N,C,H,W)');
  requireFloat('unfold', 'x', x);
  requireOptions('unfold', options, UNFOLD);
  const [n, c, h, w] = x.shape as [number, number, number, number];
  const { arg, padding, places } = windowsOf('unfold', [h, w], kernel, options);
  const padded = x.pad([[0, 0], [0, 0], ...padding.map((p) => [p, p] as const)]);
  return new Tensor<Shape, D>(b.window(padded.node, arg))
    .permute([0, 1, 4, 5, 2, 3])
    .reshape([n, c * sizeOf(arg.kernel), sizeOf(places)]);
}

/**
 * The adjoint of `unfold`: columns as windows, which are summed where they overlap.
 * @param x floats (N, C·kH·kW, L), L as many windows as `unfold` makes of an image of that size
 * @param outputSize height and width of the images
 * @param kernel the window's size
 * @returns (N, C, …outputSize)
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function fold<D extends DTypeName>(
  x: Tensor<Shape, D>,
  outputSize: Pair,
  kernel: Pair,
  options: UnfoldOptions = {},
): Tensor<Shape, D> {
  requireRank('fold', 'x', x, 3, '(N,C·kH·kW,L)');
  requireFloat('fold', 'x', x);
  requireOptions('fold', options, UNFOLD);
  const size = pair('fold', 'outputSize', outputSize, 1);
  const { arg, padding, places } = windowsOf('fold', size, kernel, options);
  const [n, rows, columns] = x.shape as [number, number, number];
  const taps = sizeOf(arg.kernel);
  if (rows % taps !== 0 || columns !== sizeOf(places))
    throw new ShapeError(
      `[fold] x is ${formatShape(x.shape)}, must be (N, C·${taps}, ${sizeOf(places)}): ${places.join('×')} windows of ${arg.kernel.join('×')}.`,
    );
  const c = rows / taps;
  requireIndexable([n, c, ...size]);
  const windows = x.reshape([n, c, ...arg.kernel, ...places]).permute([0, 1, 4, 5, 2, 3]);
  const padded = size.map((d, i) => d + 2 * padding[i]!) as [number, number];
  const [ys, xs] = size.map((d, i) => `${padding[i]}:${padding[i]! + d}`) as [string, string];
  return new Tensor<Shape, D>(b.fold(windows.node, padded, arg)).at('...', ys, xs);
}
