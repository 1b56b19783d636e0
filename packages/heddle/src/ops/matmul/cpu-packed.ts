/**
 * Packed matrix product on the CPU (cpu.ts says when, and why 4 × 8): A and B are copied into panels that the
 * micro-kernel reads from front to back, with zeros where rows and columns end.
 *
 * Blocks of 64 × 64 × 256: a panel of B (8 KiB) stays in the first-level cache while the block's rows pass by, and
 * both sides of a block (64 KiB each) in the second-level one: at 1024³ this is
 * more than twice as fast as all of K at once, and nearly as fast as the bare micro-kernel.
 */
import { f32 } from '../../core/dtype.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel } from '../../kernel/language/language.js';
import type { Tiled } from '../tiled.js';
import { batchOffset, buffers, type MatmulProblem, type OperandLayout } from './cpu.js';

/** What a panel is cut from: `count` rows of A or columns of B, `inner` along K, `outer` from one to the next. */
interface Panels {
  readonly width: 4 | 8;
  readonly count: number;
  readonly inner: number;
  readonly outer: number;
  readonly source: OperandLayout;
}

const rowsOf = ({ M, a }: MatmulProblem): Panels => ({
  ...{ width: 4, count: M, inner: a.columnStride, outer: a.rowStride, source: a },
});
const columnsOf = ({ N, b }: MatmulProblem): Panels => ({
  ...{ width: 8, count: N, inner: b.rowStride, outer: b.columnStride, source: b },
});

/** Floats of scratch memory for the panels of A and of B. */
export const packedSizes = ({ batches, M, N, K }: MatmulProblem): readonly [number, number] => [
  batches * Math.ceil(M / 4) * 4 * K,
  batches * Math.ceil(N / 8) * 8 * K,
];

/** A or B copied into panels: element (k, w) of a panel at k·width + w, zeros beyond the last row or column. */
export function packPanels(problem: MatmulProblem, side: 'a' | 'b'): Tiled {
  const { width, count, inner, outer, source } = side === 'a' ? rowsOf(problem) : columnsOf(problem);
  const panels = Math.ceil(count / width);
  const kernel = defineKernel(
    'matmulPack',
    { x: buffer(f32), packed: buffer(f32) },
    ({ x, packed }, context) => {
      const { blockIdx, idiv, lane, load4, store4, vec4 } = context;
      const { BATCHES, K, WIDTH, COUNT, PANELS, INNER, OUTER, xBatch } = context;
      const z = BATCHES === 1 ? 0 : idiv(blockIdx.x, PANELS);
      const first = (BATCHES === 1 ? blockIdx.x : blockIdx.x % PANELS) * WIDTH;
      const from = xBatch(z) + first * OUTER;
      const to = blockIdx.x * K * WIDTH;
      const one = (k: number) => {
        for (let w = 0; w < WIDTH; w++)
          packed[to + k * WIDTH + w] = first + w < COUNT ? x[from + w * OUTER + k * INNER] : 0;
      };
      if (first + WIDTH <= COUNT && OUTER === 1) {
        for (let k = 0; k < K; k++) {
          for (let w = 0; w < WIDTH; w += 4)
            store4(packed, to + k * WIDTH + w, load4(x, from + w + k * INNER));
        }
      } else if (first + WIDTH <= COUNT && INNER === 1) {
        const whole = K - (K % 4);
        for (let k = 0; k < whole; k += 4) {
          for (let w = 0; w < WIDTH; w += 4) {
            const p = load4(x, from + w * OUTER + k);
            const q = load4(x, from + (w + 1) * OUTER + k);
            const r = load4(x, from + (w + 2) * OUTER + k);
            const s = load4(x, from + (w + 3) * OUTER + k);
            const pq = vec4(lane(p, 0), lane(q, 0), lane(p, 1), lane(q, 1));
            const rs = vec4(lane(r, 0), lane(s, 0), lane(r, 1), lane(s, 1));
            const pq2 = vec4(lane(p, 2), lane(q, 2), lane(p, 3), lane(q, 3));
            const rs2 = vec4(lane(r, 2), lane(s, 2), lane(r, 3), lane(s, 3));
            const at = to + k * WIDTH + w;
            store4(packed, at, vec4(lane(pq, 0), lane(pq, 1), lane(rs, 0), lane(rs, 1)));
            store4(packed, at + WIDTH, vec4(lane(pq, 2), lane(pq, 3), lane(rs, 2), lane(rs, 3)));
            store4(packed, at + 2 * WIDTH, vec4(lane(pq2, 0), lane(pq2, 1), lane(rs2, 0), lane(rs2, 1)));
            store4(packed, at + 3 * WIDTH, vec4(lane(pq2, 2), lane(pq2, 3), lane(rs2, 2), lane(rs2, 3)));
          }
        }
        for (let k = whole; k < K; k++) one(k);
      } else {
        for (let k = 0; k < K; k++) one(k);
      }
    },
    {
      ...{ BATCHES: problem.batches, K: problem.K, WIDTH: width, COUNT: count, PANELS: panels },
      ...{ INNER: inner, OUTER: outer, xBatch: batchOffset(source) },
    },
  );
  return { kernel, blocks: problem.batches * panels };
}

