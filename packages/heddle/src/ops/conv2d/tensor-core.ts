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
 * Compared with the f32 kernel of cuda.ts this takes a quarter to a third of the time on 64 images of 16 × 26 × 26 with
 * 32 kernels of 3 × 3. About half of it was gained by tensor cores that read each tap separately, nearly as much again by
 * indices of what is copied that are sums, without divisions, then a fifth by rows read once for the taps above each other
 * and asynchronous copies, and a tenth by operands rounded by a multiplication and channels that come by eights. Then
 * copies are the limit: a third of them are the weights, which every block reads. What the epilogue takes is loaded for some rows
 * before the first of them is stored (docs/design/decisions.md has the times).
 */
import { isHalf } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import {
  IMAGE,
  type ImageTile,
  imageLayout,
  imageSpan,
  type pixelOffset,
  ROUNDING,
  type tapOffset,
  tilesOf,
} from './cuda-image.js';
import { PIPELINE, stagesOf } from './cuda-pipeline.js';
import { type BlockPlace, blockPlace, storing } from './cuda-store.js';
import { copyWeightRows, weightFloats, weightRows } from './cuda-weights.js';
import type { ConvolveProblem } from './problem.js';

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

/** Sums of a lane, at most, that the epilogue loads for at once: each takes as many registers as it loads elements for one. */
const MOST_EARLY = 32;

/** Whether the terms are (channel, tap) in the order of channels by eights, columns and rows of the kernel. */
const isInside = (tile: ConvolveTensorTile): boolean => tile.channels % 8 === 0;

function layoutOf(p: ConvolveProblem, tile: ConvolveTensorTile) {
  const threads = 32 * tile.warps[0] * tile.warps[1] * tile.warps[2];
  const channels = tile.warps[0] * tile.each[0] * 16;
  const phase = isInside(tile) ? PHASE : undefined;
  const weights = weightRows(p, tile.channels, channels, threads);
  const imageAt = weights.rows * weights.pitch;
  const image = imageSpan(p, tile, phase);
  return { threads, channels, weights, imageAt, phase, image, stage: imageAt + image.floats };
}

/** What a launch rule asks for: floats of one stage, and tiles. */
export function tensorNeeds(p: ConvolveProblem, tile: ConvolveTensorTile) {
  const image = imageSpan(p, tile, isInside(tile) ? PHASE : undefined);
  const stage = weightFloats(p, tile.channels, tile.warps[0] * tile.each[0] * 16) + image.floats;
  return { stage, tiles: tilesOf(image) };
}

/** Whether pixels side by side are stored together. */
const isPaired = (p: ConvolveProblem, { columns }: ConvolveTensorTile): boolean =>
  columns % 2 === 0 && p.outSize[1] % 2 === 0;

/** Rows of a warp whose elements the epilogue loads for at once, and how many stores a lane has of these. */
function storesOf(p: ConvolveProblem, tile: ConvolveTensorTile) {
  const [down, across] = tile.each;
  const least = p.window ? 2 : 1;
  const together = Math.min(across, Math.max(least, least * Math.floor(MOST_EARLY / (4 * down * least))));
  return { together, stored: (2 * down * together * (p.window || isPaired(p, tile) ? 1 : 2)) / least };
}

/** What the device functions below know when the kernel is compiled. */
const constantsOf = (p: ConvolveProblem, tile: ConvolveTensorTile) => {
  const { threads, channels, weights, imageAt, phase, stage } = layoutOf(p, tile);
  const image = imageLayout(p, tile, threads, phase);
  const taps = p.kernel[0] * p.kernel[1];
  const terms = tile.channels * taps;
  const { together, stored } = storesOf(p, tile);
  return {
    ...storing(p, stored),
    together,
    tile,
    image,
    weights,
    threads,
    /** Blocks that share the output channels of a group, and channels of each. */
    blocks: { count: Math.ceil(p.outputs / channels), channels },
    stages: stagesOf(tile.stages, p.inputs / tile.channels, stage),
    /** Where the image begins in a stage, after the weights. */
    imageAt,
    inside: isInside(tile),
    /** Terms (channel, tap) of a stage, and in how many steps of 8 they are summed. */
    terms: { count: terms, steps: Math.ceil(terms / 8), taps },
    /** From the weights of an output channel to those of the next. */
    nextWeight: p.adjoint ? taps : weights.pitch,
    /** Rows of the image that a warp's rows of the output meet. */
    rows: (tile.each[1] - 1) * image.step[0] + (p.kernel[0] - 1) * p.dilation[0] + 1,
    paired: isPaired(p, tile),
    /** 16-bit floats are numbers of tf32. */
    exact: isHalf(p.dtype),
    ROUNDING,
  };
};

