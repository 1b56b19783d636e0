/**
 * The launch rule of the matrix product for GPUs: the ways to cut the work, ordered by a model of a multiprocessor:
 * cycles to multiply, to read shared memory and to copy into it, and a wait for memory that nothing hides. The model
 * ranks; the autotuner times the first few.
 */
import { type DType, isHalf } from '../../core/dtype.js';
import { FITTED, hasRegisters, residentBlocks, sharedBytesOfEach } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import type { MatmulProblem } from './cpu.js';
import type { MatmulTile } from './cuda-layout.js';
import type { TensorOperand } from './tensor-core-fragments.js';
import { type TensorTile, tensorLayoutOf } from './tensor-core-panel.js';

type Pair = readonly [number, number];

const LANES: readonly Pair[] = [
  [8, 4],
  [4, 8],
  [2, 16],
  [1, 32],
  [32, 1],
];
const EACH: readonly Pair[] = [
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
];
/** Along M and N. */
const WARPS: readonly Pair[] = [
  [1, 1],
  [1, 2],
  [2, 1],
  [2, 2],
  [2, 4],
  [4, 2],
  [4, 4],
];

const { latency: LATENCY, anotherKernel: ANOTHER_KERNEL, received: RECEIVED } = FITTED.matmul;
/** Bytes of shared memory that are left. */
const MARGIN = 1024;

interface Cut {
  readonly depth: number;
  readonly stages: number;
}

/** All of K at once where it fits, in pieces so that the first can be used before the last is there; else a pipeline. */
function cutsOf(K: number, width: number, along: number, limit: number): readonly Cut[] {
  const whole = Math.ceil(K / 4) * 4;
  if (4 * width * (whole + 8) <= limit) {
    const stages = whole >= 512 ? 2 : 1;
    return [{ depth: Math.ceil(whole / stages / 4) * 4, stages }];
  }
  return [16 * along, 32 * along].flatMap((depth) => {
    const stages = [4, 3, 2].find((n) => 4 * width * (depth + 8) * n <= limit);
    return stages ? [{ depth, stages }] : [];
  });
}

function cyclesOf(p: MatmulProblem, tile: MatmulTile, { units, limits }: Target): number {
  const { M, N, K, batches } = p;
  const { warps, lanes, each, depth, stages, splits } = tile;
  const [rows, columns] = [warps[0] * lanes[0] * each[0], warps[1] * lanes[1] * each[1]];
  const count = warps[0] * warps[1] * warps[2];
  const threads = 32 * count;
  const blocks = Math.ceil(M / rows) * Math.ceil(N / columns) * batches * splits;
  const chunks = Math.ceil(Math.ceil(K / depth) / splits);
  const bytes = 4 * (rows + columns) * (depth + 4) * stages;
  const registers = 30 + each[0] * each[1] + 2 * (each[0] + each[1]);
  // The times were fitted with what CUDA reserves for a block within `bytes`.
  const resident = residentBlocks(limits, { threads, bytes: bytes - limits.sharedBytesReserved, registers });
  const perUnit = Math.ceil(blocks / units);
  const waves = Math.ceil(perUnit / resident);
  /** Reads of four steps along K that a warp makes. */
  const quads = chunks * Math.ceil(depth / (4 * warps[2]));
  const multiply = 4 * each[0] * each[1];
  const read = each[0] + each[1];
  // Small tiles read along K, with fewer reads on their way at a time.
  const along = each[0] * each[1] < 64 ? 1.25 : 1;
  const throughput = along * count * quads * Math.max((multiply + 2 * read) / 4, read);
  const copied = (4 * (rows + columns) * chunks * depth) / RECEIVED;
  const alone = quads * (multiply + 2 * read + FITTED.matmul.readLatency);
  const shares = warps[2] > 1 ? 100 + (rows * columns * warps[2]) / 32 : 0;
  const passes = splits > 1 ? ANOTHER_KERNEL + (batches * M * N * splits * 8) / (units * RECEIVED) : 0;
  const written = (4 * rows * columns) / RECEIVED;
  const own = warps[2] > 1 ? Math.ceil((rows * columns) / threads) : each[0] * each[1];
  const followed = p.followed ? FITTED.matmul.following * own : 0;
  // Waiting is hidden by other warps of the same scheduler.
  const others = Math.max(1, (Math.min(resident, perUnit) * count) / 8);
  const busy = perUnit * (throughput + 0.5 * copied + written) + (0.5 * waves * alone) / others;
  return (
    Math.max(busy, perUnit * copied) +
    waves * (LATENCY + shares + followed) +
    perUnit * (100 + 12 * count) +
    passes
  );
}

