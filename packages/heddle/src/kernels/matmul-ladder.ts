/**
 * The ladder of matrix products for GPUs (B1): one idea a rung, from three nested loops to what the production kernel
 * (matmul-cuda.ts) starts from. C (M×N) = A (M×K) · B (K×N) in strict f32, all contiguous. `heddle bench matmul`
 * climbs it, up to tensor cores and cuBLAS. After S. Boehm, "How to optimize a CUDA matmul kernel" (2022).
 *
 * Loops along K are written with `while`: a `for` between constants is unrolled.
 */
import { f32 } from '../core/dtype.js';
import { defineKernel } from '../kernel/language.js';
import { buffer } from '../kernel/types.js';
import type { GridKernel } from './tiled.js';

/** Sizes of a product; every rung takes multiples of 128 (M, N) and of 32 (K). */
export interface LadderProblem {
  readonly M: number;
  readonly N: number;
  readonly K: number;
}

export interface Rung {
  readonly name: string;
  /** What is new, in a few words. */
  readonly idea: string;
  readonly kernel: (problem: LadderProblem) => GridKernel;
}

const buffers = { a: buffer(f32), b: buffer(f32), c: buffer(f32) };

/** A thread for each element of C, 32 × 32 a block. */
function elementwise({ M, N, K }: LadderProblem, along: 'rows' | 'columns'): GridKernel {
  const kernel = defineKernel(
    'matmulNaive',
    buffers,
    ({ a, b, c }, { threadIdx, blockIdx, idiv, fma, N, K, COALESCED }) => {
      const near = threadIdx.x % 32;
      const far = idiv(threadIdx.x, 32);
      const row = blockIdx.y * 32 + (COALESCED ? far : near);
      const column = blockIdx.x * 32 + (COALESCED ? near : far);
      let sum = 0.0;
      let k = 0;
      while (k < K) {
        sum = fma(a[row * K + k], b[k * N + column], sum);
        k += 1;
      }
      c[row * N + column] = sum;
    },
    { N, K, COALESCED: along === 'columns' },
  );
  return { kernel, grid: [N / 32, M / 32, 1], threads: 1024, sharedBytes: 0 };
}

/** Tiles of 32 × 32 of A and B are read once for 32 rows and columns of C. */
function sharedTiles({ M, N, K }: LadderProblem): GridKernel {
  const kernel = defineKernel(
    'matmulShared',
    buffers,
    ({ a, b, c }, { threadIdx, blockIdx, idiv, fma, f32, shared, barrier, N, K }) => {
      const as = shared(f32, 32, 32);
      const bs = shared(f32, 32, 32);
      const y = idiv(threadIdx.x, 32);
      const x = threadIdx.x % 32;
      const row = blockIdx.y * 32 + y;
      const column = blockIdx.x * 32 + x;
      let sum = 0.0;
      let from = 0;
      while (from < K) {
        as[y][x] = a[row * K + from + x];
        bs[y][x] = b[(from + y) * N + column];
        barrier();
        for (let k = 0; k < 32; k++) sum = fma(as[y][k], bs[k][x], sum);
        barrier();
        from += 32;
      }
      c[row * N + column] = sum;
    },
    { N, K },
  );
  return { kernel, grid: [N / 32, M / 32, 1], threads: 1024, sharedBytes: 0 };
}

/** A thread sums 8 elements of a column: each element of B that it reads serves 8 times. */
function columnsOfEight({ M, N, K }: LadderProblem): GridKernel {
  const kernel = defineKernel(
    'matmulColumns',
    buffers,
    ({ a, b, c }, { threadIdx, blockIdx, idiv, fma, f32, shared, local, barrier, N, K }) => {
      const as = shared(f32, 64, 8);
      const bs = shared(f32, 8, 64);
      const t = threadIdx.x;
      const top = blockIdx.y * 64;
      const start = blockIdx.x * 64;
      const x = t % 64;
      const y = idiv(t, 64) * 8;
      const sums = local(f32, 8);
      for (let i = 0; i < 8; i++) sums[i] = 0;
      let from = 0;
      while (from < K) {
        as[idiv(t, 8)][t % 8] = a[(top + idiv(t, 8)) * K + from + (t % 8)];
        bs[idiv(t, 64)][x] = b[(from + idiv(t, 64)) * N + start + x];
        barrier();
        for (let k = 0; k < 8; k++) {
          const right = bs[k][x];
          for (let i = 0; i < 8; i++) sums[i] = fma(as[y + i][k], right, sums[i]);
        }
        barrier();
        from += 8;
      }
      for (let i = 0; i < 8; i++) c[(top + y + i) * N + start + x] = sums[i];
    },
    { N, K },
  );
  return { kernel, grid: [N / 64, M / 64, 1], threads: 512, sharedBytes: 0 };
}

