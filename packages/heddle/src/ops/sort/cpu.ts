/**
 * Rows of integers sorted on the CPU, equal ones as they stood: of each, where it was. A block is a row: runs of RUN elements
 * are sorted by insertion, then pairs of runs become one until the row is one run.
 */
import { i32 } from '../../core/dtype.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { Tiled } from '../tiled.js';
import type { SortProblem } from './problem.js';

const RUN = 8;

/** Keys (rows, n), memory for two rows' keys and positions each → where each row's sorted elements were, (rows, n). */
export function sortRows({ rows, n, offset, dtype }: SortProblem, finish: IrFunction): Tiled {
  const kernel = defineKernel(
    'sortRows',
    { source: buffer(dtype), keys: buffer(dtype), positions: buffer(i32), y: buffer(i32) },
    ({ source, keys, positions, y }, { blockIdx, finish, N, AT, RUN }) => {
      const row = blockIdx.x;
      let from = 2 * N * row;
      let to = from + N;
      for (let i = 0; i < N; i++) {
        const key = source[AT + row * N + i];
        let at = i;
        let isLess = at % RUN > 0;
        while (isLess) {
          const before = keys[from + at - 1];
          isLess = key < before;
          if (isLess) {
            keys[from + at] = before;
            positions[from + at] = positions[from + at - 1];
            at--;
            isLess = at % RUN > 0;
          }
        }
        keys[from + at] = key;
        positions[from + at] = i;
      }
      for (let run = RUN; run < N; run *= 2) {
        for (let start = 0; start < N; start += 2 * run) {
          const middle = Math.min(start + run, N);
          const end = Math.min(start + 2 * run, N);
          let left = start;
          let right = middle;
          for (let i = start; i < end; i++) {
            const a = from + Math.min(left, middle - 1);
            const b = from + Math.min(right, N - 1);
            const isLeft = right >= end || (left < middle && keys[a] <= keys[b]);
            const at = isLeft ? a : b;
            keys[to + i] = keys[at];
            positions[to + i] = positions[at];
            if (isLeft) left++;
            else right++;
          }
        }
        const other = from;
        from = to;
        to = other;
      }
      for (let i = 0; i < N; i++) y[row * N + i] = finish(positions[from + i], row, i);
    },
    { finish, N: n, AT: offset, RUN },
  );
  return { kernel, blocks: rows };
}
