/** Which variant was the fastest, remembered between runs and shared by all processes: one line of JSON each. */
import { appendFileSync, readFileSync, statSync } from '#platform/files.js';
import { dirname } from '#platform/paths.js';
import { makeFolder } from '../core/folders.js';
import { debug } from '../core/log.js';

export interface Tuned {
  /** The device it was timed on, and the version of the code. */
  readonly device: string;
  /** `TuneRequest.key` */
  readonly key: string;
  readonly chosen: string;
  /** Median time of each variant that ran, in µs. */
  readonly us: Readonly<Record<string, number>>;
}

const isTuned = (value: unknown): value is Tuned => {
  const { device, key, chosen, us } = (value ?? {}) as Partial<Record<keyof Tuned, unknown>>;
  return (
    typeof device === 'string' &&
    typeof key === 'string' &&
    typeof chosen === 'string' &&
    typeof us === 'object' &&
    us !== null
  );
};

const nameOf = (device: string, key: string): string => `${device}\n${key}`;

/**
 * Lines are only ever added, each by one write, so that processes cannot harm each other's. Of two lines for the same
 * work the first counts: once chosen is chosen, and the same program gives the same bits in later runs. Lines that
 * are damaged are passed over. Without a file, or where it cannot be written, choices last as long as the process.
 */
export class TuningMemory {
  readonly path: string | undefined;
  readonly #known = new Map<string, Tuned>();
  /** Bytes of the file that have been read. */
  #read = 0;
  /** The file ends within a line. */
  #torn = false;

  constructor(path: string | undefined) {
    this.path = path;
  }

  get(device: string, key: string): Tuned | undefined {
    this.#refresh();
    return this.#known.get(nameOf(device, key));
  }

  /** How many choices, of all devices. */
  get size(): number {
    this.#refresh();
    return this.#known.size;
  }

  /** What is remembered from then on: another choice, where another process has made one meanwhile. */
  put(tuned: Tuned): void {
    this.#append(tuned);
    this.#remember(tuned);
  }

  #append(tuned: Tuned): void {
    if (this.path === undefined) return;
    try {
      makeFolder(dirname(this.path));
      appendFileSync(this.path, `${this.#torn ? '\n' : ''}${JSON.stringify(tuned)}\n`);
      this.#refresh();
    } catch (error) {
      debug(1, () => `tuner: ${this.path} cannot be written: ${(error as Error).message}`);
    }
  }

  #remember(tuned: Tuned): void {
    const name = nameOf(tuned.device, tuned.key);
    if (!this.#known.has(name)) this.#known.set(name, tuned);
  }

  /** Read the file again if it has grown. */
  #refresh(): void {
    if (this.path === undefined) return;
    let bytes: Buffer;
    try {
      if (statSync(this.path).size === this.#read) return;
      bytes = readFileSync(this.path);
    } catch {
      return; // Nothing is remembered yet.
    }
    this.#read = bytes.length;
    this.#torn = bytes.length > 0 && bytes[bytes.length - 1] !== 10;
    let damaged = 0;
    for (const line of bytes.toString('utf8').split('\n')) {
      if (line === '') continue;
      const tuned = parse(line);
      if (tuned) this.#remember(tuned);
      else damaged++;
    }
    if (damaged > 0) debug(1, () => `tuner: ${damaged} damaged lines of ${this.path} are passed over`);
  }
}

function parse(line: string): Tuned | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return isTuned(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
