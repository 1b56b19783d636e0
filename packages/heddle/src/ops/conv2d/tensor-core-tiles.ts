/** The launch rules of the convolution kernels for tensor cores: the ways to cut the work that fit, ordered by a model. */
import { hasRegisters } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import type { CudaConvolve } from './cuda.js';
import { best, chunkOf, cyclesOf, even, mostShared, pixelTile, type Ranked, STORE } from './cuda-cost.js';
import type { CudaConvolution, ImageTile } from './cuda-image.js';
import type { CudaConvolveWeight } from './cuda-weight-gradient.js';
import { type ConvolveTensorTile, tensorNeeds } from './tensor-core.js';
import { type WeightTensorTile, weightTensorNeeds } from './tensor-core-weight-gradient.js';

/** Copies that a block holds at most. */
const MOST_STAGES = 4;

/** How the columns of the output are cut: whole rows of some images, or pieces. */
function linesOf({ outSize, images }: CudaConvolution): Pick<ImageTile, 'images' | 'columns'>[] {
  if (outSize[1] > 64) return [{ images: 1, columns: Math.ceil(even(outSize[1], 32) / 8) * 8 }];
  return [1, 2, 4, 8, 16]
    .filter((n) => n === 1 || (n <= images && n * outSize[1] <= 64))
    .map((n) => ({ images: n, columns: outSize[1] }));
}

/** Whether tiles of so many rows, the fewest being `least`, do not have many that are of no use. */
const suits = (rows: number, all: number, least: number): boolean =>
  rows === least || Math.ceil(all / rows) * rows <= 1.25 * all;

/** Cycles for `steps` in each of whose `warps` warps reads `words` of 32 lanes and multiplies `products` pieces. */
function stepCycles(steps: number, warps: number, words: number, products: number) {
  const [read, multiply] = [warps * words, 1.5 * warps * products];
  return {
    compute: steps * (Math.max(read, multiply) + 0.1 * Math.min(read, multiply)),
    // A warp's reads wait for memory, its products for the reads; a tensor core serves every fourth warp.
    alone: steps * (55 + 6 * products * Math.ceil(warps / 4)),
  };
}

/** How the channels may come: by eights, several on their way; few as they are. */
function stagedTiles(p: CudaConvolve, shape: Omit<ConvolveTensorTile, 'channels' | 'stages'>, bytes: number) {
  const needs = (channels: number) => tensorNeeds(p, { ...shape, channels, stages: 1 });
  if (Math.ceil(p.inputs / 8) * 8 > 1.6 * p.inputs) {
    const stagesOf = (channels: number): number => (channels < p.inputs ? 2 : 1);
    const channels = chunkOf(p.inputs, (n) => 4 * needs(n).stage * stagesOf(n) <= bytes);
    if (channels === undefined) return [];
    return [{ tile: { ...shape, channels, stages: stagesOf(channels) }, ...needs(channels) }];
  }
  return [8, 16, 32].flatMap((channels) => {
    const copies = Math.ceil(p.inputs / channels);
    if (channels > 8 && copies === Math.ceil(p.inputs / (channels / 2))) return [];
    const need = needs(channels);
    const stages = Math.min(copies, MOST_STAGES, Math.floor(bytes / (4 * need.stage)));
    return stages < Math.min(copies, 2) ? [] : [{ tile: { ...shape, channels, stages }, ...need }];
  });
}

