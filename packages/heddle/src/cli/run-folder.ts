/** Where a training run leaves its configuration, figures and weights. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ArgumentError, FileError } from '../core/errors.js';
import { makeFolder, removeStaleTemporaries } from '../core/folders.js';
import type { Shape } from '../core/shape.js';
import { writeFileAtomic } from '../io/index.js';
import type { Recipe } from '../train/recipes.js';

/** How a run reads images in files, and which of them. */
export interface ImageFilesConfig {
  /** As heddle-data understands it: size, channels, normalization and so on. */
  readonly format: Readonly<Record<string, unknown>>;
  /** The first of a train set that has more. */
  readonly limit?: number | undefined;
  /** Whether those that cannot be decoded are left out. */
  readonly skipDamaged?: boolean | undefined;
}

/** What config.json says of a run. */
export interface RunConfig {
  readonly program: string;
  readonly data: {
    /** As `--data` named it; of a text the path. */
    readonly set?: string | undefined;
    readonly source: string;
    /** How many examples there are. */
    readonly train: number;
    readonly test: number;
    /** Of images: (channels, height, width), and what the classes are called. */
    readonly inputShape?: Shape | undefined;
    readonly classNames?: readonly string[] | undefined;
    /** Of images in files. */
    readonly files?: ImageFilesConfig | undefined;
    /** Of a text: its characters, in the order of their numbers. */
    readonly vocabulary?: string | undefined;
    /** Of a text in other tokens than characters: how many there are. The tokenizer itself is in `tokenizer.json`. */
    readonly tokenizer?: { readonly size: number } | undefined;
  };
  readonly recipe: Recipe;
  readonly seed: number;
  readonly parameters: number;
  readonly device: { readonly name: string; readonly description: string };
  readonly heddle: string;
  readonly node: string;
  /** When it began, in ISO 8601. */
  readonly started: string;
}

/** A line of metrics.jsonl. */
export interface EpochFiguresLine {
  /** Counted from 1. */
  readonly epoch: number;
  readonly loss: number;
  readonly lr: number;
  /** Of training, in this epoch. */
  readonly seconds: number;
  /** Loss and metrics of the test set. */
  readonly test?: Readonly<Record<string, number>>;
}

export class RunFolder {
  readonly path: string;
  readonly #metrics: string[] = [];

  private constructor(path: string) {
    this.path = path;
  }

  /**
   * A new folder: `out`, or `runs/<date>-<program>` with a number added if there is one already.
   * What writers that were killed have left in `out`, or in the folders of `runs`, is removed.
   * @throws ArgumentError if `out` exists and is not empty; FileError if it cannot be made
   */
  static create(program: string, out: string | undefined, now: Date = new Date()): RunFolder {
    if (out !== undefined) {
      makeFolder(out, HINT);
      removeStaleTemporaries(out);
      if (readdirSync(out).length > 0) {
        throw new ArgumentError(
          `${out}: exists and is not empty. Runs are never overwritten: choose another --out.`,
        );
      }
      return new RunFolder(out);
    }
    makeFolder('runs', HINT);
    for (const entry of readdirSync('runs', { withFileTypes: true }))
      if (entry.isDirectory()) removeStaleTemporaries(join('runs', entry.name));
    const name = `${timestamp(now)}-${program}`;
    for (let count = 1; ; count++) {
      const path = join('runs', count === 1 ? name : `${name}-${count}`);
      if (makeNew(path)) return new RunFolder(path);
    }
  }

  /** The folder that the first of several ranks has made. */
  static ofFirst(path: string): RunFolder {
    return new RunFolder(path);
  }

  /** The folder of a run that there is. @throws ArgumentError if it is not one */
  static open(path: string): { readonly folder: RunFolder; readonly config: RunConfig } {
    const file = join(path, 'config.json');
    let config: RunConfig;
    try {
      config = JSON.parse(readFileSync(file, 'utf8')) as RunConfig;
    } catch (error) {
      throw new ArgumentError(
        `${path} is not the folder of a run: cannot read its config.json (${(error as Error).message}).`,
      );
    }
    if (typeof config?.program !== 'string' || typeof config.recipe !== 'object')
      throw new ArgumentError(`${path} is not the folder of a run: its config.json names no program.`);
    removeStaleTemporaries(path);
    return { folder: new RunFolder(path), config };
  }

  /** The figures of its epochs so far, as metrics.jsonl has them. @throws FileError for a line that is not JSON */
  static figures(path: string): readonly EpochFiguresLine[] {
    const file = join(path, 'metrics.jsonl');
    if (!existsSync(file)) return [];
    return readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line, i) => {
        try {
          return JSON.parse(line) as EpochFiguresLine;
        } catch (error) {
          throw new FileError(file, `line ${i + 1} is not JSON (${(error as Error).message}).`, {
            cause: error,
          });
        }
      });
  }

  get weights(): string {
    return join(this.path, 'weights.safetensors');
  }

  /** How its text is cut into tokens, where these are not characters: as Hugging Face's tokenizers write it. */
  get tokenizer(): string {
    return join(this.path, 'tokenizer.json');
  }

  /** A line of JSON for every so many steps, and for every epoch. */
  get log(): string {
    return join(this.path, 'log.jsonl');
  }

  async writeConfig(config: RunConfig): Promise<void> {
    await writeFileAtomic(join(this.path, 'config.json'), `${JSON.stringify(config, null, 2)}\n`);
  }

  /** Add lines to metrics.jsonl. The file is replaced as a whole: there is never half a line. */
  async addMetrics(...lines: readonly object[]): Promise<void> {
    this.#metrics.push(...lines.map((line) => `${JSON.stringify(line)}\n`));
    await writeFileAtomic(join(this.path, 'metrics.jsonl'), this.#metrics.join(''));
  }
}

/** Local date and time, fit for a file name on every system: 2026-01-31T09-05-00. */
function timestamp(now: Date): string {
  const two = (n: number): string => String(n).padStart(2, '0');
  const date = [now.getFullYear(), two(now.getMonth() + 1), two(now.getDate())].join('-');
  return `${date}T${[now.getHours(), now.getMinutes(), now.getSeconds()].map(two).join('-')}`;
}

const HINT = 'Choose another with --out.';

/** @returns false if there is something of that name */
function makeNew(path: string): boolean {
  try {
    mkdirSync(path);
    return true;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return false;
    throw new FileError(path, `cannot make this folder (${message}). ${HINT}`, { cause: error });
  }
}
