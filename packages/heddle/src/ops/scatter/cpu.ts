/** Rows scattered on the CPU: a block is a row, and takes its positions in order. */
import { f32, f64, i32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { Tiled } from '../tiled.js';
import type { ScatterProblem } from './problem.js';

const constantsOf = ({ n, size, indexOffset, valuesOffset, finish }: ScatterProblem) => ({
  ...{ N: n, SIZE: size, INDEX: indexOffset, VALUES: valuesOffset, finish },
});

/** Index (rows, n), memory for the result → the last of the positions at each place, −1 where there is none. */
export function lastOfRows(p: ScatterProblem): Tiled {
  const kernel = defineKernel(
    'lastAt',
    { index: buffer(i32), last: buffer(i32), y: buffer(i32) },
    ({ index, last, y }, { blockIdx, finish, N, SIZE, INDEX }) => {
      const row = blockIdx.x;
      for (let r = 0; r < SIZE; r++) last[row * SIZE + r] = -1;
      for (let i = 0; i < N; i++) {
        const r = index[INDEX + row * N + i];
        if (r >= 0 && r < SIZE) last[row * SIZE + r] = i;
      }
      for (let r = 0; r < SIZE; r++) y[row * SIZE + r] = finish(last[row * SIZE + r], row, r);
    },
    constantsOf(p),
  );
  return { kernel, blocks: p.rows };
}

/**
 * Values and index (rows, n), memory for the sums → the values added up at each place. The sums are f64, so that each
 * result is off by little more than its own rounding.
 */
export function addToRows(p: ScatterProblem): Tiled {
  const kernel = defineKernel(
    'scatterAdd',
    { values: buffer(f32), index: buffer(i32), sums: buffer(f64), y: buffer(f32) },
    ({ values, index, sums, y }, { blockIdx, f32, f64, finish, N, SIZE, INDEX, VALUES }) => {
      const row = blockIdx.x;
      for (let r = 0; r < SIZE; r++) sums[row * SIZE + r] = f64(0);
      for (let i = 0; i < N; i++) {
        const r = index[INDEX + row * N + i];
        if (r >= 0 && r < SIZE) sums[row * SIZE + r] += f64(values[VALUES + row * N + i]);
      }
      for (let r = 0; r < SIZE; r++) y[row * SIZE + r] = finish(f32(sums[row * SIZE + r]), row, r);
    },
    constantsOf(p),
  );
  return { kernel, blocks: p.rows };
}
