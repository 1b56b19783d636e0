/** Files, with errors that name them. */
import { createReadStream } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { DataError } from 'heddle';

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file. Check the path.',
  EISDIR: 'is a folder, expected a file.',
  EACCES: 'no permission to read it. Change its mode or owner.',
  ELOOP: 'this link leads in a circle. Remove it.',
};

/** What kept a file from being read. */
export function unreadable(path: string, error: unknown): DataError {
  const { code = '', message } = error as NodeJS.ErrnoException;
  return new DataError(`${path}: ${REASONS[code] ?? `cannot be read (${message}).`}`, { cause: error });
}

/** The bytes of a file. @throws DataError */
export async function readFileBytes(path: string): Promise<Uint8Array> {
  try {
    return await readFile(path);
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** A text in UTF-8. @throws DataError */
export async function readText(path: string): Promise<string> {
  const bytes = await readFileBytes(path);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new DataError(`${path}: is not UTF-8. Convert it: iconv -f latin1 -t utf-8.`, { cause: error });
  }
}

/** The bytes of a file one piece after the other, of `.gz` what is packed in it. */
export function streamOf(path: string): Readable {
  const file = createReadStream(path);
  if (!path.endsWith('.gz')) return file;
  const unpacked = createGunzip();
  file.on('error', (error) => unpacked.destroy(error));
  return file.pipe(unpacked);
}
