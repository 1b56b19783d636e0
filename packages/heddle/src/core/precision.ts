/** How exactly matrix products and convolutions of f32 are computed. */
import { ArgumentError } from './errors.js';

/**
 * f32: every product and sum in f32 · tf32: operands rounded to 10 bits of mantissa, sums in f32, on tensor cores ·
 * bf16: operands rounded to bf16 (7 bits of mantissa), sums in f32, on tensor cores. Devices without tensor cores
 * compute in f32 whatever is asked for.
 */
export type Precision = 'f32' | 'tf32' | 'bf16';

export const PRECISIONS: readonly Precision[] = ['f32', 'tf32', 'bf16'];

/** @throws ArgumentError unless it is one of `PRECISIONS` */
export function requirePrecision(op: string, precision: Precision): void {
  if (!PRECISIONS.includes(precision))
    throw new ArgumentError(
      `[${op}] '${precision}' is no precision: it must be one of ${PRECISIONS.map((p) => `'${p}'`).join(', ')}.`,
    );
}
