/**
 * The ladder of the f32 matrix product on a GPU: the same product, each rung with one idea more than the one before.
 * `heddle bench matmul` climbs it by name, then goes on to what the launch rule and the autotuner make of the last rung,
 * to tensor cores and to the vendor's library. After S. Boehm, How to Optimize a CUDA Matmul Kernel (2022).
 *
 *                   TFLOP/s of 4096³ on an H200 (cuBLAS 51)
 *   naive              0.5  a thread per element; the lanes of a warp walk down a column: 32 lines of memory per read
 *   coalesced          2.4  the lanes lie along a row: one line per read
 *   shared             7.0  tiles of A and B in shared memory, which a block's threads share
 *   1-d registers     15.8  a thread sums 8 elements of a column: one value of B for 8 products
 *   2-d registers     22.3  8 × 8 elements: 16 values for 64 products
 *   vectors           30.6  memory, and the tiles, are read 4 numbers at a time; for that A's tile is turned
 *   no bank conflicts 33.9  a thread's 8 columns are two fours, so that neighbours read neighbouring fours; A's tile has
 *                           a pitch that spreads what is turned over the banks
 *   double buffer     44.1  asynchronous copies fill one pair of tiles while the other is multiplied
 *   warp tiles        43.0  a warp's lanes form 8 × 4 instead of 2 × 16: 96 values of shared memory for what took 144; it
 *                           gains at 1024³ (19.5 after 18.5), and not at this size
 *   pipeline          47.7  three pairs of tiles, twice as deep
 *
 * The last three are the kernel of matmul-cuda.ts, whose tile sizes the autotuner chooses.
 */
import { defineKernel } from '../../kernel/language/language.js';
import type { GridKernel } from '../tiled.js';
import { buffers, type MatmulProblem, type Operand } from './cpu.js';
import { matmulTile } from './cuda.js';
import type { MatmulTile } from './cuda-layout.js';
import { startOf } from './cuda-panel.js';

/** A thread per element of C; `along` says which of its coordinates the lanes of a warp differ in. */
function matmulSimple(p: MatmulProblem, along: 'rows' | 'columns'): GridKernel {
  const { batches, M, N, K, a: left, b: right, finish } = p;
  const kernel = defineKernel(
    along === 'rows' ? 'matmulNaive' : 'matmulCoalesced',
    buffers,
    ({ a, b, c }, context) => {
      const { globalId, blockIdx, idiv, f32, fma, M, N, K, AM, AK, BK, BN, DOWN, aStart, bStart, finish } =
        context;
      const row = DOWN ? globalId.x % M : idiv(globalId.x, N);
      const column = DOWN ? idiv(globalId.x, M) : globalId.x % N;
      const batch = blockIdx.y;
      if (globalId.x < M * N) {
        const left = aStart(batch) + row * AM;
        const right = bStart(batch) + column * BN;
        let sum = f32(0);
        for (let k = 0; k < K; k++) sum = fma(a[left + k * AK], b[right + k * BK], sum);
        c[(batch * M + row) * N + column] = finish(sum, batch, row, column);
      }
    },
    {
      ...{ M, N, K, DOWN: along === 'rows', finish },
      ...{ AM: left.rowStride, AK: left.columnStride, BK: right.rowStride, BN: right.columnStride },
      ...{ aStart: startOf(left, batches), bStart: startOf(right, batches) },
    },
  );
  return { kernel, grid: [Math.ceil((M * N) / 256), batches, 1], threads: 256, sharedBytes: 0 };
}

/** How a tile of C is computed in the middle of the ladder. */
interface Rung {
  /** Threads of the block, along M and N. */
  readonly threads: readonly [number, number];
  /** Elements of C that a thread sums, along M and N. */
  readonly each: readonly [number, number];
  /** Steps along K of one tile. */
  readonly depth: number;
  /** Reads and writes of 4. */
  readonly vectors?: boolean;
  /** A thread's elements lie in fours apart, and A's tile has a pitch. */
  readonly spread?: boolean;
}

