/**
 * Matrix product on the CPU: C (M×N) = A (M×K) · B (K×N), f32, vectors of 4.
 *
 * All three kernels keep 8 accumulators of 4 lanes, the most that leave room for their operands in 16 vector
 * registers (12 or more spill). Per step they need 6 loads for 8 multiply-adds.
 *
 *   direct   no packing. 4 rows × 8 columns; A by splat loads at any strides, B by wide loads along its rows.
 *   dot      no packing. 2 rows × 4 columns, vectors along K, which is contiguous in both (A·Bᵀ, as in a linear
 *            layer); the lanes are added up at the end by a 4×4 transpose.
 *   packed   for matrices that do not fit a cache: A and B are first copied into panels of 4 rows and 8 columns
 *            that a tile reads from front to back, whatever their strides were; then `direct`'s micro-kernel in
 *            blocks of 64 × 64, so that a block's panels stay in the second-level cache.
 *
 * One block of the grid is one tile (packed: 64 × 64 elements), so any number of threads is evenly busy. No value
 * is stored but by `finish`, and each exactly once: tiles never overlap, edges have code of their own.
 */
import { f32 } from '../core/dtype.js';
import { alu, type Expr, int, type KernelIr } from '../kernel/ir.js';
import { type IrFunction, irFunction } from '../kernel/ir-function.js';
import { defineKernel } from '../kernel/language.js';
import { buffer } from '../kernel/types.js';

/** Where a source's elements stand, in elements: its batches, its rows and its columns. */
export interface Operand {
  readonly offset: number;
  /** Sizes and strides of the leading dimensions. */
  readonly batch: readonly number[];
  readonly batchStrides: readonly number[];
  readonly rowStride: number;
  readonly columnStride: number;
}

export interface MatmulProblem {
  readonly batches: number;
  readonly M: number;
  readonly N: number;
  readonly K: number;
  readonly a: Operand;
  readonly b: Operand;
  /** (value, batch, row, column) → the value to store. */
  readonly finish: IrFunction;
}

/** A kernel with the number of blocks to launch. */
export interface Tiled {
  readonly kernel: KernelIr;
  readonly blocks: number;
}

/** The offset of a batch, as a device function. */
const batchOffset = ({ offset, batch, batchStrides }: Operand): IrFunction =>
  irFunction(([index]) => {
    let rest = index!;
    let sum: Expr = int(offset);
    for (let d = batch.length - 1; d >= 0; d--) {
      const digit = d === 0 ? rest : alu('mod', [rest, int(batch[d]!)]);
      sum = alu('add', [sum, alu('mul', [digit, int(batchStrides[d]!)])]);
      if (d > 0) rest = alu('idiv', [rest, int(batch[d]!)]);
    }
    return sum;
  });

const buffers = { a: buffer(f32), b: buffer(f32), c: buffer(f32) };

/** C tile by tile, straight from A at any strides and B with contiguous rows. */
export function matmulDirect({ batches, M, N, K, a: left, b: right, finish }: MatmulProblem): Tiled {
  // 8 accumulators, however few the rows.
  const R = M >= 4 ? 4 : M >= 2 ? 2 : 1;
  const C = 32 / R;
  const [DOWN, ACROSS] = [Math.ceil(M / R), Math.ceil(N / C)];
  const kernel = defineKernel(
    'matmulDirect',
    buffers,
    ({ a, b, c }, context) => {
      const { blockIdx, f32, idiv, local, local4, load4, store4, splat4, fma } = context;
      const { BATCHES, M, N, K, R, C, DOWN, ACROSS, AM, AK, BK, aBatch, bBatch, finish } = context;
      const z = BATCHES === 1 ? 0 : idiv(blockIdx.x, DOWN * ACROSS);
      const index = BATCHES === 1 ? blockIdx.x : blockIdx.x % (DOWN * ACROSS);
      const m = (index % DOWN) * R;
      const n = idiv(index, DOWN) * C;
      const from = aBatch(z) + m * AM;
      const by = bBatch(z) + n;
      const to = (z * M + m) * N + n;

      const tile = (rows: number, vectors: number, singles: number) => {
        const wide = local4(f32, rows, Math.max(vectors, 1));
        const narrow = local(f32, rows, Math.max(singles, 1));
        for (let i = 0; i < rows; i++) {
          for (let j = 0; j < vectors; j++) wide[i][j] = splat4(0);
          for (let j = 0; j < singles; j++) narrow[i][j] = 0;
        }
        const step = (k: number) => {
          const row = local4(f32, Math.max(vectors, 1));
          const rest = local(f32, Math.max(singles, 1));
          for (let j = 0; j < vectors; j++) row[j] = load4(b, by + k * BK + 4 * j);
          for (let j = 0; j < singles; j++) rest[j] = b[by + k * BK + 4 * vectors + j];
          for (let i = 0; i < rows; i++) {
            const factor = a[from + i * AM + k * AK];
            for (let j = 0; j < vectors; j++) wide[i][j] = fma(splat4(factor), row[j], wide[i][j]);
            for (let j = 0; j < singles; j++) narrow[i][j] = fma(factor, rest[j], narrow[i][j]);
          }
        };
        const whole = K - (K % 4);
        for (let k = 0; k < whole; k += 4) {
          step(k);
          step(k + 1);
          step(k + 2);
          step(k + 3);
        }
        for (let k = whole; k < K; k++) step(k);
        for (let i = 0; i < rows; i++) {
          for (let j = 0; j < vectors; j++)
            store4(c, to + i * N + 4 * j, finish(wide[i][j], z, m + i, n + 4 * j));
          for (let j = 0; j < singles; j++) {
            const column = 4 * vectors + j;
            c[to + i * N + column] = finish(narrow[i][j], z, m + i, n + column);
          }
        }
      };

      const across = (rows: number) => {
        if (N % C === 0 || n + C <= N) tile(rows, C / 4, 0);
        else tile(rows, Math.trunc((N % C) / 4), N % 4);
      };
      if (M % R === 0 || m + R <= M) across(R);
      else across(M % R);
    },
    {
      ...{ BATCHES: batches, M, N, K, R, C, DOWN, ACROSS, finish },
      ...{ AM: left.rowStride, AK: left.columnStride, BK: right.rowStride },
      ...{ aBatch: batchOffset(left), bBatch: batchOffset(right) },
    },
  );
  return { kernel, blocks: batches * DOWN * ACROSS };
}

