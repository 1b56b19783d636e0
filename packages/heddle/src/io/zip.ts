/** Zip files, by fflate. */
import { fflate } from '#platform/compression.js';
import { FileError } from '../core/errors.js';

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
