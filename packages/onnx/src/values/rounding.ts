/** Rounding of numbers to the float types. */
import { fromBf16, fromF16, toBf16, toF16 } from 'heddle/internal/core/float16.js';
import type { ElementType } from '../file/element-types.js';

/** The nearest value that a float type has, ties to even. */
export function roundTo({ name }: ElementType, value: number): number {
  switch (name) {
    case 'f16':
      return fromF16(toF16(value));
    case 'bf16':
      return fromBf16(toBf16(value));
    case 'f32':
      return Math.fround(value);
    default:
      return value;
  }
}
