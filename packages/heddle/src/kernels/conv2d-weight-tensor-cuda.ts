/**
 * The weight gradient of a convolution on tensor cores: as in conv2d-weight-cuda.ts a tile of dY and the image under it
 * wait in shared memory, and the sum over pixels is taken 8 at a time by mma of 16 output channels × 8 (input channel,
 * tap). Operands are rounded to tf32 as they are copied, sums are f32.
 *
 * Where there are few weights, the warps of a block share the pixels and add their sums in shared memory.
 *
 * The lanes of a quad read 4 neighbouring pixels, the quads 8 planes (output channels of dY, input channels of the
 * image) that lie 4 banks apart: no two lanes meet in a bank.
 */
import { f32 } from '../core/dtype.js';
import { defineKernel } from '../kernel/language.js';
import { buffer } from '../kernel/types.js';
import {
  copyImage,
  type ImageTile,
  imageLayout,
  imageSpan,
  pixelOffset,
  tapOffset,
  tilesOf,
} from './conv2d-cuda-image.js';
import {
  type CudaConvolveWeight,
  gradientFloats,
  gradientOf,
  type PartLayout,
} from './conv2d-weight-cuda.js';
import type { GridKernel } from './tiled.js';

/** How the work is cut. The pixels of a tile are a multiple of 8, its columns one of 4; `channels` are those of x. */
export interface WeightTensorTile extends ImageTile {
  /** Warps along the output channels, along (input channel, tap), and along the pixels. */
  readonly warps: readonly [number, number, number];
  /** A warp's tiles of 16 output channels and of 8 (input channel, tap). */
  readonly each: readonly [number, number];
  /** Blocks that share the sum over tiles. */
  readonly splits: number;
}

const PHASE = 4;

function layoutOf(p: CudaConvolveWeight, tile: WeightTensorTile) {
  const threads = 32 * tile.warps[0] * tile.warps[1] * tile.warps[2];
  const { outputs, columns } = coverOf(tile);
  const image = imageLayout(p, tile, threads, PHASE);
  const gradient = imageLayout(gradientOf(p), { ...tile, channels: outputs }, threads, PHASE);
  return { threads, outputs, columns, image, gradient, tiles: tilesOf(image) };
}

/** Output channels and (input channel, tap)s of a block. */
const coverOf = ({ warps, each }: WeightTensorTile) => ({
  outputs: warps[0] * each[0] * 16,
  columns: warps[1] * each[1] * 8,
});

/** Bytes of shared memory that a block takes. */
export function weightTensorSharedBytes(p: CudaConvolveWeight, tile: WeightTensorTile): number {
  const { outputs, columns } = coverOf(tile);
  const pixels = imageSpan(p, tile, PHASE).floats + gradientFloats(p, tile, outputs, PHASE);
  return 4 * Math.max(pixels, tile.warps[2] * outputs * columns);
}

/** How the parts lie in memory: in the order of the sums, an even number of columns, so that stores are of neighbours. */
export function tensorParts(p: CudaConvolveWeight, { channels }: WeightTensorTile): PartLayout {
  const width = 2 * Math.ceil((channels * p.kernel[0] * p.kernel[1]) / 2);
  const columns = width * Math.ceil(p.inputs / channels);
  return { chunk: channels, width, columns, inside: channels % 8 === 0 };
}

