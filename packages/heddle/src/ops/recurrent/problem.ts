/** What the kernels of recurrent networks are given. */
import type { KernelIo } from '../../graph/fused-op.js';
import type { CellName } from './cells.js';

export interface RecurrentArg {
  readonly cell: CellName;
}

/** The sizes of a layer. */
export interface RecurrentProblem {
  readonly cell: CellName;
  /** Rows of the batch. */
  readonly rows: number;
  /** Features of the state. */
  readonly size: number;
  readonly steps: number;
  /** Offsets of the inputs, in elements. */
  readonly offsets: readonly number[];
}

export const problemOf = ({ node, inputs, output }: KernelIo, { cell }: RecurrentArg): RecurrentProblem => {
  const [steps, rows] = output.shape as [number, number];
  const size = node.src.at(-1)!.shape[1]!;
  return { cell, rows, size, steps, offsets: inputs.map(({ offset }) => offset) };
};
