/** How exactly products of f32 are computed where a call does not say. */
import { type Rules, requireOptions } from '../core/arguments.js';
import { aPrecision, type Precision } from '../core/precision.js';

/** How exactly products of f32 are computed where nothing else is said. */
export interface Precisions {
  /** Of matrix products and fully connected layers; 'f32' at first. */
  readonly matmul: Precision;
  /** Of convolutions; 'tf32' at first, as PyTorch's. */
  readonly conv: Precision;
}

const PRECISIONS: Rules<Precisions> = { matmul: aPrecision, conv: aPrecision };

let precisions: Precisions = { matmul: 'f32', conv: 'tf32' };

/** The precisions in use. */
export const getPrecision = (): Precisions => precisions;

/**
 * Change the precision of what is recorded from now on; a `jit` program keeps that of its trace.
 * @example
 * ```ts
 * import { getPrecision, setPrecision } from 'heddle';
 *
 * setPrecision({ matmul: 'tf32' });
 * console.log(getPrecision().matmul); // → tf32
 * ```
 * @throws ArgumentError for another name
 */
export function setPrecision(changes: Partial<Precisions>): void {
  requireOptions('setPrecision', changes, PRECISIONS);
  const { matmul = precisions.matmul, conv = precisions.conv } = changes;
  precisions = { matmul, conv };
}