/** Ways to multiply, the most promising first. */
export function matmulTiles(p: MatmulProblem, target: Target, count: number): MatmulTile[] {
  const { M, N, K, batches } = p;
  const ranked: { readonly tile: MatmulTile; readonly cycles: number }[] = [];
  // A second block has room.
  const limit = sharedBytesOfEach(target.limits, 2) - MARGIN;
  for (const lanes of LANES) {
    for (const each of EACH) {
      for (const [down, across] of WARPS) {
        const [rows, columns] = [down * lanes[0] * each[0], across * lanes[1] * each[1]];
        // Half a tile at least is in the matrix, unless no smaller one is to be had.
        if ((rows >= 2 * M && rows > lanes[0]) || (columns >= 2 * N && columns > lanes[1])) continue;
        if (rows > 8 * columns && columns < N) continue;
        if (columns > 8 * rows && rows < M) continue;
        const tiles = Math.ceil(M / rows) * Math.ceil(N / columns) * batches;
        for (const along of [1, 2, 4, 8, 16]) {
          if (down * across * along > 16 || (along > 1 && K < 8 * along)) continue;
          const threads = 32 * down * across * along;
          if (along > 1 && 4 * along * rows * columns > limit) continue;
          if (
            each[0] * each[1] > 32 &&
            threads > 256 &&
            !hasRegisters(target.limits, threads, 40 + 4 * (each[0] + each[1]))
          )
            continue;
          for (const splits of [1, 2, 4, 8, 16, 32]) {
            if (splits > 1 && (tiles * splits > 2 * target.units || K < 64 * splits)) continue;
            const part = Math.ceil(K / splits / 4) * 4;
            for (const cut of cutsOf(part, rows + columns, along, limit)) {
              const tile: MatmulTile = { warps: [down, across, along], lanes, each, ...cut, splits };
              ranked.push({ tile, cycles: cyclesOf(p, tile, target) });
            }
          }
        }
      }
    }
  }
  // One of each size: they differ more than lanes and warps laid out otherwise.
  const seen = new Set<string>();
  const tiles: MatmulTile[] = [];
  for (const { tile } of ranked.sort((x, y) => x.cycles - y.cycles)) {
    const { warps, lanes, each, splits } = tile;
    const size = [warps[0] * lanes[0] * each[0], warps[1] * lanes[1] * each[1], warps[2], splits].join();
    if (seen.has(size)) continue;
    seen.add(size);
    if (tiles.push(tile) === count) break;
  }
  return tiles;
}

/** Warps (the last along K) and pieces per warp on tensor cores, and what share of their speed such a tile reaches. */
const TENSOR_TILES: readonly (readonly [warps: TensorTile['warps'], each: Pair, speed: number])[] = [
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

/**
 * Ways to multiply on tensor cores, the most promising first.
 * @param dtype of the matrices
 */
export function tensorTiles(
  p: MatmulProblem,
  target: Target,
  operand: TensorOperand,
  dtype: DType,
  count = 6,
): TensorTile[] {
  const { units, limits } = target;
  const { M, N, K, batches } = p;
  const step = operand === 'tf32' ? 8 : 16;
  const ranked: { readonly tile: TensorTile; readonly cycles: number }[] = [];
  for (const [warps, each, speed] of TENSOR_TILES) {
    const [rows, columns] = [warps[0] * each[0] * 16, warps[1] * each[1] * 8];
    const last = speed === 0.25;
    if (!last && (rows >= 2 * M || columns >= 2 * N)) continue;
    const tiles = Math.ceil(M / rows) * Math.ceil(N / columns) * batches;
    for (const steps of warps[2] > 1 ? [2, 4] : [4, 2]) {
      const depth = steps * step * warps[2];
      const one: TensorTile = { warps: [warps[0], warps[1], 1], each, depth, stages: 1, splits: 1 };
      const { words, sharedBytes: stage } = tensorLayoutOf(p, one, dtype);
      if (warps[2] > 1 && (depth > K || (isHalf(dtype) && !words))) continue;
      const stages = Math.min(steps === 2 ? 4 : 3, Math.floor((limits.sharedBytesPerBlock - MARGIN) / stage));
      if (stages < (steps === 2 ? 2 : 3)) continue;
      for (const splits of [1, 2, 4, 8, 16]) {
        if (splits > 1 && (tiles * splits > 2 * units || K < 128 * splits)) continue;
        const chunks = Math.ceil(Math.ceil(K / depth) / splits);
        const busy = (rows * columns * chunks * depth) / (FITTED.matmul.tensorRate * step * speed);
        const passes = splits > 1 ? ANOTHER_KERNEL + (batches * M * N * splits * 8) / (units * RECEIVED) : 0;
        const cycles = Math.ceil((tiles * splits) / units) * (busy + chunks * 40) + LATENCY + passes;
        ranked.push({ tile: { warps, each, depth, stages, splits }, cycles });
      }
      // Shorter copies only where longer ones do not fit.
      if (warps[2] === 1) break;
    }
  }
  return ranked
    .sort((x, y) => x.cycles - y.cycles)
    .slice(0, count)
    .map((r) => r.tile);
}
