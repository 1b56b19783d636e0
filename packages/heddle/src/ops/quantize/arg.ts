/** What a rounding to bytes is, besides its tensors. */

/** What values are rounded to. The sources are (x, scale) or (x, scale, zeroPoint), the last two broadcast to x. */
export interface Quantized {
  readonly dtype: 'i8' | 'u8';
}
