/** The launch rules of the f32 convolution kernels for GPUs. */
import { FITTED, sharedBytesOfEach } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { combinations, fastestTiles, type LaunchRule, leastCycles, splitsOf } from '../launch-rule.js';
import { type ConvolveTile, coverOf, sharedBytesOf } from './cuda.js';
import { chunkOf, cyclesOf, mostShared, pixelTile, windowTile } from './cuda-cost.js';
import { imageSpan, tilesOf } from './cuda-image.js';
import { type WeightTile, weightSharedBytes } from './cuda-weight-gradient.js';
import type { ConvolveProblem, WeightGradientProblem } from './problem.js';

/** Cycles for `steps` in each of which a block's threads read `read` words of a warp and multiply `products` of them. */
function stepCycles(steps: number, read: number, products: number, overhead: number): number {
  const multiply = products / 4;
  const mixed = FITTED.conv2d.fma.mixed * Math.min(multiply, read);
  return steps * (Math.max(multiply, read) + mixed + overhead);
}

const convolveRule: LaunchRule<ConvolveProblem, ConvolveTile> = {
  *candidates(target, p) {
    for (const [channels, down, across, pixels] of combinations(
      [4, 8, 16],
      [1, 2, 4],
      [1, 2, 4, 8],
      [1, 2, 4, 8],
    )) {
      // Unless it is the smallest, more than half of a block's channels are of use.
      if (channels * down > 4 && channels * down >= 2 * p.outputs) continue;
      if (down * across > 8 || channels * pixels > 64) continue;
      // A thread has whole windows.
      if (p.window && pixels % 4 !== 0) continue;
      const shape = {
        ...(p.window ? windowTile : pixelTile)(p, across * pixels * 32),
        warps: [down, across] as const,
        each: [channels, pixels] as const,
      };
      // As many input channels at a time as leave room for four blocks.
      const leavesRoom = (n: number): boolean =>
        sharedBytesOf(p, { ...shape, channels: n }) <= sharedBytesOfEach(target.limits, 4);
      yield { ...shape, channels: chunkOf(p.inputs, leavesRoom) ?? 1 };
    }
  },

  fits: (target, p, tile) => sharedBytesOf(p, tile) <= mostShared(target),

  cycles(target, p, tile) {
    const image = imageSpan(p, tile);
    const [cover] = coverOf(tile);
    const warps = tile.warps[0] * tile.warps[1];
    const [channels, pixels] = tile.each;
    const copies = Math.ceil(p.inputs / tile.channels);
    const depth = tile.channels * p.kernel[0] * p.kernel[1];
    const read = warps * (channels / 4 + pixels);
    const products = warps * channels * pixels;
    return cyclesOf(
      {
        threads: 32 * warps,
        bytes: sharedBytesOf(p, tile),
        registers: 40 + channels * pixels + channels,
        blocks: tilesOf(image) * p.groups * Math.ceil(p.outputs / cover),
        copies,
        elements: image.floats + depth * cover,
        compute: stepCycles(copies * depth, read, products, FITTED.conv2d.fma.step),
        after: 0,
      },
      target,
    );
  },
};

/** Ways to convolve, the most promising first; none if even the smallest tile does not fit. */
export const convolveTiles = (p: ConvolveProblem, target: Target, count = 3): ConvolveTile[] =>
  fastestTiles(convolveRule, target, p, count);

/** Cycles of the best of them: Infinity if there is none. */
export const convolveCycles = (p: ConvolveProblem, target: Target): number =>
  leastCycles(convolveRule, target, p);

/** Blocks that share nothing of the sum over pixels: those of other channels. */
const othersOf = (p: WeightGradientProblem, { threads, each, channels }: WeightTile): number =>
  p.groups * Math.ceil(p.outputs / (threads[0] * each[0])) * Math.ceil(p.inputs / channels);

const EACH = [
  [1, 1],
  [2, 1],
  [2, 2],
  [4, 2],
  [4, 4],
  [8, 4],
] as const;

const weightRule: LaunchRule<WeightGradientProblem, WeightTile> = {
  *candidates(target, p) {
    const taps = p.kernel[0] * p.kernel[1];
    for (const [each, pixels, down] of combinations(EACH, [16, 64, 128, 256, 512], [4, 8, 16])) {
      // Unless it is the smallest, more than half of a block's channels are of use.
      if (down * each[0] > 4 && down * each[0] >= 2 * p.outputs) continue;
      const shape = { ...pixelTile(p, pixels, 4), each, splits: 1 };
      const tileOf = (channels: number): WeightTile => ({
        ...shape,
        channels,
        threads: [down, Math.ceil((channels * taps) / each[1])],
      });
      const channels = chunkOf(p.inputs, (n) => weightRule.fits(target, p, tileOf(n)));
      if (channels === undefined) continue;
      const tile = tileOf(channels);
      const wanted = (2 * target.units) / othersOf(p, tile);
      yield { ...tile, splits: splitsOf(tilesOf(imageSpan(p, tile)), wanted) };
    }
  },

  fits: ({ limits }, p, tile) =>
    tile.threads[0] * tile.threads[1] <= 512 &&
    weightSharedBytes(p, tile) <= Math.floor(FITTED.conv2d.weightShare * limits.sharedBytesPerMultiprocessor),

  cycles(target, p, tile) {
    const image = imageSpan(p, tile);
    const threads = tile.threads[0] * tile.threads[1];
    const [outputs, columns] = tile.each;
    const pixels = tile.images * tile.rows * tile.columns;
    const copies = Math.ceil(tilesOf(image) / tile.splits);
    const read = (threads / 32) * (outputs + columns);
    const products = (threads / 32) * outputs * columns;
    return cyclesOf(
      {
        threads,
        bytes: weightSharedBytes(p, tile),
        registers: 48 + outputs * columns + 4 * outputs,
        blocks: tile.splits * othersOf(p, tile),
        copies,
        elements: image.floats + tile.threads[0] * outputs * pixels,
        compute: stepCycles(copies * pixels, read, products, FITTED.conv2d.fma.gradientStep),
        after: 0,
      },
      target,
    );
  },
};

/** Ways to sum the weight gradient, the most promising first. */
export const weightTiles = (p: WeightGradientProblem, target: Target, count = 3): WeightTile[] =>
  fastestTiles(weightRule, target, p, count);

/** Cycles of the best of them: Infinity if there is none. */
export const weightCycles = (p: WeightGradientProblem, target: Target): number =>
  leastCycles(weightRule, target, p);
