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
 * A block of one warp waits for its own copies; with two warps more blocks are resident, and it takes two thirds of the
 * time.
 */
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import { IMAGE, type ImageTile, imageLayout, imageSpan, tilesOf } from './cuda-image.js';
import { type BlockPlace, blockPlace, storing } from './cuda-store.js';
import { copyWeights, weightCopy } from './cuda-weights.js';
import type { ConvolveProblem } from './problem.js';

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

/** The weights of a block in shared memory: rows of output channels, one for each term (input channel, tap). */
function weightsOf(p: ConvolveProblem, tile: ConvolveTile) {
  const [channels] = coverOf(tile);
  const taps = p.kernel[0] * p.kernel[1];
  const terms = tile.channels * taps;
  const pitch = channels + 4;
  return { channels, taps, terms, pitch, floats: terms * pitch };
}

/** Bytes of shared memory that a block takes. */
export const sharedBytesOf = (p: ConvolveProblem, tile: ConvolveTile): number =>
  4 * (weightsOf(p, tile).floats + imageSpan(p, tile).floats);

/** What the device functions below know when the kernel is compiled. */
function constantsOf(p: ConvolveProblem, tile: ConvolveTile) {
  const threads = 32 * tile.warps[0] * tile.warps[1];
  const weights = weightsOf(p, tile);
  return {
    ...storing(p, tile.each[0]),
    tile,
    threads,
    weights,
    image: imageLayout(p, tile, threads),
    weightCopy: weightCopy(p, tile.channels, weights.channels, threads / 32),
    /** Blocks that share the output channels of a group, and pixels of each. */
    blocks: {
      count: Math.ceil(p.outputs / weights.channels),
      pixels: tile.images * tile.rows * tile.columns,
    },
    /** A thread's channels, in fours. */
    quads: tile.each[0] / 4,
  };
}

interface Context extends Intrinsics, ReturnType<typeof constantsOf> {
  readonly pixelAt: typeof pixelAt;
}

/** The thread's j-th pixel of the tile: one after 32, or four of a window after 32 windows. */
function pixelAt(j: number, { warpId, laneId, idiv, tile, windowed }: Context): number {
  const firstPixel = idiv(warpId, tile.warps[0]) * tile.each[1] * 32;
  if (!windowed) return firstPixel + laneId + j * 32;
  const window = idiv(firstPixel, 4) + laneId + idiv(j, 4) * 32;
  const across = idiv(tile.columns, 2);
  return (idiv(window, across) * 2 + idiv(j % 4, 2)) * tile.columns + (window % across) * 2 + (j % 2);
}

/**
 * Adds the products of what lies in shared memory: a term after the other, the thread's channels × its pixels.
 * @param channel the thread's first channel
 * @param offsets from a pixel to what each term meets
 * @param pixel where the thread's pixels are
 */
function addTerms(
  held: Memory,
  channel: number,
  offsets: Memory,
  pixel: Memory,
  sums: Memory,
  { f32, local4, load4, splat4, fma, tile, weights, quads }: Context,
): void {
  let k = 0;
  while (k < weights.terms) {
    const factors = local4(f32, quads);
    for (let i = 0; i < quads; i++) factors[i] = load4(held, k * weights.pitch + channel + 4 * i);
    const offset = offsets[k];
    for (let j = 0; j < tile.each[1]; j++) {
      const v = splat4(held[pixel[j] + offset]);
      for (let i = 0; i < quads; i++) sums[i][j] = fma(factors[i], v, sums[i][j]);
    }
    k += 1;
  }
}

