/**
 * Running sums and products of rows on the CPU: a block is a row. The total is an f64, so that each result is off by
 * little more than its own rounding however long the row is. f32.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { Tiled } from '../tiled.js';
import type { ScanProblem } from './problem.js';

/** x (rows, n) → y (rows, n): y[r][i] = x[r][0] ∘ … ∘ x[r][i]. */
export function scanRows({ op, rows, n, offset, finish }: ScanProblem): Tiled {
  const kernel = defineKernel(
    op === 'add' ? 'cumsum' : 'cumprod',
    { x: buffer(f32), y: buffer(f32) },
    ({ x, y }, { blockIdx, f32, f64, finish, product, n, offset }) => {
      const row = blockIdx.x;
      let total = f64(product ? 1 : 0);
      for (let i = 0; i < n; i++) {
        const v = f64(x[offset + row * n + i]);
        total = product ? total * v : total + v;
        y[row * n + i] = finish(f32(total), row, i);
      }
    },
    { finish, product: op === 'mul', n, offset },
  );
  return { kernel, blocks: rows };
}
