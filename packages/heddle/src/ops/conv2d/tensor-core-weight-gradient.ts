/**
 * The weight gradient of a convolution on tensor cores: as in conv2d-weight-cuda.ts a tile of dY and the image under it
 * wait in shared memory, the next tile on its way, and the sum over pixels is taken 8 at a time by mma of 16 output
 * channels × 8 (input channel, tap). Operands are rounded as they are read, sums are f32.
 *
 * With many input channels a warp holds some rows of dY in registers, and the sums of all taps of 8 channels: a row of the
 * image that has been read serves all rows of the kernel, each with another row of dY. Of shared memory, whose bandwidth
 * is the limit, it reads a third or a half of what separate products would.
 *
 * Where there are few weights, the warps of a block share the pixels and add their sums in shared memory.
 *
 * The lanes of a quad read 4 neighbouring pixels, the quads 8 planes (output channels of dY, input channels of the
 * image) that lie 4 banks apart: no two lanes meet in a bank.
 *
 * H200, µs, 64 images of 16 × 26 × 26 with 32 kernels of 3 × 3, the parts and all: 7.6 and 9.4 with a product for each tap,
 * 5.6 and 7.0 with rows of dY in registers. 16 × 3 × 224² with 64 kernels, the parts: 118, 60 with the next tiles on
 * their way.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import {
  type CudaConvolution,
  copiesAhead,
  copyImage,
  type ImageTile,
  imageLayout,
  imageSpan,
  inPhase,
  pixelOffset,
  ROUNDING,
  tapOffset,
  tilesOf,
} from './cuda-image.js';
import {
  type CudaConvolveWeight,
  gradientFloats,
  gradientOf,
  type PartLayout,
} from './cuda-weight-gradient.js';

/**
 * How the work is cut. Of many channels (by eights), the tile has an even number of rows; of few, its pixels are a
 * multiple of 8, its columns one of 4. `channels` are those of x.
 */
export interface WeightTensorTile extends ImageTile {
  /** Warps along the output channels, along (input channel, tap), and along the pixels. */
  readonly warps: readonly [number, number, number];
  /**
   * A warp's tiles of 16 output channels, and of 8 (input channel, tap). Of many channels a warp has 8 with all their
   * taps; the second number is how many rows of dY it holds.
   */
  readonly each: readonly [number, number];
  /** Blocks that share the sum over tiles. */
  readonly splits: number;
  /** Tiles that a block holds: that being read, and those on their way; 2 at least if it has several. */
  readonly stages: number;
}

const PHASE = 4;

/** Taps whose sums a warp can hold in registers. */
const MOST_TAPS = 25;

/** Whether a warp has all taps of 8 channels. */
const isInside = (p: CudaConvolution, { channels }: ImageTile): boolean =>
  channels % 8 === 0 && p.kernel[0] * p.kernel[1] <= MOST_TAPS;

/** Output channels and (input channel, tap)s of a block, and how long their rows are where its warps add their sums. */
function coverOf(p: CudaConvolution, tile: WeightTensorTile) {
  const { warps, each } = tile;
  const columns = isInside(p, tile) ? tile.channels * p.kernel[0] * p.kernel[1] : warps[1] * each[1] * 8;
  return { outputs: warps[0] * each[0] * 16, columns, pitch: inPhase(columns, 8, 16) };
}

function layoutOf(p: CudaConvolveWeight, tile: WeightTensorTile) {
  const cover = coverOf(p, tile);
  const image = imageSpan(p, tile, PHASE);
  const stage = image.floats + gradientFloats(p, tile, cover.outputs, PHASE);
  const tiles = tilesOf(image);
  const sums = tile.warps[2] > 1 ? tile.warps[2] * cover.outputs * cover.pitch : 0;
  return { ...cover, tiles, stage, sums };
}

/** What a launch rule asks for: floats of one stage and of the sums of a block's warps, and tiles. */
export function weightTensorNeeds(p: CudaConvolveWeight, tile: WeightTensorTile) {
  const { stage, sums, tiles } = layoutOf(p, tile);
  return { stage, sums, tiles };
}

/** How the parts lie in memory: in the order of the sums, an even number of columns, so that stores are of neighbours. */
export function tensorParts(p: CudaConvolveWeight, tile: WeightTensorTile): PartLayout {
  const width = 2 * Math.ceil((tile.channels * p.kernel[0] * p.kernel[1]) / 2);
  const columns = width * Math.ceil(p.inputs / tile.channels);
  return { chunk: tile.channels, width, columns, inside: isInside(p, tile) };
}