/** Steps along K at a time: a panel of B stays in the first-level cache while a block's rows pass by. */
const DEPTH = 256;

/** C from the panels of A and B. */
export function matmulPacked({ batches, M, N, K, finish }: MatmulProblem): Tiled {
  // Few steps: what counts is that C, and what `finish` reads, are passed row by row.
  const FLAT = K <= DEPTH / 2;
  const [ROWS, COLUMNS] = K <= 64 ? [16, 256] : FLAT ? [32, 128] : [64, 64];
  const [DOWN, ACROSS] = [Math.ceil(M / ROWS), Math.ceil(N / COLUMNS)];
  const kernel = defineKernel(
    'matmulPacked',
    buffers,
    ({ a, b, c }, context) => {
      const { blockIdx, f32, idiv, local, local4, load4, store4, splat4, fma } = context;
      const { BATCHES, M, N, K, ROWS, COLUMNS, DEPTH, FLAT, DOWN, ACROSS, finish } = context;
      const z = BATCHES === 1 ? 0 : idiv(blockIdx.x, DOWN * ACROSS);
      const index = BATCHES === 1 ? blockIdx.x : blockIdx.x % (DOWN * ACROSS);
      const top = idiv(index, ACROSS) * ROWS;
      const start = (index % ACROSS) * COLUMNS;
      const bottom = Math.min(top + ROWS, M);
      const end = Math.min(start + COLUMNS, N);
      const rowsPacked = M + 3 - ((M + 3) % 4);
      const columnsPacked = N + 7 - ((N + 7) % 8);
      /** Sums over the steps so far, where there are more than DEPTH. */
      const sums = local(f32, K > DEPTH ? ROWS * COLUMNS : 1);
      const edge = local(f32, 32);

      /** Steps k to `to` for 4 × 8 elements from row m and column n on. */
      const tile = (m: number, n: number, k: number, to: number, held: number) => {
        const acc = local4(f32, 4, 2);
        for (let i = 0; i < 4; i++) {
          for (let j = 0; j < 2; j++) acc[i][j] = splat4(0);
        }
        let ia = (z * rowsPacked + m) * K + 4 * k;
        let ib = (z * columnsPacked + n) * K + 8 * k;
        const last = ib + 8 * (to - k);
        while (ib < last) {
          const left = load4(b, ib);
          const right = load4(b, ib + 4);
          for (let i = 0; i < 4; i++) {
            const factor = splat4(a[ia + i]);
            acc[i][0] = fma(factor, left, acc[i][0]);
            acc[i][1] = fma(factor, right, acc[i][1]);
          }
          ia += 4;
          ib += 8;
        }
        // To the sums so far at the end, not at the beginning: a sum of sums is off by less.
        if (K > DEPTH && k > 0) {
          for (let i = 0; i < 4; i++) {
            for (let j = 0; j < 2; j++) acc[i][j] += load4(sums, held + 8 * i + 4 * j);
          }
        }
        const at = (z * M + m) * N + n;
        if (K > DEPTH && to < K) {
          for (let i = 0; i < 4; i++) {
            for (let j = 0; j < 2; j++) store4(sums, held + 8 * i + 4 * j, acc[i][j]);
          }
        } else if ((M % 4 === 0 || m + 4 <= M) && (N % 8 === 0 || n + 8 <= N)) {
          for (let i = 0; i < 4; i++) {
            for (let j = 0; j < 2; j++) store4(c, at + i * N + 4 * j, finish(acc[i][j], z, m + i, n + 4 * j));
          }
        } else {
          for (let i = 0; i < 4; i++) {
            for (let j = 0; j < 2; j++) store4(edge, 8 * i + 4 * j, acc[i][j]);
          }
          const rows = Math.min(4, M - m);
          const columns = Math.min(8, N - n);
          for (let i = 0; i < rows; i++) {
            for (let j = 0; j < columns; j++) c[at + i * N + j] = finish(edge[8 * i + j], z, m + i, n + j);
          }
        }
      };

      if (FLAT) {
        for (let m = top; m < bottom; m += 4) {
          for (let n = start; n < end; n += 8) tile(m, n, 0, K, 0);
        }
      } else {
        for (let k = 0; k < K; k += DEPTH) {
          for (let n = start; n < end; n += 8) {
            for (let m = top; m < bottom; m += 4)
              tile(m, n, k, Math.min(k + DEPTH, K), (n - start) * ROWS + 8 * (m - top));
          }
        }
      }
    },
    { BATCHES: batches, M, N, K, ROWS, COLUMNS, DEPTH, FLAT, DOWN, ACROSS, finish },
  );
  return { kernel, blocks: batches * DOWN * ACROSS };
}
