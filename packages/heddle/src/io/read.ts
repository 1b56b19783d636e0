/** Reading files, with errors that say what to do. */
import { openToRead, type ReadableFile, readFile } from '#platform/files.js';
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
    throw unreadable(path, error);
  }
}

function unreadable(path: string, error: unknown): FileError {
  const reason = REASONS[errorCode(error)] ?? `cannot be read: ${(error as Error).message}`;
  return new FileError(path, reason, { cause: error });
}

/** A file that is open: its size, and its bytes from a position on, as many as there is room for. */
export interface FileParts {
  readonly size: number;
  /** @throws FileError if the file ends before, or cannot be read */
  readonly fill: (into: Uint8Array, position: number) => Promise<void>;
}

/** Read a file in parts: what is large need not be in memory at once. @throws FileError, and what `use` throws */
export async function readInParts<T>(path: string, use: (file: FileParts) => Promise<T>): Promise<T> {
  requireArgument('read', 'path', path, aString);
  let file: ReadableFile;
  try {
    file = await openToRead(path);
  } catch (error) {
    throw unreadable(path, error);
  }
  const { size, read, close } = file;
  const fill = async (into: Uint8Array, position: number): Promise<void> => {
    for (let done = 0; done < into.length; ) {
      const count = await read(into.subarray(done), position + done).catch((error: unknown) => {
        throw unreadable(path, error);
      });
      if (count === 0) throw new FileError(path, `truncated at byte ${position + done}.`);
      done += count;
    }
  };
  try {
    return await use({ size, fill });
  } finally {
    await close();
  }
}

/** A Buffer as the Uint8Array it is, without Node's own meaning of `slice` and `constructor`. */
export const plainBytes = (buffer: Uint8Array): Uint8Array =>
  new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
