/** The launch rules of the convolution kernels for tensor cores: the ways to cut the work that fit, ordered by a model. */
import type { Target } from '../kernel/target.js';
import type { CudaConvolve } from './conv2d-cuda.js';
import { best, chunkOf, cyclesOf, even, pixelTile, type Ranked, STORE } from './conv2d-cuda-cost.js';
import { type CudaConvolution, type ImageTile, imageSpan, tilesOf } from './conv2d-cuda-image.js';
import { type ConvolveTensorTile, tensorSharedBytes } from './conv2d-tensor-cuda.js';
import type { CudaConvolveWeight } from './conv2d-weight-cuda.js';
import { type WeightTensorTile, weightTensorSharedBytes } from './conv2d-weight-tensor-cuda.js';

/** Cycles of a multiprocessor for `steps` mma steps of a block whose warps have `down` × `across` tiles each. */
function tensorCycles(steps: number, warps: number, down: number, across: number): number {
  const read = 4 * down + 2 * across + 3;
  const multiply = 1.6 * down * across;
  const issue = (5 * down + 3 * across + down * across + 10) / 4;
  return (
    steps * Math.max(STEP_LATENCY, warps * (Math.max(read, multiply, issue) + 0.2 * Math.min(read, multiply)))
  );
}

/** Copies of some channels that a block holds at most. */
const MOST_STAGES = 4;
/** Cycles that a warp needs for a step at least: its reads wait for memory, its mma for the reads. */
const STEP_LATENCY = 40;
const TILES_ACROSS = [1, 2, 3, 4, 5, 6, 8, 9] as const;

/** How the columns of the output are cut: whole rows of some images, or pieces. */
function linesOf({ outSize, images }: CudaConvolution): Pick<ImageTile, 'images' | 'columns'>[] {
  if (outSize[1] > 64) {
    return [32, 64].map((most) => ({ images: 1, columns: Math.ceil(even(outSize[1], most) / 8) * 8 }));
  }
  return [1, 2, 4, 8, 16]
    .filter((n) => n === 1 || (n <= images && n * outSize[1] <= 128))
    .map((n) => ({ images: n, columns: outSize[1] }));
}

/** Cycles of a multiprocessor for `warps` that read `words` of 32 lanes and multiply `products` pieces in a step. */
function stepCycles(warps: number, words: number, products: number): number {
  const [read, multiply] = [warps * words, 1.6 * warps * products];
  const alone = 90 + 6.4 * products * Math.ceil(warps / 4);
  return Math.max(alone, Math.max(read, multiply) + 0.2 * Math.min(read, multiply));
}

/** How the channels may come: by eights, several on their way; few as they are. */
function stagedTiles(
  p: CudaConvolve,
  shape: Omit<ConvolveTensorTile, 'channels' | 'stages'>,
  bytes: number,
): ConvolveTensorTile[] {
  const sizeOf = (channels: number): number => tensorSharedBytes(p, { ...shape, channels, stages: 1 });
  if (Math.ceil(p.inputs / 8) * 8 > 1.6 * p.inputs) {
    const channels = chunkOf(p.inputs, (n) => sizeOf(n) * (n < p.inputs ? 2 : 1) <= bytes);
    return channels === undefined ? [] : [{ ...shape, channels, stages: channels < p.inputs ? 2 : 1 }];
  }
  return [8, 16, 32].flatMap((channels) => {
    const copies = Math.ceil(p.inputs / channels);
    const stages = Math.min(copies, MOST_STAGES, Math.floor(bytes / sizeOf(channels)));
    return (channels > 8 && copies === Math.ceil(p.inputs / (channels / 2))) || stages < Math.min(copies, 2)
      ? []
      : [{ ...shape, channels, stages }];
  });
}

