/** Conversions of tensors that carry element types of ONNX. */
import { type AnyTensor, DTypeError, i32 } from 'heddle';
import { type ElementType, isNative } from '../file/element-types.js';

/** Values of a wider dtype brought into the range of an integer type of at most 16 bits, modulo its values. */
export function wrapTensor(x: AnyTensor, type: ElementType): AnyTensor {
  const spare = 32 - type.bits;
  const whole = x.cast(i32);
  return type.kind === 'uint' ? whole.and(2 ** type.bits - 1) : whole.shl(spare).shr(spare);
}

/** Converted between element types: floats to integers towards zero and saturating in i32, integers modulo their range. */
export function castTensor(x: AnyTensor, from: ElementType, to: ElementType): AnyTensor {
  if (!to.dtype)
    throw new DTypeError(
      `[onnx] cannot convert ${from.name} to ${to.name} on a device: it has no tensors of that type.`,
    );
  if (to.kind === 'bool') return x.dtype.name === 'bool' ? x : x.ne(0);
  if (!isNative(to)) return wrapTensor(x, to);
  // Floats saturate; integers keep their low bits.
  if (to.bits === 8 && from.kind !== 'float') return wrapTensor(x, to).cast(to.dtype);
  return x.cast(to.dtype);
}