interface Context extends Intrinsics, ReturnType<typeof constantsOf> {
  readonly tapOffset: typeof tapOffset;
  readonly pixelOffset: typeof pixelOffset;
  readonly rounded: typeof rounded;
  readonly weightOf: typeof weightOf;
  readonly factorsAt: typeof factorsAt;
  readonly eachPlace: typeof eachPlace;
}

/**
 * What a warp computes of the block's tile, and a lane of an mma: the warp's first 16 channels (counted in 16s), the first
 * of its 8 neighbouring columns through the tile's images, its first row; and where the lane's pixel is in a stage.
 */
function warpPlace(context: Context) {
  const { warpId, laneId, idiv, pixelOffset, tile, image, imageAt } = context;
  const quad = idiv(laneId, 4);
  const member = laneId % 4;
  const sixteen = (warpId % tile.warps[0]) * tile.each[0];
  const column = (idiv(warpId, tile.warps[0]) % tile.warps[1]) * 8;
  const line = idiv(warpId, tile.warps[0] * tile.warps[1]) * tile.each[1];
  const own = column + quad;
  const place =
    idiv(own, tile.columns) * (tile.rows * tile.columns) + line * tile.columns + (own % tile.columns);
  const pixel = imageAt + (own < tile.images * tile.columns ? pixelOffset(place, image, context) : 0);
  return { quad, member, sixteen, column, line, pixel };
}

type WarpPlace = ReturnType<typeof warpPlace>;

/** Of few channels: where the pixels of the terms (channel, tap) are. */
function findTerms(offsets: Memory, context: Context): void {
  const { threadIdx, idiv, tapOffset, threads, image, terms } = context;
  for (let k = threadIdx.x; k < terms.steps * 8; k += threads)
    offsets[k] = k < terms.count ? tapOffset(k % terms.taps, idiv(k, terms.taps), image, context) : 0;
}

/** An operand of an mma: rounded, unless it is exact as it is. */
function rounded(held: Memory, place: number, { exact, ROUNDING }: Context): number {
  return exact ? held[place] : held[place] * ROUNDING;
}

/** Where the weight of term (c, tap) is, of the lane's first output. */
function weightOf(c: number, tap: number, warp: WarpPlace, context: Context): number {
  const { problem, weights, nextWeight, terms } = context;
  return (
    warp.sixteen * 16 * nextWeight +
    warp.quad * nextWeight +
    (problem.adjoint ? c * weights.pitch + terms.taps - 1 - tap : c * terms.taps + tap)
  );
}

/** The weights of two terms, of the lane's outputs. */
function factorsAt(held: Memory, near: number, far: number, context: Context): number {
  const { vec4, rounded, nextWeight } = context;
  return vec4(
    rounded(held, near, context),
    rounded(held, near + 8 * nextWeight, context),
    rounded(held, far, context),
    rounded(held, far + 8 * nextWeight, context),
  );
}

/** Adds the products of a stage with few channels: 8 terms (channel, tap) at a time. */
function addTerms(
  held: Memory,
  at: number,
  offsets: Memory,
  sums: Memory,
  warp: WarpPlace,
  context: Context,
): void {
  const { f32, idiv, local4, lane, vec2, vec4, mma, rounded, weightOf, factorsAt } = context;
  const { tile, image, terms, nextWeight } = context;
  let k = warp.member;
  while (k < terms.steps * 8) {
    const near = at + warp.pixel + offsets[k];
    const far = at + warp.pixel + offsets[k + 4];
    const isNear = terms.count === terms.steps * 8 || k < terms.count;
    const isFar = terms.count === terms.steps * 8 || k + 4 < terms.count;
    const nearWeight = at + (isNear ? weightOf(idiv(k, terms.taps), k % terms.taps, warp, context) : 0);
    const farWeight =
      at + (isFar ? weightOf(idiv(k + 4, terms.taps), (k + 4) % terms.taps, warp, context) : 0);
    const factors = local4(f32, tile.each[0]);
    for (let i = 0; i < tile.each[0]; i++) {
      const v = factorsAt(held, nearWeight + i * 16 * nextWeight, farWeight + i * 16 * nextWeight, context);
      factors[i] = vec4(
        isNear ? lane(v, 0) : 0,
        isNear ? lane(v, 1) : 0,
        isFar ? lane(v, 2) : 0,
        isFar ? lane(v, 3) : 0,
      );
    }
    for (let j = 0; j < tile.each[1]; j++) {
      const below = j * image.step[0] * image.width;
      const v = vec2(
        isNear ? rounded(held, near + below, context) : 0,
        isFar ? rounded(held, far + below, context) : 0,
      );
      for (let i = 0; i < tile.each[0]; i++) sums[i][j] = mma(factors[i], v, sums[i][j]);
    }
    k += 8;
  }
}