/** Ways to convolve on tensor cores, the most promising first. */
export function convolveTensorTiles(p: CudaConvolve, target: Target, count = 6): ConvolveTensorTile[] {
  const ranked: Ranked<ConvolveTensorTile>[] = [];
  const limit = target.sharedBytesPerBlock - 4096;
  const [kernelRows, kernelColumns] = p.kernel;
  const step = p.adjoint ? 1 : p.stride[0];
  for (const line of linesOf(p)) {
    const units = Math.ceil((line.images * line.columns) / 8);
    for (const [warps, down] of [
      [1, 1],
      [1, 2],
      [2, 1],
      [2, 2],
      [4, 1],
      [1, 4],
    ] as const) {
      if (warps * down > 1 && warps * down * 16 >= 2 * p.outputs) continue;
      for (const groups of [1, 2, 4, 8, 16]) {
        const all = warps * units * groups;
        if (all > 16 || all < 2) continue;
        for (const across of [1, 2, 3, 4, 5, 6, 7, 8]) {
          // A window's rows are of one warp.
          if (p.pooled && across % 2 === 1) continue;
          if (down * across > 16 || (groups - 1) * across >= p.outSize[0]) continue;
          if (across > 1 && groups * (across - 1) >= p.outSize[0]) continue;
          const shape = {
            ...{ ...line, rows: groups * across },
            ...{ warps: [warps, units, groups] as const, each: [down, across] as const },
          };
          for (const tile of stagedTiles(p, shape, Math.min(limit, 110 * 1024))) {
            const { channels, stages } = tile;
            const image = imageSpan(p, tile);
            const copies = Math.ceil(p.inputs / channels);
            const rows = (across - 1) * step + (kernelRows - 1) * p.dilation[0] + 1;
            const compute =
              channels % 8 === 0
                ? (channels / 8) *
                  kernelColumns *
                  stepCycles(
                    all,
                    2 * Math.min(rows, kernelRows * across) + 4 * kernelRows * down,
                    kernelRows * down * across,
                  )
                : Math.ceil((channels * kernelRows * kernelColumns) / 8) *
                  stepCycles(all, 2 * across + 4 * down + 2, down * across);
            const cover = warps * down * 16;
            ranked.push({
              tile,
              cycles: cyclesOf(
                {
                  ...{ threads: 32 * all, copies, bytes: tensorSharedBytes(p, tile), hidden: stages > 1 },
                  registers: 48 + 4 * down * across + 4 * down + 2 * rows,
                  blocks: tilesOf(image) * p.groups * Math.ceil(p.outputs / cover),
                  elements: image.floats + channels * kernelRows * kernelColumns * cover,
                  compute: copies * compute,
                  after: STORE * Math.min(cover, p.outputs) * units * 8 * groups * across,
                },
                target,
              ),
            });
          }
        }
      }
    }
  }
  return best(ranked, count);
}

/** The tile with as many stages as a block has tiles, or as fit; none if it has several and two do not fit. */
function stagedWeights(
  p: CudaConvolveWeight,
  tiles: number,
  bytes: number,
  tileOf: (stages: number) => WeightTensorTile,
): WeightTensorTile | undefined {
  for (let stages = Math.min(tiles, MOST_STAGES); stages >= Math.min(tiles, 2); stages--) {
    const tile = tileOf(stages);
    if (weightTensorSharedBytes(p, tile) <= bytes) return tile;
  }
  return undefined;
}

/** Ways for few channels: the terms are (channel, tap). */
function fewTiles(p: CudaConvolveWeight, target: Target): Ranked<WeightTensorTile>[] {
  const ranked: Ranked<WeightTensorTile>[] = [];
  const taps = p.kernel[0] * p.kernel[1];
  const limit = target.sharedBytesPerBlock - 4096;
  for (const warps of [
    [1, 1, 4],
    [1, 1, 8],
    [1, 2, 4],
    [1, 4, 2],
    [1, 8, 1],
    [2, 2, 2],
    [2, 4, 1],
    [1, 2, 8],
    [1, 4, 4],
    [1, 8, 2],
    [2, 4, 2],
    [2, 8, 1],
  ] as const) {
    for (const down of [1, 2, 4]) {
      if (warps[0] * down > 1 && warps[0] * down * 16 >= 2 * p.outputs) continue;
      for (const across of TILES_ACROSS) {
        if (down * across > 18) continue;
        const cover = warps[1] * across * 8;
        if (32 * warps[0] * warps[1] * warps[2] * (48 + 4 * down * across) > 65536) continue;
        if (cover >= 2 * p.inputs * taps && across > 1) continue;
        for (const pixels of [64, 128, 256, 512]) {
          const shape = pixelTile(p, pixels, 4);
          const tileOf = (chunk: number, splits = 1, stages = 1): WeightTensorTile => ({
            ...{ ...shape, stages },
            rows: shape.columns % 8 === 0 ? shape.rows : 2 * Math.ceil(shape.rows / 2),
            ...{ channels: chunk, warps, each: [down, across], splits },
          });
          const fits = (n: number): boolean =>
            weightTensorSharedBytes(p, tileOf(n)) <= Math.min(limit, 100 * 1024);
          const chunk = chunkOf(p.inputs, (n) => fits(n) && (n * taps <= Math.max(cover, taps) || n <= 8));
          if (chunk === undefined) continue;
          if (across > 1 && chunk * taps <= warps[1] * (across - 1) * 8) continue;
          const threads = 32 * warps[0] * warps[1] * warps[2];
          const image = imageSpan(p, tileOf(chunk));
          const tiles = tilesOf(image);
          const outputs = warps[0] * down * 16;
          const rounds = Math.ceil((chunk * taps) / cover);
          const others = p.groups * Math.ceil(p.outputs / outputs) * Math.ceil(p.inputs / chunk) * rounds;
          const wanted = Math.max(1, Math.floor((2 * target.units) / others));
          const each = Math.ceil(tiles / Math.min(tiles, wanted));
          const tile = stagedWeights(p, each, Math.min(limit, 110 * 1024), (stages) =>
            tileOf(chunk, Math.ceil(tiles / each), stages),
          );
          if (!tile) continue;
          const held = tile.images * tile.rows * tile.columns;
          const parts = tile.splits * p.groups * p.outputs * p.inputs * taps;
          const steps = (each * held) / (8 * warps[2]);
          ranked.push({
            tile,
            cycles:
              cyclesOf(
                {
                  ...{ threads, copies: each, hidden: true, bytes: weightTensorSharedBytes(p, tile) },
                  registers: 48 + 4 * down * across + 4 * down + 2 * across,
                  blocks: tile.splits * others,
                  elements: image.floats + outputs * held,
                  compute: tensorCycles(steps, threads / 32, down, across),
                  after: STORE * outputs * cover * warps[2],
                },
                target,
              ) +
              (4 * parts * STORE) / target.units,
          });
        }
      }
    }
  }
  return ranked;
}

