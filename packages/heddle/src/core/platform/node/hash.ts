/** SHA-256, and a cyclic redundancy check. */
import { createHash, randomBytes } from 'node:crypto';
import zlib from 'node:zlib';

/** Of the parts one after another; texts in UTF-8. */
export function sha256(...parts: readonly (string | Uint8Array)[]): Uint8Array {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/** `sha256` as 64 hexadecimal digits. */
export function sha256Hex(...parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest('hex');
}

/** As many random bytes, as hexadecimal digits. */
export const randomHex = (bytes: number): string => randomBytes(bytes).toString('hex');

/** CRC-32 of ISO 3309 of bytes, after those that gave `before`; undefined where Node has none (before 20.15). */
export const systemCrc32: ((bytes: Uint8Array, before?: number) => number) | undefined = zlib.crc32;
