/** Every rung of the ladders. */
import type { KernelIr } from '../../src/kernel/ir/ir.js';
import type { Operand } from '../../src/ops/matmul/cpu.js';
import { MATMUL_LADDER } from '../../src/ops/matmul/cuda-ladder.js';
import { TRANSPOSES } from '../../src/ops/transpose/cuda-ladder.js';
import { identity } from '../kernel/harness.js';

const SIZE = 512;
const rows: Operand = { offset: 0, batch: [], batchStrides: [], rowStride: SIZE, columnStride: 1 };
const problem = { batches: 1, M: SIZE, N: SIZE, K: SIZE, a: rows, b: rows, finish: identity() };

export const ladderKernels = (): readonly KernelIr[] => [
  ...Object.values(MATMUL_LADDER).map((rung, i) => ({ ...rung(problem).kernel, name: `matmul_rung_${i}` })),
  ...TRANSPOSES.map(({ make }) => make(SIZE, SIZE).kernel),
];
