/**
 * Rows of integers sorted on a GPU, equal ones as they stood: of each, where it was. The same positions every time.
 *
 * Blocks sort 1024 elements in shared memory, a piece of a long row or several short rows; then pairs of sorted runs
 * become one, in memory, until a row is one run. In both, each element finds its place by searching the other run of its
 * pair, so that all threads have the same work: n log² n steps for n elements, of which a block's take no memory traffic.
 */
import { type DType, i32, i64 } from '../../core/dtype.js';
import type { Stage, StageArgument } from '../../graph/fused-op.js';
import { constant } from '../../kernel/ir/ir.js';
import { type IrFunction, irFunction } from '../../kernel/ir/ir-function.js';
import { buffer } from '../../kernel/ir/types.js';
import { type Cast, defineKernel, type Intrinsics, type Memory } from '../../kernel/language/language.js';
import { gridStage } from '../stage.js';
import type { GridKernel } from '../tiled.js';
import type { SortProblem } from './problem.js';

/** Elements that a block sorts. */
const CHUNK = 1024;
const THREADS = 256;

/** Elements of a row with those that fill it up: to a power of two, or to whole chunks. */
export const rowLength = (n: number): number =>
  n <= CHUNK ? 2 ** Math.ceil(Math.log2(n)) : Math.ceil(n / CHUNK) * CHUNK;

/** Blocks that sort all chunks. */
const chunksOf = ({ rows, n }: SortProblem): number => Math.ceil((rows * rowLength(n)) / CHUNK);

/** Lengths of the sorted runs before each of the launches of `mergeRuns`. */
function runLengths(n: number): number[] {
  const runs: number[] = [];
  for (let run = CHUNK; run < n; run *= 2) runs.push(run);
  return runs;
}