/** The parts of dW, one for each of the blocks that share the sum. */
export function convolveWeightTensor(p: CudaConvolveWeight, tile: WeightTensorTile): GridKernel {
  const { outputs, columns, pitch, tiles, stage, sums } = layoutOf(p, tile);
  const threads = 32 * tile.warps[0] * tile.warps[1] * tile.warps[2];
  const image = imageLayout(p, tile, threads, PHASE);
  const gradient = imageLayout(gradientOf(p), { ...tile, channels: outputs }, threads, PHASE);
  const taps = p.kernel[0] * p.kernel[1];
  const parts = tensorParts(p, tile);
  // Blocks of whole channels, each with all its taps; more columns than a block has are a round of their own.
  const blocks = [
    Math.ceil(p.outputs / outputs),
    Math.ceil(p.inputs / tile.channels),
    Math.ceil((tile.channels * taps) / columns),
  ] as const;
  const pixels = tile.images * tile.columns;
  const kernel = defineKernel(
    'conv2dWeightTensor',
    { x: buffer(f32), dy: buffer(f32), parts: buffer(f32) },
    ({ x, dy, parts }, context) => {
      const { threadIdx, blockIdx, warpId, laneId, idiv, f32, i32, lane, local, local4 } = context;
      const { load4, store2, store4, vec2, vec4, splat4, mma, shared, dynamicShared, barrier } = context;
      const { commitCopies, waitCopies, copyImage, tapOffset, pixelOffset } = context;
      const { IMAGE, GRADIENT, STAGE, STAGES, GROUPS, OUTPUTS, TAPS, KH, KW, SY, SX, DY, DX } = context;
      const { O_BLOCKS, C_BLOCKS, T_BLOCKS, SPLITS, TILES, WARPS_DOWN, WARPS_ACROSS, WARPS_ALONG } = context;
      const { DOWN, ACROSS, PIECES, CHANNELS, COLUMNS, PITCH, CHUNK, PIXELS, TH, TW, THREADS } = context;
      const { AHEAD, ROUNDING, INSIDE, WIDTH, QUADS, STRIPS, SPAN, HALF, QUAD_TABLE } = context;
      const round = blockIdx.y % T_BLOCKS;
      const firstInput = (idiv(blockIdx.y, T_BLOCKS) % C_BLOCKS) * CHUNK;
      const firstOutput = (idiv(blockIdx.y, T_BLOCKS * C_BLOCKS) % O_BLOCKS) * CHANNELS;
      const g = GROUPS === 1 ? 0 : idiv(blockIdx.y, T_BLOCKS * C_BLOCKS * O_BLOCKS);
      const held = dynamicShared(f32);
      const rounded = (place: number) => held[place] * ROUNDING;
      const quad = idiv(laneId, 4);
      const member = laneId % 4;
      const myRow = (warpId % WARPS_DOWN) * DOWN * 16 + quad;
      const myPiece = idiv(warpId, WARPS_DOWN) % WARPS_ACROSS;
      const mySlice = idiv(warpId, WARPS_DOWN * WARPS_ACROSS);
      const sums = local4(f32, DOWN, PIECES);
      for (let i = 0; i < DOWN; i++) for (let j = 0; j < PIECES; j++) sums[i][j] = splat4(0);

      const fetch = (tile: number, at: number) => {
        const column = (tile % IMAGE.across) * TW;
        const row = (idiv(tile, IMAGE.across) % IMAGE.down) * TH;
        const n = idiv(tile, IMAGE.across * IMAGE.down) * IMAGE.tile.images;
        copyImage(dy, held, at, g, firstOutput, n, row, column, GRADIENT, context);
        copyImage(x, held, at + GRADIENT.floats, g, firstInput, n, row, column, IMAGE, context);
      };
      let ahead = 0;
      while (ahead < AHEAD) {
        const tile = blockIdx.x + ahead * SPLITS;
        if (tile < TILES) fetch(tile, ahead * STAGE);
        commitCopies();
        ahead += 1;
      }

      // Of few channels: 8 (channel, tap)s, two runs of 4 pixels at a time.
      const place = local(i32, ACROSS);
      // Where the runs begin, in the copy of the image and in that of dY.
      const runs = shared(i32, QUAD_TABLE, 2);
      if (!INSIDE) {
        for (let q = threadIdx.x; q < QUAD_TABLE; q += THREADS) {
          runs[q][0] = GRADIENT.floats + pixelOffset(q * 4, IMAGE, context);
          runs[q][1] = pixelOffset(q * 4, GRADIENT, context);
        }
        for (let j = 0; j < ACROSS; j++) {
          const t = round * COLUMNS + (myPiece * ACROSS + j) * 8 + quad;
          place[j] =
            member * SX + (t < CHUNK * TAPS ? tapOffset(t % TAPS, idiv(t, TAPS), IMAGE, context) : 0);
        }
      }
      const addRuns = (at: number) => {
        let q = mySlice * 2;
        while (q < QUAD_TABLE) {
          const near = at + runs[q][0];
          const far = at + runs[q + 1][0];
          const nearSlope = at + runs[q][1] + member;
          const farSlope = at + runs[q + 1][1] + member;
          const slopes = local4(f32, DOWN);
          for (let i = 0; i < DOWN; i++) {
            const upper = (myRow + i * 16) * GRADIENT.plane;
            const lower = upper + 8 * GRADIENT.plane;
            slopes[i] = vec4(
              rounded(nearSlope + upper),
              rounded(nearSlope + lower),
              rounded(farSlope + upper),
              rounded(farSlope + lower),
            );
          }
          for (let j = 0; j < ACROSS; j++) {
            const v = vec2(rounded(near + place[j]), rounded(far + place[j]));
            for (let i = 0; i < DOWN; i++) sums[i][j] = mma(slopes[i], v, sums[i][j]);
          }
          q += WARPS_ALONG * 2;
        }
      };

      // Of many: 4 columns of some rows of the tile's upper half and of its lower half, held while the rows of the image
      // come by, each for all rows of the kernel.
      const addStrips = (at: number) => {
        let strip = mySlice;
        while (strip < STRIPS) {
          const own = (strip % QUADS) * 4 + member;
          const there = PIXELS % 4 === 0 || own < PIXELS;
          const p = there ? idiv(own, TW) * (TH * TW) + idiv(strip, QUADS) * ACROSS * TW + (own % TW) : 0;
          const slope = at + pixelOffset(p, GRADIENT, context) + myRow * GRADIENT.plane;
          const pixel =
            at + GRADIENT.floats + pixelOffset(p, IMAGE, context) + (myPiece * 8 + quad) * IMAGE.plane;
          const slopes = local4(f32, DOWN, ACROSS);
          for (let i = 0; i < DOWN; i++) {
            for (let r = 0; r < ACROSS; r++) {
              const upper = slope + i * 16 * GRADIENT.plane + r * GRADIENT.width;
              const lower = upper + 8 * GRADIENT.plane;
              slopes[i][r] = vec4(
                there ? rounded(upper) : 0,
                there ? rounded(lower) : 0,
                there ? rounded(upper + HALF * GRADIENT.width) : 0,
                there ? rounded(lower + HALF * GRADIENT.width) : 0,
              );
            }
          }
          for (let down = 0; down < SPAN; down++) {
            for (let kx = 0; kx < KW; kx++) {
              const near = pixel + down * IMAGE.width + kx * DX;
              const far = near + HALF * SY * IMAGE.width;
              const v = vec2(there ? rounded(near) : 0, there ? rounded(far) : 0);
              for (let ky = 0; ky < KH; ky++) {
                const r = idiv(down - ky * DY, SY);
                if (down >= ky * DY && (down - ky * DY) % SY === 0 && r < ACROSS) {
                  const tap = ky * KW + kx;
                  for (let i = 0; i < DOWN; i++) sums[i][tap] = mma(slopes[i][r], v, sums[i][tap]);
                }
              }
            }
          }
          strip += WARPS_ALONG;
        }
      };

      let tile = blockIdx.x;
      let used = 0;
      let filled = AHEAD === STAGES ? 0 : AHEAD * STAGE;
      while (tile < TILES) {
        waitCopies(AHEAD - 1);
        barrier();
        // What all have used before the barrier is filled again.
        if (AHEAD < STAGES && tile + AHEAD * SPLITS < TILES) fetch(tile + AHEAD * SPLITS, filled);
        commitCopies();
        if (INSIDE) addStrips(used);
        else addRuns(used);
        used = used === (STAGES - 1) * STAGE ? 0 : used + STAGE;
        filled = filled === (STAGES - 1) * STAGE ? 0 : filled + STAGE;
        tile += SPLITS;
      }

      const part = (blockIdx.x * GROUPS + g) * OUTPUTS + firstOutput;
      const chunk = (idiv(blockIdx.y, T_BLOCKS) % C_BLOCKS) * WIDTH + round * COLUMNS;
      if (WARPS_ALONG > 1) barrier();
      for (let i = 0; i < DOWN; i++) {
        for (let j = 0; j < PIECES; j++) {
          const t = (INSIDE ? j * CHUNK + myPiece * 8 : (myPiece * ACROSS + j) * 8) + member * 2;
          for (let half = 0; half < 2; half++) {
            const o = myRow + i * 16 + half * 8;
            const both = vec2(lane(sums[i][j], 2 * half), lane(sums[i][j], 2 * half + 1));
            if (WARPS_ALONG > 1) store2(held, (mySlice * CHANNELS + o) * PITCH + t, both);
            else if (firstOutput + o < OUTPUTS && round * COLUMNS + t < WIDTH)
              store2(parts, (part + o) * C_BLOCKS * WIDTH + chunk + t, both);
          }
        }
      }
      if (WARPS_ALONG > 1) {
        barrier();
        const EACH = WIDTH % 4 === 0 ? 4 : 1;
        for (let i = threadIdx.x * EACH; i < CHANNELS * COLUMNS; i += THREADS * EACH) {
          const o = idiv(i, COLUMNS);
          const t = i % COLUMNS;
          const to = (part + o) * C_BLOCKS * WIDTH + chunk + t;
          const from = o * PITCH + t;
          const there = firstOutput + o < OUTPUTS && round * COLUMNS + t < WIDTH;
          if (EACH === 4) {
            let sum = load4(held, from);
            for (let s = 1; s < WARPS_ALONG; s++) sum += load4(held, s * CHANNELS * PITCH + from);
            if (there) store4(parts, to, sum);
          } else {
            let sum = held[from];
            for (let s = 1; s < WARPS_ALONG; s++) sum += held[s * CHANNELS * PITCH + from];
            if (there) parts[to] = sum;
          }
        }
      }
    },
    {
      ...{ IMAGE: image, GRADIENT: gradient, STAGE: stage, STAGES: tile.stages },
      ...{ AHEAD: copiesAhead(tile.stages, tiles / tile.splits), SPLITS: tile.splits, TILES: tiles },
      ...{ copyImage, tapOffset, pixelOffset, GROUPS: p.groups, OUTPUTS: p.outputs, TAPS: taps },
      ...{ KH: p.kernel[0], KW: p.kernel[1], SY: p.stride[0], SX: p.stride[1] },
      ...{ DY: p.dilation[0], DX: p.dilation[1] },
      ...{ O_BLOCKS: blocks[0], C_BLOCKS: blocks[1], T_BLOCKS: blocks[2] },
      ...{ WARPS_DOWN: tile.warps[0], WARPS_ACROSS: tile.warps[1], WARPS_ALONG: tile.warps[2] },
      ...{ DOWN: tile.each[0], ACROSS: tile.each[1], PIECES: parts.inside ? taps : tile.each[1] },
      ...{ CHANNELS: outputs, COLUMNS: columns, PITCH: pitch, CHUNK: tile.channels, THREADS: threads },
      ...{ PIXELS: pixels, TH: tile.rows, TW: tile.columns, HALF: tile.rows / 2 },
      ...{ ROUNDING, INSIDE: parts.inside, WIDTH: parts.width, QUADS: Math.ceil(pixels / 4) },
      QUAD_TABLE: parts.inside ? 1 : (pixels * tile.rows) / 4,
      STRIPS: (Math.ceil(pixels / 4) * tile.rows) / (2 * tile.each[1]),
      SPAN: (tile.each[1] - 1) * p.stride[0] + (p.kernel[0] - 1) * p.dilation[0] + 1,
    },
  );
  return {
    kernel,
    grid: [tile.splits, p.groups * blocks[0] * blocks[1] * blocks[2], 1],
    threads,
    sharedBytes: 4 * Math.max(stage * tile.stages, sums),
  };
}
