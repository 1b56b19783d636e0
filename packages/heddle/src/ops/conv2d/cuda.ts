/**
 * Convolution on a GPU, and its adjoint in the image: implicit GEMM with the image's tile in shared memory. f32.
 *
 * A block computes CHANNELS output channels × the pixels of its tile; the sum runs over taps and input channels, a
 * few channels at a time (all at once where they fit). For each tap the copy of the image is read at another offset:
 * nothing like im2col is ever written, not even to shared memory.
 *
 * A thread sums 4·r channels × c pixels in registers. The lanes of a warp have neighbouring pixels, so that image
 * reads and stores are contiguous, and the same channels, so that weights are broadcasts of 4. Followed by max pooling of
 * 2 × 2 they have neighbouring windows, so that the largest is found in registers, and only it is stored.
 *
 * The adjoint is the same kernel on the outputs' gradient: kernel turned by half a turn, channels exchanged, zeros
 * between the pixels for strides.
 *
 * H200, µs, 64 images of 16 × 26 × 26 with 32 kernels of 3 × 3 (340 MFLOP): 30 with one warp in a block, which waits for
 * its own copies; 21 with two, more of them resident. 256 × 64 × 32² with 64 kernels: 610 (32 TFLOP/s).
 */
import { f32 } from '../../core/dtype.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import {
  type CudaConvolution,
  copyImage,
  type ImageTile,
  imageLayout,
  imageSpan,
  pixelOffset,
  tapOffset,
  tilesOf,
} from './cuda-image.js';
import { copyWeights, weightCopy } from './cuda-weights.js';

export interface CudaConvolve extends CudaConvolution {
  /** Where the weights begin, (outputs, inputs, …) of the forward direction in both. */
  readonly weightOffset: number;
  /** (value, image, channel, row, column) → the value to store. */
  readonly finish: IrFunction;
  /** Store only the largest of each 2 × 2 values. `outSize` is even; `finish` is told rows and columns of windows. */
  readonly pooled?: boolean;
  /** (position, image, channel, row, column): keeps where in its window the first of the largest was; 4 beside NaN. */
  readonly save?: IrFunction | undefined;
}

/** How the work is cut. */
export interface ConvolveTile extends ImageTile {
  /** Warps along the output's channels and along its pixels. */
  readonly warps: readonly [number, number];
  /** A thread's channels and pixels. */
  readonly each: readonly [number, number];
}

/** Output channels and pixels of a block, as its warps cover them. */
export const coverOf = ({ warps, each }: ConvolveTile): readonly [number, number] => [
  warps[0] * each[0],
  warps[1] * each[1] * 32,
];

function weightsOf(p: CudaConvolve, tile: ConvolveTile) {
  const [channels] = coverOf(tile);
  const depth = tile.channels * p.kernel[0] * p.kernel[1];
  const pitch = channels + 4;
  return { channels, depth, pitch, weights: depth * pitch };
}

/** Bytes of shared memory that a block takes. */
export const sharedBytesOf = (p: CudaConvolve, tile: ConvolveTile): number =>
  4 * (weightsOf(p, tile).weights + imageSpan(p, tile).floats);

/** What `storeWindow` finds in a kernel's constants. */
type Windows = Intrinsics & {
  readonly GROUPS: number;
  readonly OUTPUTS: number;
  readonly OH: number;
  readonly OW: number;
  readonly SAVES: boolean;
  readonly save: IrFunction;
  readonly finish: IrFunction;
};

/**
 * Store the largest value of the window at row r and column c of the convolution, and where it first is, in row order;
 * 4 where it is NaN. For use in kernels.
 */
export function storeWindow(
  y: Memory,
  upperLeft: number,
  upperRight: number,
  lowerLeft: number,
  lowerRight: number,
  image: number,
  channel: number,
  r: number,
  c: number,
  { GROUPS, OUTPUTS, OH, OW, SAVES, save, finish, idiv, i32 }: Windows,
): void {
  const largest = Math.max(Math.max(upperLeft, upperRight), Math.max(lowerLeft, lowerRight));
  const row = idiv(r, 2);
  const column = idiv(c, 2);
  if (SAVES) {
    let position = i32(lowerRight === largest ? 3 : 4);
    if (lowerLeft === largest) position = 2;
    if (upperRight === largest) position = 1;
    if (upperLeft === largest) position = 0;
    save(position, image, channel, row, column);
  }
  const plane = image * (GROUPS * OUTPUTS) + channel;
  y[(plane * idiv(OH, 2) + row) * idiv(OW, 2) + column] = finish(largest, image, channel, row, column);
}

