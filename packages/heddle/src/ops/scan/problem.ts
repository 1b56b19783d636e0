/** What the kernels of running sums and products need to know. */

import { sizeOf } from '../../core/shape.js';
import type { KernelIo } from '../../graph/fused-op.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';

/** How neighbours are combined: running sums or running products. */
export interface ScanArg {
  readonly op: 'add' | 'mul';
}

export interface ScanProblem extends ScanArg {
  readonly rows: number;
  /** Elements of a row, at least 1. */
  readonly n: number;
  /** Where x begins. */
  readonly offset: number;
  /** (value, row, i) → the value to store. */
  readonly finish: IrFunction;
}

/** The problem of a kernel with these buffers. */
export const problemOf = ({ inputs: [x], output, finish }: KernelIo, { op }: ScanArg): ScanProblem => {
  const n = output.shape.at(-1)!;
  const rows = sizeOf(output.shape) / n;
  return { op, rows, n, offset: x!.offset, finish: finish([rows, n]) };
};
