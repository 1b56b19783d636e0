/**
 * Convolution on tensor cores, and its adjoint in the image: the same cut as conv2d-cuda.ts (a tile of the image in
 * shared memory, read at another offset for each tap), summed by mma of 16 channels × 8 pixels × 8 terms. Operands
 * are rounded to tf32 as they are copied, sums are f32.
 *
 * The terms of a sum are (tap, channel) where the channels come in eights, so that the four terms that the lanes of a
 * quad read are in four planes, 8 banks apart, and the pixels of the eight quads are neighbours: no two lanes meet in a
 * bank. With few channels they are (channel, tap), and what is missing to 8 is zeros. Weights lie in the order in which the
 * lanes of a warp hold them: a read is 4 of them at once.
 *
 * H200, µs, 64 images of 16 × 26 × 26 with 32 kernels of 3 × 3 (340 MFLOP), forward and adjoint:
 *   f32, conv2d-cuda.ts                                        21   25
 *   tensor cores                                               13   18
 *   indices of what is copied as sums, without divisions       8.4  11.5
 * 16 × 3 × 224² with 64 kernels: 93 forward (f32 108; its 205 MB take 52); 256 × 64 × 32² with 64: 185.
 */
import { f32 } from '../core/dtype.js';
import { defineKernel } from '../kernel/language.js';
import { buffer } from '../kernel/types.js';
import { type ConvolveTile, type CudaConvolve, coverOf } from './conv2d-cuda.js';
import { copyImage, imageLayout, imageSpan, pixelOffset, tapOffset, tilesOf } from './conv2d-cuda-image.js';
import { copyWeights, weightCopy } from './conv2d-cuda-weights.js';
import type { GridKernel } from './tiled.js';

/** Banks between the planes of channels for operands that differ by channel and neighbouring pixel. */
const PHASE = 8;

/** Whether the order of the terms within a chunk is (tap, channel). */
const isInside = (tile: ConvolveTile): boolean => tile.channels % 8 === 0;
const phaseOf = (tile: ConvolveTile): number | undefined => (isInside(tile) ? PHASE : undefined);

function weightsOf(p: CudaConvolve, tile: ConvolveTile) {
  const [channels] = coverOf(tile, true);
  const terms = tile.channels * p.kernel[0] * p.kernel[1];
  const steps = Math.ceil(terms / 8);
  // 4 more, so that taps beside each other are written to different banks.
  const pitch = channels * 8 + 4;
  return { channels, terms, steps, pitch, weights: steps * pitch };
}

/** Bytes of shared memory that a block takes. */
export const tensorSharedBytes = (p: CudaConvolve, tile: ConvolveTile): number =>
  4 * (weightsOf(p, tile).weights + imageSpan(p, tile, phaseOf(tile)).floats);

