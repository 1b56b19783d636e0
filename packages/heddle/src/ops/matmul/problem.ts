/** What the kernels of the matrix product are given. */
import type { Precision } from '../../core/precision.js';
import type { KernelIo, View } from '../../graph/fused-op.js';
import type { MatmulProblem, OperandLayout } from './cpu.js';

export interface MatmulArg {
  readonly precision: Precision;
}

/** A source as a stack of matrices. */
const operand = ({ shape, strides, offset }: View): OperandLayout => {
  const lead = shape.length - 2;
  return {
    offset,
    batch: shape.slice(0, lead),
    batchStrides: strides.slice(0, lead),
    rowStride: strides[lead]!,
    columnStride: strides[lead + 1]!,
  };
};

/** Sizes, sources and epilogue: (value, batch, row, column). */
export function problemOf({ inputs: [x, y], output, ...io }: KernelIo): MatmulProblem {
  const { finish, plain, beside, sums } = io;
  const [M, K, N] = [x!.shape.at(-2)!, x!.shape.at(-1)!, y!.shape.at(-1)!];
  const batches = output.shape.slice(0, -2).reduce((n, d) => n * d, 1);
  const sources = { a: operand(x!), b: operand(y!) };
  return { batches, M, N, K, ...sources, finish: finish([batches, M, N]), followed: !plain, beside, sums };
}
