/** Philox4x32-10 in the kernel language; core/philox.ts is the same on the host. */
import type { Intrinsics } from '../kernel/language/language.js';

/**
 * The four words of a block, u32: of block `low` + 2³² · `high` of one of the streams that a key has. Device function.
 */
export function philoxBlock(
  low: number,
  high: number,
  stream: number,
  key0: number,
  key1: number,
  { mulhi, u32, vec4 }: Intrinsics,
): number {
  let c0 = low;
  let c1 = high;
  let c2 = stream;
  let c3 = u32(0);
  let k0 = key0;
  let k1 = key1;
  for (let round = 0; round < 10; round++) {
    const low0 = u32(0xd2511f53) * c0;
    const high0 = mulhi(u32(0xd2511f53), c0);
    const low1 = u32(0xcd9e8d57) * c2;
    const high1 = mulhi(u32(0xcd9e8d57), c2);
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += u32(0x9e3779b9);
    k1 += u32(0xbb67ae85);
  }
  return vec4(c0, c1, c2, c3);
}
