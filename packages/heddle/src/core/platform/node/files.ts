/** Files. */
import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { homedir } from 'node:os';

export {
  accessSync,
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
export { open, readFile, rename, unlink } from 'node:fs/promises';

/** Whether files can be written, and kept from one run to the next. */
export const hasFileSystem = true;

/** A file that is read in parts. */
export interface ReadableFile {
  readonly size: number;
  /** Read the bytes from `position` on. @returns how many were read; 0 at the end of the file */
  readonly read: (into: Uint8Array, position: number) => Promise<number>;
  readonly close: () => Promise<void>;
}

/** Open a file to read it. */
export async function openToRead(path: string): Promise<ReadableFile> {
  const file = await open(path);
  const { size } = await file.stat();
  return {
    size,
    read: async (into, position) => (await file.read(into, 0, into.length, position)).bytesRead,
    close: () => file.close(),
  };
}

/** Whether there is a file to read. */
export const isReadable = async (path: string): Promise<boolean> => existsSync(path);

/** The user's own folder; one that is not there for a user without any, as in some containers. */
export function homeFolder(): string {
  try {
    return homedir();
  } catch {
    return '/nonexistent';
  }
}
