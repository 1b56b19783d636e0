/** Files that may be gzipped. */
import { gunzip } from '#platform/compression.js';
import { FileError } from '../core/errors.js';
import { errorCode, plainBytes } from './read.js';

const MAX_UNZIPPED_BYTES = 2 ** 31 - 1;
/** Deflate cannot do better: 258 bytes for 2 bits. */
const MAX_GZIP_RATIO = 1032;
/** What to do about a file that is damaged. */
export const REPLACE = 'The file is damaged or was not fully downloaded: get it again.';

/** What is in gzip data, told by its first bytes; other bytes as they are. @throws FileError if it is damaged */
export async function gunzipped(bytes: Uint8Array, path: string): Promise<Uint8Array> {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  try {
    return plainBytes(await gunzip(bytes, unzippedBytes(bytes), MAX_UNZIPPED_BYTES));
  } catch (error) {
    const reason =
      errorCode(error) === 'ERR_BUFFER_TOO_LARGE'
        ? `unzips to more than ${MAX_UNZIPPED_BYTES} bytes.`
        : `damaged gzip data (${(error as Error).message}). ${REPLACE}`;
    throw new FileError(path, reason, { cause: error });
  }
}

/**
 * The size that gzip data gives for what is in it, within what is possible.
 */
function unzippedBytes(bytes: Uint8Array): number {
  const { buffer, byteOffset, length } = bytes;
  const stated = length < 18 ? 0 : new DataView(buffer, byteOffset).getUint32(length - 4, true);
  return Math.min(stated, length * MAX_GZIP_RATIO);
}
