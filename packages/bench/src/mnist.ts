/** `heddle bench mnist`: whole runs of `heddle train` on MNIST, in processes of their own, as a user starts them. */

import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Circumstances,
  circumstances,
  type MeasuredDevice,
  measuredDevice,
  rounded,
  type Spread,
  spreadOf,
} from 'heddle/internal/cli/figures.js';
import { counted } from 'heddle/internal/cli/format.js';
import { MAIN } from 'heddle/internal/cli/main-path.js';
import { DeviceError } from 'heddle/internal/core/errors.js';
import { PROGRAMS, type ProgramName, type TrainingProgram } from 'heddle/internal/train/programs.js';
import { withCachesIn } from './processes.js';
import { selectCases } from './workload.js';

export interface MnistCase {
  readonly id: string;
  /** For this number of epochs. */
  readonly title: (epochs?: number) => string;
  /** What is given to `heddle train`. */
  readonly command: readonly string[];
}

/** A program with one of its recipes. */
function caseOf(name: ProgramName, variant?: string): MnistCase {
  const program: TrainingProgram = PROGRAMS[name];
  const recipe = (variant && program.variants?.[variant]) || program.recipe;
  return {
    id: variant ? `${name}-${variant}` : name,
    title: (epochs = recipe.epochs) =>
      `${name}, ${recipe.optimizer}, ${counted(epochs, 'epoch')} in batches of ${recipe.batchSize}, a test after each`,
    command: [name, ...(variant ? ['--recipe', variant] : [])],
  };
}

export const MNIST_CASES: readonly MnistCase[] = [caseOf('cnn', 'reference'), caseOf('lenet5')];

/** How many processes find compiled kernels on disk; one more, before them, does not. */
const WARM_RUNS = 3;

export interface MnistRun {
  readonly case: string;
  readonly title: string;
  /** With an empty cache of compiled kernels, or with all of them there. */
  readonly cache: 'cold' | 'warm';
  /** From the start of the process to its end, s. */
  readonly process: Spread;
  /**
   * From the first step to the end of the last test, s. The first step is also planned, loaded and, without a cache,
   * compiled in its variants and timed; the data set is on the device before.
   */
  readonly training: Spread;
  /** An epoch and its test, s: all but the first of each run, which compiles. */
  readonly epoch?: Spread;
  /** On the test images after the last epoch: of every run. */
  readonly accuracy: readonly number[];
  /** After each epoch of the last run. */
  readonly epochs: readonly {
    readonly accuracy: number;
    readonly seconds: number;
    readonly elapsed: number;
  }[];
}

export interface MnistResults extends Circumstances {
  readonly benchmark: 'mnist';
  readonly device: MeasuredDevice;
  readonly runs: readonly MnistRun[];
}

export interface MnistBenchOptions {
  readonly only?: readonly string[];
  readonly device?: string;
  /** Fewer than the recipe's, for a trial. */
  readonly epochs?: number;
  readonly limit?: number;
  /** With all kernels in the cache. Default: 3. */
  readonly warmRuns?: number;
  readonly onProgress?: (what: string) => void;
  readonly signal?: AbortSignal;
}

/**
 * Train on MNIST in processes of their own.
 * @throws ArgumentError for a case that does not exist · DeviceError if a process fails · the signal's reason
 */
