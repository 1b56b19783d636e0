/**
 * Files of the caches that travel with something else than the disk: a saved engine has those that its programs take, so that
 * nothing is compiled where it is loaded. They have the names that they have on disk, which say what they were made from and for.
 */
export type CarriedFiles = Map<string, Uint8Array>;

let carried: CarriedFiles | undefined;

/**
 * While `body` runs, the caches find these files, and whatever they find elsewhere, or are given to keep, is added to them.
 * @param body is not async
 */
export function carrying<T>(files: CarriedFiles, body: () => T): T {
  const before = carried;
  carried = files;
  try {
    return body();
  } finally {
    carried = before;
  }
}

/** Whether files are carried: what is in memory is then asked of the caches as well. */
export const isCarrying = (): boolean => carried !== undefined;

/** What a cache does. */
export interface FileCache {
  /** Where it is, for people. */
  readonly folder: string;
  /** Whether files are kept that were quickly made, too. */
  readonly keepsAll: boolean;
  has(key: string): boolean;
  get(key: string): Uint8Array<ArrayBuffer> | undefined;
  put(key: string, contents: Uint8Array): void;
}

/** The cache of that name: the files that are carried, before those on disk, if there is any. */
export function withCarried(name: string, disk: FileCache | undefined): FileCache | undefined {
  const files = carried;
  if (!files) return disk;
  const add = (key: string, contents: Uint8Array): void => {
    files.set(`${name}/${key}`, contents);
  };
  return {
    folder: disk?.folder ?? name,
    keepsAll: true,
    has: (key) => files.has(`${name}/${key}`) || (disk?.has(key) ?? false),
    get: (key) => {
      const known = files.get(`${name}/${key}`);
      // A buffer of its own, as from disk.
      if (known) return new Uint8Array(known);
      const found = disk?.get(key);
      if (found) add(key, found);
      return found;
    },
    put: (key, contents) => {
      add(key, contents);
      disk?.put(key, contents);
    },
  };
}
