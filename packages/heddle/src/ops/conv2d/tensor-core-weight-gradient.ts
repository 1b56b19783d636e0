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
 * Rows of dY in registers take a quarter less time than a product for each tap (64 images of 16 × 26 × 26, 32 kernels of
 * 3 × 3); the next tiles on their way halve it where a block has several (16 × 3 × 224², 64 kernels).
 */
import { f32, isHalf } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import {
  IMAGE,
  type ImageTile,
  imageLayout,
  imageSpan,
  inPhase,
  type pixelOffset,
  ROUNDING,
  type tapOffset,
  tilesOf,
} from './cuda-image.js';
import { PIPELINE, stagesOf } from './cuda-pipeline.js';
import { gradientFloats, gradientOf, type PartLayout } from './cuda-weight-gradient.js';
import type { Convolution, WeightGradientProblem } from './problem.js';

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
export const MOST_TAPS = 25;

/** Whether a warp has all taps of 8 channels. */
const isInside = (p: Convolution, { channels }: ImageTile): boolean =>
  channels % 8 === 0 && p.kernel[0] * p.kernel[1] <= MOST_TAPS;

/** Output channels and (input channel, tap)s of a block, and how long their rows are where its warps add their sums. */
function coverOf(p: Convolution, tile: WeightTensorTile) {
  const { warps, each } = tile;
  const columns = isInside(p, tile) ? tile.channels * p.kernel[0] * p.kernel[1] : warps[1] * each[1] * 8;
  return { outputs: warps[0] * each[0] * 16, columns, pitch: inPhase(columns, 8, 16) };
}

function layoutOf(p: WeightGradientProblem, tile: WeightTensorTile) {
  const cover = coverOf(p, tile);
  const image = imageSpan(p, tile, PHASE);
  const stage = image.floats + gradientFloats(p, tile, cover.outputs, PHASE);
  const tiles = tilesOf(image);
  const sums = tile.warps[2] > 1 ? tile.warps[2] * cover.outputs * cover.pitch : 0;
  return { ...cover, tiles, stage, sums };
}

/** What a launch rule asks for: floats of one stage and of the sums of a block's warps, and tiles. */
export function weightTensorNeeds(p: WeightGradientProblem, tile: WeightTensorTile) {
  const { stage, sums, tiles } = layoutOf(p, tile);
  return { stage, sums, tiles };
}

/** How the parts lie in memory: in the order of the sums, an even number of columns, so that stores are of neighbours. */
export function tensorParts(p: WeightGradientProblem, tile: WeightTensorTile): PartLayout {
  const width = 2 * Math.ceil((tile.channels * p.kernel[0] * p.kernel[1]) / 2);
  const columns = width * Math.ceil(p.inputs / tile.channels);
  return { chunk: tile.channels, width, columns, inside: isInside(p, tile) };
}

/** What the device functions below know when the kernel is compiled. */
function constantsOf(p: WeightGradientProblem, tile: WeightTensorTile) {
  const { outputs, columns, pitch, tiles, stage, sums } = layoutOf(p, tile);
  const threads = 32 * tile.warps[0] * tile.warps[1] * tile.warps[2];
  const taps = p.kernel[0] * p.kernel[1];
  const parts = tensorParts(p, tile);
  const pixels = tile.images * tile.columns;
  const quads = Math.ceil(pixels / 4);
  return {
    problem: p,
    tile,
    threads,
    tiles,
    taps,
    ROUNDING,
    /** 16-bit floats are numbers of tf32. */
    exact: isHalf(p.dtype),
    image: imageLayout(p, tile, threads, PHASE),
    gradient: imageLayout(gradientOf(p), { ...tile, channels: outputs }, threads, PHASE),
    stages: stagesOf(tile.stages, tiles / tile.splits, stage),
    /** What a block sums: output channels × columns; and how long a row is where its warps add their sums. */
    cover: { outputs, columns, pitch },
    /** Blocks of whole channels, each with all its taps; more columns than a block has are another round. */
    blocks: [
      Math.ceil(p.outputs / outputs),
      Math.ceil(p.inputs / tile.channels),
      Math.ceil((tile.channels * taps) / columns),
    ] as const,
    layout: parts,
    sharedBytes: 4 * Math.max(stage * tile.stages, sums),
    /** Pieces of 8 (input channel, tap) that a warp sums. */
    pieces: parts.inside ? taps : tile.each[1],
    /** Of few channels: runs of 4 pixels of a tile. */
    runs: parts.inside ? 1 : (pixels * tile.rows) / 4,
    /** Of many: pixels of a row through the images, in fours; strips of 4 columns × some rows; rows of the image under one. */
    pixels,
    quads,
    strips: (quads * tile.rows) / (2 * tile.each[1]),
    span: (tile.each[1] - 1) * p.stride[0] + (p.kernel[0] - 1) * p.dilation[0] + 1,
  };
}

