/** The launch rules of the convolution kernels for tensor cores. */
import { FITTED, hasRegisters } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { combinations, fastestTiles, type LaunchRule, leastCycles, splitsOf } from '../launch-rule.js';
import { chunkOf, cyclesOf, even, mostShared, pixelTile, STORE } from './cuda-cost.js';
import type { ImageTile } from './cuda-image.js';
import type { Convolution, ConvolveProblem, WeightGradientProblem } from './problem.js';
import { type ConvolveTensorTile, tensorNeeds } from './tensor-core.js';
import { MOST_TAPS, type WeightTensorTile, weightTensorNeeds } from './tensor-core-weight-gradient.js';

/** Copies that a block holds at most. */
const MOST_STAGES = 4;

/** How many of `copies` a block holds: as many as fit, two at least if there are several. */
const stagesFor = (copies: number, bytesOfEach: number, bytes: number): number =>
  Math.max(Math.min(copies, 2), Math.min(copies, MOST_STAGES, Math.floor(bytes / bytesOfEach)));

/** How the columns of the output are cut: whole rows of some images, or pieces. */
function linesOf({ outSize, images }: Convolution): Pick<ImageTile, 'images' | 'columns'>[] {
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
  const { product, mixed, wait, productWait } = FITTED.conv2d.tensor;
  const [read, multiply] = [warps * words, product * warps * products];
  return {
    compute: steps * (Math.max(read, multiply) + mixed * Math.min(read, multiply)),
    // A warp's reads wait for memory, its products for the reads; a tensor core serves every fourth warp.
    alone: steps * (wait + productWait * products * Math.ceil(warps / 4)),
  };
}

const warpsOf = ({ warps }: { readonly warps: readonly [number, number, number] }): number =>
  warps[0] * warps[1] * warps[2];

// ── convolution and its adjoint ──────────────────────────────────────────────────────────────────────────────────

type TileShape = Omit<ConvolveTensorTile, 'channels' | 'stages'>;

/** Rows of the image that a warp's rows of the output meet. */
const rowsRead = (p: ConvolveProblem, { each }: TileShape): number =>
  (each[1] - 1) * (p.adjoint ? 1 : p.stride[0]) + (p.kernel[0] - 1) * p.dilation[0] + 1;

const registersOf = (p: ConvolveProblem, shape: TileShape): number =>
  48 + 4 * shape.each[0] * shape.each[1] + 4 * shape.each[0] + 2 * rowsRead(p, shape);

/** Bytes of shared memory of a block: half of a multiprocessor's, if two blocks have registers. */
const roomFor = (target: Target, p: ConvolveProblem, shape: TileShape): number =>
  mostShared(target, hasRegisters(target.limits, 2 * 32 * warpsOf(shape), registersOf(p, shape)) ? 2 : 1);

/** How the channels may come: by eights, several on their way; few as they are. */
function stagedTiles(p: ConvolveProblem, shape: TileShape, bytes: number): ConvolveTensorTile[] {
  const bytesOf = (channels: number) => 4 * tensorNeeds(p, { ...shape, channels, stages: 1 }).stage;
  if (Math.ceil(p.inputs / 8) * 8 > 1.6 * p.inputs) {
    const stagesOf = (channels: number): number => (channels < p.inputs ? 2 : 1);
    const channels = chunkOf(p.inputs, (n) => bytesOf(n) * stagesOf(n) <= bytes);
    return channels === undefined ? [] : [{ ...shape, channels, stages: stagesOf(channels) }];
  }
  return [8, 16, 32].flatMap((channels) => {
    const copies = Math.ceil(p.inputs / channels);
    if (channels > 8 && copies === Math.ceil(p.inputs / (channels / 2))) return [];
    return [{ ...shape, channels, stages: stagesFor(copies, bytesOf(channels), bytes) }];
  });
}

