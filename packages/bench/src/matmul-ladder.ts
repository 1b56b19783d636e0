/**
 * The ladder of the f32 matrix product on a GPU: the same product, each rung with one idea more than the one before.
 * `heddle bench matmul` climbs it by name, then goes on to what the launch rule and the autotuner make of the last rung,
 * to tensor cores and to the vendor's library. After S. Boehm, How to Optimize a CUDA Matmul Kernel (2022).
 *
 *   naive              a thread per element; the lanes of a warp walk down a column: 32 lines of memory per read
 *   coalesced          the lanes lie along a row: one line per read
 *   shared             tiles of A and B in shared memory, which a block's threads share
 *   1-d registers      a thread sums 8 elements of a column: one value of B for 8 products
 *   2-d registers      8 × 8 elements: 16 values for 64 products
 *   vectors            memory, and the tiles, are read 4 numbers at a time; for that A's tile is turned
 *   no bank conflicts  a thread's 8 columns are two fours, so that neighbours read neighbouring fours; A's tile has
 *                      a pitch that spreads what is turned over the banks
 *   double buffer      asynchronous copies fill one pair of tiles while the other is multiplied
 *   warp tiles         a warp's lanes form 8 × 4 instead of 2 × 16: 96 values of shared memory for what took 144
 *   pipeline           three pairs of tiles, twice as deep
 *
 * On an H200 the first three gain a factor of about four each, registers double it twice over, and the rest doubles it
 * again, up to nine tenths of what cuBLAS reaches. The last three are the kernel that Heddle itself uses
 * (ops/matmul/cuda.ts), whose tile sizes the autotuner chooses.
 */
import { f32 } from 'heddle/internal/core/dtype.js';
import { irFunction } from 'heddle/internal/kernel/ir/ir-function.js';
import { buffer } from 'heddle/internal/kernel/ir/types.js';
import { defineKernel } from 'heddle/internal/kernel/language/language.js';
import { matmulTile } from 'heddle/internal/ops/matmul/cuda.js';
import type { MatmulTile } from 'heddle/internal/ops/matmul/cuda-layout.js';
import type { GridKernel } from 'heddle/internal/ops/tiled.js';

/** Of A (M, K) and B (K, N), which lie in memory row by row. */
export interface Sizes {
  readonly M: number;
  readonly N: number;
  readonly K: number;
}

const SCHEMA = { a: buffer(f32), b: buffer(f32), c: buffer(f32) };