/** How many of the `count` sorted keys from keys[from] on are below `bound`; `orEqual`: at most `bound`. */
export const rank = (keys: Memory, from: number, count: number, bound: number, orEqual: boolean) => {
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

/** The largest key: what fills up a row comes after all that is equal to it. */
const lastKey = (dtype: DType): IrFunction =>
  irFunction(() => constant(dtype, dtype === i64 ? 2n ** 63n - 1n : 2 ** 31 - 1));

/** What all kernels of this file are compiled for. `finish` of the last one: (position, row, i) → what is stored. */
const constantsOf = ({ rows, n, offset, dtype }: SortProblem, finish: IrFunction | undefined) => ({
  ...{ rank, place, ROWS: rows, N: n, AT: offset, LENGTH: rowLength(n), CHUNK },
  ...{ number: dtype as Cast<'i32'>, lastKey: lastKey(dtype), LAST_PASS: finish !== undefined },
  finish: finish ?? irFunction(([v]) => v!),
});

/**
 * Keys (rows, n) → rows sorted in chunks: keys, and where each was; by the last pass, its positions (rows, n) alone.
 */
function sortChunks(p: SortProblem, finish?: IrFunction): GridKernel {
  const pairs = { source: buffer(p.dtype), keys: buffer(p.dtype), positions: buffer(i32) };
  const { keys: _, ...alone } = pairs;
  const kernel = defineKernel(
    'sortChunks',
    finish ? (alone as typeof pairs) : pairs,
    ({ source, keys, positions }, context) => {
      const { blockIdx, threadIdx, shared, barrier, select, idiv, i32, place, finish } = context;
      const { number, lastKey, ROWS, N, AT, LENGTH, CHUNK, RUNS, LAST_PASS } = context;
      const key = shared(number, 2 * CHUNK);
      const position = shared(i32, 2 * CHUNK);
      const t = threadIdx.x;
      const i = blockIdx.x * CHUNK + t;
      const row = ROWS > 1 ? idiv(i, LENGTH) : 0;
      const r = i - row * LENGTH;
      const at = AT + Math.min(row, ROWS - 1) * N + Math.min(r, N - 1);
      key[t] = select(row < ROWS && r < N, source[at], lastKey());
      position[t] = r;
      barrier();
      for (let s = 0; s < RUNS; s++) {
        const from = (s % 2) * CHUNK;
        const to = CHUNK - from + place(key, from, CHUNK, t, 1 << s, context);
        key[to] = key[from + t];
        position[to] = position[from + t];
        barrier();
      }
      const sorted = (RUNS % 2) * CHUNK + t;
      if (!LAST_PASS) {
        keys[i] = key[sorted];
        positions[i] = position[sorted];
      } else if (row < ROWS && r < N) positions[row * N + r] = finish(position[sorted], row, r);
    },
    { ...constantsOf(p, finish), RUNS: Math.log2(Math.min(CHUNK, rowLength(p.n))) },
  );
  return { kernel, grid: [chunksOf(p), 1, 1], threads: CHUNK, sharedBytes: 0 };
}

/** Pairs of sorted runs as one each; by the last pass, the positions (rows, n) alone. */
function mergeRuns(p: SortProblem, run: number, finish?: IrFunction): GridKernel {
  const [keys, positions] = [buffer(p.dtype), buffer(i32)];
  const pairs = { keys, positions, mergedKeys: keys, mergedPositions: positions };
  const { mergedKeys: _, ...alone } = pairs;
  const kernel = defineKernel(
    'mergeRuns',
    finish ? (alone as typeof pairs) : pairs,
    ({ keys, positions, mergedKeys, mergedPositions }, context) => {
      const { globalId, idiv, place, finish, ROWS, N, LENGTH, RUN, LAST_PASS } = context;
      const i = globalId.x;
      const row = ROWS > 1 ? idiv(i, LENGTH) : 0;
      const to = place(keys, row * LENGTH, LENGTH, i - row * LENGTH, RUN, context);
      if (!LAST_PASS) {
        mergedKeys[row * LENGTH + to] = keys[i];
        mergedPositions[row * LENGTH + to] = positions[i];
      } else if (to < N) mergedPositions[row * N + to] = finish(positions[i], row, to);
    },
    { ...constantsOf(p, finish), RUN: run },
  );
  return { kernel, grid: [(p.rows * rowLength(p.n)) / THREADS, 1, 1], threads: THREADS, sharedBytes: 0 };
}

/** Keys and positions before a pass, and after it. */
const memoryOf = (p: SortProblem, pass: number): [keys: StageArgument, positions: StageArgument] => {
  const elements = chunksOf(p) * CHUNK;
  return [
    { scratch: `keys${pass % 2}`, bytes: elements * p.dtype.bytes },
    { scratch: `positions${pass % 2}`, bytes: elements * i32.bytes },
  ];
};

/** Each row's keys sorted, and where each was, both (rows, length): rows are filled up at their ends by the largest key. */
export function sortedPairs(
  p: SortProblem,
  source: StageArgument,
): { readonly stages: readonly Stage[]; readonly keys: StageArgument; readonly positions: StageArgument } {
  const runs = runLengths(p.n);
  const [keys, positions] = memoryOf(p, runs.length);
  const stages = [
    gridStage(sortChunks(p), source, ...memoryOf(p, 0)),
    ...runs.map((run, i) => gridStage(mergeRuns(p, run), ...memoryOf(p, i), ...memoryOf(p, i + 1))),
  ];
  return { stages, keys, positions };
}

/** Where each row's sorted elements were, (rows, n). @param finish (position, row, i) → what is stored */
export function sortedPositions(p: SortProblem, source: StageArgument, finish: IrFunction): Stage[] {
  const runs = runLengths(p.n);
  const last = runs.length - 1;
  if (last < 0) return [gridStage(sortChunks(p, finish), source, { output: true })];
  return [
    gridStage(sortChunks(p), source, ...memoryOf(p, 0)),
    ...runs.map((run, i) =>
      i === last
        ? gridStage(mergeRuns(p, run, finish), ...memoryOf(p, i), { output: true })
        : gridStage(mergeRuns(p, run), ...memoryOf(p, i), ...memoryOf(p, i + 1)),
    ),
  ];
}
