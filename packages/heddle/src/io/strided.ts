/** Elements that do not lie in row-major order. */
import { sizeOf } from '../core/shape.js';

/**
 * Elements of `bytes` bytes each, copied in row-major order: element (i, j, …) is at offset + i·strides[0] + j·strides[1] …,
 * counted in elements.
 */
export function inRowOrder(
  data: Uint8Array,
  bytes: number,
  shape: readonly number[],
  strides: readonly number[],
  offset = 0,
): Uint8Array {
  const rows = new Uint8Array(sizeOf(shape) * bytes);
  const index = shape.map(() => 0);
  for (let to = 0; to < rows.length; to += bytes) {
    const from = bytes * index.reduce((sum, n, i) => sum + n * strides[i]!, offset);
    rows.set(data.subarray(from, from + bytes), to);
    for (let d = shape.length - 1; d >= 0; d--) {
      index[d]!++;
      if (index[d] !== shape[d]) break;
      index[d] = 0;
    }
  }
  return rows;
}