/** Whether four neighbours of a row can be read at once, wherever a row begins. */
const inFours = ({ offset, batchStrides, rowStride, columnStride }: Operand, columns: number): boolean =>
  columnStride === 1 && [offset, rowStride, columns, ...batchStrides].every((n) => n % 4 === 0);

/** A tile of A and one of B in shared memory, copied when all threads are done with the ones before. */
function matmulShared(name: string, p: MatmulProblem, rung: Rung): GridKernel {
  const { batches, M, N, K, a: left, b: right, finish } = p;
  const { threads: group, each, depth, vectors = false, spread = false } = rung;
  const rows = group[0] * each[0];
  const columns = group[1] * each[1];
  const threads = group[0] * group[1];
  const kernel = defineKernel(
    name,
    buffers,
    ({ a, b, c }, context) => {
      const { blockIdx, threadIdx, idiv, f32, fma, lane, local, shared, barrier } = context;
      const { load4, store4, vec4, M, N, K, AM, AK, BK, BN, aStart, bStart, finish } = context;
      const { ROWS, COLUMNS, DEPTH, PITCH, THREADS, LM, LN, TM, TN } = context;
      const { VECTORS, SPREAD, A4, B4, C4 } = context;
      const row = blockIdx.y * ROWS;
      const column = blockIdx.x * COLUMNS;
      const batch = blockIdx.z;
      const aAt = aStart(batch);
      const bAt = bStart(batch);
      const down = idiv(threadIdx.x, LN);
      const across = threadIdx.x % LN;
      /** The tile's row, or column, that is the thread's i-th. */
      const rowOf = (i: number) => (SPREAD ? idiv(i, 4) * (LM * 4) + down * 4 + (i % 4) : down * TM + i);
      const columnOf = (j: number) =>
        SPREAD ? idiv(j, 4) * (LN * 4) + across * 4 + (j % 4) : across * TN + j;

      // By rows; where vectors are read, turned: by steps along K.
      const left = shared(f32, VECTORS ? DEPTH * PITCH : ROWS * DEPTH);
      const right = shared(f32, DEPTH * COLUMNS);
      const sums = local(f32, TM, TN);
      for (let i = 0; i < TM; i++) for (let j = 0; j < TN; j++) sums[i][j] = 0;

      const put = (r: number, k: number, v: number) => {
        left[VECTORS ? k * PITCH + r : r * DEPTH + k] = v;
      };
      const copy = (step: number) => {
        if (A4) {
          for (let i = threadIdx.x * 4; i < ROWS * DEPTH; i += THREADS * 4) {
            const r = idiv(i, DEPTH);
            const k = i % DEPTH;
            let v = vec4(f32(0), f32(0), f32(0), f32(0));
            if (row + r < M && step + k < K) v = load4(a, aAt + (row + r) * AM + step + k);
            for (let l = 0; l < 4; l++) put(r, k + l, lane(v, l));
          }
        } else {
          for (let i = threadIdx.x; i < ROWS * DEPTH; i += THREADS) {
            const r = idiv(i, DEPTH);
            const k = i % DEPTH;
            let v = f32(0);
            if (row + r < M && step + k < K) v = a[aAt + (row + r) * AM + (step + k) * AK];
            put(r, k, v);
          }
        }
        if (B4) {
          for (let i = threadIdx.x * 4; i < DEPTH * COLUMNS; i += THREADS * 4) {
            const k = idiv(i, COLUMNS);
            const n = i % COLUMNS;
            let v = vec4(f32(0), f32(0), f32(0), f32(0));
            if (step + k < K && column + n < N) v = load4(b, bAt + (step + k) * BK + column + n);
            store4(right, i, v);
          }
        } else {
          for (let i = threadIdx.x; i < DEPTH * COLUMNS; i += THREADS) {
            const k = idiv(i, COLUMNS);
            const n = i % COLUMNS;
            let v = f32(0);
            if (step + k < K && column + n < N) v = b[bAt + (step + k) * BK + (column + n) * BN];
            right[i] = v;
          }
        }
      };

      const from = local(f32, TM);
      const by = local(f32, TN);
      const multiply = (k: number) => {
        if (VECTORS) {
          for (let i = 0; i < TM; i += 4) {
            const v = load4(left, k * PITCH + rowOf(i));
            for (let l = 0; l < 4; l++) from[i + l] = lane(v, l);
          }
          for (let j = 0; j < TN; j += 4) {
            const v = load4(right, k * COLUMNS + columnOf(j));
            for (let l = 0; l < 4; l++) by[j + l] = lane(v, l);
          }
        } else {
          for (let i = 0; i < TM; i++) from[i] = left[rowOf(i) * DEPTH + k];
          for (let j = 0; j < TN; j++) by[j] = right[k * COLUMNS + columnOf(j)];
        }
        for (let i = 0; i < TM; i++)
          for (let j = 0; j < TN; j++) sums[i][j] = fma(from[i], by[j], sums[i][j]);
      };
      let step = 0;
      while (step < K) {
        copy(step);
        barrier();
        if (VECTORS) for (let k = 0; k < DEPTH; k++) multiply(k);
        else {
          // Unrolled, what is read number by number would take more registers than two blocks have.
          let k = 0;
          while (k < DEPTH) {
            multiply(k);
            k += 1;
          }
        }
        barrier();
        step += DEPTH;
      }

      for (let i = 0; i < TM; i++) {
        const r = row + rowOf(i);
        for (let j = 0; j < TN; j += C4 ? 4 : 1) {
          const n = column + columnOf(j);
          if (r < M && n < N) {
            const at = (batch * M + r) * N + n;
            if (C4) {
              const four = vec4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
              store4(c, at, finish(four, batch, r, n));
            } else c[at] = finish(sums[i][j], batch, r, n);
          }
        }
      }
    },
    {
      ...{ M, N, K, ROWS: rows, COLUMNS: columns, DEPTH: depth, PITCH: rows + (spread ? 4 : 0) },
      ...{ AM: left.rowStride, AK: left.columnStride, BK: right.rowStride, BN: right.columnStride },
      ...{ aStart: startOf(left, batches), bStart: startOf(right, batches), finish, THREADS: threads },
      ...{
        LM: group[0],
        LN: group[1],
        TM: each[0],
        TN: each[1],
      },
      ...{ VECTORS: vectors, SPREAD: spread, A4: vectors && inFours(left, K) },
      ...{ B4: vectors && inFours(right, N), C4: vectors && N % 4 === 0 },
    },
  );
  return {
    ...{ kernel, threads, sharedBytes: 0 },
    grid: [Math.ceil(N / columns), Math.ceil(M / rows), batches],
  };
}

