/** `heddle bench start`: from the start of a process to its first training step, with empty caches and with filled ones. */

import { fork } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type Circumstances,
  circumstances,
  type MeasuredDevice,
  measuredDevice,
  rounded,
  type Spread,
  spreadOf,
} from 'heddle/internal/cli/figures.js';
import { DeviceError } from 'heddle/internal/core/errors.js';
import { TRAIN_CASES } from './device-cases.js';
import { withCachesIn } from './processes.js';
import type { StartReport } from './start-child.js';
import { selectCases } from './workload.js';

const IDS = ['mlp-64', 'resnet18-tf32-256', 'gpt-f32-32'];

/** How many processes find everything in the cache folder; one more, before them, finds it empty. */
const WARM_RUNS = 3;

export interface Start {
  readonly case: string;
  readonly title: string;
  readonly cache: 'cold' | 'warm';
  /** From the start of the process to the value of the first step's loss, ms. */
  readonly total: Spread;
  /** Of the process in the middle, ms. */
  readonly imports: number;
  readonly build: number;
  readonly first: number;
  readonly second: number;
  /** What of `build` and `first` went into each phase, where it took a millisecond at least. */
  readonly phases: Readonly<Record<string, number>>;
  readonly launches: number;
}

export interface StartResults extends Circumstances {
  readonly benchmark: 'start';
  readonly device: MeasuredDevice;
  readonly starts: readonly Start[];
}

export interface StartBenchOptions {
  readonly only?: readonly string[];
  readonly device?: string;
  /** With filled caches. Default: 3. */
  readonly warmRuns?: number;
  readonly onProgress?: (what: string) => void;
  readonly signal?: AbortSignal;
}

/**
 * Train a step in processes of their own.
 * @throws ArgumentError for a case that does not exist · DeviceError if a process fails · the signal's reason
 */
export async function runStartBench(options: StartBenchOptions = {}): Promise<StartResults> {
  const { only, device, warmRuns = WARM_RUNS, onProgress, signal } = options;
  const starts: Start[] = [];
  let used: StartReport['device'] | undefined;
  const cases = TRAIN_CASES.filter(({ id }) => (only ? true : IDS.includes(id)));
  for (const { id, title } of selectCases(cases, only)) {
    const folder = await mkdtemp(join(tmpdir(), 'heddle-start-'));
    try {
      const runs: StartReport[] = [];
      for (let run = 0; run <= warmRuns; run++) {
        onProgress?.(`${title}, ${run === 0 ? 'empty cache' : `filled cache, ${run} of ${warmRuns}`}`);
        const report = await startOnce(id, folder, device, signal);
        used = report.device;
        runs.push(report);
      }
      starts.push(summary({ id, title }, 'cold', runs.slice(0, 1)));
      if (warmRuns > 0) starts.push(summary({ id, title }, 'warm', runs.slice(1)));
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
  const given = [
    only ? ` --only ${only.join(',')}` : '',
    device === undefined ? '' : ` --device ${device}`,
    ` --warm-runs ${warmRuns}`,
  ].join('');
  return {
    benchmark: 'start',
    ...circumstances(`npx heddle bench start${given}`),
    device: measuredDevice(used!),
    starts,
  };
}

const totalOf = ({ imports, build, first }: StartReport): number => imports + build + first;

function summary(
  { id, title }: { readonly id: string; readonly title: string },
  cache: Start['cache'],
  runs: readonly StartReport[],
): Start {
  const inOrder = [...runs].sort((a, b) => totalOf(a) - totalOf(b));
  const { imports, build, first, second, phases, launches } = inOrder[(runs.length - 1) >> 1]!;
  return {
    case: id,
    title,
    cache,
    total: spreadOf(runs.map(totalOf)),
    ...{ imports: rounded(imports), build: rounded(build), first: rounded(first), second: rounded(second) },
    phases: Object.fromEntries(
      Object.entries(phases).flatMap(([phase, ms]) => (ms >= 1 ? [[phase, rounded(ms)]] : [])),
    ),
    launches,
  };
}

/** @param folder of its caches */
async function startOnce(
  id: string,
  folder: string,
  device: string | undefined,
  signal: AbortSignal | undefined,
): Promise<StartReport> {
  signal?.throwIfAborted();
  const child = fork(fileURLToPath(new URL('./start-child.js', import.meta.url)), [id], {
    env: {
      ...withCachesIn(folder),
      ...(device !== undefined && { HEDDLE_DEVICE: device }),
    },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    ...(signal && { signal }),
  });
  let report: StartReport | undefined;
  child.on('message', (message: StartReport) => {
    report = message;
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  if (!report || code !== 0)
    throw new DeviceError(`A process of the benchmark failed on ${id}: exit code ${code}.`);
  return report;
}
