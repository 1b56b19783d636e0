/**
 * Matrix product on the CPU: C (M×N) = A (M×K) · B (K×N), f32, vectors of 4.
 *
 * All three kernels keep 8 accumulators of 4 lanes, the most that leave room for their operands in 16 vector
 * registers (12 or more spill). Per step they need 6 loads for 8 multiply-adds.
 *
 *   direct   4 rows × 8 columns; A by splat loads at any strides, B by wide loads along its rows. What several
 *            tiles of a block read, a strip of B and (if it lies along M) of A, the block copies first: rows far
 *            apart fall into the same few sets of the cache (with copies 128 × 64 × 784 is two fifths faster).
 *   dot      no packing. 2 rows × 4 columns, vectors along K, which is contiguous in both (A·Bᵀ, as in a linear
 *            layer); the lanes are added up at the end by a 4×4 transpose.
 *   packed   (cpu-packed.ts) for matrices that do not fit a cache, or lie otherwise: A and B are copied
 *            into panels in launches of their own, which cost two barriers more.
 *
 * Loops over K take one step per turn: the JavaScript engine moves all loads of an unrolled body to its top and
 * then has to spill (unrolled by 4 they take two thirds longer).
 *
 * An accumulator takes LEVEL steps and is then added to a total, so that a sum over K is off by as many roundings as a
 * level has steps and K has levels, not by K of them. Up to LEVEL steps there are no totals, and nothing to pay.
 *
 * Blocks are small (dot: one tile), so any number of threads is evenly busy, and every element is summed in the
 * same order however many there are. No value is stored but by `finish`, and each exactly once: tiles never overlap,
 * edges have code of their own.
 * All three reach more than nine tenths of the speed of the bare micro-kernel, in every layout.
 */
import { type DType, f32 } from '../../core/dtype.js';
import type { ColumnSums } from '../../graph/fused-op.js';
import { alu, type Expr, int } from '../../kernel/ir/ir.js';
import { type IrFunction, irFunction } from '../../kernel/ir/ir-function.js';
import { buffer } from '../../kernel/ir/types.js';
import { defineKernel, type Intrinsics } from '../../kernel/language/language.js';
import type { Tiled } from '../tiled.js';

/** Where a source's elements stand, in elements: its batches, its rows and its columns. */
export interface OperandLayout {
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
  readonly a: OperandLayout;
  readonly b: OperandLayout;
  /** (value, batch, row, column) → the value to store. */
  readonly finish: IrFunction;
  /** `finish` does more than give the value back. Default: false. */
  readonly followed?: boolean;
  /** `KernelIo.beside` */
  readonly beside?: number | undefined;
  /** `KernelIo.sums` */
  readonly sums?: ColumnSums | undefined;
}

/** The offset of a batch, as a device function. */
export const batchOffset = ({ offset, batch, batchStrides }: OperandLayout): IrFunction =>
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

export const buffers = { a: buffer(f32), b: buffer(f32), c: buffer(f32) };

/** Steps along K that an accumulator takes. */
const LEVEL = 256;

/** Floats of a strip of B: half a first-level cache. */
const STRIP = 4096;

/**
 * C strip by strip of columns, from A at any strides and B with contiguous rows.
 * @param leastBlocks to aim for: strips are cut into parts by rows until there are as many
 */
