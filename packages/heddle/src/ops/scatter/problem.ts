/** What the kernels of scattering need to know. */
import { sizeOf } from '../../core/shape.js';
import type { KernelIo } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
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

export interface ScatterArg {
  /** Of the result, along the last dimension. */
  readonly size: number;
}

export const positionsIn = (index: GraphNode): number => index.shape.at(-1)!;

export function problemOf({ inputs, output, finish }: KernelIo, { size }: ScatterArg): ScatterProblem {
  const index = inputs.at(-1)!;
  const rows = sizeOf(output.shape) / size;
  return {
    ...{ rows, n: index.shape.at(-1)!, size, indexOffset: index.offset, valuesOffset: inputs[0]!.offset },
    finish: finish([rows, size]),
  };
}
