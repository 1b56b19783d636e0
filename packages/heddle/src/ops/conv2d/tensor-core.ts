/**
 * Convolution on tensor cores, and its adjoint in the image: the same cut as conv2d-cuda.ts (a tile of the image in
 * shared memory, read at another offset for each tap), summed by mma of 16 channels × 8 pixels × 8 terms. Operands
 * are rounded as they are read, sums are f32. Many channels come a few at a time, the next while these are
 * multiplied.
 *
 * A warp sums several rows of 8 pixels. The terms of an mma are 8 channels at one tap; a row of the image that has been
 * read serves all taps of a column of the kernel, each with another row of the output: shared memory, whose
 * bandwidth is the limit, is read (rows + 2) / (3 rows) as often for 3 × 3. The four terms that the lanes of a quad read
 * are in four planes, 8 banks apart, and the pixels of the eight quads are neighbours: no two lanes meet in a bank.
 * With few channels the terms are (channel, tap), and what is missing to 8 is zeros.
 *
 * H200, µs, 64 images of 16 × 26 × 26 with 32 kernels of 3 × 3 (340 MFLOP), forward and adjoint:
 *   f32, conv2d-cuda.ts                                                        21   25
 *   tensor cores, each tap read separately                                      13   18
 *   indices of what is copied as sums, without divisions                       7.3  10.0
 *   rows read once for the taps above each other, copies asynchronous          6.1  7.1
 *   operands rounded by a multiplication, channels by eights on their way      5.5  6.6
 * Then copies are the limit, at about 20 bytes a cycle and multiprocessor (conv2d-cuda-cost.ts): a third of them are the
 * weights, which every block reads.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import { type CudaConvolve, storeWindow } from './cuda.js';
import {
  copiesAhead,
  copyImage,
  type ImageTile,
  imageLayout,
  imageSpan,
  pixelOffset,
  ROUNDING,
  tapOffset,
  tilesOf,
} from './cuda-image.js';
import { copyWeightRows, weightRows } from './cuda-weights.js';

/** How the work is cut. A tile's rows are those of its warps. */
export interface ConvolveTensorTile extends ImageTile {
  /** Warps along the output's channels, along its columns (8 each, through the images of the tile), along its rows. */
  readonly warps: readonly [number, number, number];
  /** What a warp sums: tiles of 16 channels, and rows of 8 pixels. */
  readonly each: readonly [number, number];
  /** Copies of some channels that a block holds: that being read, and those on their way; 2 at least if there are several. */
  readonly stages: number;
}

/** Banks between the planes of channels for operands that differ by channel and neighbouring pixel. */
const PHASE = 8;

/** Whether the terms are (channel, tap) in the order of channels by eights, columns and rows of the kernel. */
const isInside = (tile: ConvolveTensorTile): boolean => tile.channels % 8 === 0;

function layoutOf(p: CudaConvolve, tile: ConvolveTensorTile) {
  const threads = 32 * tile.warps[0] * tile.warps[1] * tile.warps[2];
  const channels = tile.warps[0] * tile.each[0] * 16;
  const phase = isInside(tile) ? PHASE : undefined;
  const weights = weightRows(p, tile.channels, channels, threads);
  const imageAt = weights.rows * weights.pitch;
  const image = imageSpan(p, tile, phase);
  return { threads, channels, weights, imageAt, phase, image, stage: imageAt + image.floats };
}

/** What a launch rule asks for: floats of one stage, and tiles. */
export function tensorNeeds(p: CudaConvolve, tile: ConvolveTensorTile) {
  const { image, stage } = layoutOf(p, tile);
  return { stage, tiles: tilesOf(image) };
}