export async function runMnistBench(options: MnistBenchOptions = {}): Promise<MnistResults> {
  const { only, device, epochs, limit, warmRuns = WARM_RUNS, onProgress } = options;
  const runs: MnistRun[] = [];
  let used: MnistResults['device'] | undefined;
  for (const { id, title: titleOf, command } of selectCases(MNIST_CASES, only)) {
    const title = `${titleOf(epochs)}${limit === undefined ? '' : `, ${counted(limit, 'example')}`}`;
    const folder = await mkdtemp(join(tmpdir(), 'heddle-mnist-'));
    const args = [
      ...command,
      ...(device === undefined ? [] : ['--device', device]),
      ...(epochs === undefined ? [] : ['--epochs', String(epochs)]),
      ...(limit === undefined ? [] : ['--limit', String(limit)]),
    ];
    try {
      const seeds = Array.from({ length: 1 + warmRuns }, (_, seed) => seed);
      const done: TrainedRun[] = [];
      for (const seed of seeds) {
        onProgress?.(`${title}, ${seed === 0 ? 'cold cache' : `run ${seed} of ${warmRuns}`}`);
        const out = join(folder, `seed-${seed}`);
        const run = await trainOnce(
          [...args, '--seed', String(seed)],
          out,
          join(folder, 'caches'),
          options.signal,
        );
        used = run.device;
        done.push(run);
      }
      runs.push(summary({ id, title }, 'cold', done.slice(0, 1)));
      if (warmRuns > 0) runs.push(summary({ id, title }, 'warm', done.slice(1)));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
  const given = [
    ...(only ? ['--only', only.join(',')] : []),
    ...(device === undefined ? [] : ['--device', device]),
    ...(epochs === undefined ? [] : ['--epochs', String(epochs)]),
    ...(limit === undefined ? [] : ['--limit', String(limit)]),
  ];
  return {
    benchmark: 'mnist',
    ...circumstances(['npx heddle bench mnist', ...given].join(' ')),
    device: measuredDevice(used!),
    runs,
  };
}

interface TrainedRun {
  readonly seconds: number;
  readonly device: MnistResults['device'];
  readonly epochs: MnistRun['epochs'];
}

function summary(
  { id, title }: Pick<MnistRun, 'title'> & { readonly id: string },
  cache: MnistRun['cache'],
  runs: readonly TrainedRun[],
): MnistRun {
  const last = (run: TrainedRun) => run.epochs.at(-1)!;
  const later = runs.flatMap(({ epochs }) =>
    epochs.slice(1).map(({ elapsed }, i) => elapsed - epochs[i]!.elapsed),
  );
  return {
    case: id,
    title,
    cache,
    process: spreadOf(runs.map((run) => run.seconds)),
    training: spreadOf(runs.map((run) => last(run).elapsed)),
    ...(later.length > 0 && { epoch: spreadOf(later) }),
    accuracy: runs.map((run) => last(run).accuracy),
    epochs: runs.at(-1)!.epochs,
  };
}

/** One `heddle train` with its caches in a folder, timed from outside; its figures are those it writes. */
async function trainOnce(
  args: readonly string[],
  out: string,
  caches: string,
  signal: AbortSignal | undefined,
): Promise<TrainedRun> {
  signal?.throwIfAborted();
  const start = performance.now();
  const child = spawn(process.execPath, [MAIN, 'train', ...args, '--no-progress', '--out', out], {
    env: withCachesIn(caches),
    stdio: ['ignore', 'ignore', 'pipe'],
    ...(signal && { signal }),
  });
  let said = '';
  child.stderr.on('data', (text) => {
    said += text;
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  const seconds = (performance.now() - start) / 1000;
  if (code !== 0)
    throw new DeviceError(`heddle train ${args.join(' ')} failed: ${said.trim() || `exit code ${code}`}`);
  const { device } = JSON.parse(await readFile(join(out, 'config.json'), 'utf8')) as Pick<
    TrainedRun,
    'device'
  >;
  const lines = (await readFile(join(out, 'metrics.jsonl'), 'utf8')).trimEnd().split('\n');
  const epochs = lines.map((line) => {
    const { test, seconds, elapsed } = JSON.parse(line) as EpochLine;
    return { accuracy: test.accuracy, seconds: rounded(seconds), elapsed: rounded(elapsed) };
  });
  return { seconds, device, epochs };
}

interface EpochLine {
  readonly test: { readonly accuracy: number };
  readonly seconds: number;
  readonly elapsed: number;
}
