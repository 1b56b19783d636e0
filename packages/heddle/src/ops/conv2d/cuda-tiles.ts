/** The launch rules of the f32 convolution kernels for GPUs: the ways to cut the work that fit, ordered by a model. */
import { FITTED, sharedBytesOfEach } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { type ConvolveTile, type CudaConvolve, coverOf, sharedBytesOf } from './cuda.js';
import { best, chunkOf, cyclesOf, mostShared, pixelTile, type Ranked, windowTile } from './cuda-cost.js';
import { imageSpan, tilesOf } from './cuda-image.js';
import { type CudaConvolveWeight, type WeightTile, weightSharedBytes } from './cuda-weight-gradient.js';

/** Ways to convolve, the most promising first; none if even the smallest tile does not fit. */
export function convolveTiles(p: CudaConvolve, target: Target, count = 4): ConvolveTile[] {
  const ranked: Ranked<ConvolveTile>[] = [];
  const limit = mostShared(target);
  for (const channels of [4, 8, 16]) {
    for (const down of [1, 2, 4]) {
      if (channels * down > 4 && channels * down >= 2 * p.outputs) continue;
      for (const across of [1, 2, 4, 8]) {
        const threads = 32 * down * across;
        if (threads > 256) continue;
        for (const pixels of [1, 2, 4, 8]) {
          if (channels * pixels > 64) continue;
          const warps = [down, across] as const;
          if (p.pooled && pixels % 4 !== 0) continue;
          const tileOf = (chunk: number): ConvolveTile => ({
            ...(p.pooled ? windowTile : pixelTile)(p, across * pixels * 32),
            ...{ channels: chunk, warps, each: [channels, pixels] },
          });
          const chunk =
            chunkOf(p.inputs, (n) => sharedBytesOf(p, tileOf(n)) <= sharedBytesOfEach(target.limits, 4)) ??
            (sharedBytesOf(p, tileOf(1)) <= limit ? 1 : undefined);
          if (chunk === undefined) continue;
          const tile = tileOf(chunk);
          const image = imageSpan(p, tile);
          const copies = Math.ceil(p.inputs / chunk);
          const depth = copies * chunk * p.kernel[0] * p.kernel[1];
          const multiply = (down * across * channels * pixels) / 4;
          const read = down * across * (channels / 4 + pixels);
          const [cover] = coverOf(tile);
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
                after: 0,
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
  const most = Math.floor(FITTED.conv2d.weightShare * target.limits.sharedBytesPerMultiprocessor);
  const taps = p.kernel[0] * p.kernel[1];
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
          return t.threads[1] * down <= 512 && weightSharedBytes(p, t) <= most;
        };
        const chunk = chunkOf(p.inputs, fits);
        if (chunk === undefined) continue;
        const image = imageSpan(p, tileOf(chunk));
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
              after: 0,
            },
            target,
          ),
        });
      }
    }
  }
  return best(ranked, count);
}