/** Images convolved with weights; of a pooled one, threads have multiples of 4 pixels, and tiles even sides. */
export function convolve(p: CudaConvolve, tile: ConvolveTile): GridKernel {
  const threads = 32 * tile.warps[0] * tile.warps[1];
  const image = imageLayout(p, tile, threads);
  const { channels, depth, pitch, weights } = weightsOf(p, tile);
  const blocks = Math.ceil(p.outputs / channels);
  const { pooled = false, save } = p;
  const kernel = defineKernel(
    pooled ? 'conv2dMaxPool' : p.adjoint ? 'conv2dInput' : 'conv2d',
    { x: buffer(f32), w: buffer(f32), y: buffer(f32) },
    ({ x, w, y }, context) => {
      const { threadIdx, blockIdx, warpId, laneId, idiv, f32, i32 } = context;
      const { local, local4, load4, splat4, lane, fma, shared, dynamicShared, finish } = context;
      const { LAYOUT, GROUPS, INPUTS, OUTPUTS, IMAGES, OH, OW, TAPS, TN, TH, TW, CHUNK } = context;
      const { WARPS, QUADS, PIXELS, CHANNELS, THREADS, DEPTH, PITCH, IMAGE_AT, BLOCKS, WEIGHTS } = context;
      const { copyWeights, copyImage, tapOffset, pixelOffset, barrier, commitCopies, waitCopies } = context;
      const { POOLED, storeWindow } = context;
      const g = GROUPS === 1 ? 0 : idiv(blockIdx.y, BLOCKS);
      const firstChannel = (blockIdx.y % BLOCKS) * CHANNELS;
      const column = (blockIdx.x % LAYOUT.across) * TW;
      const row = (idiv(blockIdx.x, LAYOUT.across) % LAYOUT.down) * TH;
      const n = idiv(blockIdx.x, LAYOUT.across * LAYOUT.down) * TN;
      const held = dynamicShared(f32);
      const offsets = shared(i32, DEPTH);
      for (let k = threadIdx.x; k < DEPTH; k += THREADS)
        offsets[k] = tapOffset(k % TAPS, idiv(k, TAPS), LAYOUT, context);

      const weightPlace = (o: number, c: number, tap: number) => (c * TAPS + tap) * PITCH + o;

      const mine = (warpId % WARPS) * QUADS * 4;
      /** The thread's pixels: one after 32, or four of a window after 32 windows. */
      const pixelAt = (j: number) => {
        const firstPixel = idiv(warpId, WARPS) * PIXELS * 32;
        if (!POOLED) return firstPixel + laneId + j * 32;
        const window = idiv(firstPixel, 4) + laneId + idiv(j, 4) * 32;
        const across = idiv(TW, 2);
        return (idiv(window, across) * 2 + idiv(j % 4, 2)) * TW + (window % across) * 2 + (j % 2);
      };
      const pixel = local(i32, PIXELS);
      for (let j = 0; j < PIXELS; j++) {
        const p = pixelAt(j);
        pixel[j] = IMAGE_AT + (p < TN * TH * TW ? pixelOffset(p, LAYOUT, context) : 0);
      }
      const sums = local4(f32, QUADS, PIXELS);
      for (let i = 0; i < QUADS; i++) for (let j = 0; j < PIXELS; j++) sums[i][j] = splat4(0);

      let first = 0;
      while (first < INPUTS) {
        if (first > 0) barrier();
        copyWeights(w, held, g, firstChannel, first, weightPlace, WEIGHTS, context);
        copyImage(x, held, IMAGE_AT, g, first, n, row, column, LAYOUT, context);
        commitCopies();
        waitCopies(0);
        barrier();
        let k = 0;
        while (k < DEPTH) {
          const factors = local4(f32, QUADS);
          for (let i = 0; i < QUADS; i++) factors[i] = load4(held, k * PITCH + mine + 4 * i);
          const offset = offsets[k];
          for (let j = 0; j < PIXELS; j++) {
            const v = splat4(held[pixel[j] + offset]);
            for (let i = 0; i < QUADS; i++) sums[i][j] = fma(factors[i], v, sums[i][j]);
          }
          k += 1;
        }
        first += CHUNK;
      }

      for (let j = 0; j < PIXELS; j += POOLED ? 4 : 1) {
        const p = pixelAt(j);
        const image = n + idiv(p, TH * TW);
        const r = row + (idiv(p, TW) % TH);
        const c = column + (p % TW);
        if (p < TN * TH * TW && image < IMAGES && r < OH && c < OW) {
          for (let i = 0; i < QUADS; i++) {
            for (let l = 0; l < 4; l++) {
              const o = firstChannel + mine + 4 * i + l;
              const channel = g * OUTPUTS + o;
              if (o < OUTPUTS) {
                if (POOLED) {
                  const upperLeft = lane(sums[i][j], l);
                  const upperRight = lane(sums[i][j + 1], l);
                  const lowerLeft = lane(sums[i][j + 2], l);
                  const lowerRight = lane(sums[i][j + 3], l);
                  storeWindow(y, upperLeft, upperRight, lowerLeft, lowerRight, image, channel, r, c, context);
                } else {
                  const to = ((image * (GROUPS * OUTPUTS) + channel) * OH + r) * OW + c;
                  y[to] = finish(lane(sums[i][j], l), image, channel, r, c);
                }
              }
            }
          }
        }
      }
    },
    {
      ...{ LAYOUT: image, GROUPS: p.groups, INPUTS: p.inputs, OUTPUTS: p.outputs, IMAGES: p.images },
      ...{ OH: p.outSize[0], OW: p.outSize[1], TAPS: p.kernel[0] * p.kernel[1] },
      ...{ TN: tile.images, TH: tile.rows, TW: tile.columns, CHUNK: tile.channels },
      ...{ copyImage, tapOffset, pixelOffset },
      ...{ WARPS: tile.warps[0], QUADS: tile.each[0] / 4, PIXELS: tile.each[1], CHANNELS: channels },
      ...{ THREADS: threads, DEPTH: depth, PITCH: pitch, IMAGE_AT: weights, BLOCKS: blocks },
      ...{ WEIGHTS: weightCopy(p, tile.channels, channels, threads / 32), copyWeights, finish: p.finish },
      ...{ POOLED: pooled, SAVES: save !== undefined, save: save ?? p.finish, storeWindow },
    },
  );
  return {
    kernel,
    grid: [tilesOf(image), p.groups * blocks, 1],
    threads,
    sharedBytes: sharedBytesOf(p, tile),
  };
}