/** Images convolved with weights. */
export function convolveTensor(p: CudaConvolve, tile: ConvolveTile): GridKernel {
  const threads = 32 * tile.warps[0] * tile.warps[1];
  const inside = isInside(tile);
  const image = imageLayout(p, tile, threads, phaseOf(tile));
  const { channels, terms, steps, pitch, weights } = weightsOf(p, tile);
  const blocks = Math.ceil(p.outputs / channels);
  const kernel = defineKernel(
    p.adjoint ? 'conv2dInputTensor' : 'conv2dTensor',
    { x: buffer(f32), w: buffer(f32), y: buffer(f32) },
    ({ x, w, y }, context) => {
      const { threadIdx, blockIdx, warpId, laneId, idiv, f32, i32 } = context;
      const {
        local,
        local4,
        load4,
        store2,
        vec2,
        splat4,
        lane,
        mma,
        shared,
        dynamicShared,
        barrier,
        finish,
      } = context;
      const { LAYOUT, GROUPS, INPUTS, OUTPUTS, IMAGES, OH, OW, TAPS, TN, TH, TW, CHUNK } = context;
      const { WARPS, DOWN, ACROSS, CHANNELS, THREADS, TERMS, STEPS, PITCH, IMAGE_AT, BLOCKS, WEIGHTS } =
        context;
      const { INSIDE, PAIRED, copyWeights, copyImage, tapOffset, pixelOffset } = context;
      const g = GROUPS === 1 ? 0 : idiv(blockIdx.y, BLOCKS);
      const firstChannel = (blockIdx.y % BLOCKS) * CHANNELS;
      const column = (blockIdx.x % LAYOUT.across) * TW;
      const row = (idiv(blockIdx.x, LAYOUT.across) % LAYOUT.down) * TH;
      const n = idiv(blockIdx.x, LAYOUT.across * LAYOUT.down) * TN;
      const held = dynamicShared(f32);
      const offsets = shared(i32, STEPS * 8);
      /** The place of term `at` of 8 for channel o, within a step. */
      const factorPlace = (o: number, at: number) =>
        (idiv(o, 16) * 32 + (o % 8) * 4 + (at % 4)) * 4 + (idiv(o, 8) % 2) + 2 * (idiv(at, 4) % 2);
      const weightPlace = (o: number, c: number, tap: number) => {
        if (INSIDE) return (tap * idiv(CHUNK, 8) + idiv(c, 8)) * PITCH + factorPlace(o, c);
        return idiv(c * TAPS + tap, 8) * PITCH + factorPlace(o, c * TAPS + tap);
      };
      for (let k = threadIdx.x; k < STEPS * 8; k += THREADS) {
        const tap = INSIDE ? idiv(k, CHUNK) : k % TAPS;
        const c = INSIDE ? k % CHUNK : idiv(k, TAPS);
        offsets[k] = k < TERMS ? tapOffset(tap, c, LAYOUT, context) : 0;
      }
      if (TERMS < STEPS * 8) {
        const missing = STEPS * 8 - TERMS;
        for (let i = threadIdx.x; i < CHANNELS * missing; i += THREADS)
          held[(STEPS - 1) * PITCH + factorPlace(idiv(i, missing), TERMS + (i % missing))] = 0;
      }

      const quad = idiv(laneId, 4);
      const member = laneId % 4;
      const firstRow = (warpId % WARPS) * DOWN;
      const firstPixel = idiv(warpId, WARPS) * ACROSS * 8;
      const pixel = local(i32, ACROSS);
      for (let j = 0; j < ACROSS; j++) {
        const p = firstPixel + j * 8 + quad;
        pixel[j] = IMAGE_AT + (p < TN * TH * TW ? pixelOffset(p, LAYOUT, context) : 0);
      }
      const sums = local4(f32, DOWN, ACROSS);
      for (let i = 0; i < DOWN; i++) for (let j = 0; j < ACROSS; j++) sums[i][j] = splat4(0);

      let first = 0;
      while (first < INPUTS) {
        if (first > 0) barrier();
        copyWeights(w, held, g, firstChannel, first, weightPlace, WEIGHTS, context);
        copyImage(x, held, IMAGE_AT, g, first, n, row, column, LAYOUT, context);
        barrier();
        let step = 0;
        while (step < STEPS) {
          const factors = local4(f32, DOWN);
          for (let i = 0; i < DOWN; i++)
            factors[i] = load4(held, step * PITCH + ((firstRow + i) * 32 + laneId) * 4);
          const near = offsets[step * 8 + member];
          const far = offsets[step * 8 + 4 + member];
          for (let j = 0; j < ACROSS; j++) {
            const isTerm = TERMS === STEPS * 8 || step * 8 + 4 + member < TERMS;
            const isNear = TERMS === STEPS * 8 || step * 8 + member < TERMS;
            const v = vec2(isNear ? held[pixel[j] + near] : 0, isTerm ? held[pixel[j] + far] : 0);
            for (let i = 0; i < DOWN; i++) sums[i][j] = mma(factors[i], v, sums[i][j]);
          }
          step += 1;
        }
        first += CHUNK;
      }

      // A lane has two pixels side by side: one store where they are of one row.
      const EACH = PAIRED ? 1 : 2;
      for (let j = 0; j < ACROSS; j++) {
        for (let l = 0; l < EACH; l++) {
          const p = firstPixel + j * 8 + member * 2 + l;
          const image = n + idiv(p, TH * TW);
          const r = row + (idiv(p, TW) % TH);
          const c = column + (p % TW);
          if (p < TN * TH * TW && image < IMAGES && r < OH && c < OW) {
            for (let i = 0; i < DOWN; i++) {
              for (let half = 0; half < 2; half++) {
                const o = firstChannel + (firstRow + i) * 16 + half * 8 + quad;
                const channel = g * OUTPUTS + o;
                const to = ((image * (GROUPS * OUTPUTS) + channel) * OH + r) * OW + c;
                if (o < OUTPUTS) {
                  if (PAIRED) {
                    const both = vec2(lane(sums[i][j], 2 * half), lane(sums[i][j], 2 * half + 1));
                    store2(y, to, finish(both, image, channel, r, c));
                  } else y[to] = finish(lane(sums[i][j], 2 * half + l), image, channel, r, c);
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
      ...{
        copyImage,
        tapOffset,
        pixelOffset,
        WARPS: tile.warps[0],
        DOWN: tile.each[0],
        ACROSS: tile.each[1],
      },
      ...{ CHANNELS: channels, THREADS: threads, TERMS: terms, STEPS: steps, PITCH: pitch },
      ...{ IMAGE_AT: weights, BLOCKS: blocks, INSIDE: inside, copyWeights },
      WEIGHTS: weightCopy(p, tile.channels, channels, threads / 32),
      PAIRED: tile.columns % 2 === 0 && p.outSize[1] % 2 === 0,
      finish: p.finish,
    },
  );
  return {
    kernel,
    grid: [tilesOf(image), p.groups * blocks, 1],
    threads,
    sharedBytes: tensorSharedBytes(p, tile),
  };
}
