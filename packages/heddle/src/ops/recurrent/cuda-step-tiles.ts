/** The launch rule of a step of a recurrent network on a GPU. */
import { FITTED } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { combinations, fastestTiles, type LaunchRule } from '../launch-rule.js';
import { productOf, type StepProduct } from './cuda-elements.js';
import { needsOf, type StepTile } from './cuda-step.js';
import type { RecurrentProblem } from './problem.js';

interface StepProblem extends StepProduct {
  readonly rows: number;
  readonly size: number;
}

const MOST_THREADS = 512;

/** Bytes of shared memory that are left. */
const MARGIN = 1024;

const roundedTo = (n: number, v: number): number => Math.ceil(v / n) * n;

/** All of K on its way at once, in pieces so that the first can be used before the last is there; else a pipeline. */
function copiesOf(product: StepProduct, tile: Omit<StepTile, 'depth' | 'stages'>, room: number) {
  const fits = (depth: number, stages: number): boolean =>
    needsOf({ ...tile, depth, stages }, product).sharedBytes <= room;
  const even = roundedTo(4 * tile.shares, 8);
  const whole = [1, 2, 4].flatMap((stages) => {
    const depth = roundedTo(even, product.K / stages);
    return (stages === 1 || depth * (stages - 1) < product.K) && fits(depth, stages)
      ? [{ depth, stages }]
      : [];
  });
  if (whole.length > 0) return whole;
  const depth = roundedTo(even, 64);
  const stages = [4, 3, 2].find((n) => fits(depth, n));
  return stages ? [{ depth, stages }] : [];
}

const rule: LaunchRule<StepProblem, StepTile> = {
  *candidates({ limits }, p) {
    const sizes = [4, 8, 16, 32, 64] as const;
    for (const [rows, features, each, shares] of combinations(
      sizes,
      sizes,
      [1, 2, 4, 8],
      [1, 2, 4, 8, 16, 32],
    )) {
      if (each > rows || (rows > 4 && rows >= 2 * p.rows) || (features > 4 && features >= 2 * p.size))
        continue;
      if (shares > 1 && p.K < 8 * shares) continue;
      const tile = { rows, features, each, shares };
      for (const copies of copiesOf(p, tile, limits.sharedBytesPerBlock - MARGIN))
        yield { ...tile, ...copies };
    }
  },

  fits: (_target, p, tile) => needsOf(tile, p).threads <= MOST_THREADS,

  cycles({ units }, p, tile) {
    const { rows, features, each, shares, depth } = tile;
    const fitted = FITTED.matmul;
    const { columns, threads } = needsOf(tile, p);
    const count = threads / 32;
    const chunks = Math.ceil(p.K / depth);
    const perUnit = Math.ceil((Math.ceil(p.rows / rows) * Math.ceil(p.size / features)) / units);
    /** Rounds of four steps along K of a thread. */
    const rounds = chunks * Math.ceil(depth / (4 * shares));
    const reads = each + 4;
    const throughput = count * rounds * Math.max((16 * each + 2 * reads) / 4, 2 * reads);
    const copied = (4 * chunks * depth * (rows + columns)) / fitted.received;
    const alone = rounds * (16 * each + 2 * reads + fitted.readLatency);
    // What is summed while the rest is on its way, and the waits that other warps of a scheduler hide.
    const product = Math.max(throughput, alone / Math.max(1, count / 4));
    const apart = Math.max(copied / chunks + product, copied + product / chunks);
    const added = fitted.shares + (rows * features * Math.ceil(columns / features) * shares * 2) / threads;
    return fitted.latency + perUnit * (apart + fitted.block + fitted.warp * count) + chunks * 40 + added;
  },

  key: ({ rows, features, each, shares }) => [rows, features, each, shares].join(),
};

const problemOf = (p: RecurrentProblem, isBackward: boolean): StepProblem => ({
  ...productOf(p, isBackward),
  ...{ rows: p.rows, size: p.size },
});

/** Ways to cut a step, the most promising first. */
export const stepTiles = (
  p: RecurrentProblem,
  isBackward: boolean,
  target: Target,
  count: number,
): StepTile[] => fastestTiles(rule, target, problemOf(p, isBackward), count);

/** Estimated cycles of a step. */
export const stepCycles = (
  p: RecurrentProblem,
  isBackward: boolean,
  target: Target,
  tile: StepTile,
): number => rule.cycles(target, problemOf(p, isBackward), tile);
