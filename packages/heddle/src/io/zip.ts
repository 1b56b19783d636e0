/** Zip files, by fflate, which is loaded when the first one is read or written: that takes longer than a small file. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { FileError } from '../core/errors.js';

type Fflate = typeof import('fflate');
let loaded: Fflate | undefined;

/** A CommonJS bundle has no import.meta: it takes fflate from where the process runs. */
export function fflate(): Fflate {
  loaded ??= createRequire(import.meta.url ?? join(process.cwd(), 'package.json'))('fflate') as Fflate;
  return loaded;
}

/** The files of a zip file by their names. @throws FileError */
export function unzip(bytes: Uint8Array, path: string): Record<string, Uint8Array> {
  // Deflate makes at most 1032 bytes of one: what claims more is damaged, or made to fill the memory.
  let most = 1032 * bytes.length + 1024;
  try {
    return fflate().unzipSync(bytes, {
      filter: ({ name, originalSize }) => {
        most -= originalSize;
        if (most < 0) throw new FileError(path, `${name} claims ${originalSize} bytes. The file is damaged.`);
        return !name.endsWith('/');
      },
    });
  } catch (error) {
    if (error instanceof FileError) throw error;
    throw new FileError(
      path,
      `not a zip file that can be read (${(error as Error).message}). The file is damaged.`,
      {
        cause: error,
      },
    );
  }
}