/** Images convolved with weights; of a pooled one, the tile's warps sum even numbers of rows. */
export function convolveTensor(p: CudaConvolve, tile: ConvolveTensorTile): GridKernel {
  const { threads, channels, weights, imageAt, phase, stage } = layoutOf(p, tile);
  const image = imageLayout(p, tile, threads, phase);
  const taps = p.kernel[0] * p.kernel[1];
  const terms = tile.channels * taps;
  const blocks = Math.ceil(p.outputs / channels);
  const { pooled = false, save } = p;
  const kernel = defineKernel(
    pooled ? 'conv2dMaxPoolTensor' : p.adjoint ? 'conv2dInputTensor' : 'conv2dTensor',
    { x: buffer(f32), w: buffer(f32), y: buffer(f32) },
    ({ x, w, y }, context) => {
      const { threadIdx, blockIdx, warpId, laneId, idiv, f32, i32, local2, local4 } = context;
      const { store2, vec2, vec4, splat4, lane, mma, shared, dynamicShared, barrier, finish } = context;
      const { commitCopies, waitCopies, copyWeightRows, copyImage, tapOffset, pixelOffset } = context;
      const { LAYOUT, GROUPS, INPUTS, OUTPUTS, IMAGES, OH, OW, TAPS, TN, TH, TW, CHUNK } = context;
      const { WARPS, UNITS, DOWN, ACROSS, CHANNELS, THREADS, TERMS, STEPS, IMAGE_AT, BLOCKS } = context;
      const { ROUNDING, AHEAD, POOLED, storeWindow } = context;
      const { INSIDE, PAIRED, WEIGHTS, STAGE, STAGES, KH, KW, SY, DY, DX, ROWS, ADJOINT, FAR } = context;
      const g = GROUPS === 1 ? 0 : idiv(blockIdx.y, BLOCKS);
      const firstChannel = (blockIdx.y % BLOCKS) * CHANNELS;
      const column = (blockIdx.x % LAYOUT.across) * TW;
      const row = (idiv(blockIdx.x, LAYOUT.across) % LAYOUT.down) * TH;
      const n = idiv(blockIdx.x, LAYOUT.across * LAYOUT.down) * TN;
      const held = dynamicShared(f32);
      const rounded = (place: number) => held[place] * ROUNDING;

      const quad = idiv(laneId, 4);
      const member = laneId % 4;
      const firstRow = (warpId % WARPS) * DOWN;
      // 8 neighbouring columns of the tile's images, and some rows.
      const firstColumn = (idiv(warpId, WARPS) % UNITS) * 8;
      const firstLine = idiv(warpId, WARPS * UNITS) * ACROSS;
      const own = firstColumn + quad;
      const place = idiv(own, TW) * (TH * TW) + firstLine * TW + (own % TW);
      const pixel = IMAGE_AT + (own < TN * TW ? pixelOffset(place, LAYOUT, context) : 0);
      const sums = local4(f32, DOWN, ACROSS);
      for (let i = 0; i < DOWN; i++) for (let j = 0; j < ACROSS; j++) sums[i][j] = splat4(0);

      const NEXT = ADJOINT ? TAPS : WEIGHTS.pitch;
      /** Where the weight of term (c, tap) is, of the lane's first output; the next is NEXT further. */
      const weightOf = (c: number, tap: number) =>
        firstRow * 16 * NEXT + quad * NEXT + (ADJOINT ? c * WEIGHTS.pitch + TAPS - 1 - tap : c * TAPS + tap);
      const factorsAt = (near: number, far: number) =>
        vec4(rounded(near), rounded(near + 8 * NEXT), rounded(far), rounded(far + 8 * NEXT));

      const fetch = (first: number, at: number) => {
        copyWeightRows(w, held, at, g, firstChannel, first, WEIGHTS, context);
        copyImage(x, held, at + IMAGE_AT, g, first, n, row, column, LAYOUT, context);
      };
      let ahead = 0;
      while (ahead < AHEAD) {
        fetch(ahead * CHUNK, ahead * STAGE);
        commitCopies();
        ahead += 1;
      }

      // Of few channels: 8 terms (channel, tap) at a time, and where their pixels are.
      const offsets = shared(i32, STEPS * 8);
      if (!INSIDE) {
        for (let k = threadIdx.x; k < STEPS * 8; k += THREADS)
          offsets[k] = k < TERMS ? tapOffset(k % TAPS, idiv(k, TAPS), LAYOUT, context) : 0;
      }
      const addTerms = (at: number) => {
        let k = member;
        while (k < STEPS * 8) {
          const near = at + pixel + offsets[k];
          const far = at + pixel + offsets[k + 4];
          const isNear = TERMS === STEPS * 8 || k < TERMS;
          const isFar = TERMS === STEPS * 8 || k + 4 < TERMS;
          const nearWeight = at + (isNear ? weightOf(idiv(k, TAPS), k % TAPS) : 0);
          const farWeight = at + (isFar ? weightOf(idiv(k + 4, TAPS), (k + 4) % TAPS) : 0);
          const factors = local4(f32, DOWN);
          for (let i = 0; i < DOWN; i++) {
            const v = factorsAt(nearWeight + i * 16 * NEXT, farWeight + i * 16 * NEXT);
            factors[i] = vec4(
              isNear ? lane(v, 0) : 0,
              isNear ? lane(v, 1) : 0,
              isFar ? lane(v, 2) : 0,
              isFar ? lane(v, 3) : 0,
            );
          }
          for (let j = 0; j < ACROSS; j++) {
            const down = j * SY * LAYOUT.width;
            const v = vec2(isNear ? rounded(near + down) : 0, isFar ? rounded(far + down) : 0);
            for (let i = 0; i < DOWN; i++) sums[i][j] = mma(factors[i], v, sums[i][j]);
          }
          k += 8;
        }
      };

      // Of many: 8 channels at one column of the kernel. What a row of the image is for one row of the kernel it is for the
      // next row of the output at another: it is read once.
      const addColumns = (at: number) => {
        let c = 0;
        while (c < CHUNK) {
          for (let kx = 0; kx < KW; kx++) {
            const near = at + pixel + (c + member) * LAYOUT.plane + kx * DX;
            const values = local2(f32, ROWS);
            for (let r = 0; r < ROWS; r++) {
              const from = near + r * LAYOUT.width;
              values[r] = vec2(rounded(from), rounded(from + 4 * LAYOUT.plane));
            }
            for (let ky = 0; ky < KH; ky++) {
              const weight = at + weightOf(c + member, ky * KW + kx);
              for (let i = 0; i < DOWN; i++) {
                const factors = factorsAt(weight + i * 16 * NEXT, weight + i * 16 * NEXT + FAR);
                for (let j = 0; j < ACROSS; j++)
                  sums[i][j] = mma(factors, values[j * SY + ky * DY], sums[i][j]);
              }
            }
          }
          c += 8;
        }
      };

      let first = 0;
      let used = 0;
      let filled = AHEAD === STAGES ? 0 : AHEAD * STAGE;
      while (first < INPUTS) {
        waitCopies(AHEAD - 1);
        barrier();
        // What all have used before the barrier is filled again.
        if (AHEAD < STAGES && first + AHEAD * CHUNK < INPUTS) fetch(first + AHEAD * CHUNK, filled);
        commitCopies();
        if (INSIDE) addColumns(used);
        else addTerms(used);
        used = used === (STAGES - 1) * STAGE ? 0 : used + STAGE;
        filled = filled === (STAGES - 1) * STAGE ? 0 : filled + STAGE;
        first += CHUNK;
      }

      if (POOLED) {
        // A lane has two pixels side by side and those below them: a window.
        const own = firstColumn + member * 2;
        const image = n + idiv(own, TW);
        const c = column + (own % TW);
        for (let j = 0; j < ACROSS; j += 2) {
          const r = row + firstLine + j;
          if (own < TN * TW && image < IMAGES && r < OH && c < OW) {
            for (let i = 0; i < DOWN; i++) {
              for (let half = 0; half < 2; half++) {
                const o = firstChannel + (firstRow + i) * 16 + half * 8 + quad;
                if (o < OUTPUTS) {
                  const upperLeft = lane(sums[i][j], 2 * half);
                  const upperRight = lane(sums[i][j], 2 * half + 1);
                  const lowerLeft = lane(sums[i][j + 1], 2 * half);
                  const lowerRight = lane(sums[i][j + 1], 2 * half + 1);
                  const channel = g * OUTPUTS + o;
                  storeWindow(y, upperLeft, upperRight, lowerLeft, lowerRight, image, channel, r, c, context);
                }
              }
            }
          }
        }
      } else {
        // A lane has two pixels side by side: one store where they are of one row.
        const EACH = PAIRED ? 1 : 2;
        for (let j = 0; j < ACROSS; j++) {
          for (let l = 0; l < EACH; l++) {
            const own = firstColumn + member * 2 + l;
            const image = n + idiv(own, TW);
            const r = row + firstLine + j;
            const c = column + (own % TW);
            if (own < TN * TW && image < IMAGES && r < OH && c < OW) {
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
      }
    },
    {
      ...{ LAYOUT: image, GROUPS: p.groups, INPUTS: p.inputs, OUTPUTS: p.outputs, IMAGES: p.images },
      ...{ OH: p.outSize[0], OW: p.outSize[1], TAPS: taps, KH: p.kernel[0], KW: p.kernel[1] },
      ...{ TN: tile.images, TH: tile.rows, TW: tile.columns, CHUNK: tile.channels },
      ...{ WARPS: tile.warps[0], UNITS: tile.warps[1], DOWN: tile.each[0], ACROSS: tile.each[1] },
      ...{ CHANNELS: channels, THREADS: threads, TERMS: terms, STEPS: Math.ceil(terms / 8) },
      ...{ IMAGE_AT: imageAt, BLOCKS: blocks, INSIDE: isInside(tile), WEIGHTS: weights },
      ...{
        STAGE: stage,
        STAGES: tile.stages,
        AHEAD: copiesAhead(tile.stages, p.inputs / tile.channels),
        ROUNDING,
      },
      ...{ SY: image.step[0], DY: p.dilation[0], DX: p.dilation[1] },
      ROWS: (tile.each[1] - 1) * image.step[0] + (p.kernel[0] - 1) * p.dilation[0] + 1,
      ...{
        ADJOINT: p.adjoint,
        FAR: 4 * (p.adjoint ? weights.pitch : taps),
        copyWeightRows,
        copyImage,
        tapOffset,
        pixelOffset,
      },
      PAIRED: tile.columns % 2 === 0 && p.outSize[1] % 2 === 0,
      ...{
        finish: p.finish,
        POOLED: pooled,
        SAVES: save !== undefined,
        save: save ?? p.finish,
        storeWindow,
      },
    },
  );
  return {
    kernel,
    grid: [tilesOf(image), p.groups * blocks, 1],
    threads,
    sharedBytes: 4 * stage * tile.stages,
  };
}