/** C as dot products of contiguous rows of A and contiguous columns of B. */
export function matmulDot({ batches, M, N, K, a: left, b: right, finish }: MatmulProblem): Tiled {
  const R = M >= 2 ? 2 : 1;
  const C = 8 / R;
  const [DOWN, ACROSS] = [Math.ceil(M / R), Math.ceil(N / C)];
  const kernel = defineKernel(
    'matmulDot',
    buffers,
    ({ a, b, c }, context) => {
      const { blockIdx, f32, idiv, lane, local, local4, load4, store4, splat4, vec4, fma } = context;
      const { BATCHES, M, N, K, R, C, DOWN, ACROSS, AM, BN, aBatch, bBatch, finish } = context;
      const z = BATCHES === 1 ? 0 : idiv(blockIdx.x, DOWN * ACROSS);
      const index = BATCHES === 1 ? blockIdx.x : blockIdx.x % (DOWN * ACROSS);
      // What is re-read for every tile is the smaller of the two.
      const m = (N < M ? idiv(index, ACROSS) : index % DOWN) * R;
      const n = (N < M ? index % ACROSS : idiv(index, DOWN)) * C;
      const from = aBatch(z) + m * AM;
      const by = bBatch(z) + n * BN;
      const to = (z * M + m) * N + n;

      /** The sums of four vectors' lanes. */
      const sums = (p: number, q: number, r: number, s: number) => {
        const pq =
          vec4(lane(p, 0), lane(q, 0), lane(p, 1), lane(q, 1)) +
          vec4(lane(p, 2), lane(q, 2), lane(p, 3), lane(q, 3));
        const rs =
          vec4(lane(r, 0), lane(s, 0), lane(r, 1), lane(s, 1)) +
          vec4(lane(r, 2), lane(s, 2), lane(r, 3), lane(s, 3));
        return (
          vec4(lane(pq, 0), lane(pq, 1), lane(rs, 0), lane(rs, 1)) +
          vec4(lane(pq, 2), lane(pq, 3), lane(rs, 2), lane(rs, 3))
        );
      };

      const tile = (rows: number, columns: number) => {
        const acc = local4(f32, rows, columns);
        const rest = local(f32, rows, columns);
        for (let i = 0; i < rows; i++) {
          for (let j = 0; j < columns; j++) {
            acc[i][j] = splat4(0);
            rest[i][j] = 0;
          }
        }
        const whole = K - (K % 4);
        for (let k = 0; k < whole; k += 4) {
          const row = local4(f32, rows);
          for (let i = 0; i < rows; i++) row[i] = load4(a, from + i * AM + k);
          for (let j = 0; j < columns; j++) {
            const column = load4(b, by + j * BN + k);
            for (let i = 0; i < rows; i++) acc[i][j] = fma(row[i], column, acc[i][j]);
          }
        }
        for (let k = whole; k < K; k++) {
          for (let i = 0; i < rows; i++) {
            for (let j = 0; j < columns; j++)
              rest[i][j] = fma(a[from + i * AM + k], b[by + j * BN + k], rest[i][j]);
          }
        }
        for (let i = 0; i < rows; i++) {
          for (let j = 0; j < columns - (columns % 4); j += 4) {
            const sum = sums(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
            const all =
              K % 4 === 0 ? sum : sum + vec4(rest[i][j], rest[i][j + 1], rest[i][j + 2], rest[i][j + 3]);
            store4(c, to + i * N + j, finish(all, z, m + i, n + j));
          }
          for (let j = columns - (columns % 4); j < columns; j++) {
            const v = acc[i][j];
            const sum = lane(v, 0) + lane(v, 2) + (lane(v, 1) + lane(v, 3)) + rest[i][j];
            c[to + i * N + j] = finish(sum, z, m + i, n + j);
          }
        }
      };

      const across = (rows: number) => {
        if (N % C === 0 || n + C <= N) tile(rows, C);
        else tile(rows, N % C);
      };
      if (M % R === 0 || m + R <= M) across(R);
      else across(M % R);
    },
    {
      ...{ BATCHES: batches, M, N, K, R, C, DOWN, ACROSS, finish },
      ...{ AM: left.rowStride, BN: right.columnStride },
      ...{ aBatch: batchOffset(left), bBatch: batchOffset(right) },
    },
  );
  return { kernel, blocks: batches * DOWN * ACROSS };
}

/** What a panel is cut from: `count` rows of A or columns of B, `inner` along K, `outer` from one to the next. */
interface Panels {
  readonly width: 4 | 8;
  readonly count: number;
  readonly inner: number;
  readonly outer: number;
  readonly source: Operand;
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

/** Rows and columns of a block of the packed kernel. */
const BLOCK = 64;

/** C from the panels of A and B. */
export function matmulPacked({ batches, M, N, K, finish }: MatmulProblem): Tiled {
  const [DOWN, ACROSS] = [Math.ceil(M / BLOCK), Math.ceil(N / BLOCK)];
  const kernel = defineKernel(
    'matmulPacked',
    buffers,
    ({ a, b, c }, context) => {
      const { blockIdx, f32, idiv, local, local4, load4, store4, splat4, fma } = context;
      const { BATCHES, M, N, K, BLOCK, DOWN, ACROSS, finish } = context;
      const z = BATCHES === 1 ? 0 : idiv(blockIdx.x, DOWN * ACROSS);
      const index = BATCHES === 1 ? blockIdx.x : blockIdx.x % (DOWN * ACROSS);
      const top = idiv(index, ACROSS) * BLOCK;
      const start = (index % ACROSS) * BLOCK;
      const bottom = Math.min(top + BLOCK, M);
      const end = Math.min(start + BLOCK, N);
      const rowsPacked = M + 3 - ((M + 3) % 4);
      const columnsPacked = N + 7 - ((N + 7) % 8);
      const edge = local(f32, 32);
      for (let n = start; n < end; n += 8) {
        for (let m = top; m < bottom; m += 4) {
          const from = (z * rowsPacked + m) * K;
          const by = (z * columnsPacked + n) * K;
          const to = (z * M + m) * N + n;
          const acc = local4(f32, 4, 2);
          for (let i = 0; i < 4; i++) {
            acc[i][0] = splat4(0);
            acc[i][1] = splat4(0);
          }
          const step = (k: number) => {
            const left = load4(b, by + 8 * k);
            const right = load4(b, by + 8 * k + 4);
            for (let i = 0; i < 4; i++) {
              const factor = a[from + 4 * k + i];
              acc[i][0] = fma(splat4(factor), left, acc[i][0]);
              acc[i][1] = fma(splat4(factor), right, acc[i][1]);
            }
          };
          const whole = K - (K % 4);
          for (let k = 0; k < whole; k += 4) {
            step(k);
            step(k + 1);
            step(k + 2);
            step(k + 3);
          }
          for (let k = whole; k < K; k++) step(k);
          if ((M % 4 === 0 || m + 4 <= M) && (N % 8 === 0 || n + 8 <= N)) {
            for (let i = 0; i < 4; i++) {
              store4(c, to + i * N, finish(acc[i][0], z, m + i, n));
              store4(c, to + i * N + 4, finish(acc[i][1], z, m + i, n + 4));
            }
          } else {
            for (let i = 0; i < 4; i++) {
              store4(edge, 8 * i, acc[i][0]);
              store4(edge, 8 * i + 4, acc[i][1]);
            }
            const rows = Math.min(4, M - m);
            const columns = Math.min(8, N - n);
            for (let i = 0; i < rows; i++) {
              for (let j = 0; j < columns; j++) c[to + i * N + j] = finish(edge[8 * i + j], z, m + i, n + j);
            }
          }
        }
      }
    },
    { BATCHES: batches, M, N, K, BLOCK, DOWN, ACROSS, finish },
  );
  return { kernel, blocks: batches * DOWN * ACROSS };
}
