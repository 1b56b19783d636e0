/** Reading whole files, with errors that say what to do. */
import { readFile } from '#platform/files.js';
import { aString, requireArgument } from '../core/arguments.js';
import { FileError } from '../core/errors.js';

/** What the operating system's error codes mean for someone who wants to read a file. */
const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file. Check the path.',
  EISDIR: 'is a folder, expected a file.',
  EACCES: 'no permission to read it. Change its mode or owner.',
  EPERM: 'no permission to read it. Change its mode or owner.',
  EMFILE: 'too many open files. Close some, or raise `ulimit -n`.',
  ERR_FS_FILE_TOO_LARGE: 'over 2 GiB, more than can be read at once. Split it.',
};

export const errorCode = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : '';

/** All bytes of a file; in a browser, of what a server has at a URL. @throws FileError if it is missing or cannot be read. */
export async function readBytes(path: string): Promise<Uint8Array> {
  requireArgument('read', 'path', path, aString);
  try {
    return plainBytes(await readFile(path));
  } catch (error) {
    const reason = REASONS[errorCode(error)] ?? `cannot be read: ${(error as Error).message}`;
    throw new FileError(path, reason, { cause: error });
  }
}

/** A Buffer as the Uint8Array it is, without Node's own meaning of `slice` and `constructor`. */
export const plainBytes = (buffer: Uint8Array): Uint8Array =>
  new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
