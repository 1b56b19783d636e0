/**
 * The ladder of the f32 matrix product on a GPU: the same product, each rung with one idea more than the one before.
 * The last is what matmul-cuda.ts gives large matrices; docs and `heddle bench` climb it by name.
 *
 *   naive              a thread per element; the lanes of a warp walk down a column: 32 lines of memory per read
 *   coalesced          the lanes lie along a row: one line per read
 *   shared             tiles of A and B in shared memory, which a block's threads share
 *   1-d registers      a thread sums 8 elements of a column: one value of B for 8 products
 *   2-d registers      4 × 4 elements: 8 values for 16 products
 *   warp tiles         8 × 8 elements, warps of 64 × 32: 16 values for 64 products, read as vectors of 4
 *   pipeline           three tiles on their way or in use, by asynchronous copies
 *
 * All rungs from `shared` on are the kernel of matmul-cuda.ts with other constants.
 */
import { defineKernel } from '../kernel/language.js';
import { buffers, type MatmulProblem } from './matmul-cpu.js';
import { type MatmulTile, matmulTile } from './matmul-cuda.js';
import { startOf } from './matmul-cuda-panel.js';
import type { GridKernel } from './tiled.js';

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

const rung =
  (tile: Omit<MatmulTile, 'splits'>) =>
  (p: MatmulProblem): GridKernel =>
    matmulTile(p, { ...tile, splits: 1 });

export const MATMUL_LADDER: Readonly<Record<string, (p: MatmulProblem) => GridKernel>> = {
  naive: (p) => matmulSimple(p, 'rows'),
  coalesced: (p) => matmulSimple(p, 'columns'),
  shared: rung({ warps: [16, 1, 1], lanes: [1, 32], each: [1, 1], depth: 32, stages: 2 }),
  '1-d registers': rung({ warps: [8, 1, 1], lanes: [1, 32], each: [8, 1], depth: 32, stages: 2 }),
  '2-d registers': rung({ warps: [2, 4, 1], lanes: [8, 4], each: [4, 4], depth: 32, stages: 2 }),
  'warp tiles': rung({ warps: [2, 4, 1], lanes: [8, 4], each: [8, 8], depth: 8, stages: 2 }),
  pipeline: rung({ warps: [2, 4, 1], lanes: [8, 4], each: [8, 8], depth: 16, stages: 3 }),
};