/**
 * Adds the products of a stage with many channels: 8 channels at one column of the kernel. What a row of the image is for
 * one row of the kernel it is for the next row of the output at another: it is read once.
 */
function addColumns(held: Memory, at: number, sums: Memory, warp: WarpPlace, context: Context): void {
  const { f32, local2, vec2, mma, rounded, weightOf, factorsAt } = context;
  const { problem, tile, image, weights, terms, rows, nextWeight } = context;
  const { kernel, dilation, adjoint } = problem;
  const far = 4 * (adjoint ? weights.pitch : terms.taps);
  let c = 0;
  while (c < tile.channels) {
    for (let kx = 0; kx < kernel[1]; kx++) {
      const near = at + warp.pixel + (c + warp.member) * image.plane + kx * dilation[1];
      const values = local2(f32, rows);
      for (let r = 0; r < rows; r++) {
        const from = near + r * image.width;
        values[r] = vec2(rounded(held, from, context), rounded(held, from + 4 * image.plane, context));
      }
      for (let ky = 0; ky < kernel[0]; ky++) {
        const weight = at + weightOf(c + warp.member, ky * kernel[1] + kx, warp, context);
        for (let i = 0; i < tile.each[0]; i++) {
          const from = weight + i * 16 * nextWeight;
          const factors = factorsAt(held, from, from + far, context);
          for (let j = 0; j < tile.each[1]; j++)
            sums[i][j] = mma(factors, values[j * image.step[0] + ky * dilation[0]], sums[i][j]);
        }
      }
    }
    c += 8;
  }
}

/** What a lane stores at once: its number among those of `early`, the sums (those of tile i and row j, from `part` on), and where it is. */
interface LanePlace {
  readonly number: number;
  readonly i: number;
  readonly j: number;
  readonly part: number;
  readonly image: number;
  readonly channel: number;
  readonly r: number;
  readonly c: number;
}

/** Calls `use` for what a lane stores of some of the warp's rows. For use in kernels. */
function eachPlace(
  first: number,
  use: (place: LanePlace) => void,
  block: BlockPlace,
  warp: WarpPlace,
  context: Context,
): void {
  const { problem, tile, paired, windowed, together, idiv } = context;
  const { images, outputs, outSize } = problem;
  const step = windowed ? 2 : 1;
  const each = paired || windowed ? 1 : 2;
  for (let s = 0; s < together; s += step) {
    const j = first + s;
    for (let l = 0; l < each; l++) {
      const own = warp.column + warp.member * 2 + l;
      const image = block.image + idiv(own, tile.columns);
      const r = block.row + warp.line + j;
      const c = block.column + (own % tile.columns);
      if (
        j < tile.each[1] &&
        own < tile.images * tile.columns &&
        image < images &&
        r < outSize[0] &&
        c < outSize[1]
      ) {
        for (let i = 0; i < tile.each[0]; i++) {
          for (let half = 0; half < 2; half++) {
            const o = block.channel + (warp.sixteen + i) * 16 + half * 8 + warp.quad;
            const channel = block.group * outputs + o;
            const number = ((idiv(s, step) * each + l) * tile.each[0] + i) * 2 + half;
            if (o < outputs) use({ number, i, j, part: 2 * half + l, image, channel, r, c });
          }
        }
      }
    }
  }
}

