/**
 * The launch rules of the convolution kernels for GPUs: the ways to cut the work that fit, ordered by a model of a
 * multiprocessor: cycles to issue multiply-adds and shared reads, cycles to copy tiles, a wait for each copy that other
 * resident blocks do not hide. The model ranks; the autotuner times the first few.
 */
import type { Target } from '../kernel/target.js';
import { type ConvolveTile, type CudaConvolve, coverOf, sharedBytesOf } from './conv2d-cuda.js';
import { type CudaConvolution, type ImageTile, imageLayout, tilesOf } from './conv2d-cuda-image.js';
import { type CudaConvolveWeight, type WeightTile, weightSharedBytes } from './conv2d-weight-cuda.js';

interface Ranked<Tile> {
  readonly tile: Tile;
  readonly cycles: number;
}

const best = <Tile>(ranked: readonly Ranked<Tile>[], count: number): Tile[] =>
  [...ranked]
    .sort((a, b) => a.cycles - b.cycles)
    .slice(0, count)
    .map((r) => r.tile);

/** Cut `n` into equal pieces of at most `most`. */
const even = (n: number, most: number): number =>
  Math.ceil(n / Math.ceil(n / Math.max(1, Math.min(n, most))));

/** The widest tile whose rows are whole, or cut evenly; some rows; then several images. */
export function pixelTile(p: CudaConvolution, pixels: number, columnsBy = 1): Omit<ImageTile, 'channels'> {
  const up = (n: number): number => Math.ceil(n / columnsBy) * columnsBy;
  const widest = up(p.outSize[1]) <= Math.min(pixels, 64) ? up(p.outSize[1]) : Math.min(pixels, 32);
  const columns = up(even(p.outSize[1], widest));
  const rows = even(p.outSize[0], Math.floor(pixels / columns));
  const whole = rows === p.outSize[0] && columns >= p.outSize[1];
  const images = whole ? Math.min(p.images, Math.max(1, Math.floor(pixels / (rows * columns)))) : 1;
  return { images, rows, columns };
}

/** Cycles to wait for a copy from memory, and to copy one element, shared by the warps of a multiprocessor. */
const LATENCY = 1200;
const COPY = 0.12;

interface Cost {
  readonly blocks: number;
  readonly threads: number;
  readonly bytes: number;
  readonly registers: number;
  /** Copies that a block waits for, and elements of each. */
  readonly copies: number;
  readonly elements: number;
  /** Cycles of a multiprocessor for the sums of one block. */
  readonly compute: number;
}

function cyclesOf(c: Cost, { units }: Target): number {
  const resident = Math.max(
    1,
    Math.min(
      Math.floor((227 * 1024) / (c.bytes + 1024)),
      Math.floor(2048 / c.threads),
      Math.floor(65536 / (c.threads * c.registers)),
    ),
  );
  const perUnit = Math.ceil(c.blocks / units);
  const waves = Math.ceil(perUnit / resident);
  return perUnit * (c.compute + c.copies * c.elements * COPY) + waves * c.copies * LATENCY;
}

/** Input channels at a time: as many as fit, as evenly as the whole number of times allows. */
function chunkOf(inputs: number, fits: (channels: number) => boolean): number | undefined {
  for (let parts = 1; parts <= inputs; parts++) {
    const channels = Math.ceil(inputs / parts);
    if (fits(channels)) return channels;
    parts = Math.max(parts, Math.floor(inputs / channels));
  }
  return undefined;
}

