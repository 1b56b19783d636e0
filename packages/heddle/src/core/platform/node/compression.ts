/** Compressed bytes. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';
import zlib from 'node:zlib';

const gunzipAsync = promisify(zlib.gunzip);

/**
 * What is in gzip data.
 * @param expected bytes: with one chunk of that size, zlib needs no second copy to join its chunks
 * @param most bytes; an error with the code ERR_BUFFER_TOO_LARGE where there are more
 */
export const gunzip = (bytes: Uint8Array, expected: number, most: number): Promise<Uint8Array> =>
  gunzipAsync(bytes, { maxOutputLength: most, chunkSize: expected + 64 });

/** In the format of zlib. */
export const deflate = (bytes: Uint8Array): Uint8Array => zlib.deflateSync(bytes);

type Fflate = typeof import('fflate');
let loaded: Fflate | undefined;

/**
 * Loaded when the first zip file is read or written: that takes longer than a small file. A CommonJS bundle has no
 * import.meta: it takes fflate from where the process runs.
 */
export function fflate(): Fflate {
  loaded ??= createRequire(import.meta.url ?? join(process.cwd(), 'package.json'))('fflate') as Fflate;
  return loaded;
}
