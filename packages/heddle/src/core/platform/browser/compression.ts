/** Compressed bytes. */
import { unzipSync, zipSync, zlibSync } from 'fflate';
import { concatBytes } from '../../bytes.js';
import type * as node from '../node/compression.js';

export async function gunzip(bytes: Uint8Array, _expected: number, most: number): Promise<Uint8Array> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  const parts: Uint8Array[] = [];
  let length = 0;
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > most) throw Object.assign(new RangeError(), { code: 'ERR_BUFFER_TOO_LARGE' });
    parts.push(value);
  }
  return concatBytes(parts);
}

export const deflate: typeof node.deflate = (bytes) => zlibSync(bytes);

export const fflate = (): Pick<typeof import('fflate'), 'unzipSync' | 'zipSync'> => ({ unzipSync, zipSync });