const shared =
  (name: string, rung: Rung) =>
  (p: MatmulProblem): GridKernel =>
    matmulShared(name, p, rung);

const pipelined =
  (tile: Omit<MatmulTile, 'splits'>) =>
  (p: MatmulProblem): GridKernel =>
    matmulTile(p, { ...tile, splits: 1 });

/** 128 × 128 elements of C a block. */
const square = { threads: [16, 16], each: [8, 8], depth: 8 } as const;
const warpTile = { warps: [2, 4, 1], lanes: [8, 4], each: [8, 8] } as const;

export const MATMUL_LADDER: Readonly<Record<string, (p: MatmulProblem) => GridKernel>> = {
  naive: (p) => matmulSimple(p, 'rows'),
  coalesced: (p) => matmulSimple(p, 'columns'),
  shared: shared('matmulShared', { threads: [32, 32], each: [1, 1], depth: 32 }),
  '1-d registers': shared('matmulColumns', { threads: [8, 64], each: [8, 1], depth: 8 }),
  '2-d registers': shared('matmulSquares', square),
  vectors: shared('matmulVectors', { ...square, vectors: true }),
  'no bank conflicts': shared('matmulSpread', { ...square, vectors: true, spread: true }),
  'double buffer': pipelined({ warps: [8, 1, 1], lanes: [2, 16], each: [8, 8], depth: 8, stages: 2 }),
  'warp tiles': pipelined({ ...warpTile, depth: 8, stages: 2 }),
  pipeline: pipelined({ ...warpTile, depth: 16, stages: 3 }),
};
