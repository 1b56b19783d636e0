/** Writing whole files so that a reader sees the old file or the new one, never a part of it. */
import { open, rename, unlink } from '#platform/files.js';
import { dirname } from '#platform/paths.js';
import { aString, requireArgument, shown } from '../core/arguments.js';
import { ArgumentError, FileError } from '../core/errors.js';
import { removeStaleTemporaries, temporaryPath } from '../core/folders.js';
import { errorCode } from './read.js';

/** An open file, as node:fs/promises has it. */
interface OpenFile {
  write(bytes: Uint8Array, from: number, count: number): Promise<{ readonly bytesWritten: number }>;
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** The calls that can fail on a full or broken disk; tests replace them. */
export interface FileSystem {
  open(path: string, flags: string): Promise<OpenFile>;
  rename(from: string, to: string): Promise<void>;
  unlink(path: string): Promise<void>;
}

const nodeFileSystem: FileSystem = { open, rename, unlink };

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full. Free some space, or write elsewhere.',
  EDQUOT: 'the disk quota is used up. Free some space, or write elsewhere.',
  EFBIG: 'the file would be over the size limit (`ulimit -f`). Raise it, or write elsewhere.',
  ENOENT: 'its folder does not exist. Create it first.',
  ENOTDIR: 'a part of its path is a file, not a folder.',
  EISDIR: 'is a folder, expected a file name.',
  EACCES: 'no permission to write there. Change the mode of the folder, or write elsewhere.',
  EPERM: 'no permission to write there. Change the mode of the folder, or write elsewhere.',
  EROFS: 'the file system is read-only. Write elsewhere.',
};

/**
 * Write `content` (parts one after another) to `path`: into a temporary file in the same folder, to the disk, then
 * renamed. If anything fails the temporary file is removed and what was at `path` is still there, whole. Temporary files
 * of processes that were killed are removed from the folder when it is first written to.
 * @throws FileError with the number of bytes, the reason and a hint
 */
export const writeFileAtomic = (
  path: string,
  content: string | Uint8Array | readonly Uint8Array[],
): Promise<void> => writeFileWith(nodeFileSystem, path, content);

/** `writeFileAtomic` by other calls of the system. */
export async function writeFileWith(
  files: FileSystem,
  path: string,
  content: string | Uint8Array | readonly Uint8Array[],
): Promise<void> {
  requireArgument('writeFileAtomic', 'path', path, aString);
  const parts =
    typeof content === 'string'
      ? [new TextEncoder().encode(content)]
      : content instanceof Uint8Array
        ? [content]
        : content;
  if (!Array.isArray(parts) || !parts.every((part) => part instanceof Uint8Array))
    throw new ArgumentError(
      `[writeFileAtomic] content is ${shown(content)}, must be a string, a Uint8Array or an array of these.`,
    );
  const temporary = temporaryPath(path);
  removeStaleTemporaries(dirname(path));
  try {
    await writeAndSync(temporary, parts, files);
    await files.rename(temporary, path);
  } catch (error) {
    await files.unlink(temporary).catch(() => {}); // it may never have come to be
    const bytes = parts.reduce((sum, part) => sum + part.byteLength, 0);
    const reason = REASONS[errorCode(error)] ?? `${(error as Error).message}.`;
    throw new FileError(path, `cannot write ${bytes} bytes: ${reason} Nothing was changed.`, {
      cause: error,
    });
  }
  await syncFolder(dirname(path), files);
}

async function writeAndSync(path: string, parts: readonly Uint8Array[], files: FileSystem): Promise<void> {
  const file = await files.open(path, 'wx');
  try {
    for (const part of parts) {
      for (let done = 0; done < part.byteLength; ) {
        done += (await file.write(part, done, part.byteLength - done)).bytesWritten;
      }
    }
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Bring the new name itself to the disk. Windows cannot open folders: there the rename must do. */
async function syncFolder(path: string, files: FileSystem): Promise<void> {
  try {
    const folder = await files.open(path, 'r');
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  } catch {
    // The file is whole and in place; only its survival of a power cut in the next seconds is not certain.
  }
}