export function matmulDirect(problem: MatmulProblem, leastBlocks: number): Tiled {
  const { batches, M, N, K, a: left, b: right, finish } = problem;
  // 8 accumulators, however few the rows.
  const R = M >= 4 ? 4 : M >= 2 ? 2 : 1;
  const C = 32 / R;
  const down = Math.ceil(M / R);
  // A copy pays where it is read for several tiles; wide, so that whole cache lines are read and written.
  const COPY = down >= 3 && K <= 1024;
  const WIDTH = COPY ? C * Math.max(1, Math.min(8, Math.floor(STRIP / (K * C)))) : C;
  const ACROSS = Math.ceil(N / WIDTH);
  // More than 64 rows at once would touch more pages of C than the first-level TLB holds.
  const TILES = Math.min(16, Math.ceil(down / Math.ceil(leastBlocks / (batches * ACROSS))));
  const PARTS = Math.ceil(down / TILES);
  const COPY_A = COPY && R === 4 && left.rowStride === 1 && TILES * R * K <= 2 * STRIP;
  const kernel = defineKernel(
    'matmulDirect',
    buffers,
    ({ a, b, c }, context) => {
      const { blockIdx, f32, idiv, lane, local, local4, load4, store4, splat4, fma } = context;
      const { BATCHES, M, N, K, R, C, WIDTH, TILES, PARTS, ACROSS, COPY, COPY_A, AM, AK, BK } = context;
      const { aBatch, bBatch, finish, LEVEL } = context;
      const z = BATCHES === 1 ? 0 : idiv(blockIdx.x, PARTS * ACROSS);
      const index = BATCHES === 1 ? blockIdx.x : blockIdx.x % (PARTS * ACROSS);
      const start = (index % ACROSS) * WIDTH;
      const end = N % WIDTH === 0 ? start + WIDTH : Math.min(start + WIDTH, N);
      const top = idiv(index, ACROSS) * TILES * R;
      const bottom = Math.min(top + TILES * R, M);
      const left = aBatch(z);
      const right = bBatch(z);
      /** Panels of C columns, row after row. */
      const strip = local(f32, COPY ? K * WIDTH : 1);
      /** Panels of R rows, column after column. */
      const rowsOfA = local(f32, COPY_A ? TILES * R * K : 1);

      const tile = (m: number, n: number, rows: number, vectors: number, singles: number) => {
        const wide = local4(f32, rows, Math.max(vectors, 1));
        const narrow = local(f32, rows, Math.max(singles, 1));
        const clear = () => {
          for (let i = 0; i < rows; i++) {
            for (let j = 0; j < vectors; j++) wide[i][j] = splat4(0);
            for (let j = 0; j < singles; j++) narrow[i][j] = 0;
          }
        };
        // Rows at the edge are too few for a panel.
        const panel = COPY_A && rows === R;
        let ia = panel ? (m - top) * K : left + m * AM;
        let ib = COPY ? (n - start) * K : right + n;
        let ir = right + n;
        let k = 0;
        const steps = (end: number) => {
          while (k < end) {
            const row = local4(f32, Math.max(vectors, 1));
            const rest = local(f32, Math.max(singles, 1));
            for (let j = 0; j < vectors; j++) row[j] = COPY ? load4(strip, ib + 4 * j) : load4(b, ib + 4 * j);
            for (let j = 0; j < singles; j++) rest[j] = b[ir + 4 * vectors + j];
            for (let i = 0; i < rows; i++) {
              const factor = splat4(panel ? rowsOfA[ia + i] : a[ia + i * AM]);
              for (let j = 0; j < vectors; j++) wide[i][j] = fma(factor, row[j], wide[i][j]);
              for (let j = 0; j < singles; j++) narrow[i][j] = fma(lane(factor, 0), rest[j], narrow[i][j]);
            }
            ia += panel ? R : AK;
            ib += COPY ? C : BK;
            if (singles > 0) ir += BK;
            k += 1;
          }
        };
        clear();
        if (K <= LEVEL) steps(K);
        else {
          const wideTotal = local4(f32, rows, Math.max(vectors, 1));
          const narrowTotal = local(f32, rows, Math.max(singles, 1));
          for (let i = 0; i < rows; i++) {
            for (let j = 0; j < vectors; j++) wideTotal[i][j] = splat4(0);
            for (let j = 0; j < singles; j++) narrowTotal[i][j] = 0;
          }
          while (k < K) {
            steps(Math.min(k + LEVEL, K));
            for (let i = 0; i < rows; i++) {
              for (let j = 0; j < vectors; j++) wideTotal[i][j] += wide[i][j];
              for (let j = 0; j < singles; j++) narrowTotal[i][j] += narrow[i][j];
            }
            clear();
          }
          for (let i = 0; i < rows; i++) {
            for (let j = 0; j < vectors; j++) wide[i][j] = wideTotal[i][j];
            for (let j = 0; j < singles; j++) narrow[i][j] = narrowTotal[i][j];
          }
        }
        const to = (z * M + m) * N + n;
        for (let i = 0; i < rows; i++) {
          for (let j = 0; j < vectors; j++)
            store4(c, to + i * N + 4 * j, finish(wide[i][j], z, m + i, n + 4 * j));
          for (let j = 0; j < singles; j++) {
            const column = 4 * vectors + j;
            c[to + i * N + column] = finish(narrow[i][j], z, m + i, n + column);
          }
        }
      };

      const whole = N % C === 0 ? end : end - (end % C);
      const across = (m: number, rows: number) => {
        for (let n = start; n < whole; n += C) tile(m, n, rows, C / 4, 0);
        if (N % C !== 0 && whole < end) tile(m, whole, rows, Math.trunc((N % C) / 4), N % 4);
      };
      if (COPY) {
        for (let n = start; n < whole; n += C) {
          let to = (n - start) * K;
          let from = right + n;
          let k = 0;
          while (k < K) {
            for (let j = 0; j < C; j += 4) store4(strip, to + j, load4(b, from + j));
            to += C;
            from += BK;
            k += 1;
          }
        }
        for (let n = whole; n < end - (end % 4); n += 4) {
          for (let k = 0; k < K; k++)
            store4(strip, (whole - start) * K + k * C + n - whole, load4(b, right + k * BK + n));
        }
      }
      const last = bottom - (bottom % R);
      if (COPY_A) {
        for (let m = top; m < last; m += R) {
          let from = left + m;
          let to = (m - top) * K;
          const end = to + R * K;
          while (to < end) {
            store4(rowsOfA, to, load4(a, from));
            from += AK;
            to += R;
          }
        }
      }
      for (let m = top; m < last; m += R) across(m, R);
      if (M % R !== 0 && last < bottom) across(last, M % R);
    },
    {
      ...{ BATCHES: batches, M, N, K, R, C, WIDTH, TILES, PARTS, ACROSS, COPY, COPY_A, LEVEL, finish },
      ...{ AM: left.rowStride, AK: left.columnStride, BK: right.rowStride },
      ...{ aBatch: batchOffset(left), bBatch: batchOffset(right) },
    },
  );
  return { kernel, blocks: batches * PARTS * ACROSS };
}

