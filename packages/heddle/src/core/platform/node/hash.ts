/** SHA-256. */
import { createHash, randomBytes } from 'node:crypto';

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
