/**
 * How rows of matrices lie in memory. The copy engine of a GPU takes rows that begin at multiples of 16 bytes. A matrix whose rows
 * do not can be the first columns of a wider one, whose rows do.
 */
import type { DType } from '../core/dtype.js';
import * as b from './build.js';
import { argOf, type GraphNode } from './node.js';

const ALIGNED = 16;

/** Elements that a row lacks to be a multiple of 16 bytes. */
export const missing = (size: number, { bytes }: DType): number => -size & (ALIGNED / bytes - 1);

/** Whether a stack of matrices is the transposes of another. */
export const isTransposed = (x: GraphNode): boolean =>
  x.op === 'permute' &&
  argOf(x, 'permute').axes.every((a, i, axes) => a === (i < axes.length - 2 ? i : axes.length * 2 - 3 - i));

/** What matrices are the transposes of, or themselves: as they are stored. */
export const asStored = (x: GraphNode): GraphNode => (isTransposed(x) ? b.transpose(x) : x);

/** Elements from one row in memory to the next. */
export function pitchOf(x: GraphNode): number {
  const own = asStored(x);
  if (own.isLeaf || own.op !== 'slice') return own.shape.at(-1)!;
  const { start, step } = argOf(own, 'slice');
  const isAtRows = step.at(-1) === 1 && missing(start.at(-1)!, own.dtype) === 0;
  return isAtRows ? pitchOf(own.src[0]!) : own.shape.at(-1)!;
}

export const isAligned = (x: GraphNode): boolean => missing(pitchOf(x), x.dtype) === 0;

/** With rows and columns of zeros after those of the matrices. */
export function withZeros(x: GraphNode, rows: number, columns: number): GraphNode {
  const none = x.shape.map(() => 0);
  return b.pad(x, none, [...none.slice(2), rows, columns]);
}

/** The first columns of wider matrices. */
export function firstColumns(x: GraphNode, columns: number): GraphNode {
  const start = x.shape.map(() => 0);
  return b.slice(x, start, [...x.shape.slice(0, -1), columns]);
}

/** The same matrices, as part of wider ones whose rows are aligned, unless theirs are. */
export function inAlignedRows(x: GraphNode): GraphNode {
  if (isAligned(x)) return x;
  const own = asStored(x);
  const columns = own.shape.at(-1)!;
  const wide = firstColumns(withZeros(own, 0, missing(columns, x.dtype)), columns);
  return isTransposed(x) ? b.transpose(wide) : wide;
}