/** What a product of rows multiplies. */
export interface DotArithmetic {
  readonly name: string;
  /** Of the matrices, as they are read, and of the sums; of the output. */
  readonly element: DType;
  readonly output: DType;
  /** sum + x · y, in each lane or of one element. */
  readonly multiply: (x: number, y: number, sum: number, context: Intrinsics) => number;
  /** Vectors that an accumulator takes. */
  readonly level: number;
}

const FLOATS: DotArithmetic = {
  ...{ name: '', element: f32, output: f32, level: LEVEL },
  multiply: (x, y, sum, { fma }) => fma(x, y, sum),
};

/** C as dot products of contiguous rows of A and contiguous columns of B. */
export function matmulDot(
  { batches, M, N, K, a: left, b: right, finish }: MatmulProblem,
  { name, element, output, multiply, level }: DotArithmetic = FLOATS,
): Tiled {
  const R = M >= 2 ? 2 : 1;
  const C = 8 / R;
  const [DOWN, ACROSS] = [Math.ceil(M / R), Math.ceil(N / C)];
  const kernel = defineKernel(
    `matmulDot${name}`,
    { a: buffer(element), b: buffer(element), c: buffer(output) },
    ({ a, b, c }, context) => {
      const { blockIdx, element, idiv, lane, local, local4, load4, multiply, store4, splat4, vec4 } = context;
      const { BATCHES, M, N, K, R, C, DOWN, ACROSS, AM, BN, aBatch, bBatch, finish, LEVEL } = context;
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
        const acc = local4(element, rows, columns);
        const rest = local(element, rows, columns);
        for (let i = 0; i < rows; i++) {
          for (let j = 0; j < columns; j++) {
            acc[i][j] = splat4(0);
            rest[i][j] = 0;
          }
        }
        const whole = K - (K % 4);
        let k = 0;
        const steps = (end: number) => {
          while (k < end) {
            const row = local4(element, rows);
            for (let i = 0; i < rows; i++) row[i] = load4(a, from + i * AM + k);
            for (let j = 0; j < columns; j++) {
              const column = load4(b, by + j * BN + k);
              for (let i = 0; i < rows; i++) acc[i][j] = multiply(row[i], column, acc[i][j], context);
            }
            k += 4;
          }
        };
        if (K <= 4 * LEVEL) steps(whole);
        else {
          const total = local4(element, rows, columns);
          for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) total[i][j] = splat4(0);
          while (k < whole) {
            steps(Math.min(k + 4 * LEVEL, whole));
            for (let i = 0; i < rows; i++) {
              for (let j = 0; j < columns; j++) {
                total[i][j] += acc[i][j];
                acc[i][j] = splat4(0);
              }
            }
          }
          for (let i = 0; i < rows; i++) for (let j = 0; j < columns; j++) acc[i][j] = total[i][j];
        }
        while (k < K) {
          for (let i = 0; i < rows; i++) {
            for (let j = 0; j < columns; j++)
              rest[i][j] = multiply(a[from + i * AM + k], b[by + j * BN + k], rest[i][j], context);
          }
          k += 1;
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
      ...{ BATCHES: batches, M, N, K, R, C, DOWN, ACROSS, LEVEL: level, finish, element, multiply },
      ...{ AM: left.rowStride, BN: right.columnStride },
      ...{ aBatch: batchOffset(left), bBatch: batchOffset(right) },
    },
  );
  return { kernel, blocks: batches * DOWN * ACROSS };
}
