/** Every rung of the ladders. */
import type { KernelIr } from '../src/kernel/ir.js';
import type { Operand } from '../src/kernels/matmul-cpu.js';
import { MATMUL_LADDER } from '../src/kernels/matmul-cuda-ladder.js';
import { TRANSPOSES } from '../src/kernels/transpose.js';
import { identity } from './kernel-harness.js';

const SIZE = 512;
const rows: Operand = { offset: 0, batch: [], batchStrides: [], rowStride: SIZE, columnStride: 1 };
const problem = { batches: 1, M: SIZE, N: SIZE, K: SIZE, a: rows, b: rows, finish: identity() };

export const ladderKernels = (): readonly KernelIr[] => [
  ...Object.values(MATMUL_LADDER).map((rung, i) => ({ ...rung(problem).kernel, name: `matmul_rung_${i}` })),
  ...TRANSPOSES.map(({ make }) => make(SIZE, SIZE).kernel),
];
