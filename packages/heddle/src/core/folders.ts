/** Folders that are made where needed, and temporary files in them that a killed process has left behind. */
import { mkdirSync, readdirSync, rmSync, statSync } from '#platform/files.js';
import { randomHex } from '#platform/hash.js';
import { basename, dirname, join, resolve } from '#platform/paths.js';
import { hostName, isRunning, processId } from '#platform/process.js';
import { FileError } from './errors.js';

/**
 * Make a folder and those above it; one that exists is left as it is. Node's own recursive `mkdir` never returns where
 * a file system refuses new entries with ENOENT, as /proc does.
 * @param hint what to do if that fails
 * @throws FileError with the reason
 */
export function makeFolder(path: string, hint = 'Choose another one.'): void {
  try {
    makeStepwise(path);
  } catch (error) {
    const { message } = error as NodeJS.ErrnoException;
    throw new FileError(path, `cannot make this folder (${message}). ${hint}`, { cause: error });
  }
}

function makeStepwise(path: string): void {
  if (isFolder(path)) return;
  const above = dirname(path);
  if (above !== path) makeStepwise(above);
  try {
    mkdirSync(path);
  } catch (error) {
    // Another process may have made it meanwhile.
    if (!isFolder(path)) throw error;
  }
}

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;

/** Dots would end the name of the host within that of a file. */
const HOST = hostName().replace(/[^\w-]/g, '-');
const TEMPORARY = /\.([\w-]+)\.(\d+)\.[0-9a-f]{16}\.tmp$/;

/** A hidden name next to `path` that no other process uses; it says whose it is. */
export const temporaryPath = (path: string): string =>
  join(dirname(path), `.${basename(path)}.${HOST}.${processId}.${randomHex(8)}.tmp`);

/** Folders that this process has looked at. */
const swept = new Set<string>();
const DAY_MS = 24 * 60 * 60 * 1000;

/**
 * Remove temporary files of processes that are gone: those of this host whose process does not exist, and those of
 * other hosts, or of a process with the same number, that nobody has written to for a day. Looks once at each folder.
 */
export function removeStaleTemporaries(folder: string): void {
  const place = resolve(folder);
  if (swept.has(place)) return;
  swept.add(place);
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return; // It is not there, or not ours to read.
  }
  for (const name of names) {
    const [, host, pid] = TEMPORARY.exec(name) ?? [];
    if (host === undefined) continue;
    const path = join(folder, name);
    const age = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now());
    if (age < DAY_MS && (host !== HOST || isRunning(Number(pid)))) continue;
    try {
      rmSync(path, { force: true });
    } catch {
      // It is not ours to remove.
    }
  }
}
