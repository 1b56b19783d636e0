/** The launch rule of convolutions with channels last: which tile a block sums. */
import { FITTED, hasRegisters, residentBlocks, sharedBytesOfEach } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { fastestTiles, type LaunchRule } from '../launch-rule.js';
import type { GridKernel } from '../tiled.js';
import {
  convolveLast,
  convolveWeightLast,
  DEPTH,
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

/** A tile with the blocks that share the weight gradient's sum; 1 otherwise. */
export interface LastWay extends LastTile {
  readonly splits: number;
}

interface Request {
  readonly problem: LastProblem;
  /** Whether the weight gradient is asked for. */
  readonly weight: boolean;
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
  return { blocks: tiles, steps: Math.ceil(taps / phases) * Math.ceil(p.inputs / DEPTH) };
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
      const tile = { ...shape, stages: STAGES, splits: 1 };
      const { blocks } = workOf(request, tile);
      const splits = request.weight ? lastSplits(request.problem, (2 * target.units) / blocks) : 1;
      yield { ...tile, splits };
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
    return perUnit * (steps * Math.max(multiplied, copied) + waits) + Math.ceil(perUnit / resident) * latency;
  },
};

/** Ways to convolve with channels last, the most promising first. */
export const lastTiles = (problem: LastProblem, target: Target, weight: boolean, count = 2): LastWay[] =>
  fastestTiles(rule, target, { problem, weight }, count);

/** The kernel of a way. */
export const lastKernel = (p: LastProblem, { splits, ...tile }: LastWay, weight: boolean): GridKernel =>
  weight ? convolveWeightLast(p, tile, splits) : convolveLast(p, tile);
