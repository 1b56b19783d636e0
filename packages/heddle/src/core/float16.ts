/** Conversions between numbers and the bits of the 16-bit floats, rounding to nearest even as the GPU does. */

const word = new DataView(new ArrayBuffer(4));

/**
 * The bits of `value` in f32, rounded to odd: of the two neighbours of what f32 does not have, the one with an odd
 * last bit. Rounding that again to 16 bits gives what rounding `value` gives (Boldo and Melquiond, "Emulation of a FMA
 * and correctly rounded sums", 2008).
 */
function bitsOf(value: number): number {
  word.setFloat32(0, value);
  const bits = word.getUint32(0);
  const near = word.getFloat32(0);
  if (near === value || bits & 1 || Number.isNaN(value)) return bits;
  return Math.abs(near) > Math.abs(value) ? bits - 1 : bits + 1;
}

/** The bits of `value` as bfloat16. */
export const toBf16 = (value: number): number => f32ToBf16(bitsOf(value));

/** The bits as bfloat16 of what `bits` stand for in f32. */
export function f32ToBf16(bits: number): number {
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) | 0x40;
  return ((bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16) & 0xffff;
}

/** The number that bfloat16 `bits` stand for. */
export function fromBf16(bits: number): number {
  word.setUint32(0, (bits & 0xffff) << 16);
  return word.getFloat32(0);
}

/** The bits of `value` as IEEE binary16. */
export const toF16 = (value: number): number => f32ToF16(bitsOf(value));

/** The bits as IEEE binary16 of what `bits` stand for in f32. */
export function f32ToF16(bits: number): number {
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < 0x33000001) return sign;
  const exponent = magnitude >>> 23;
  if (exponent < 113) {
    const mantissa = (magnitude & 0x7fffff) | 0x800000;
    const shift = 126 - exponent;
    const half = 1 << (shift - 1);
    const rest = mantissa & ((1 << shift) - 1);
    const kept = mantissa >>> shift;
    return sign | (rest > half || (rest === half && kept & 1) ? kept + 1 : kept);
  }
  return sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13);
}

/** The number that IEEE binary16 `bits` stand for. */
export function fromF16(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 31;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
