/**
 * The launch rule of the f32 products of GPUs. A multiprocessor multiplies, reads shared memory and copies into it; what
 * hides behind what depends on how many warps it has.
 */
import { FITTED, hasRegisters, residentBlocks, sharedBytesOfEach } from '../../kernel/ir/machine.js';
import type { GpuLimits, Target } from '../../kernel/ir/target.js';
import { combinations, fastestTiles, type LaunchRule } from '../launch-rule.js';
import type { MatmulProblem } from './cpu.js';
import type { Cut } from './cuda-block.js';
import type { MatmulTile } from './cuda-layout.js';

const LANES = [
  [8, 4],
  [4, 8],
  [2, 16],
  [1, 32],
  [32, 1],
] as const;
const EACH = [
  [1, 1],
  [1, 2],
  [2, 2],
  [1, 4],
  [2, 4],
  [4, 2],
  [4, 4],
  [8, 4],
  [4, 8],
  [8, 8],
] as const;
/** Along M and N. */
const WARPS = [
  [1, 1],
  [1, 2],
  [2, 1],
  [2, 2],
  [2, 4],
  [4, 2],
  [4, 4],
] as const;
const MOST_WARPS = 16;

/** Bytes of shared memory that are left. */
export const MARGIN = 1024;

/** What a block may have of shared memory, so that a second one has room. */
const roomOf = (limits: GpuLimits): number => sharedBytesOfEach(limits, 2) - MARGIN;

type TileShape = Pick<MatmulTile, 'warps' | 'lanes' | 'each'>;

/** Rows and columns of C in a tile. */
const sizeOf = ({ warps, lanes, each }: TileShape): readonly [number, number] => [
  warps[0] * lanes[0] * each[0],
  warps[1] * lanes[1] * each[1],
];

/** Whether a tile is neither much larger than the matrix nor needlessly long. */
function suits({ M, N }: MatmulProblem, shape: TileShape): boolean {
  const [rows, columns] = sizeOf(shape);
  // Half a tile at least is in the matrix, unless no smaller one is to be had.
  if ((rows >= 2 * M && rows > shape.lanes[0]) || (columns >= 2 * N && columns > shape.lanes[1]))
    return false;
  return (rows <= 8 * columns || columns >= N) && (columns <= 8 * rows || rows >= M);
}

/**
 * Copies of so many steps along K, for tiles of so many rows and columns together: all of K at once where it fits, in
 * pieces so that the first can be used before the last is there; else a pipeline.
 */
function copiesOf(K: number, width: number, along: number, room: number): Pick<Cut, 'depth' | 'stages'>[] {
  const whole = Math.ceil(K / 4) * 4;
  if (4 * width * (whole + 8) <= room) {
    const stages = whole >= 512 ? 2 : 1;
    return [{ depth: Math.ceil(whole / stages / 4) * 4, stages }];
  }
  return [16 * along, 32 * along].flatMap((depth) => {
    const stages = [4, 3, 2].find((n) => 4 * width * (depth + 8) * n <= room);
    return stages ? [{ depth, stages }] : [];
  });
}

/** To store the parts of blocks that share K, and to add them in a second kernel. */
export function sumCycles(
  { batches, M, N }: Pick<MatmulProblem, 'batches' | 'M' | 'N'>,
  splits: number,
  { units, limits }: Target,
): number {
  if (splits === 1) return 0;
  const bytes = 4 * splits * batches * M * N;
  // What the cache does not hold comes from memory.
  const rate = bytes > limits.cacheBytes ? FITTED.strips.memory : FITTED.matmul.received;
  return FITTED.matmul.anotherKernel + (2 * bytes) / (units * rate);
}