/** A thread per element of C; `along` says which of its coordinates the lanes of a warp differ in. */
function simple(name: string, { M, N, K }: Sizes, along: 'rows' | 'columns'): GridKernel {
  const kernel = defineKernel(
    name,
    SCHEMA,
    ({ a, b, c }, { globalId, idiv, f32, fma, M, N, K, along }) => {
      const row = along === 'rows' ? globalId.x % M : idiv(globalId.x, N);
      const column = along === 'rows' ? idiv(globalId.x, M) : globalId.x % N;
      if (globalId.x < M * N) {
        let sum = f32(0);
        for (let k = 0; k < K; k++) sum = fma(a[row * K + k], b[k * N + column], sum);
        c[row * N + column] = sum;
      }
    },
    { M, N, K, along },
  );
  return { kernel, grid: [Math.ceil((M * N) / 256), 1, 1], threads: 256, sharedBytes: 0 };
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

/** A tile of A and one of B in shared memory, copied when all threads are done with the ones before. */
function tiled(name: string, { M, N, K }: Sizes, rung: Rung): GridKernel {
  const { threads, each, depth, vectors = false, spread = false } = rung;
  const tile = {
    rows: threads[0] * each[0],
    columns: threads[1] * each[1],
    depth,
    pitch: threads[0] * each[0] + (spread ? 4 : 0),
    threads: threads[0] * threads[1],
  };
  const kernel = defineKernel(
    name,
    SCHEMA,
    ({ a, b, c }, context) => {
      const { barrier, blockIdx, f32, fma, idiv, lane, load4, local, shared, store4, threadIdx, vec4 } =
        context;
      const { M, N, K, tile, threads, each, vectors, spread, fours } = context;
      const { rows, columns, depth, pitch } = tile;
      const row = blockIdx.y * rows;
      const column = blockIdx.x * columns;
      const down = idiv(threadIdx.x, threads[1]);
      const across = threadIdx.x % threads[1];
      /** The tile's row, or column, that is the thread's i-th. */
      const rowOf = (i: number) =>
        spread ? idiv(i, 4) * (threads[0] * 4) + down * 4 + (i % 4) : down * each[0] + i;
      const columnOf = (j: number) =>
        spread ? idiv(j, 4) * (threads[1] * 4) + across * 4 + (j % 4) : across * each[1] + j;

      // By rows; where vectors are read, turned: by steps along K.
      const left = shared(f32, vectors ? depth * pitch : rows * depth);
      const right = shared(f32, depth * columns);
      const sums = local(f32, each[0], each[1]);
      for (let i = 0; i < each[0]; i++) for (let j = 0; j < each[1]; j++) sums[i][j] = 0;

      const copyA = (step: number) => {
        const lanes = fours.a ? 4 : 1;
        for (let i = threadIdx.x * lanes; i < rows * depth; i += tile.threads * lanes) {
          const r = idiv(i, depth);
          const k = i % depth;
          let v = fours.a ? vec4(f32(0), f32(0), f32(0), f32(0)) : f32(0);
          const at = (row + r) * K + step + k;
          if (row + r < M && step + k < K) v = fours.a ? load4(a, at) : a[at];
          for (let l = 0; l < lanes; l++)
            left[vectors ? (k + l) * pitch + r : r * depth + k] = fours.a ? lane(v, l) : v;
        }
      };
      const copyB = (step: number) => {
        const lanes = fours.b ? 4 : 1;
        for (let i = threadIdx.x * lanes; i < depth * columns; i += tile.threads * lanes) {
          const k = step + idiv(i, columns);
          const n = column + (i % columns);
          let v = fours.b ? vec4(f32(0), f32(0), f32(0), f32(0)) : f32(0);
          if (k < K && n < N) v = fours.b ? load4(b, k * N + n) : b[k * N + n];
          if (fours.b) store4(right, i, v);
          else right[i] = v;
        }
      };
      const from = local(f32, each[0]);
      const by = local(f32, each[1]);
      const multiply = (k: number) => {
        if (vectors) {
          for (let i = 0; i < each[0]; i += 4) {
            const v = load4(left, k * pitch + rowOf(i));
            for (let l = 0; l < 4; l++) from[i + l] = lane(v, l);
          }
          for (let j = 0; j < each[1]; j += 4) {
            const v = load4(right, k * columns + columnOf(j));
            for (let l = 0; l < 4; l++) by[j + l] = lane(v, l);
          }
        } else {
          for (let i = 0; i < each[0]; i++) from[i] = left[rowOf(i) * depth + k];
          for (let j = 0; j < each[1]; j++) by[j] = right[k * columns + columnOf(j)];
        }
        for (let i = 0; i < each[0]; i++)
          for (let j = 0; j < each[1]; j++) sums[i][j] = fma(from[i], by[j], sums[i][j]);
      };

      let step = 0;
      while (step < K) {
        copyA(step);
        copyB(step);
        barrier();
        if (vectors) for (let k = 0; k < depth; k++) multiply(k);
        else {
          // Unrolled, what is read number by number would take more registers than two blocks have.
          let k = 0;
          while (k < depth) {
            multiply(k);
            k += 1;
          }
        }
        barrier();
        step += depth;
      }

      for (let i = 0; i < each[0]; i++) {
        const r = row + rowOf(i);
        for (let j = 0; j < each[1]; j += fours.c ? 4 : 1) {
          const n = column + columnOf(j);
          if (r < M && n < N) {
            if (fours.c)
              store4(c, r * N + n, vec4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]));
            else c[r * N + n] = sums[i][j];
          }
        }
      }
    },
    {
      ...{ M, N, K, tile, threads, each, vectors, spread },
      // Whether four neighbours can be read, or written, at once, wherever a row begins.
      fours: { a: vectors && K % 4 === 0, b: vectors && N % 4 === 0, c: vectors && N % 4 === 0 },
    },
  );
  const grid = [Math.ceil(N / tile.columns), Math.ceil(M / tile.rows), 1] as const;
  return { kernel, grid, threads: tile.threads, sharedBytes: 0 };
}

/** By Heddle's own kernel. */
function pipelined({ M, N, K }: Sizes, tile: Omit<MatmulTile, 'splits'>): GridKernel {
  const rows = (columns: number) => ({
    ...{ offset: 0, batch: [], batchStrides: [], rowStride: columns, columnStride: 1 },
  });
  const finish = irFunction(([value]) => value!);
  return matmulTile({ batches: 1, M, N, K, a: rows(K), b: rows(N), finish }, { ...tile, splits: 1 });
}

/** 128 × 128 elements of C a block. */
const SQUARE = { threads: [16, 16], each: [8, 8], depth: 8 } as const;
const WARP_TILE = { warps: [2, 4, 1], lanes: [8, 4], each: [8, 8] } as const;

export const MATMUL_LADDER: Readonly<Record<string, (sizes: Sizes) => GridKernel>> = {
  naive: (s) => simple('matmulNaive', s, 'rows'),
  coalesced: (s) => simple('matmulCoalesced', s, 'columns'),
  shared: (s) => tiled('matmulShared', s, { threads: [32, 32], each: [1, 1], depth: 32 }),
  '1-d registers': (s) => tiled('matmulColumns', s, { threads: [8, 64], each: [8, 1], depth: 8 }),
  '2-d registers': (s) => tiled('matmulSquares', s, SQUARE),
  vectors: (s) => tiled('matmulVectors', s, { ...SQUARE, vectors: true }),
  'no bank conflicts': (s) => tiled('matmulSpread', s, { ...SQUARE, vectors: true, spread: true }),
  'double buffer': (s) =>
    pipelined(s, { warps: [8, 1, 1], lanes: [2, 16], each: [8, 8], depth: 8, stages: 2 }),
  'warp tiles': (s) => pipelined(s, { ...WARP_TILE, depth: 8, stages: 2 }),
  pipeline: (s) => pipelined(s, { ...WARP_TILE, depth: 16, stages: 3 }),
};