/** The parts of dW, one for each of the blocks that share the sum. */
export function convolveWeightTensor(p: CudaConvolveWeight, tile: WeightTensorTile): GridKernel {
  const { threads, outputs, columns, image, gradient, tiles } = layoutOf(p, tile);
  const taps = p.kernel[0] * p.kernel[1];
  const parts = tensorParts(p, tile);
  // Blocks of whole channels, each with all its taps; more columns than a block has are a round of their own.
  const blocks = [
    Math.ceil(p.outputs / outputs),
    Math.ceil(p.inputs / tile.channels),
    Math.ceil((tile.channels * taps) / columns),
  ] as const;
  const kernel = defineKernel(
    'conv2dWeightTensor',
    { x: buffer(f32), dy: buffer(f32), parts: buffer(f32) },
    ({ x, dy, parts }, context) => {
      const { threadIdx, blockIdx, warpId, laneId, idiv, f32, i32, tf32 } = context;
      const { lane, local, local4, store2, vec2, vec4, splat4, mma, shared, dynamicShared, barrier } =
        context;
      const {
        commitCopies,
        waitCopies,
        copyImage,
        tapOffset,
        pixelOffset,
        IMAGE,
        GRADIENT,
        GROUPS,
        OUTPUTS,
        TAPS,
      } = context;
      const { O_BLOCKS, C_BLOCKS, T_BLOCKS, SPLITS, TILES, WARPS_DOWN, WARPS_ACROSS, WARPS_ALONG } = context;
      const { DOWN, ACROSS, CHANNELS, COLUMNS, CHUNK, TN, TH, TW, SX, THREADS, INSIDE, WIDTH } = context;
      const round = blockIdx.y % T_BLOCKS;
      const firstInput = (idiv(blockIdx.y, T_BLOCKS) % C_BLOCKS) * CHUNK;
      const firstOutput = (idiv(blockIdx.y, T_BLOCKS * C_BLOCKS) % O_BLOCKS) * CHANNELS;
      const g = GROUPS === 1 ? 0 : idiv(blockIdx.y, T_BLOCKS * C_BLOCKS * O_BLOCKS);
      const held = dynamicShared(f32);
      // Where each 4 pixels begin, in the copy of the image and in that of dY.
      const quads = shared(i32, (TN * TH * TW) / 4, 2);
      for (let q = threadIdx.x; q < (TN * TH * TW) / 4; q += THREADS) {
        quads[q][0] = GRADIENT.floats + pixelOffset(q * 4, IMAGE, context);
        quads[q][1] = pixelOffset(q * 4, GRADIENT, context);
      }
      const quad = idiv(laneId, 4);
      const member = laneId % 4;
      const myRow = (warpId % WARPS_DOWN) * DOWN * 16 + quad;
      const myColumn = round * COLUMNS + (idiv(warpId, WARPS_DOWN) % WARPS_ACROSS) * ACROSS * 8;
      const mySlice = idiv(warpId, WARPS_DOWN * WARPS_ACROSS);
      const tapOf = (t: number) => (INSIDE ? idiv(t, CHUNK) : t % TAPS);
      const channelOf = (t: number) => (INSIDE ? t % CHUNK : idiv(t, TAPS));
      const place = local(i32, ACROSS);
      for (let j = 0; j < ACROSS; j++) {
        const t = myColumn + j * 8 + quad;
        place[j] = member * SX + (t < CHUNK * TAPS ? tapOffset(tapOf(t), channelOf(t), IMAGE, context) : 0);
      }
      const sums = local4(f32, DOWN, ACROSS);
      for (let i = 0; i < DOWN; i++) for (let j = 0; j < ACROSS; j++) sums[i][j] = splat4(0);

      let tile = blockIdx.x;
      while (tile < TILES) {
        const column = (tile % IMAGE.across) * TW;
        const row = (idiv(tile, IMAGE.across) % IMAGE.down) * TH;
        const n = idiv(tile, IMAGE.across * IMAGE.down) * TN;
        if (tile > blockIdx.x) barrier();
        copyImage(dy, held, 0, g, firstOutput, n, row, column, GRADIENT, context);
        copyImage(x, held, GRADIENT.floats, g, firstInput, n, row, column, IMAGE, context);
        commitCopies();
        waitCopies(0);
        barrier();
        let q = mySlice * 2;
        while (q < (TN * TH * TW) / 4) {
          const near = quads[q][0];
          const far = quads[q + 1][0];
          const nearSlope = quads[q][1] + member;
          const farSlope = quads[q + 1][1] + member;
          const slopes = local4(f32, DOWN);
          for (let i = 0; i < DOWN; i++) {
            const upper = (myRow + i * 16) * GRADIENT.plane;
            const lower = upper + 8 * GRADIENT.plane;
            slopes[i] = vec4(
              tf32(held[nearSlope + upper]),
              tf32(held[nearSlope + lower]),
              tf32(held[farSlope + upper]),
              tf32(held[farSlope + lower]),
            );
          }
          for (let j = 0; j < ACROSS; j++) {
            const v = vec2(tf32(held[near + place[j]]), tf32(held[far + place[j]]));
            for (let i = 0; i < DOWN; i++) sums[i][j] = mma(slopes[i], v, sums[i][j]);
          }
          q += WARPS_ALONG * 2;
        }
        tile += SPLITS;
      }

      const part = (blockIdx.x * GROUPS + g) * OUTPUTS + firstOutput;
      const chunk = (idiv(blockIdx.y, T_BLOCKS) % C_BLOCKS) * WIDTH;
      const slice = WARPS_ALONG > 1 ? mySlice * CHANNELS * COLUMNS : 0;
      if (WARPS_ALONG > 1) barrier();
      for (let i = 0; i < DOWN; i++) {
        for (let j = 0; j < ACROSS; j++) {
          for (let half = 0; half < 2; half++) {
            const o = myRow + i * 16 + half * 8;
            const t = myColumn + j * 8 + member * 2;
            const both = vec2(lane(sums[i][j], 2 * half), lane(sums[i][j], 2 * half + 1));
            if (WARPS_ALONG > 1) store2(held, slice + o * COLUMNS + t - round * COLUMNS, both);
            else if (firstOutput + o < OUTPUTS && t < WIDTH)
              store2(parts, (part + o) * C_BLOCKS * WIDTH + chunk + t, both);
          }
        }
      }
      if (WARPS_ALONG > 1) {
        barrier();
        for (let i = threadIdx.x; i < CHANNELS * COLUMNS; i += THREADS) {
          const o = idiv(i, COLUMNS);
          const t = round * COLUMNS + (i % COLUMNS);
          let sum = held[i];
          for (let s = 1; s < WARPS_ALONG; s++) sum += held[s * CHANNELS * COLUMNS + i];
          if (firstOutput + o < OUTPUTS && t < WIDTH) parts[(part + o) * C_BLOCKS * WIDTH + chunk + t] = sum;
        }
      }
    },
    {
      ...{ IMAGE: image, GRADIENT: gradient, copyImage, tapOffset, pixelOffset },
      ...{ GROUPS: p.groups, OUTPUTS: p.outputs, TAPS: taps, SX: p.stride[1] },
      ...{ O_BLOCKS: blocks[0], C_BLOCKS: blocks[1], T_BLOCKS: blocks[2], SPLITS: tile.splits, TILES: tiles },
      ...{ WARPS_DOWN: tile.warps[0], WARPS_ACROSS: tile.warps[1], WARPS_ALONG: tile.warps[2] },
      ...{ DOWN: tile.each[0], ACROSS: tile.each[1], CHANNELS: outputs, COLUMNS: columns, THREADS: threads },
      ...{ CHUNK: tile.channels, TN: tile.images, TH: tile.rows, TW: tile.columns },
      ...{ INSIDE: parts.inside, WIDTH: parts.width },
    },
  );
  return {
    kernel,
    grid: [tile.splits, p.groups * blocks[0] * blocks[1] * blocks[2], 1],
    threads,
    sharedBytes: weightTensorSharedBytes(p, tile),
  };
}
