/** Compiled programs and kernels on disk: kept by what they were made from, shared by all processes. */
import {
  accessSync,
  hasFileSystem,
  homeFolder,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from '#platform/files.js';
import { sha256, sha256Hex } from '#platform/hash.js';
import { join } from '#platform/paths.js';
import { environment } from '#platform/process.js';
import { concatBytes } from '../core/bytes.js';
import { env } from '../core/env.js';
import { makeFolder, removeStaleTemporaries, temporaryPath } from '../core/folders.js';
import { debug } from '../core/log.js';
import { type FileCache, withCarried } from './carried-files.js';

/** Whether there is a file that may be seen: `existsSync` throws where Node's permission model hides it. */
export function fileExists(path: string): boolean {
  try {
    accessSync(path);
    return true;
  } catch {
    return false;
  }
}

/**
 * The folder of everything Heddle keeps between runs; undefined if it keeps nothing.
 * @throws FileError if HEDDLE_CACHE names one that cannot be made; without the user's own one nothing is kept
 */
export function cacheFolder(): string | undefined {
  const chosen = env('HEDDLE_CACHE');
  if (chosen === 'off' || !hasFileSystem) return undefined;
  if (chosen === '') return join(environment().XDG_CACHE_HOME || join(homeFolder(), '.cache'), 'heddle');
  if (chosen !== made) makeFolder(chosen, 'Set HEDDLE_CACHE to another one, or leave it out.');
  made = chosen;
  return chosen;
}

/** What HEDDLE_CACHE named the last time. */
let made: string | undefined;

/** With their lengths, so that no two lists of parts read the same. */
const delimited = (parts: readonly (string | Uint8Array)[]): (string | Uint8Array)[] =>
  parts.flatMap((part) => [`${part.length}:`, part]);

/** The name of a file that depends on just these. */
export const cacheKey = (...parts: readonly string[]): string => sha256Hex(...delimited(parts));

const CHECKSUM_BYTES = 32;

const caches = new Map<string, DiskCache>();

/** The cache of that name, if there is any: a folder within Heddle's, and the files that are carried. */
export const cacheOf = (name: string, mostFiles: number): FileCache | undefined =>
  withCarried(name, diskCacheOf(name, mostFiles));

/** A process has one of each, which knows how many files are there. */
function diskCacheOf(name: string, mostFiles: number): DiskCache | undefined {
  const all = cacheFolder();
  if (all === undefined) return undefined;
  const folder = join(all, name);
  const cache = caches.get(folder) ?? new DiskCache(folder, { mostFiles });
  caches.set(folder, cache);
  return cache;
}

/**
 * Files in one folder, each a checksum (of its name, too) and its contents. A file appears by renaming, so that a reader sees all of it
 * or nothing; one that is damaged is removed. Where the folder cannot be written, nothing is kept.
 */
export class DiskCache implements FileCache {
  readonly folder: string;
  readonly keepsAll = false;
  readonly #mostFiles: number;
  /** Files there, by the last count and what has been put since. */
  #files: number | undefined;

  /** @param options.mostFiles when there are more, the half is removed that was not used for longest */
  constructor(
    folder: string,
    { mostFiles = Number.POSITIVE_INFINITY }: { readonly mostFiles?: number } = {},
  ) {
    this.folder = folder;
    this.#mostFiles = mostFiles;
  }

  /** Whether there is a file; it may be damaged. */
  has(key: string): boolean {
    return fileExists(join(this.folder, key));
  }

  get(key: string): Uint8Array<ArrayBuffer> | undefined {
    const path = join(this.folder, key);
    let file: Uint8Array;
    try {
      file = readFileSync(path);
    } catch {
      return undefined;
    }
    // A separate buffer: what native code reads must not be part of Node's pool.
    const contents = new Uint8Array(file.subarray(CHECKSUM_BYTES));
    const checksum = sha256(...delimited([key, contents]));
    const whole = file.length > CHECKSUM_BYTES && checksum.every((byte, i) => byte === file[i]);
    if (!whole) debug(1, () => `cache: ${path} is damaged and is made again`);
    try {
      const now = new Date();
      if (whole) utimesSync(path, now, now);
      else rmSync(path, { force: true });
    } catch {
      // The folder is not ours to write to.
    }
    return whole ? contents : undefined;
  }

  put(key: string, contents: Uint8Array): void {
    const part = temporaryPath(join(this.folder, key));
    try {
      makeFolder(this.folder);
      removeStaleTemporaries(this.folder);
      writeFileSync(part, concatBytes([sha256(...delimited([key, contents])), contents]));
      renameSync(part, join(this.folder, key));
      this.#removeOld();
    } catch (error) {
      debug(1, () => `cache: ${this.folder} cannot be written: ${(error as Error).message}`);
      try {
        rmSync(part, { force: true });
      } catch {
        // Nothing was written there.
      }
    }
  }

  #removeOld(): void {
    if (this.#mostFiles === Number.POSITIVE_INFINITY) return;
    this.#files = this.#files === undefined ? readdirSync(this.folder).length : this.#files + 1;
    if (this.#files <= this.#mostFiles) return;
    const ages = readdirSync(this.folder).map((name) => {
      const path = join(this.folder, name);
      return { path, used: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 };
    });
    ages.sort((a, b) => a.used - b.used);
    this.#files = ages.length;
    if (ages.length <= this.#mostFiles) return;
    for (const { path } of ages.slice(0, ages.length >> 1)) rmSync(path, { force: true });
    this.#files -= ages.length >> 1;
  }
}