/** Ways to convolve on tensor cores, the most promising first. */
export function convolveTensorTiles(p: CudaConvolve, target: Target, count = 4): ConvolveTensorTile[] {
  const ranked: Ranked<ConvolveTensorTile>[] = [];
  const limit = mostShared(target);
  const half = mostShared(target, 2);
  const [kernelRows, kernelColumns] = p.kernel;
  const step = p.adjoint ? 1 : p.stride[0];
  // A window's rows are of one warp.
  const least = p.pooled ? 2 : 1;
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
      const cover = warps * down * 16;
      if (cover > 16 && cover >= 2 * p.outputs) continue;
      for (const groups of [1, 2, 4, 8, 16]) {
        const all = warps * units * groups;
        if (all > 16 || all < 2) continue;
        for (let across = least; across <= 8; across += least) {
          const lines = groups * across;
          if (down * across > 16 || !suits(lines, p.outSize[0], least)) continue;
          const shape = {
            ...{ ...line, rows: lines },
            ...{ warps: [warps, units, groups] as const, each: [down, across] as const },
          };
          const rows = (across - 1) * step + (kernelRows - 1) * p.dilation[0] + 1;
          const registers = 48 + 4 * down * across + 4 * down + 2 * rows;
          const alone = !hasRegisters(target.limits, 2 * 32 * all, registers);
          for (const { tile, stage, tiles } of stagedTiles(p, shape, alone ? limit : half)) {
            const { channels, stages } = tile;
            const copies = Math.ceil(p.inputs / channels);
            const steps =
              channels % 8 === 0
                ? stepCycles(
                    copies * (channels / 8) * kernelColumns,
                    all,
                    2 * Math.min(rows, kernelRows * across) + 4 * kernelRows * down,
                    kernelRows * down * across,
                  )
                : stepCycles(
                    copies * Math.ceil((channels * kernelRows * kernelColumns) / 8),
                    all,
                    2 * across + 4 * down + 2,
                    down * across,
                  );
            const cost = {
              ...{ threads: 32 * all, copies, bytes: 4 * stage * stages, hidden: stages > 1 },
              ...{ registers, blocks: tiles * p.groups * Math.ceil(p.outputs / cover) },
              ...{ ...steps, elements: stage },
              after: STORE * Math.min(cover, p.outputs) * units * 8 * lines,
            };
            ranked.push({ tile, cycles: cyclesOf(cost, target) });
          }
        }
      }
    }
  }
  return best(ranked, count);
}

/** As many stages as a block has tiles, or as fit; none if it has several and two do not fit. */
function stagesOf(tiles: number, { stage, sums }: { stage: number; sums: number }, bytes: number) {
  const stages = Math.min(tiles, MOST_STAGES, Math.floor(bytes / (4 * stage)));
  return stages < Math.min(tiles, 2) || 4 * sums > bytes ? undefined : stages;
}

/** Cycles to write the parts and to add them, shared by all. */
const partCycles = (p: CudaConvolveWeight, splits: number, { units }: Target): number =>
  (STORE * splits * p.groups * p.outputs * p.inputs * p.kernel[0] * p.kernel[1]) / units;

/** Warps along the output channels, the terms and the pixels. */
const FEW_WARPS = [
  [1, 1, 4],
  [1, 1, 8],
  [1, 2, 4],
  [2, 2, 2],
  [1, 2, 8],
  [1, 4, 4],
  [2, 4, 2],
] as const;

