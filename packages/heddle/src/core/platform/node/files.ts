/** Files. */
import { existsSync } from 'node:fs';
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
