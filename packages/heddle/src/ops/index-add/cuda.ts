/**
 * Rows added up where an index points, on a GPU: the gradient of an embedding. f32; the same bits every time.
 *
 * Adding by atomics would be one kernel, but in any order. So the positions are sorted by their index first (../sort/cuda),
 * equal ones as they stood. Then each row knows where its positions begin and adds up what stands there; a row of many
 * positions has its own block. n log² n for the n positions, n + size rows read and written.
 *
 * H200, µs, positions × width to rows (PyTorch's embedding backward): 4096 × 512 to 50,000: 50 (215), 32 of them for the
 * rows themselves; 65,536 × 64 to 50,000: 40 (257), all to one row 167; 1024 × 64 to 1000: 11.
 */
import { f32, i32 } from '../../core/dtype.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import { loadLanes, storeLanes } from '../lanes.js';
import { rank } from '../sort/cuda.js';
import type { GridKernel } from '../tiled.js';

export interface IndexAddProblem {
  /** values (outer, n, inner), index (n), result (outer, size, inner). */
  readonly outer: number;
  readonly n: number;
  readonly size: number;
  readonly inner: number;
  readonly valuesOffset: number;
  readonly finish: IrFunction;
}

const THREADS = 256;
/** Threads of a block that adds up a long row, and positions that make a row long. */
const BLOCK = 1024;
export const LONG = 256;
/** Positions that an accumulator of a long row takes. */
const TURNS = 256;

/** Where the positions of each row begin, and after the last of them where they end: `size` + 1. */
export function rowStarts({ n, size }: IndexAddProblem): GridKernel {
  const kernel = defineKernel(
    'rowStarts',
    { keys: buffer(i32), starts: buffer(i32) },
    ({ keys, starts }, { globalId, rank, N, SIZE }) => {
      const r = globalId.x;
      if (r <= SIZE) starts[r] = rank(keys, 0, N, r, false);
    },
    { rank, N: n, SIZE: size },
  );
  return { kernel, grid: [Math.ceil((size + 1) / THREADS), 1, 1], threads: THREADS, sharedBytes: 0 };
}

const SUMS = { values: buffer(f32), positions: buffer(i32), starts: buffer(i32), y: buffer(f32) };

/** Neighbours of a row that a thread adds up at once. */
const lanesOf = ({ inner, valuesOffset }: IndexAddProblem): 1 | 4 =>
  inner % 4 === 0 && valuesOffset % 4 === 0 ? 4 : 1;

/** Rows of the result: the values at their positions, in their order. Leaves out those of more than `LONG` positions. */
export function addRows(p: IndexAddProblem): GridKernel {
  const lanes = lanesOf(p);
  const elements = (p.outer * p.size * p.inner) / lanes;
  const kernel = defineKernel(
    'addRows',
    SUMS,
    ({ values, positions, starts, y }, context) => {
      const { globalId, idiv, f32, splat4, finish, loadLanes, storeLanes } = context;
      const { n, size, inner, lanes, elements, valuesOffset, LONG } = context;
      const i = globalId.x;
      if (i >= elements) return;
      const c = (i % (inner / lanes)) * lanes;
      const row = idiv(i, inner / lanes);
      const r = row % size;
      const outer = idiv(row, size);
      const begin = starts[r];
      const end = starts[r + 1];
      const from = valuesOffset + outer * n * inner + c;
      if (end - begin > LONG) return;
      let sum = lanes === 4 ? splat4(f32(0)) : f32(0);
      for (let j = begin; j < end; j++) sum += loadLanes(values, from + positions[j] * inner, lanes, context);
      storeLanes(y, row * inner + c, finish(sum, outer, r, c), lanes, context);
    },
    { ...p, lanes, elements, LONG, loadLanes, storeLanes },
  );
  return { kernel, grid: [Math.ceil(elements / THREADS), 1, 1], threads: THREADS, sharedBytes: 0 };
}

/**
 * The rows of more than `LONG` positions, by a block each: teams of threads add every so many positions, TURNS of them to an
 * accumulator and those to a total (one accumulator for all would be off by as many roundings), then half of the teams'
 * sums are added to the other half, until one is left. There is a block for every multiple of `LONG`; a row belongs to
 * that of the first one among its positions.
 */
export function addLongRows(p: IndexAddProblem): GridKernel {
  const lanes = lanesOf(p);
  const columns = p.inner / lanes;
  const across = Math.min(BLOCK, 2 ** Math.ceil(Math.log2(columns)));
  const teams = BLOCK / across;
  const kernel = defineKernel(
    'addLongRows',
    { keys: buffer(i32), ...SUMS },
    ({ keys, values, positions, starts, y }, context) => {
      const { blockIdx, threadIdx, shared, barrier, idiv, f32, load4, splat4, store4, finish } = context;
      const { n, size, outer: outers, inner, valuesOffset, lanes, columns, across, teams, level } = context;
      const { LONG, loadLanes, storeLanes } = context;
      const parts = shared(f32, teams, across * lanes);
      const probe = blockIdx.x * LONG;
      const r = keys[probe];
      if (r < 0 || r >= size) return;
      const begin = starts[r];
      const end = starts[r + 1];
      if (end - begin <= LONG || begin > probe || begin <= probe - LONG) return;
      const x = threadIdx.x % across;
      const team = idiv(threadIdx.x, across);
      for (let outer = 0; outer < outers; outer++) {
        for (let first = 0; first < columns; first += across) {
          const c = Math.min(first + x, columns - 1) * lanes;
          const from = valuesOffset + outer * n * inner + c;
          let total = lanes === 4 ? splat4(f32(0)) : f32(0);
          for (let first = begin + team; first < end; first += level) {
            let sum = lanes === 4 ? splat4(f32(0)) : f32(0);
            const last = Math.min(first + level, end);
            for (let j = first; j < last; j += teams)
              sum += loadLanes(values, from + positions[j] * inner, lanes, context);
            total += sum;
          }
          if (lanes === 4) store4(parts, team, x * lanes, total);
          else parts[team][x] = total;
          barrier();
          for (let half = teams >> 1; half > 0; half >>= 1) {
            if (team < half)
              for (let l = 0; l < lanes; l++) parts[team][x * lanes + l] += parts[team + half][x * lanes + l];
            barrier();
          }
          if (team === 0 && first + x < columns) {
            const sum = lanes === 4 ? load4(parts, 0, x * lanes) : parts[0][x];
            storeLanes(y, (outer * size + r) * inner + c, finish(sum, outer, r, c), lanes, context);
          }
          barrier();
        }
      }
    },
    { ...p, lanes, columns, across, teams, level: teams * TURNS, LONG, loadLanes, storeLanes },
  );
  return { kernel, grid: [Math.ceil(p.n / LONG), 1, 1], threads: BLOCK, sharedBytes: 0 };
}