interface Context extends Intrinsics, ReturnType<typeof constantsOf> {
  readonly tapOffset: typeof tapOffset;
  readonly pixelOffset: typeof pixelOffset;
  readonly rounded: typeof rounded;
}

/** What a block sums: the group, the first of its output and input channels, and the round through its columns. */
function blockPlace({ problem, tile, cover, blocks, blockIdx, idiv }: Context) {
  const round = blockIdx.y % blocks[2];
  const chunk = idiv(blockIdx.y, blocks[2]) % blocks[1];
  const input = chunk * tile.channels;
  const output = (idiv(blockIdx.y, blocks[2] * blocks[1]) % blocks[0]) * cover.outputs;
  const group = problem.groups === 1 ? 0 : idiv(blockIdx.y, blocks[2] * blocks[1] * blocks[0]);
  return { group, output, input, chunk, round };
}

type WeightBlock = ReturnType<typeof blockPlace>;

/** A lane's output channel, and its warp's piece of the columns and slice of the pixels. */
function warpPlace({ warpId, laneId, idiv, tile }: Context) {
  const quad = idiv(laneId, 4);
  const member = laneId % 4;
  const row = (warpId % tile.warps[0]) * tile.each[0] * 16 + quad;
  const piece = idiv(warpId, tile.warps[0]) % tile.warps[1];
  const slice = idiv(warpId, tile.warps[0] * tile.warps[1]);
  return { quad, member, row, piece, slice };
}

type WarpPlace = ReturnType<typeof warpPlace>;

/** An operand of an mma: rounded, unless it is exact as it is. */
function rounded(held: Memory, place: number, { exact, ROUNDING }: Context): number {
  return exact ? held[place] : held[place] * ROUNDING;
}

/** Of few channels: where each run of 4 pixels begins in the copy of the image, and in that of dY. */
function findRuns(places: Memory, context: Context): void {
  const { threadIdx, pixelOffset, image, gradient, runs, threads } = context;
  for (let q = threadIdx.x; q < runs; q += threads) {
    places[q][0] = gradient.floats + pixelOffset(q * 4, image, context);
    places[q][1] = pixelOffset(q * 4, gradient, context);
  }
}

/** Of few channels: where the lane's (input channel, tap)s are, from a run. */
function findTaps(places: Memory, block: WeightBlock, warp: WarpPlace, context: Context): void {
  const { idiv, tapOffset, problem, tile, image, cover, taps } = context;
  for (let j = 0; j < tile.each[1]; j++) {
    const t = block.round * cover.columns + (warp.piece * tile.each[1] + j) * 8 + warp.quad;
    places[j] =
      warp.member * problem.stride[1] +
      (t < tile.channels * taps ? tapOffset(t % taps, idiv(t, taps), image, context) : 0);
  }
}

/** Adds the products of a tile with few channels: 8 (channel, tap)s, two runs of 4 pixels at a time. */
function addRuns(
  held: Memory,
  at: number,
  runPlaces: Memory,
  tapPlaces: Memory,
  sums: Memory,
  warp: WarpPlace,
  context: Context,
): void {
  const { f32, local4, vec2, vec4, mma, rounded, tile, gradient, runs } = context;
  let q = warp.slice * 2;
  while (q < runs) {
    const near = at + runPlaces[q][0];
    const far = at + runPlaces[q + 1][0];
    const nearSlope = at + runPlaces[q][1] + warp.member;
    const farSlope = at + runPlaces[q + 1][1] + warp.member;
    const slopes = local4(f32, tile.each[0]);
    for (let i = 0; i < tile.each[0]; i++) {
      const upper = (warp.row + i * 16) * gradient.plane;
      const lower = upper + 8 * gradient.plane;
      slopes[i] = vec4(
        rounded(held, nearSlope + upper, context),
        rounded(held, nearSlope + lower, context),
        rounded(held, farSlope + upper, context),
        rounded(held, farSlope + lower, context),
      );
    }
    for (let j = 0; j < tile.each[1]; j++) {
      const v = vec2(rounded(held, near + tapPlaces[j], context), rounded(held, far + tapPlaces[j], context));
      for (let i = 0; i < tile.each[0]; i++) sums[i][j] = mma(slopes[i], v, sums[i][j]);
    }
    q += tile.warps[2] * 2;
  }
}