/** Ways to convolve, the most promising first; none if even the smallest tile does not fit. */
export function convolveTiles(p: CudaConvolve, target: Target, count = 4): ConvolveTile[] {
  const ranked: Ranked<ConvolveTile>[] = [];
  const limit = target.sharedBytesPerBlock - 4096;
  for (const channels of [4, 8, 16]) {
    for (const down of [1, 2, 4]) {
      if (channels * down > 4 && channels * down >= 2 * p.outputs) continue;
      for (const across of [1, 2, 4, 8]) {
        const threads = 32 * down * across;
        if (threads > 256) continue;
        for (const pixels of [1, 2, 4, 8]) {
          if (channels * pixels > 64) continue;
          const warps = [down, across] as const;
          const tileOf = (chunk: number): ConvolveTile => ({
            ...pixelTile(p, across * pixels * 32),
            ...{ channels: chunk, warps, each: [channels, pixels] },
          });
          const chunk =
            chunkOf(p.inputs, (n) => sharedBytesOf(p, tileOf(n)) <= Math.min(limit, 56 * 1024)) ??
            (sharedBytesOf(p, tileOf(1)) <= limit ? 1 : undefined);
          if (chunk === undefined) continue;
          const tile = tileOf(chunk);
          const image = imageLayout(p, tile, threads);
          const copies = Math.ceil(p.inputs / chunk);
          const depth = copies * chunk * p.kernel[0] * p.kernel[1];
          const multiply = (down * across * channels * pixels) / 4;
          const read = down * across * (channels / 4 + pixels);
          const [cover] = coverOf(tile, false);
          ranked.push({
            tile,
            cycles: cyclesOf(
              {
                ...{
                  threads,
                  copies,
                  bytes: sharedBytesOf(p, tile),
                  registers: 40 + channels * pixels + channels,
                },
                blocks: tilesOf(image) * p.groups * Math.ceil(p.outputs / cover),
                elements: image.floats + (depth / copies) * cover,
                compute: depth * (Math.max(multiply, read) + 0.3 * Math.min(multiply, read) + 4),
              },
              target,
            ),
          });
        }
      }
    }
  }
  return best(ranked, count);
}

/** Ways to sum the weight gradient, the most promising first. */
export function weightTiles(p: CudaConvolveWeight, target: Target, count = 4): WeightTile[] {
  const ranked: Ranked<WeightTile>[] = [];
  const taps = p.kernel[0] * p.kernel[1];
  const limit = target.sharedBytesPerBlock - 4096;
  for (const each of [
    [1, 1],
    [2, 1],
    [2, 2],
    [4, 2],
    [4, 4],
    [8, 4],
  ] as const) {
    for (const pixels of [16, 64, 128, 256, 512]) {
      for (const down of [4, 8, 16]) {
        if (down * each[0] > 4 && down * each[0] >= 2 * p.outputs) continue;
        const tileOf = (chunk: number, splits = 1): WeightTile => ({
          ...pixelTile(p, pixels, 4),
          ...{ channels: chunk, threads: [down, Math.ceil((chunk * taps) / each[1])], each, splits },
        });
        const fits = (n: number): boolean => {
          const t = tileOf(n);
          return t.threads[1] * down <= 512 && weightSharedBytes(p, t) <= Math.min(limit, 100 * 1024);
        };
        const chunk = chunkOf(p.inputs, fits);
        if (chunk === undefined) continue;
        const image = imageLayout(p, tileOf(chunk), 256);
        const tiles = tilesOf(image);
        const others = p.groups * Math.ceil(p.outputs / (down * each[0])) * Math.ceil(p.inputs / chunk);
        const wanted = Math.max(1, Math.floor((2 * target.units) / others));
        const rounds = Math.ceil(tiles / Math.min(tiles, wanted));
        const tile = tileOf(chunk, Math.ceil(tiles / rounds));
        const threads = tile.threads[0] * tile.threads[1];
        const warps = threads / 32;
        const held = tile.images * tile.rows * tile.columns;
        const multiply = (warps * each[0] * each[1]) / 4;
        const read = warps * (each[0] + each[1]);
        ranked.push({
          tile,
          cycles: cyclesOf(
            {
              ...{ threads, copies: rounds, bytes: weightSharedBytes(p, tile) },
              registers: 48 + each[0] * each[1] + 4 * each[0],
              blocks: tile.splits * others,
              elements: image.floats + down * each[0] * held,
              compute: rounds * held * (Math.max(multiply, read) + 0.3 * Math.min(multiply, read) + 8),
            },
            target,
          ),
        });
      }
    }
  }
  return best(ranked, count);
}
