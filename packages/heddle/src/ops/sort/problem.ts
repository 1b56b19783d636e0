/** What the kernels of sorting need to know. */
import type { DType } from '../../core/dtype.js';
import { sizeOf } from '../../core/shape.js';
import type { KernelIo } from '../../graph/fused-op.js';

export interface SortProblem {
  readonly rows: number;
  /** Elements of a row, at least 1. */
  readonly n: number;
  /** Where the keys begin. */
  readonly offset: number;
  /** Of the keys: i32 or i64. */
  readonly dtype: DType;
}

export const problemOf = ({ inputs: [keys], output: { shape } }: KernelIo): SortProblem => {
  const n = shape.at(-1)!;
  return { rows: sizeOf(shape) / n, n, offset: keys!.offset, dtype: keys!.dtype };
};
