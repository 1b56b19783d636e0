/** The launch rule of convolutions with channels last: which tile a block sums. */
import { i8 } from '../../core/dtype.js';
import { FITTED, hasRegisters, residentBlocks, sharedBytesOfEach } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { fastestTiles, type LaunchRule, splitsOf, withWhole } from '../launch-rule.js';
import { sumCycles } from '../matmul/cuda-tiles.js';
import type { GridKernel } from '../tiled.js';
import {
  convolveLast,
  convolveWeightLast,
  DEPTH,
  inPairs,
  type LastProblem,
  type LastTile,
  lastSplits,
} from './last-product.js';

/** Warps, and pieces of 16 rows and 8 columns of each. */
const SHAPES: readonly Omit<LastTile, 'stages'>[] = [
  { warps: [2, 4], each: [4, 4] },
  { warps: [2, 2], each: [4, 4] },
  { warps: [4, 2], each: [2, 4] },
  { warps: [2, 2], each: [2, 4] },
  { warps: [4, 1], each: [2, 4] },
  { warps: [2, 1], each: [2, 4] },
];
const STAGES = 4;
/** Elements along K of an mma. */
const PRODUCT = 16;

const { tensor, received, latency } = FITTED.matmul;

/** A tile with the blocks that share its sum. */
export interface LastWay extends LastTile {
  readonly splits: number;
}

interface Request {
  readonly problem: LastProblem;
  /** Whether the weight gradient is asked for. */
  readonly weight: boolean;
  /** Blocks may not share sums, but for the weight gradient's. Default: they may. */
  readonly whole?: boolean;
}

const sidesOf = ({ warps, each }: Omit<LastTile, 'stages'>): readonly [number, number] => [
  warps[0] * each[0] * 16,
  warps[1] * each[1] * 8,
];

/** Tiles of the result, and steps that each is summed in. */
function workOf({ problem: p, weight }: Request, tile: LastWay) {
  const [rows, columns] = sidesOf(tile);
  const pixels = p.images * p.outSize[0] * p.outSize[1];
  const taps = p.kernel[0] * p.kernel[1];
  if (weight) {
    const tiles = Math.ceil(p.outputs / rows) * Math.ceil(p.inputs / columns) * taps;
    return { blocks: tiles * tile.splits, steps: Math.ceil(pixels / DEPTH / tile.splits) };
  }
  // Of a strided input gradient each phase has its share of the pixels and of the taps.
  const phases = p.adjoint ? p.stride[0] * p.stride[1] : 1;
  const tiles = phases * Math.ceil(pixels / phases / rows) * Math.ceil(p.outputs / columns);
  const steps = Math.ceil(taps / phases) * Math.ceil(p.inputs / DEPTH);
  return { blocks: tiles * tile.splits, steps: Math.ceil(steps / tile.splits) };
}

/** How many blocks may share a sum, so that they are one or two for each multiprocessor. */
function splitsFor(target: Target, request: Request, whole: LastWay): Iterable<number> {
  const { problem: p, weight } = request;
  const { blocks, steps } = workOf(request, whole);
  if (weight) return [lastSplits(p, (2 * target.units) / blocks)];
  const isPhased = p.adjoint && p.stride.some((s) => s > 1);
  if (request.whole || isPhased || p.dtype === i8) return [1];
  return new Set([1, ...[1, 2].map((each) => splitsOf(steps, (each * target.units) / blocks))]);
}

const needsOf = (tile: LastTile) => {
  const [rows, columns] = sidesOf(tile);
  return {
    threads: 32 * tile.warps[0] * tile.warps[1],
    // Rows of either panel are 4 words longer than what is in use.
    bytes: 4 * tile.stages * (rows + columns) * (DEPTH / 2 + 4),
    registers: 48 + 4 * tile.each[0] * tile.each[1] + 4 * tile.each[0] + 2 * tile.each[1],
  };
};

const rule: LaunchRule<Request, LastWay> = {
  *candidates(target, request) {
    for (const shape of SHAPES) {
      const whole = { ...shape, stages: STAGES, splits: 1 };
      for (const splits of splitsFor(target, request, whole)) yield { ...whole, splits };
    }
  },
  fits(target, _request, tile) {
    const { threads, bytes, registers } = needsOf(tile);
    return hasRegisters(target.limits, threads, registers) && bytes <= sharedBytesOfEach(target.limits, 1);
  },
  cycles(target, request, tile) {
    const { blocks, steps } = workOf(request, tile);
    const [rows, columns] = sidesOf(tile);
    const multiplied = (rows * columns * DEPTH) / (tensor.rate * PRODUCT);
    const copied = ((rows + columns) * DEPTH * 2) / received;
    const resident = residentBlocks(target.limits, needsOf(tile));
    const perUnit = Math.ceil(blocks / target.units);
    const waits = (steps * tensor.chunk) / Math.min(resident, perUnit);
    const each = steps * Math.max(multiplied, copied) + waits;
    const sum = request.weight ? 0 : sumCycles(matrixOf(request.problem), tile.splits, target);
    return perUnit * each + Math.ceil(perUnit / resident) * latency + sum;
  },
  parts: ({ splits }) => splits,
};

const matrixOf = ({ images, outputs, outSize }: LastProblem) => ({
  batches: 1,
  M: images * outSize[0] * outSize[1],
  N: outputs,
});

/** Ways to convolve with channels last, the most promising first, one without shared sums among them. */
export const lastTiles = (p: LastProblem, target: Target, weight: boolean, count = 2): LastWay[] => {
  const problem = inPairs(p);
  const tiles = fastestTiles(rule, target, { problem, weight }, count);
  if (weight) return tiles;
  return withWhole(tiles, () => fastestTiles(rule, target, { problem, weight, whole: true }, 1));
};

/** The kernel of a way. */
export const lastKernel = (p: LastProblem, { splits, ...tile }: LastWay, weight: boolean): GridKernel =>
  weight ? convolveWeightLast(p, tile, splits) : convolveLast(inPairs(p), tile, splits);