/** A thread sums 8 × 8 elements of C: 16 reads of shared memory serve 64 multiply-adds. */
function squaresOfEight({ M, N, K }: LadderProblem): GridKernel {
  const kernel = defineKernel(
    'matmulSquares',
    buffers,
    ({ a, b, c }, { threadIdx, blockIdx, idiv, fma, f32, shared, local, barrier, N, K }) => {
      const as = shared(f32, 128, 8);
      const bs = shared(f32, 8, 128);
      const t = threadIdx.x;
      const top = blockIdx.y * 128;
      const start = blockIdx.x * 128;
      const y = idiv(t, 16) * 8;
      const x = (t % 16) * 8;
      const sums = local(f32, 8, 8);
      for (let i = 0; i < 8; i++) for (let j = 0; j < 8; j++) sums[i][j] = 0;
      let from = 0;
      while (from < K) {
        for (let i = t; i < 1024; i += 256) {
          as[idiv(i, 8)][i % 8] = a[(top + idiv(i, 8)) * K + from + (i % 8)];
          bs[idiv(i, 128)][i % 128] = b[(from + idiv(i, 128)) * N + start + (i % 128)];
        }
        barrier();
        for (let k = 0; k < 8; k++) {
          const left = local(f32, 8);
          const right = local(f32, 8);
          for (let i = 0; i < 8; i++) left[i] = as[y + i][k];
          for (let j = 0; j < 8; j++) right[j] = bs[k][x + j];
          for (let i = 0; i < 8; i++)
            for (let j = 0; j < 8; j++) sums[i][j] = fma(left[i], right[j], sums[i][j]);
        }
        barrier();
        from += 8;
      }
      for (let i = 0; i < 8; i++)
        for (let j = 0; j < 8; j++) c[(top + y + i) * N + start + x + j] = sums[i][j];
    },
    { N, K },
  );
  return { kernel, grid: [N / 128, M / 128, 1], threads: 256, sharedBytes: 0 };
}

/**
 * Memory in vectors of 4, A's tile transposed so that its reads are vectors, too. With `apart`, a thread's 8 columns
 * are two groups of 4 that lie 64 apart: neighbouring threads then read neighbouring vectors, from different banks.
 */
function vectors({ M, N, K }: LadderProblem, apart: boolean): GridKernel {
  const kernel = defineKernel(
    apart ? 'matmulBanks' : 'matmulVectors',
    buffers,
    ({ a, b, c }, context) => {
      const { threadIdx, blockIdx, idiv, fma, lane, f32, shared, local, barrier, N, K } = context;
      const { load4, store4, vec4, APART } = context;
      const as = shared(f32, 8, 128);
      const bs = shared(f32, 8, 128);
      const t = threadIdx.x;
      const top = blockIdx.y * 128;
      const start = blockIdx.x * 128;
      const y = idiv(t, 16) * (APART ? 4 : 8);
      const x = (t % 16) * (APART ? 4 : 8);
      /** From a thread's first group of 4 to its second. */
      const STEP = APART ? 64 : 4;
      const sums = local(f32, 8, 8);
      for (let i = 0; i < 8; i++) for (let j = 0; j < 8; j++) sums[i][j] = 0;
      const left = local(f32, 8);
      const right = local(f32, 8);
      let from = 0;
      while (from < K) {
        const row = idiv(t, 2);
        const k4 = (t % 2) * 4;
        const v = load4(a, (top + row) * K + from + k4);
        for (let l = 0; l < 4; l++) as[k4 + l][row] = lane(v, l);
        const k = idiv(t, 32);
        const column = (t % 32) * 4;
        store4(bs, k, column, load4(b, (from + k) * N + start + column));
        barrier();
        for (let k = 0; k < 8; k++) {
          for (let g = 0; g < 2; g++) {
            const l = load4(as, k, y + g * STEP);
            const r = load4(bs, k, x + g * STEP);
            for (let e = 0; e < 4; e++) {
              left[4 * g + e] = lane(l, e);
              right[4 * g + e] = lane(r, e);
            }
          }
          for (let i = 0; i < 8; i++)
            for (let j = 0; j < 8; j++) sums[i][j] = fma(left[i], right[j], sums[i][j]);
        }
        barrier();
        from += 8;
      }
      for (let i = 0; i < 8; i++) {
        const line = (top + y + (i % 4) + idiv(i, 4) * STEP) * N + start + x;
        for (let g = 0; g < 2; g++) {
          const j = 4 * g;
          store4(c, line + g * STEP, vec4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]));
        }
      }
    },
    { N, K, APART: apart },
  );
  return { kernel, grid: [N / 128, M / 128, 1], threads: 256, sharedBytes: 0 };
}

export const MATMUL_LADDER: readonly Rung[] = [
  {
    name: 'naive',
    idea: 'a thread for each element; neighbours read other rows',
    kernel: (p) => elementwise(p, 'rows'),
  },
  {
    name: 'coalesced',
    idea: 'neighbouring threads read neighbouring columns',
    kernel: (p) => elementwise(p, 'columns'),
  },
  { name: 'shared', idea: 'tiles of 32 × 32 in shared memory', kernel: sharedTiles },
  { name: '1-D registers', idea: '8 rows a thread', kernel: columnsOfEight },
  { name: '2-D registers', idea: '8 × 8 elements a thread', kernel: squaresOfEight },
  { name: 'vectors', idea: 'memory in vectors of 4, A transposed', kernel: (p) => vectors(p, false) },
  { name: 'banks', idea: 'vectors of neighbours in different banks', kernel: (p) => vectors(p, true) },
];