/**
 * Adds the products of a tile with many channels: 4 columns of some rows of the tile's upper half and of its lower half,
 * held while the rows of the image come by, each for all rows of the kernel.
 */
function addStrips(held: Memory, at: number, sums: Memory, warp: WarpPlace, context: Context): void {
  const { f32, idiv, local4, vec2, vec4, mma, rounded, pixelOffset } = context;
  const { problem, tile, image, gradient, pixels, quads, strips, span } = context;
  const { kernel, stride, dilation } = problem;
  const half = tile.rows / 2;
  let strip = warp.slice;
  while (strip < strips) {
    const own = (strip % quads) * 4 + warp.member;
    const there = pixels % 4 === 0 || own < pixels;
    const row = idiv(strip, quads) * tile.each[1] * tile.columns;
    const p = there ? idiv(own, tile.columns) * (tile.rows * tile.columns) + row + (own % tile.columns) : 0;
    const slope = at + pixelOffset(p, gradient, context) + warp.row * gradient.plane;
    const pixel =
      at + gradient.floats + pixelOffset(p, image, context) + (warp.piece * 8 + warp.quad) * image.plane;
    const slopes = local4(f32, tile.each[0], tile.each[1]);
    for (let i = 0; i < tile.each[0]; i++) {
      for (let r = 0; r < tile.each[1]; r++) {
        const upper = slope + i * 16 * gradient.plane + r * gradient.width;
        const lower = upper + 8 * gradient.plane;
        slopes[i][r] = vec4(
          there ? rounded(held, upper, context) : 0,
          there ? rounded(held, lower, context) : 0,
          there ? rounded(held, upper + half * gradient.width, context) : 0,
          there ? rounded(held, lower + half * gradient.width, context) : 0,
        );
      }
    }
    for (let down = 0; down < span; down++) {
      for (let kx = 0; kx < kernel[1]; kx++) {
        const near = pixel + down * image.width + kx * dilation[1];
        const far = near + half * stride[0] * image.width;
        const v = vec2(there ? rounded(held, near, context) : 0, there ? rounded(held, far, context) : 0);
        for (let ky = 0; ky < kernel[0]; ky++) {
          const r = idiv(down - ky * dilation[0], stride[0]);
          if (down >= ky * dilation[0] && (down - ky * dilation[0]) % stride[0] === 0 && r < tile.each[1]) {
            const tap = ky * kernel[1] + kx;
            for (let i = 0; i < tile.each[0]; i++) sums[i][tap] = mma(slopes[i][r], v, sums[i][tap]);
          }
        }
      }
    }
    strip += tile.warps[2];
  }
}

/** Writes a warp's sums two by two: to the block's part of dW, or to shared memory where warps share the pixels. */
function storeSums(
  parts: Memory,
  held: Memory,
  sums: Memory,
  block: WeightBlock,
  warp: WarpPlace,
  context: Context,
): void {
  const { lane, vec2, store2, blockIdx, problem, tile, cover, layout, blocks, pieces } = context;
  const part = (blockIdx.x * problem.groups + block.group) * problem.outputs + block.output;
  const column = block.chunk * layout.width + block.round * cover.columns;
  for (let i = 0; i < tile.each[0]; i++) {
    for (let j = 0; j < pieces; j++) {
      const piece = layout.inside ? j * tile.channels + warp.piece * 8 : (warp.piece * tile.each[1] + j) * 8;
      const t = piece + warp.member * 2;
      for (let half = 0; half < 2; half++) {
        const o = warp.row + i * 16 + half * 8;
        const both = vec2(lane(sums[i][j], 2 * half), lane(sums[i][j], 2 * half + 1));
        if (tile.warps[2] > 1) store2(held, (warp.slice * cover.outputs + o) * cover.pitch + t, both);
        else if (block.output + o < problem.outputs && block.round * cover.columns + t < layout.width)
          store2(parts, (part + o) * blocks[1] * layout.width + column + t, both);
      }
    }
  }
}

