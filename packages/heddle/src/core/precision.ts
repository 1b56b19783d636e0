/** How exactly matrix products and convolutions of f32 are computed. */
import { oneOf, type Rule } from './arguments.js';

/**
 * f32: products and sums as accurate as in f32 · tf32: operands rounded to 10 bits of mantissa, sums in f32, on tensor cores ·
 * bf16: operands rounded to bf16 (7 bits of mantissa), sums in f32, on tensor cores. Devices without tensor cores
 * compute in f32 whatever is asked for.
 */
export type Precision = 'f32' | 'tf32' | 'bf16';

/** What is multiplied: f32 by a precision, or matrices of 16 bits as they are. */
export type Arithmetic = Precision | 'f16';

export const PRECISIONS: readonly Precision[] = ['f32', 'tf32', 'bf16'];

export const ARITHMETICS: readonly Arithmetic[] = [...PRECISIONS, 'f16'];

export const aPrecision: Rule = oneOf(...PRECISIONS);
