/** The launch rule of the products on tensor cores. */
import { type DType, isHalf } from '../../core/dtype.js';
import { FITTED } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { combinations, fastestTiles, type LaunchRule, leastCycles } from '../launch-rule.js';
import type { MatmulProblem } from './cpu.js';
import { MARGIN, sumCycles } from './cuda-tiles.js';
import { stepOf, type TensorOperand } from './tensor-core-fragments.js';
import { type TensorTile, tensorLayoutOf } from './tensor-core-panel.js';

/** Warps (the last along K) and pieces per warp, and what share of the speed of tensor cores such a tile reaches. */
type Shapes = readonly (readonly [TensorTile['warps'], TensorTile['each'], speed: number])[];
const SHAPES: Shapes = [
  [[2, 4, 1], [4, 8], 1],
  [[4, 2, 1], [4, 8], 0.97],
  [[2, 2, 1], [4, 8], 0.85],
  [[1, 2, 2], [4, 8], 0.75],
  [[1, 2, 4], [4, 8], 0.8],
  [[2, 2, 1], [4, 4], 0.78],
  [[2, 2, 1], [2, 8], 0.75],
  [[2, 2, 1], [2, 4], 0.5],
  [[1, 2, 2], [2, 4], 0.5],
  [[1, 2, 1], [2, 4], 0.45],
  [[1, 1, 1], [2, 4], 0.25],
];

/** Of tf32x3: both parts of the fragments take registers, so that a warp sums 64 × 32 at most. Speeds are not fitted yet. */
const SPLIT_SHAPES: Shapes = [
  [[2, 4, 1], [4, 4], 1],
  [[4, 4, 1], [2, 4], 0.95],
  [[4, 2, 1], [2, 4], 0.9],
  [[2, 4, 1], [2, 4], 0.9],
  [[2, 2, 2], [2, 4], 0.85],
  [[2, 2, 1], [4, 4], 0.65],
  [[2, 2, 1], [2, 4], 0.6],
  [[1, 2, 2], [2, 4], 0.55],
  [[1, 2, 1], [2, 4], 0.35],
  [[1, 1, 1], [2, 4], 0.2],
];

/** What is multiplied, as what. */
interface TensorProblem extends MatmulProblem {
  readonly operand: TensorOperand;
  /** Of the matrices. */
  readonly dtype: DType;
  /** One warp sums an element: neither warps nor blocks share K. Default: they may. */
  readonly whole?: boolean;
}

const sizeOf = ({ warps, each }: Pick<TensorTile, 'warps' | 'each'>): readonly [number, number] => [
  warps[0] * each[0] * 16,
  warps[1] * each[1] * 8,
];

type Copies = Pick<TensorTile, 'depth' | 'stages'>;

/**
 * Copies of two or four mma's steps for each warp along K, in as many stages as the machine has room for. Where no
 * warps share K, shorter ones only if longer ones do not fit.
 */
function copiesOf({ limits }: Target, p: TensorProblem, shape: Pick<TensorTile, 'warps' | 'each'>): Copies[] {
  const { warps, each } = shape;
  const isShared = warps[2] > 1;
  const ways = (isShared ? [2, 4] : [4, 2]).flatMap((steps): Copies[] => {
    const depth = steps * stepOf(p.operand) * warps[2];
    const alone: TensorTile = { warps: [warps[0], warps[1], 1], each, depth, stages: 1, splits: 1 };
    const { words, sharedBytes } = tensorLayoutOf(p, alone, p.operand, p.dtype);
    if (isShared && (depth > p.K || (isHalf(p.dtype) && !words))) return [];
    const [least, most] = steps === 2 ? [2, 4] : [3, 3];
    const stages = Math.min(most, Math.floor((limits.sharedBytesPerBlock - MARGIN) / sharedBytes));
    return stages < least ? [] : [{ depth, stages }];
  });
  return isShared ? ways : ways.slice(0, 1);
}
interface RatedTile extends TensorTile {
  readonly speed: number;
}

const rule: LaunchRule<TensorProblem, RatedTile> = {
  *candidates(target, p) {
    const shapes = p.operand === 'tf32x3' ? SPLIT_SHAPES : SHAPES;
    for (const shape of shapes) {
      const [warps, each, speed] = shape;
      if (p.whole && warps[2] > 1) continue;
      const [rows, columns] = sizeOf({ warps, each });
      if (shape !== shapes.at(-1) && (rows >= 2 * p.M || columns >= 2 * p.N)) continue;
      const tiles = Math.ceil(p.M / rows) * Math.ceil(p.N / columns) * p.batches;
      const copies = copiesOf(target, p, { warps, each });
      for (const [{ depth, stages }, splits] of combinations(copies, p.whole ? [1] : [1, 2, 4, 8, 16])) {
        // Blocks share K where there are too few tiles for all multiprocessors.
        if (splits > 1 && (tiles * splits > 2 * target.units || p.K < 128 * splits)) continue;
        yield { warps, each, depth, stages, splits, speed };
      }
    }
  },

  fits: ({ limits }, p, tile) =>
    tensorLayoutOf(p, tile, p.operand, p.dtype).sharedBytes <= limits.sharedBytesPerBlock - MARGIN,

  cycles(target, p, tile) {
    const { units } = target;
    const { depth, splits, speed } = tile;
    const { latency, tensor } = FITTED.matmul;
    const [rows, columns] = sizeOf(tile);
    const tiles = Math.ceil(p.M / rows) * Math.ceil(p.N / columns) * p.batches;
    const chunks = Math.ceil(Math.ceil(p.K / depth) / splits);
    const products = rows * columns * chunks * depth * (p.operand === 'tf32x3' ? 3 : 1);
    const busy = products / (tensor.rate * stepOf(p.operand) * speed);
    const waves = Math.ceil((tiles * splits) / units);
    return waves * (busy + chunks * tensor.chunk) + latency + sumCycles(p, splits, target);
  },

  parts: ({ splits }) => splits,
};

/** Ways to multiply on tensor cores, the most promising first. */
export const tensorTiles = (p: TensorProblem, target: Target, count = 4): TensorTile[] =>
  fastestTiles(rule, target, p, count);

/** Cycles of the best of them. */
export const tensorCycles = (p: TensorProblem, target: Target): number => leastCycles(rule, target, p);
