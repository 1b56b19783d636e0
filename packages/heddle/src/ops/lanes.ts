/** Device functions for kernels that take one, two or four neighbours at a time, whichever their sizes allow. */
import type { DType } from '../core/dtype.js';
import type { Lanes } from '../kernel/ir/types.js';
import type { Intrinsics, Memory } from '../kernel/language/language.js';

export type { Lanes };

/** The neighbours from `x[at]` on: a number, or a vector. */
export function loadLanes(x: Memory, at: number, lanes: Lanes, { load2, load4 }: Intrinsics): number {
  return lanes === 4 ? load4(x, at) : lanes === 2 ? load2(x, at) : x[at];
}

/** Writes a number, or a vector, to `x[at]` and the elements after it. */
export function storeLanes(
  x: Memory,
  at: number,
  v: number,
  lanes: Lanes,
  { store2, store4 }: Intrinsics,
): void {
  if (lanes === 4) store4(x, at, v);
  else if (lanes === 2) store2(x, at, v);
  else x[at] = v;
}

/** A number, or a vector of it. */
export const splatLanes = (v: number, lanes: Lanes, { splat2, splat4 }: Intrinsics): number =>
  lanes === 4 ? splat4(v) : lanes === 2 ? splat2(v) : v;

/** An array of a thread's own, of numbers or of vectors. */
export const localLanes = (
  t: DType,
  rows: number,
  columns: number,
  lanes: Lanes,
  { local, local2, local4 }: Intrinsics,
): Memory =>
  lanes === 4 ? local4(t, rows, columns) : lanes === 2 ? local2(t, rows, columns) : local(t, rows, columns);