/** Ways for few channels: the terms are (channel, tap). */
function fewTiles(p: CudaConvolveWeight, target: Target): Ranked<WeightTensorTile>[] {
  const ranked: Ranked<WeightTensorTile>[] = [];
  const taps = p.kernel[0] * p.kernel[1];
  const bytes = mostShared(target, 2);
  for (const pixels of [64, 128, 256, 512]) {
    const { images, rows, columns } = pixelTile(p, pixels, 4);
    const shape = { images, columns, rows: columns % 8 === 0 ? rows : 2 * Math.ceil(rows / 2) };
    const held = images * columns * shape.rows;
    for (const warps of FEW_WARPS) {
      const all = warps[0] * warps[1] * warps[2];
      for (const down of [1, 2, 4]) {
        const outputs = warps[0] * down * 16;
        if (outputs > 16 && outputs >= 2 * p.outputs) continue;
        for (const across of [1, 2, 3, 4]) {
          const cover = warps[1] * across * 8;
          if (!hasRegisters(target.limits, 32 * all, 48 + 4 * down * across)) continue;
          if (cover >= 2 * p.inputs * taps && across > 1) continue;
          const tileOf = (channels: number, splits = 1, stages = 1): WeightTensorTile => ({
            ...{ ...shape, channels, warps, each: [down, across], splits, stages },
          });
          const fits = (n: number): boolean => 4 * weightTensorNeeds(p, tileOf(n)).stage <= bytes;
          const channels = chunkOf(p.inputs, (n) => (n * taps <= Math.max(cover, taps) || n <= 8) && fits(n));
          if (channels === undefined) continue;
          if (across > 1 && channels * taps <= warps[1] * (across - 1) * 8) continue;
          const need = weightTensorNeeds(p, tileOf(channels));
          const rounds = Math.ceil((channels * taps) / cover);
          const others = p.groups * Math.ceil(p.outputs / outputs) * Math.ceil(p.inputs / channels) * rounds;
          const wanted = Math.max(1, Math.floor((2 * target.units) / others));
          const each = Math.ceil(need.tiles / Math.min(need.tiles, wanted));
          const stages = stagesOf(each, need, bytes);
          if (stages === undefined) continue;
          const splits = Math.ceil(need.tiles / each);
          const cost = {
            ...{ threads: 32 * all, copies: each, hidden: true },
            bytes: 4 * Math.max(need.stage * stages, need.sums),
            registers: 48 + 4 * down * across + 4 * down + 2 * across,
            ...{ blocks: splits * others, elements: need.stage },
            ...stepCycles((each * held) / (8 * warps[2]), all, 4 * down + 2 * across + 4, down * across),
            after: STORE * outputs * cover * warps[2],
          };
          const cycles = cyclesOf(cost, target) + partCycles(p, splits, target);
          ranked.push({ tile: tileOf(channels, splits, stages), cycles });
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
  const bytes = mostShared(target);
  for (const line of linesOf(p)) {
    const quads = Math.ceil((line.images * line.columns) / 4);
    for (const [warps, down] of [
      [1, 1],
      [1, 2],
      [2, 1],
      [2, 2],
      [4, 1],
    ] as const) {
      const outputs = warps * down * 16;
      if (outputs > 16 && outputs >= 2 * p.outputs) continue;
      for (const eights of [1, 2, 4, 8]) {
        if (eights > 1 && eights * 8 >= 2 * p.inputs) continue;
        const channels = eights * 8;
        const others = p.groups * Math.ceil(p.outputs / outputs) * Math.ceil(p.inputs / channels);
        for (const slices of [1, 2, 4, 8]) {
          const all = warps * eights * slices;
          if (all < 4 || all > 16) continue;
          for (const rows of [2, 3, 4, 5, 6, 7]) {
            const registers = 40 + 4 * down * (taps + rows);
            if (registers > 250 || !hasRegisters(target.limits, 32 * all, registers)) continue;
            for (const groups of [1, 2, 3]) {
              const lines = 2 * rows * groups;
              if (!suits(lines, p.outSize[0], 4)) continue;
              const tileOf = (splits: number, stages: number): WeightTensorTile => ({
                ...{ ...line, rows: lines, channels, splits, stages },
                ...{ warps: [warps, eights, slices], each: [down, rows] },
              });
              const need = weightTensorNeeds(p, tileOf(1, 1));
              const wanted = Math.max(1, Math.floor(target.units / others));
              const each = Math.ceil(need.tiles / Math.min(need.tiles, wanted));
              const stages = stagesOf(each, need, bytes);
              if (stages === undefined) continue;
              const splits = Math.ceil(need.tiles / each);
              const span = (rows - 1) * p.stride[0] + (p.kernel[0] - 1) * p.dilation[0] + 1;
              const words = 4 * down * rows + 2 * span * p.kernel[1];
              const steps = each * Math.ceil((quads * groups) / slices);
              const cost = {
                ...{ threads: 32 * all, copies: each, hidden: true, registers },
                bytes: 4 * Math.max(need.stage * stages, need.sums),
                ...{ blocks: splits * others, elements: need.stage },
                ...stepCycles(steps, all, words, rows * taps * down),
                after: STORE * outputs * channels * taps * slices,
              };
              const cycles = cyclesOf(cost, target) + partCycles(p, splits, target);
              ranked.push({ tile: tileOf(splits, stages), cycles });
            }
          }
        }
      }
    }
  }
  return ranked;
}

/** Ways to sum the weight gradient on tensor cores, the most promising first. */
export function weightTensorTiles(p: CudaConvolveWeight, target: Target, count = 4): WeightTensorTile[] {
  const many = p.inputs > 4 && p.kernel[0] * p.kernel[1] <= 25 ? manyTiles(p, target) : [];
  return best(many.length > 0 ? many : fewTiles(p, target), count);
}