/** Ways for many channels: a warp has all taps of 8. */
function manyTiles(p: CudaConvolveWeight, target: Target): Ranked<WeightTensorTile>[] {
  const ranked: Ranked<WeightTensorTile>[] = [];
  const taps = p.kernel[0] * p.kernel[1];
  const limit = target.sharedBytesPerBlock - 4096;
  for (const line of linesOf(p)) {
    const quads = Math.ceil((line.images * line.columns) / 4);
    for (const [warps, down] of [
      [1, 1],
      [1, 2],
      [2, 1],
      [2, 2],
      [4, 1],
    ] as const) {
      if (warps * down > 1 && warps * down * 16 >= 2 * p.outputs) continue;
      const outputs = warps * down * 16;
      for (const eights of [1, 2, 4, 8]) {
        if (eights > 1 && eights * 8 >= 2 * p.inputs) continue;
        const chunk = eights * 8;
        for (const slices of [1, 2, 4, 8]) {
          const all = warps * eights * slices;
          if (all < 4 || all > 16) continue;
          for (const rows of [2, 3, 4, 5, 6, 7]) {
            const registers = 40 + 4 * down * (taps + rows);
            if (registers > 250 || registers * 32 * all > 65536) continue;
            for (const groups of [1, 2, 3, 4]) {
              if (groups > 1 && 2 * rows * (groups - 1) >= p.outSize[0]) continue;
              const tileOf = (splits: number, stages: number): WeightTensorTile => ({
                ...{ ...line, rows: 2 * rows * groups, channels: chunk },
                ...{ warps: [warps, eights, slices], each: [down, rows], splits, stages },
              });
              const image = imageSpan(p, tileOf(1, 1));
              const tiles = tilesOf(image);
              const others = p.groups * Math.ceil(p.outputs / outputs) * Math.ceil(p.inputs / chunk);
              const wanted = Math.max(1, Math.floor(target.units / others));
              const each = Math.ceil(tiles / Math.min(tiles, wanted));
              const tile = stagedWeights(p, each, limit, (stages) => tileOf(Math.ceil(tiles / each), stages));
              if (!tile) continue;
              const bytes = weightTensorSharedBytes(p, tile);
              const held = tile.images * tile.rows * tile.columns;
              const span = (rows - 1) * p.stride[0] + (p.kernel[0] - 1) * p.dilation[0] + 1;
              const words = 4 * down * rows + 2 * span * p.kernel[1];
              const parts = tile.splits * p.groups * p.outputs * p.inputs * taps;
              ranked.push({
                tile,
                cycles:
                  cyclesOf(
                    {
                      ...{ threads: 32 * all, copies: each, hidden: true, bytes, registers },
                      blocks: tile.splits * others,
                      elements: image.floats + outputs * held,
                      compute:
                        each *
                        Math.ceil((quads * groups) / slices) *
                        stepCycles(all, words, rows * taps * down),
                      after: STORE * outputs * chunk * taps * slices,
                    },
                    target,
                  ) +
                  (4 * parts * STORE) / target.units,
              });
            }
          }
        }
      }
    }
  }
  return ranked;
}

/** Ways to sum the weight gradient on tensor cores, the most promising first. */
export function weightTensorTiles(p: CudaConvolveWeight, target: Target, count = 6): WeightTensorTile[] {
  const many = p.inputs > 4 && p.kernel[0] * p.kernel[1] <= 25 ? manyTiles(p, target) : [];
  return best(many.length > 0 ? many : fewTiles(p, target), count);
}