/** Warps along the channels of the output, and how many 16s of them each has. */
const DOWN = [
  [1, 1],
  [1, 2],
  [2, 1],
  [2, 2],
  [4, 1],
  [1, 4],
] as const;

const convolveRule: LaunchRule<ConvolveProblem, ConvolveTensorTile> = {
  *candidates(target, p) {
    // A window's rows are of one warp.
    const least = p.window ? 2 : 1;
    const rows = [1, 2, 3, 4, 5, 6, 7, 8].filter((n) => n % least === 0);
    for (const [line, [warps, down], groups, across] of combinations(
      linesOf(p),
      DOWN,
      [1, 2, 4, 8, 16],
      rows,
    )) {
      const cover = warps * down * 16;
      if ((cover > 16 && cover >= 2 * p.outputs) || down * across > 16) continue;
      const units = Math.ceil((line.images * line.columns) / 8);
      const shape: TileShape = {
        ...line,
        rows: groups * across,
        warps: [warps, units, groups],
        each: [down, across],
      };
      if (warpsOf(shape) < 2 || warpsOf(shape) > 16 || !suits(shape.rows, p.outSize[0], least)) continue;
      yield* stagedTiles(p, shape, roomFor(target, p, shape));
    }
  },

  fits: (target, p, tile) => 4 * tensorNeeds(p, tile).stage * tile.stages <= roomFor(target, p, tile),

  cycles(target, p, tile) {
    const { stage, tiles } = tensorNeeds(p, tile);
    const { channels, stages } = tile;
    const [down, across] = tile.each;
    const [height, width] = p.kernel;
    const warps = warpsOf(tile);
    const cover = tile.warps[0] * down * 16;
    const copies = Math.ceil(p.inputs / channels);
    const read = Math.min(rowsRead(p, tile), height * across);
    const steps =
      channels % 8 === 0
        ? stepCycles(
            copies * (channels / 8) * width,
            warps,
            2 * read + 4 * height * down,
            height * down * across,
          )
        : stepCycles(
            copies * Math.ceil((channels * height * width) / 8),
            warps,
            2 * across + 4 * down + 2,
            down * across,
          );
    return cyclesOf(
      {
        threads: 32 * warps,
        bytes: 4 * stage * stages,
        registers: registersOf(p, tile),
        copies,
        elements: stage,
        hidden: stages > 1,
        ...steps,
        blocks: tiles * p.groups * Math.ceil(p.outputs / cover),
        after: STORE * Math.min(cover, p.outputs) * tile.warps[1] * 8 * tile.rows,
      },
      target,
    );
  },
};

/** Ways to convolve on tensor cores, the most promising first. */
export const convolveTensorTiles = (p: ConvolveProblem, target: Target, count = 3): ConvolveTensorTile[] =>
  fastestTiles(convolveRule, target, p, count);

/** Cycles of the best of them: Infinity if there is none. */
export const convolveTensorCycles = (p: ConvolveProblem, target: Target): number =>
  leastCycles(convolveRule, target, p);

// ── weight gradient ──────────────────────────────────────────────────────────────────────────────────────────────

/** Cycles to write the parts and to add them, shared by all. */
const partCycles = (p: WeightGradientProblem, splits: number, { units }: Target): number =>
  (STORE * splits * p.groups * p.outputs * p.inputs * p.kernel[0] * p.kernel[1]) / units;

/** Bytes of shared memory of a block. */
const bytesOf = (p: WeightGradientProblem, tile: WeightTensorTile): number => {
  const { stage, sums } = weightTensorNeeds(p, tile);
  return 4 * Math.max(stage * tile.stages, sums);
};

/** `tile` with as many blocks for a sum as are `wanted`, and with as many stages as fit into `bytes`. */
function shared(
  p: WeightGradientProblem,
  tile: WeightTensorTile,
  wanted: number,
  bytes: number,
): WeightTensorTile {
  const { stage, tiles } = weightTensorNeeds(p, tile);
  const splits = splitsOf(tiles, wanted);
  return { ...tile, splits, stages: stagesFor(Math.ceil(tiles / splits), 4 * stage, bytes) };
}

