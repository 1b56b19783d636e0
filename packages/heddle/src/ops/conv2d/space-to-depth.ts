/**
 * Strided convolutions of images of few channels, as networks begin with: a block of pixels, as large as the stride, becomes one
 * pixel with the channels of all of them, and a block of taps one tap. The stride is 1 then, and fewer of the channels that are
 * multiplied are padding: 7 × 7 taps of 3 channels with stride 2 are 4 × 4 of 16, not 7 × 7 of 8.
 */
import type { DType } from '../../core/dtype.js';
import type { Shape } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { GraphNode } from '../../graph/node.js';
import { missing } from '../../graph/rows.js';
import { depthOf } from '../matmul/warpgroup-layout.js';
import { type Conv2dArg, outputSize } from './arg.js';
import { COPY } from './last-product.js';

/** The dimension of an image's columns, with channels last. */
const COLUMNS = 2;

/** A convolution by blocks. */
export interface PixelBlocks {
  /** Pixels of a block, downwards and across, and channels that each has there. */
  readonly block: readonly [number, number];
  readonly channels: number;
  /** What of the convolution is another. */
  readonly arg: Pick<Conv2dArg, 'kernel' | 'padding' | 'size' | 'stride'>;
}

type Sides = Conv2dArg['kernel'];

/**
 * The convolution by blocks, if its products take fewer steps.
 * @param aligned channels that it would have otherwise
 */
export function blocksOf(
  arg: Conv2dArg,
  channels: number,
  aligned: number,
  dtype: DType,
): PixelBlocks | undefined {
  const { dilation, kernel, stride: block } = arg;
  const pixels = block[0] * block[1];
  if (pixels === 1 || dilation.some((n) => n !== 1)) return undefined;
  let each = channels;
  while ((each * pixels * dtype.bytes) % COPY !== 0) each++;
  const steps = ([rows, columns]: Sides, channels: number): number =>
    rows * Math.ceil((columns * channels) / depthOf(dtype));
  const taps = [Math.ceil(kernel[0] / block[0]), Math.ceil(kernel[1] / block[1])] as const;
  if (steps(taps, pixels * each) >= steps(kernel, aligned)) return undefined;
  const [rows, columns] = outputSize(arg);
  const size = [rows + taps[0] - 1, columns + taps[1] - 1] as const;
  return { block, channels: each, arg: { kernel: taps, padding: [0, 0], size, stride: [1, 1] } };
}

/** With zeros after its values until the sizes along `axes` are aligned: they add nothing. And so many columns around them. */
export function aligned(x: GraphNode, axes: readonly number[], beside = 0): GraphNode {
  const around = x.shape.map((_, i) => (i === COLUMNS ? beside : 0));
  const after = x.shape.map((d, i) => around[i]! + (axes.includes(i) ? missing(d, x.dtype) : 0));
  return b.pad(x, around, after);
}

/** The first elements along every dimension. */
export const cut = (x: GraphNode, shape: Shape): GraphNode =>
  b.slice(
    x,
    shape.map(() => 0),
    shape,
  );

/** Rows and columns of pixels, and the rows and columns in a block, change places: (N, H, h, W, w, C) and (N, H, W, h, w, C). */
const AROUND = [0, 1, 3, 2, 4, 5] as const;

/** (N, rows, columns, C) as so many blocks, with zeros around it. */
export function toBlocks(
  x: GraphNode,
  before: Sides,
  [H, W]: Sides,
  { block: [h, w], channels }: PixelBlocks,
): GraphNode {
  const [n, rows, columns, c] = x.shape as [number, number, number, number];
  const all = [n, H * h, W * w, channels];
  const after = [0, H * h - rows - before[0], W * w - columns - before[1], channels - c];
  const around = b.pad(
    x,
    [0, ...before, 0],
    after.map((n) => Math.max(0, n)),
  );
  return b.reshape(b.permute(b.reshape(cut(around, all), [n, H, h, W, w, channels]), AROUND), [
    n,
    H,
    W,
    h * w * channels,
  ]);
}

/** Back to (N, rows, columns, C). */
export function fromBlocks(x: GraphNode, { block: [h, w], channels }: PixelBlocks): GraphNode {
  const [n, H, W] = x.shape as [number, number, number];
  return b.reshape(b.permute(b.reshape(x, [n, H, W, h, w, channels]), AROUND), [n, H * h, W * w, channels]);
}