/** Stores the thread's sums, or the largest of each window. */
function storeTile(y: Memory, sums: Memory, block: BlockPlace, mine: number, context: Context): void {
  const { problem, tile, blocks, quads, windowed, pixelAt, idiv, lane } = context;
  const { loadPixel, loadWindow, storePixel, storeWindow } = context;
  const { images, outputs, outSize } = problem;
  const eachChannel = (use: (i: number, l: number, channel: number) => void) => {
    for (let i = 0; i < quads; i++) {
      for (let l = 0; l < 4; l++) {
        const o = block.channel + mine + 4 * i + l;
        if (o < outputs) use(i, l, block.group * outputs + o);
      }
    }
  };
  for (let j = 0; j < tile.each[1]; j += windowed ? 4 : 1) {
    const p = pixelAt(j, context);
    const image = block.image + idiv(p, tile.rows * tile.columns);
    const r = block.row + (idiv(p, tile.columns) % tile.rows);
    const c = block.column + (p % tile.columns);
    if (p < blocks.pixels && image < images && r < outSize[0] && c < outSize[1]) {
      eachChannel((i, l, channel) => {
        if (windowed) loadWindow(4 * i + l, image, channel, r, c, context);
        else loadPixel(4 * i + l, image, channel, r, c, context);
      });
      eachChannel((i, l, channel) => {
        if (windowed) {
          const upperLeft = lane(sums[i][j], l);
          const upperRight = lane(sums[i][j + 1], l);
          const lowerLeft = lane(sums[i][j + 2], l);
          const lowerRight = lane(sums[i][j + 3], l);
          storeWindow(
            y,
            4 * i + l,
            upperLeft,
            upperRight,
            lowerLeft,
            lowerRight,
            image,
            channel,
            r,
            c,
            context,
          );
        } else storePixel(y, 4 * i + l, lane(sums[i][j], l), image, channel, r, c, context);
      });
    }
  }
}

/** Images convolved with weights; where 2 × 2 of them go together, threads have multiples of 4 pixels, and tiles even sides. */
export function convolve(p: ConvolveProblem, tile: ConvolveTile): GridKernel {
  const constants = constantsOf(p, tile);
  const { image, blocks, threads } = constants;
  const kernel = defineKernel(
    `${p.adjoint ? 'conv2dInput' : 'conv2d'}${p.window ? `_${p.window.name}` : ''}`,
    { x: buffer(p.dtype), w: buffer(p.dtype), y: buffer(p.dtype) },
    ({ x, w, y }, context) => {
      const { threadIdx, warpId, idiv, f32, i32, local, local4, splat4, shared, dynamicShared } = context;
      const { barrier, commitCopies, waitCopies, blockPlace, copyWeights, copyImage } = context;
      const { tapOffset, pixelOffset, pixelAt, addTerms, storeTile } = context;
      const { problem, tile, image, weights, weightCopy, blocks, quads, threads } = context;
      const block = blockPlace(blocks.count, weights.channels, image, context);
      const held = dynamicShared(f32);
      const offsets = shared(i32, weights.terms);
      for (let k = threadIdx.x; k < weights.terms; k += threads)
        offsets[k] = tapOffset(k % weights.taps, idiv(k, weights.taps), image, context);

      const mine = (warpId % tile.warps[0]) * tile.each[0];
      const pixel = local(i32, tile.each[1]);
      for (let j = 0; j < tile.each[1]; j++) {
        const p = pixelAt(j, context);
        pixel[j] = weights.floats + (p < blocks.pixels ? pixelOffset(p, image, context) : 0);
      }
      const sums = local4(f32, quads, tile.each[1]);
      for (let i = 0; i < quads; i++) for (let j = 0; j < tile.each[1]; j++) sums[i][j] = splat4(0);

      const placeOfWeight = (o: number, c: number, tap: number) =>
        (c * weights.taps + tap) * weights.pitch + o;
      let first = 0;
      while (first < problem.inputs) {
        if (first > 0) barrier();
        const { group, channel, row, column } = block;
        copyWeights(w, held, group, channel, first, placeOfWeight, weightCopy, context);
        copyImage(x, held, weights.floats, group, first, block.image, row, column, image, context);
        commitCopies();
        waitCopies(0);
        barrier();
        addTerms(held, mine, offsets, pixel, sums, context);
        first += tile.channels;
      }
      storeTile(y, sums, block, mine, context);
    },
    { ...constants, ...IMAGE, copyWeights, blockPlace, pixelAt, addTerms, storeTile },
  );
  return {
    kernel,
    grid: [tilesOf(image), p.groups * blocks.count, 1],
    threads,
    sharedBytes: sharedBytesOf(p, tile),
  };
}
