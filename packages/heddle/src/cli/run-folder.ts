/** Where a training run leaves its configuration, figures and weights. */
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { ArgumentError, FileError } from '../core/errors.js';
import { writeFileAtomic } from '../io/index.js';

export class RunFolder {
  readonly path: string;
  readonly #metrics: string[] = [];

  private constructor(path: string) {
    this.path = path;
  }

  /**
   * A new folder: `out`, or `runs/<date>-<program>` with a number added if there is one already.
   * @throws ArgumentError if `out` exists and is not empty; FileError if it cannot be made
   */
  static async create(program: string, out: string | undefined, now: Date = new Date()): Promise<RunFolder> {
    if (out !== undefined) {
      await make(out, true);
      if ((await readdir(out)).length > 0) {
        throw new ArgumentError(
          `${out}: exists and is not empty. Runs are never overwritten: choose another --out.`,
        );
      }
      return new RunFolder(out);
    }
    await make('runs', true);
    const name = `${timestamp(now)}-${program}`;
    for (let count = 1; ; count++) {
      const path = join('runs', count === 1 ? name : `${name}-${count}`);
      if (await make(path, false)) return new RunFolder(path);
    }
  }

  get weights(): string {
    return join(this.path, 'weights.safetensors');
  }

  async writeConfig(config: object): Promise<void> {
    await writeFileAtomic(join(this.path, 'config.json'), `${JSON.stringify(config, null, 2)}\n`);
  }

  /** Add a line to metrics.jsonl. The file is replaced as a whole: there is never half a line. */
  async addMetrics(line: object): Promise<void> {
    this.#metrics.push(`${JSON.stringify(line)}\n`);
    await writeFileAtomic(join(this.path, 'metrics.jsonl'), this.#metrics.join(''));
  }
}

/** Local date and time, fit for a file name on every system: 2026-01-31T09-05-00. */
function timestamp(now: Date): string {
  const two = (n: number): string => String(n).padStart(2, '0');
  const date = [now.getFullYear(), two(now.getMonth() + 1), two(now.getDate())].join('-');
  return `${date}T${[now.getHours(), now.getMinutes(), now.getSeconds()].map(two).join('-')}`;
}

/** @returns whether the folder is new; with `orExisting` any folder is as good */
async function make(path: string, orExisting: boolean): Promise<boolean> {
  try {
    await mkdir(path, { recursive: orExisting });
    return true;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && !orExisting) return false;
    throw new FileError(path, `cannot make this folder (${message}). Choose another with --out.`, {
      cause: error,
    });
  }
}