/** Output channels of a block. */
const outputsOf = ({ warps, each }: WeightTensorTile): number => warps[0] * each[0] * 16;

/** Blocks that share nothing of the sum over pixels: those of other channels. */
const othersOf = (p: WeightGradientProblem, tile: WeightTensorTile): number =>
  p.groups * Math.ceil(p.outputs / outputsOf(tile)) * Math.ceil(p.inputs / tile.channels);

interface Sums {
  /** Blocks that each sum other weights, and (input channel, tap)s of each. */
  readonly others: number;
  readonly columns: number;
  readonly registers: number;
  readonly steps: ReturnType<typeof stepCycles>;
}

function weightCycles(target: Target, p: WeightGradientProblem, tile: WeightTensorTile, sums: Sums): number {
  const { stage, tiles } = weightTensorNeeds(p, tile);
  const cost = {
    threads: 32 * warpsOf(tile),
    bytes: bytesOf(p, tile),
    registers: sums.registers,
    copies: Math.ceil(tiles / tile.splits),
    elements: stage,
    hidden: true,
    ...sums.steps,
    blocks: tile.splits * sums.others,
    after: STORE * outputsOf(tile) * sums.columns * tile.warps[2],
  };
  return cyclesOf(cost, target) + partCycles(p, tile.splits, target);
}

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

/** (input channel, tap)s that a block of few channels sums at a time, and in how many rounds it sums all. */
function roundsOf(p: WeightGradientProblem, { warps, each, channels }: WeightTensorTile) {
  const columns = warps[1] * each[1] * 8;
  return { columns, rounds: Math.ceil((channels * p.kernel[0] * p.kernel[1]) / columns) };
}

/** For few channels: the terms are (channel, tap). */
const fewRule: LaunchRule<WeightGradientProblem, WeightTensorTile> = {
  *candidates(target, p) {
    const taps = p.kernel[0] * p.kernel[1];
    const bytes = mostShared(target, 2);
    for (const [pixels, warps, down, across] of combinations(
      [64, 128, 256, 512],
      FEW_WARPS,
      [1, 2, 4],
      [1, 2, 3, 4],
    )) {
      const { images, rows, columns } = pixelTile(p, pixels, 4);
      const shape = {
        images,
        columns,
        rows: columns % 8 === 0 ? rows : 2 * Math.ceil(rows / 2),
        warps,
        each: [down, across] as const,
        splits: 1,
        stages: 1,
      };
      const outputs = warps[0] * down * 16;
      const cover = warps[1] * across * 8;
      if (outputs > 16 && outputs >= 2 * p.outputs) continue;
      if (cover >= 2 * p.inputs * taps && across > 1) continue;
      const hasRoom = (channels: number): boolean =>
        (channels * taps <= Math.max(cover, taps) || channels <= 8) &&
        4 * weightTensorNeeds(p, { ...shape, channels }).stage <= bytes;
      const channels = chunkOf(p.inputs, hasRoom);
      if (channels === undefined) continue;
      // A narrower one has as many rounds.
      if (across > 1 && channels * taps <= warps[1] * (across - 1) * 8) continue;
      const tile = { ...shape, channels };
      const others = othersOf(p, tile) * roundsOf(p, tile).rounds;
      yield shared(p, tile, (2 * target.units) / others, bytes);
    }
  },

  fits: (target, p, tile) =>
    bytesOf(p, tile) <= mostShared(target, 2) &&
    hasRegisters(target.limits, 32 * warpsOf(tile), 48 + 4 * tile.each[0] * tile.each[1]),

  cycles(target, p, tile) {
    const [down, across] = tile.each;
    const { columns, rounds } = roundsOf(p, tile);
    const pixels = tile.images * tile.columns * tile.rows;
    const copies = Math.ceil(weightTensorNeeds(p, tile).tiles / tile.splits);
    const words = 4 * down + 2 * across + 4;
    return weightCycles(target, p, tile, {
      others: othersOf(p, tile) * rounds,
      columns,
      registers: 48 + 4 * down * across + 4 * down + 2 * across,
      steps: stepCycles((copies * pixels) / (8 * tile.warps[2]), warpsOf(tile), words, down * across),
    });
  },
};

