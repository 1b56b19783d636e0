/**
 * Rows scattered on a GPU, the same way every time: the positions of each row are sorted (../sort/cuda), then each place
 * finds those that point to it by two searches, and takes the last of them, or adds up the values there in their order.
 */
import { f32, i32 } from '../../core/dtype.js';
import type { Stage, StageArgument } from '../../graph/fused-op.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import { rank, rowLength, sortedPairs } from '../sort/cuda.js';
import { gridStage } from '../stage.js';
import type { GridKernel } from '../tiled.js';
import type { ScatterProblem } from './problem.js';

const THREADS = 256;
/** Values that an accumulator takes. */
const TURNS = 256;

const constantsOf = ({ rows, n, size, valuesOffset, finish }: ScatterProblem) => ({
  ...{
    rank,
    PLACES: rows * size,
    N: n,
    LENGTH: rowLength(n),
    SIZE: size,
    VALUES: valuesOffset,
    TURNS,
    finish,
  },
});

const grid = ({ rows, size }: ScatterProblem): Pick<GridKernel, 'grid' | 'threads' | 'sharedBytes'> => ({
  ...{ grid: [Math.ceil((rows * size) / THREADS), 1, 1], threads: THREADS, sharedBytes: 0 },
});

function lastOfSorted(p: ScatterProblem): GridKernel {
  const kernel = defineKernel(
    'lastAt',
    { keys: buffer(i32), positions: buffer(i32), y: buffer(i32) },
    ({ keys, positions, y }, { globalId, idiv, rank, finish, PLACES, N, LENGTH, SIZE }) => {
      const i = globalId.x;
      if (i >= PLACES) return;
      const row = idiv(i, SIZE);
      const r = i % SIZE;
      const last = row * LENGTH + rank(keys, row * LENGTH, N, r, true) - 1;
      let position = -1;
      if (last >= row * LENGTH && keys[Math.max(last, 0)] === r) position = positions[last];
      y[i] = finish(position, row, r);
    },
    constantsOf(p),
  );
  return { kernel, ...grid(p) };
}

function addSorted(p: ScatterProblem): GridKernel {
  const kernel = defineKernel(
    'scatterAdd',
    { values: buffer(f32), keys: buffer(i32), positions: buffer(i32), y: buffer(f32) },
    ({ values, keys, positions, y }, context) => {
      const { globalId, idiv, f32, rank, finish, PLACES, N, LENGTH, SIZE, VALUES, TURNS } = context;
      const i = globalId.x;
      if (i >= PLACES) return;
      const row = idiv(i, SIZE);
      const r = i % SIZE;
      const begin = rank(keys, row * LENGTH, N, r, false);
      const end = rank(keys, row * LENGTH, N, r, true);
      let total = f32(0);
      for (let first = begin; first < end; first += TURNS) {
        let sum = f32(0);
        const last = Math.min(first + TURNS, end);
        for (let j = first; j < last; j++) sum += values[VALUES + row * N + positions[row * LENGTH + j]];
        total += sum;
      }
      y[i] = finish(total, row, r);
    },
    constantsOf(p),
  );
  return { kernel, ...grid(p) };
}

const sortedIndex = ({ rows, n, indexOffset }: ScatterProblem, index: StageArgument) =>
  sortedPairs({ rows, n, offset: indexOffset, dtype: i32 }, index);

/** Index (rows, n) → the last of the positions at each place, −1 where there is none. */
export function lastStages(p: ScatterProblem): Stage[] {
  const { stages, keys, positions } = sortedIndex(p, { input: 0 });
  return [...stages, gridStage(lastOfSorted(p), keys, positions, { output: true })];
}

/** Values and index (rows, n) → the values added up at each place. */
export function addStages(p: ScatterProblem): Stage[] {
  const { stages, keys, positions } = sortedIndex(p, { input: 1 });
  return [...stages, gridStage(addSorted(p), { input: 0 }, keys, positions, { output: true })];
}
