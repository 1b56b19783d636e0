/**
 * Rows added up where an index points, on a GPU: the gradient of an embedding. f32; the same bits every time.
 *
 * Adding by atomics would be one kernel, but in any order. So the positions are sorted by their index first, equal ones
 * as they stood: blocks sort pieces of 1024 in shared memory, then pairs of sorted runs become one, where each element
 * finds its place by searching the other run. Then each row knows where its positions begin and adds up what stands
 * there; a row of many positions has its own block. n log² n for the n positions, n + size rows read and written.
 *
 * H200, µs, positions × width to rows (PyTorch's embedding backward): 4096 × 512 to 50,000: 50 (215), 32 of them for the
 * rows themselves; 65,536 × 64 to 50,000: 40 (257), all to one row 167; 1024 × 64 to 1000: 11.
 */
import { f32, i32 } from '../../core/dtype.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import { loadLanes, storeLanes } from '../lanes.js';
import type { GridKernel } from '../tiled.js';

export interface IndexAddProblem {
  /** values (outer, n, inner), index (n), result (outer, size, inner). */
  readonly outer: number;
  readonly n: number;
  readonly size: number;
  readonly inner: number;
  readonly valuesOffset: number;
  readonly indexOffset: number;
  readonly finish: IrFunction;
}

/** Positions that a block sorts. */
const CHUNK = 1024;
const THREADS = 256;
/** Threads of a block that adds up a long row, and positions that make a row long. */
const BLOCK = 1024;
export const LONG = 256;
/** Positions that an accumulator of a long row takes. */
const TURNS = 256;

/** Positions with those that fill up the last chunk. */
export const paddedLength = (n: number): number => Math.ceil(n / CHUNK) * CHUNK;

/** Lengths of the sorted runs before each of the launches of `mergeRuns`. */
export function runLengths(n: number): number[] {
  const runs: number[] = [];
  for (let run = CHUNK; run < n; run *= 2) runs.push(run);
  return runs;
}

/** How many of the `count` sorted keys from keys[from] on are below `bound`; `orEqual`: at most `bound`. */
const rank = (keys: Memory, from: number, count: number, bound: number, orEqual: boolean) => {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    const key = keys[from + middle];
    if (key < bound || (orEqual && key === bound)) low = middle + 1;
    else high = middle;
  }
  return low;
};

type WithRank = Intrinsics & { readonly rank: typeof rank };

/**
 * Where element i of `length` goes when its sorted run and its neighbour become one; runs are `run` long, a power
 * of two. Of equal keys those of the left run come first.
 */
const place = (keys: Memory, from: number, length: number, i: number, run: number, c: WithRank) => {
  const isRight = (i & run) !== 0;
  const start = i & ~(run - 1);
  const other = c.select(isRight, start - run, start + run);
  const count = Math.max(0, Math.min(run, length - other));
  const passed = c.rank(keys, from + other, count, keys[from + i], isRight);
  return passed + c.select(isRight, i - run, i);
};

const HELPERS = { rank, place };
const LAST = 2 ** 31 - 1;

/** index (n) → its values sorted in chunks, and where each was. What fills up the last chunk sorts to its end. */
export function sortChunks({ n, indexOffset }: IndexAddProblem): GridKernel {
  const kernel = defineKernel(
    'sortChunks',
    { index: buffer(i32), keys: buffer(i32), positions: buffer(i32) },
    ({ index, keys, positions }, context) => {
      const { blockIdx, threadIdx, shared, barrier, select, i32, place, N, AT, CHUNK, RUNS, LAST } = context;
      const key = shared(i32, 2 * CHUNK);
      const position = shared(i32, 2 * CHUNK);
      const t = threadIdx.x;
      const i = blockIdx.x * CHUNK + t;
      key[t] = select(i < N, index[AT + Math.min(i, N - 1)], LAST);
      position[t] = i;
      barrier();
      for (let s = 0; s < RUNS; s++) {
        const from = (s % 2) * CHUNK;
        const to = CHUNK - from + place(key, from, CHUNK, t, 1 << s, context);
        key[to] = key[from + t];
        position[to] = position[from + t];
        barrier();
      }
      keys[i] = key[(RUNS % 2) * CHUNK + t];
      positions[i] = position[(RUNS % 2) * CHUNK + t];
    },
    { ...HELPERS, N: n, AT: indexOffset, CHUNK, RUNS: Math.log2(CHUNK), LAST },
  );
  return { kernel, grid: [paddedLength(n) / CHUNK, 1, 1], threads: CHUNK, sharedBytes: 0 };
}

/** Pairs of sorted runs as one each. */
export function mergeRuns({ n }: IndexAddProblem, run: number): GridKernel {
  const length = paddedLength(n);
  const memory = buffer(i32);
  const kernel = defineKernel(
    'mergeRuns',
    { keys: memory, positions: memory, mergedKeys: memory, mergedPositions: memory },
    ({ keys, positions, mergedKeys, mergedPositions }, context) => {
      const { globalId, place, LENGTH, RUN } = context;
      const i = globalId.x;
      const to = place(keys, 0, LENGTH, i, RUN, context);
      mergedKeys[to] = keys[i];
      mergedPositions[to] = positions[i];
    },
    { ...HELPERS, LENGTH: length, RUN: run },
  );
  return { kernel, grid: [length / THREADS, 1, 1], threads: THREADS, sharedBytes: 0 };
}

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
