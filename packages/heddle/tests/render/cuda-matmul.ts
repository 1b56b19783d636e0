/** The matrix products of GPUs, cut as they are for small and large matrices. */
import { bf16, f16, f32, i32 } from '../../src/core/dtype.js';
import type { KernelIr } from '../../src/kernel/ir/ir.js';
import type { MatmulProblem, OperandLayout } from '../../src/ops/matmul/cpu.js';
import { matmulTile } from '../../src/ops/matmul/cuda.js';
import type { MatmulTile } from '../../src/ops/matmul/cuda-layout.js';
import { matmulSum } from '../../src/ops/matmul/cuda-store.js';
import { matmulTensor } from '../../src/ops/matmul/tensor-core.js';
import type { TensorTile } from '../../src/ops/matmul/tensor-core-panel.js';
import { matmulWarpgroups } from '../../src/ops/matmul/warpgroup-product.js';
import { identity } from '../kernel/harness.js';

const by = (rowStride: number, columnStride: number): OperandLayout => ({
  ...{ offset: 0, batch: [], batchStrides: [], rowStride, columnStride },
});

/** M×K by K×N, each contiguous along K or across it. */
const problem = (M: number, N: number, K: number, a: boolean, b: boolean): MatmulProblem => ({
  ...{ batches: 1, M, N, K, a: a ? by(K, 1) : by(1, M), b: b ? by(1, K) : by(N, 1), finish: identity() },
});

const small: MatmulTile = {
  ...{ warps: [1, 1, 8], lanes: [8, 4], each: [1, 2], depth: 196, stages: 4, splits: 1 },
};
const large: MatmulTile = {
  ...{ warps: [2, 4, 1], lanes: [8, 4], each: [8, 8], depth: 16, stages: 3, splits: 1 },
};
const tensor: TensorTile = { warps: [2, 2, 1], each: [2, 4], depth: 32, stages: 3, splits: 1 };

const named = (name: string, { kernel }: { readonly kernel: KernelIr }): KernelIr => ({ ...kernel, name });

/** Only Hopper has it. */
export const splitByWarpgroups = (): KernelIr =>
  named(
    'matmul_tf32x3_warpgroups',
    matmulWarpgroups(
      problem(512, 512, 512, true, false),
      { groups: 2, each: 1, columns: 64, stages: 4, splits: 1 },
      f32,
      132,
      { split: true },
    ),
  );

export const matmulKernels = (): readonly KernelIr[] => [
  named('matmul_small', matmulTile(problem(64, 128, 784, true, true), small)),
  named('matmul_large', matmulTile(problem(1024, 1024, 1024, true, false), large)),
  named('matmul_edges', matmulTile(problem(65, 33, 17, false, true), { ...small, depth: 16, splits: 2 })),
  named('matmul_sum', matmulSum(problem(64, 10, 4608, true, true), 16)),
  named('matmul_tf32', matmulTensor(problem(512, 512, 512, true, true), tensor, 'tf32', f32)),
  named('matmul_pieces', matmulTile(problem(1024, 1024, 9000, true, false), large)),
  named('matmul_tf32_pieces', matmulTensor(problem(512, 511, 9000, true, true), tensor, 'tf32', f32)),
  named('matmul_tf32x3', matmulTensor(problem(512, 511, 512, true, false), tensor, 'tf32x3', f32)),
  named('matmul_bf16', matmulTensor(problem(512, 512, 512, true, false), tensor, 'bf16', f32)),
  named('matmul_of_f16', matmulTensor(problem(512, 511, 512, false, true), tensor, 'f16', f16)),
  named('matmul_of_i8', matmulTensor(problem(512, 511, 128, true, true), tensor, 'i8', f32, i32)),
  named('matmul_of_bf16', matmulTensor(problem(512, 512, 512, true, false), tensor, 'bf16', bf16)),
];