const rule: LaunchRule<MatmulProblem, MatmulTile> = {
  *candidates({ units, limits }, p) {
    for (const [lanes, each, [down, across]] of combinations(LANES, EACH, WARPS)) {
      const shape: TileShape = { warps: [down, across, 1], lanes, each };
      if (!suits(p, shape)) continue;
      const [rows, columns] = sizeOf(shape);
      const tiles = Math.ceil(p.M / rows) * Math.ceil(p.N / columns) * p.batches;
      for (const [along, splits] of combinations([1, 2, 4, 8, 16], [1, 2, 4, 8, 16, 32])) {
        if (down * across * along > MOST_WARPS || (along > 1 && p.K < 8 * along)) continue;
        // Blocks share K where there are too few tiles for all multiprocessors.
        if (splits > 1 && (tiles * splits > 2 * units || p.K < 64 * splits)) continue;
        const share = Math.ceil(p.K / splits / 4) * 4;
        for (const copies of copiesOf(share, rows + columns, along, roomOf(limits)))
          yield { warps: [down, across, along], lanes, each, ...copies, splits };
      }
    }
  },

  fits({ limits }, _p, tile) {
    const { warps, each } = tile;
    const [rows, columns] = sizeOf(tile);
    const threads = 32 * warps[0] * warps[1] * warps[2];
    if (warps[2] > 1 && 4 * warps[2] * rows * columns > roomOf(limits)) return false;
    const isLarge = each[0] * each[1] > 32 && threads > 256;
    return !isLarge || hasRegisters(limits, threads, 40 + 4 * (each[0] + each[1]));
  },

  cycles(target, p, tile) {
    const { units, limits } = target;
    const { warps, each, depth, stages, splits } = tile;
    const fitted = FITTED.matmul;
    const [rows, columns] = sizeOf(tile);
    const count = warps[0] * warps[1] * warps[2];
    const threads = 32 * count;
    const blocks = Math.ceil(p.M / rows) * Math.ceil(p.N / columns) * p.batches * splits;
    const chunks = Math.ceil(Math.ceil(p.K / depth) / splits);
    const bytes = 4 * (rows + columns) * (depth + 4) * stages;
    const registers = 30 + each[0] * each[1] + 2 * (each[0] + each[1]);
    // The times were fitted with what CUDA reserves for a block within `bytes`.
    const resident = residentBlocks(limits, {
      threads,
      bytes: bytes - limits.sharedBytesReserved,
      registers,
    });
    const perUnit = Math.ceil(blocks / units);
    const waves = Math.ceil(perUnit / resident);
    /** Reads of four steps along K that a warp makes. */
    const quads = chunks * Math.ceil(depth / (4 * warps[2]));
    const multiply = 4 * each[0] * each[1];
    const read = each[0] + each[1];
    const along = each[0] * each[1] < 64 ? fitted.alongK : 1;
    const throughput = along * count * quads * Math.max((multiply + 2 * read) / 4, read);
    const copied = (4 * (rows + columns) * chunks * depth) / fitted.received;
    const alone = quads * (multiply + 2 * read + fitted.readLatency);
    const shares = warps[2] > 1 ? fitted.shares + (rows * columns * warps[2]) / 32 : 0;
    const written = (4 * rows * columns) / fitted.received;
    const own = warps[2] > 1 ? Math.ceil((rows * columns) / threads) : each[0] * each[1];
    const followed = p.followed ? fitted.following * own : 0;
    // Waiting is hidden by other warps of the same scheduler.
    const others = Math.max(1, (Math.min(resident, perUnit) * count) / 8);
    const busy =
      perUnit * (throughput + fitted.unhidden * copied + written) +
      (fitted.unhidden * waves * alone) / others;
    return (
      Math.max(busy, perUnit * copied) +
      waves * (fitted.latency + shares + followed) +
      perUnit * (fitted.block + fitted.warp * count) +
      sumCycles(p, splits, target)
    );
  },

  parts: ({ splits }) => splits,

  // One of each size, upright or lying: they differ more than lanes and warps laid out otherwise.
  key: (tile) => {
    const [rows, columns] = sizeOf(tile);
    return [Math.min(rows, columns), Math.max(rows, columns), tile.warps[2], tile.splits].join();
  },
};

/** Ways to multiply, the most promising first. */
export const matmulTiles = (p: MatmulProblem, target: Target, count: number): MatmulTile[] =>
  fastestTiles(rule, target, p, count);