/** Registers that a thread has for the sums of all taps and for rows of dY. */
const registersOfMany = (p: WeightGradientProblem, { each }: WeightTensorTile): number =>
  40 + 4 * each[0] * (p.kernel[0] * p.kernel[1] + each[1]);

/** For many channels: a warp has all taps of 8. */
const manyRule: LaunchRule<WeightGradientProblem, WeightTensorTile> = {
  *candidates(target, p) {
    const down = DOWN.filter(([, each]) => each < 4);
    for (const [line, [warps, sixteens], eights, slices, rows, groups] of combinations(
      linesOf(p),
      down,
      [1, 2, 4, 8],
      [1, 2, 4, 8],
      [2, 3, 4, 5, 6, 7],
      [1, 2, 3],
    )) {
      const outputs = warps * sixteens * 16;
      if (outputs > 16 && outputs >= 2 * p.outputs) continue;
      if (eights > 1 && 8 * eights >= 2 * p.inputs) continue;
      const all = warps * eights * slices;
      if (all < 4 || all > 16 || !suits(2 * rows * groups, p.outSize[0], 4)) continue;
      const tile: WeightTensorTile = {
        ...line,
        rows: 2 * rows * groups,
        channels: 8 * eights,
        warps: [warps, eights, slices],
        each: [sixteens, rows],
        splits: 1,
        stages: 1,
      };
      yield shared(p, tile, target.units / othersOf(p, tile), mostShared(target));
    }
  },

  fits(target, p, tile) {
    const registers = registersOfMany(p, tile);
    return (
      registers <= 250 &&
      hasRegisters(target.limits, 32 * warpsOf(tile), registers) &&
      bytesOf(p, tile) <= mostShared(target)
    );
  },

  cycles(target, p, tile) {
    const [down, rows] = tile.each;
    const taps = p.kernel[0] * p.kernel[1];
    const quads = Math.ceil((tile.images * tile.columns) / 4);
    const span = (rows - 1) * p.stride[0] + (p.kernel[0] - 1) * p.dilation[0] + 1;
    const copies = Math.ceil(weightTensorNeeds(p, tile).tiles / tile.splits);
    const strips = Math.ceil((quads * tile.rows) / (2 * rows * tile.warps[2]));
    return weightCycles(target, p, tile, {
      others: othersOf(p, tile),
      columns: tile.channels * taps,
      registers: registersOfMany(p, tile),
      steps: stepCycles(
        copies * strips,
        warpsOf(tile),
        4 * down * rows + 2 * span * p.kernel[1],
        rows * taps * down,
      ),
    });
  },
};

const isMany = (p: WeightGradientProblem): boolean => p.inputs > 4 && p.kernel[0] * p.kernel[1] <= MOST_TAPS;

/** Ways to sum the weight gradient on tensor cores, the most promising first. */
export function weightTensorTiles(p: WeightGradientProblem, target: Target, count = 3): WeightTensorTile[] {
  const many = isMany(p) ? fastestTiles(manyRule, target, p, count) : [];
  return many.length > 0 ? many : fastestTiles(fewRule, target, p, count);
}

/** Cycles of the best of them: Infinity if there is none. */
export function weightTensorCycles(p: WeightGradientProblem, target: Target): number {
  const many = isMany(p) ? leastCycles(manyRule, target, p) : Infinity;
  return many < Infinity ? many : leastCycles(fewRule, target, p);
}
