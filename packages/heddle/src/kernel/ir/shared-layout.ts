/** Where the shared arrays of a kernel lie, if they cannot be the fixed ones of CUDA C++. */
import { sizeOf } from '../../core/shape.js';
import type { ArrayDecl, KernelIr } from './ir.js';
import { GPU } from './target.js';

/** What tiles are aligned to, in bytes: the pattern of their rows repeats so. */
const TILE_ALIGNMENT = 1024;
const ALIGNMENT = 16;

/** Shared arrays in the dynamic shared memory of a block. The dynamic array, if there is one, comes behind them. */
export interface SharedLayout {
  /** Bytes from the start, of each array. */
  readonly offsets: ReadonlyMap<ArrayDecl, number>;
  readonly bytes: number;
}

const isPlaced = (a: ArrayDecl): boolean => a.space === 'shared' && a.dims[0] !== -1;

/** Bytes of an array of fixed sizes. */
const bytesOf = ({ dims, dtype, lanes }: ArrayDecl): number => sizeOf(dims) * dtype.bytes * lanes;

/**
 * The layout of a kernel's shared arrays, where one is needed: tiles must be aligned, and fixed arrays of CUDA C++ have no
 * more than 48 KiB together.
 */
export function sharedLayoutOf({ arrays }: Pick<KernelIr, 'arrays'>): SharedLayout | undefined {
  const placed = arrays.filter(isPlaced);
  const sum = placed.reduce((n, a) => n + bytesOf(a), 0);
  if (sum <= GPU.freeSharedBytes && placed.every((a) => a.form === undefined)) return undefined;
  const offsets = new Map<ArrayDecl, number>();
  let bytes = 0;
  // Tiles first: they have whole KiB.
  const isTile = (a: ArrayDecl): boolean => a.form === 'tile';
  for (const a of [...placed.filter(isTile), ...placed.filter((each) => !isTile(each))]) {
    const alignment = isTile(a) ? TILE_ALIGNMENT : ALIGNMENT;
    bytes = Math.ceil(bytes / alignment) * alignment;
    offsets.set(a, bytes);
    bytes += bytesOf(a);
  }
  return { offsets, bytes: Math.ceil(bytes / ALIGNMENT) * ALIGNMENT };
}

/** Bytes of dynamic shared memory of a launch: for placed arrays, and for the dynamic one as the launch says. */
export const dynamicBytesOf = (kernel: KernelIr, sharedBytes = 0): number =>
  (sharedLayoutOf(kernel)?.bytes ?? 0) + sharedBytes;
