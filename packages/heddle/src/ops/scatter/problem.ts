/** What the kernels of scattering need to know. */
import type { IrFunction } from '../../kernel/ir/ir-function.js';

/** Positions (rows, n) into rows of `size`; those out of range are left out. */
export interface ScatterProblem {
  readonly rows: number;
  readonly n: number;
  readonly size: number;
  readonly indexOffset: number;
  /** Of the values, where there are some. */
  readonly valuesOffset: number;
  /** (value, row, i) → what is stored. */
  readonly finish: IrFunction;
}