/** Has the epilogue load what it takes for some rows of the warp's. */
function loadRows(first: number, block: BlockPlace, warp: WarpPlace, context: Context): void {
  const { windowed, paired, eachPlace, loadWindow, loadPair, loadPixel } = context;
  const use = ({ number, image, channel, r, c }: LanePlace) => {
    if (windowed) loadWindow(number, image, channel, r, c, context);
    else if (paired) loadPair(number, image, channel, r, c, context);
    else loadPixel(number, image, channel, r, c, context);
  };
  eachPlace(first, use, block, warp, context);
}

/**
 * Stores some rows of the warp's. A lane has two pixels side by side: one store where they are of one row. Of windows it has those
 * below them as well, and stores the largest sum of each.
 */
function storeRows(
  y: Memory,
  first: number,
  sums: Memory,
  block: BlockPlace,
  warp: WarpPlace,
  context: Context,
): void {
  const { lane, vec2, windowed, paired, eachPlace, storeWindow, storePair, storePixel } = context;
  const use = ({ number, i, j, part, image, channel, r, c }: LanePlace) => {
    const own = lane(sums[i][j], part);
    if (windowed) {
      const right = lane(sums[i][j], part + 1);
      const below = lane(sums[i][j + 1], part);
      const last = lane(sums[i][j + 1], part + 1);
      storeWindow(y, number, own, right, below, last, image, channel, r, c, context);
    } else if (paired) {
      storePair(y, number, vec2(own, lane(sums[i][j], part + 1)), image, channel, r, c, context);
    } else storePixel(y, number, own, image, channel, r, c, context);
  };
  eachPlace(first, use, block, warp, context);
}

/** Images convolved with weights; where 2 × 2 of them go together, the tile's warps sum even numbers of rows. */
export function convolveTensor(p: ConvolveProblem, tile: ConvolveTensorTile): GridKernel {
  const constants = constantsOf(p, tile);
  const { image, threads, blocks, stages } = constants;
  const kernel = defineKernel(
    `${p.adjoint ? 'conv2dInputTensor' : 'conv2dTensor'}${p.window ? `_${p.window.name}` : ''}`,
    { x: buffer(p.dtype), w: buffer(p.dtype), y: buffer(p.dtype) },
    ({ x, w, y }, context) => {
      const { f32, i32, local4, splat4, shared, dynamicShared, blockPlace, warpPlace } = context;
      const { copyWeightRows, copyImage, startCopies, multiplyPieces, findTerms } = context;
      const { addTerms, addColumns, loadRows, storeRows } = context;
      const { problem, tile, image, weights, blocks, stages, imageAt, inside, terms, together } = context;
      const block = blockPlace(blocks.count, blocks.channels, image, context);
      const held = dynamicShared(f32);
      const warp = warpPlace(context);
      const sums = local4(f32, tile.each[0], tile.each[1]);
      for (let i = 0; i < tile.each[0]; i++) for (let j = 0; j < tile.each[1]; j++) sums[i][j] = splat4(0);

      const fetch = (channel: number, to: number) => {
        const { group, row, column } = block;
        copyWeightRows(w, held, to, group, block.channel, channel, weights, context);
        copyImage(x, held, to + imageAt, group, channel, block.image, row, column, image, context);
      };
      startCopies(0, problem.inputs, tile.channels, fetch, stages, context);
      const offsets = shared(i32, terms.steps * 8);
      if (!inside) findTerms(offsets, context);
      const multiply = (at: number) => {
        if (inside) addColumns(held, at, sums, warp, context);
        else addTerms(held, at, offsets, sums, warp, context);
      };
      multiplyPieces(0, problem.inputs, tile.channels, fetch, multiply, stages, context);

      for (let first = 0; first < tile.each[1]; first += together) {
        loadRows(first, block, warp, context);
        storeRows(y, first, sums, block, warp, context);
      }
    },
    {
      ...constants,
      ...IMAGE,
      ...PIPELINE,
      copyWeightRows,
      blockPlace,
      warpPlace,
      findTerms,
      rounded,
      weightOf,
      factorsAt,
      addTerms,
      addColumns,
      eachPlace,
      loadRows,
      storeRows,
    },
  );
  return {
    kernel,
    grid: [tilesOf(image), p.groups * blocks.count, 1],
    threads,
    sharedBytes: 4 * stages.floats * stages.count,
  };
}