/** Adds the sums of the warps that share the pixels, from shared memory to the block's part of dW. */
function addWarps(parts: Memory, held: Memory, block: WeightBlock, context: Context): void {
  const { threadIdx, blockIdx, idiv, load4, store4 } = context;
  const { problem, tile, cover, layout, blocks, threads } = context;
  const part = (blockIdx.x * problem.groups + block.group) * problem.outputs + block.output;
  const column = block.chunk * layout.width + block.round * cover.columns;
  const each = layout.width % 4 === 0 ? 4 : 1;
  for (let i = threadIdx.x * each; i < cover.outputs * cover.columns; i += threads * each) {
    const o = idiv(i, cover.columns);
    const t = i % cover.columns;
    const to = (part + o) * blocks[1] * layout.width + column + t;
    const from = o * cover.pitch + t;
    const there = block.output + o < problem.outputs && block.round * cover.columns + t < layout.width;
    if (each === 4) {
      let sum = load4(held, from);
      for (let s = 1; s < tile.warps[2]; s++) sum += load4(held, s * cover.outputs * cover.pitch + from);
      if (there) store4(parts, to, sum);
    } else {
      let sum = held[from];
      for (let s = 1; s < tile.warps[2]; s++) sum += held[s * cover.outputs * cover.pitch + from];
      if (there) parts[to] = sum;
    }
  }
}

/** The parts of dW, one for each of the blocks that share the sum. */
export function convolveWeightTensor(p: WeightGradientProblem, tile: WeightTensorTile): GridKernel {
  const constants = constantsOf(p, tile);
  const { blocks, threads, sharedBytes } = constants;
  const kernel = defineKernel(
    'conv2dWeightTensor',
    { x: buffer(p.dtype), dy: buffer(p.dtype), parts: buffer(f32) },
    ({ x, dy, parts }, context) => {
      const { blockIdx, idiv, f32, i32, local, local4, splat4, shared, dynamicShared, barrier } = context;
      const { copyImage, startCopies, multiplyPieces, blockPlace, warpPlace, findRuns, findTaps } = context;
      const { addRuns, addStrips, storeSums, addWarps } = context;
      const { tile, tiles, image, gradient, stages, layout, runs, pieces } = context;
      const block = blockPlace(context);
      const held = dynamicShared(f32);
      const warp = warpPlace(context);
      const sums = local4(f32, tile.each[0], pieces);
      for (let i = 0; i < tile.each[0]; i++) for (let j = 0; j < pieces; j++) sums[i][j] = splat4(0);

      const fetch = (at: number, to: number) => {
        const column = (at % image.across) * tile.columns;
        const row = (idiv(at, image.across) % image.down) * tile.rows;
        const n = idiv(at, image.across * image.down) * tile.images;
        copyImage(dy, held, to, block.group, block.output, n, row, column, gradient, context);
        copyImage(x, held, to + gradient.floats, block.group, block.input, n, row, column, image, context);
      };
      startCopies(blockIdx.x, tiles, tile.splits, fetch, stages, context);
      const tapPlaces = local(i32, tile.each[1]);
      const runPlaces = shared(i32, runs, 2);
      if (!layout.inside) {
        findRuns(runPlaces, context);
        findTaps(tapPlaces, block, warp, context);
      }
      const multiply = (at: number) => {
        if (layout.inside) addStrips(held, at, sums, warp, context);
        else addRuns(held, at, runPlaces, tapPlaces, sums, warp, context);
      };
      multiplyPieces(blockIdx.x, tiles, tile.splits, fetch, multiply, stages, context);

      if (tile.warps[2] > 1) barrier();
      storeSums(parts, held, sums, block, warp, context);
      if (tile.warps[2] > 1) {
        barrier();
        addWarps(parts, held, block, context);
      }
    },
    {
      ...constants,
      ...IMAGE,
      ...PIPELINE,
      blockPlace,
      warpPlace,
      rounded,
      findRuns,
      findTaps,
      addRuns,
      addStrips,
      storeSums,
      addWarps,
    },
  );
  return {
    kernel,
    grid: [tile.splits, p.groups * blocks[0] * blocks[1] * blocks[2], 1],
    threads,
    sharedBytes,
  };
}
