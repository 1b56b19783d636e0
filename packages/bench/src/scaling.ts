/** `heddle bench scaling`: training steps of several processes, beside one and beside PyTorch's DistributedDataParallel. */
import { spawn, spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  type Circumstances,
  circumstances,
  rounded,
  type Spread,
  spreadOf,
  writeResults,
} from 'heddle/internal/cli/figures.js';
import { ArgumentError } from 'heddle/internal/core/errors.js';
import { freePort, outputOf } from './processes.js';
import type { ScalingJob, ScalingReport } from './scaling-child.js';

export interface BenchScalingOptions {
  /** Numbers of processes beside one (default 2). */
  readonly ranks?: readonly number[];
  /** Default: mlp and lenet5. */
  readonly networks?: readonly string[];
  /** Examples: of each rank in weak scaling, of all in strong scaling (default 512). */
  readonly batch?: number;
  /** Default: cuda, a GPU for each rank, if there is one, else cpu. */
  readonly device?: 'cpu' | 'cuda';
  /** Default 20. */
  readonly rounds?: number;
  /** Measure PyTorch in turns (default: if python3 has it). */
  readonly peer?: boolean;
  /** Default: `bench/results/scaling-<date>.json`. */
  readonly json?: string;
}

/** Steps of one network by so many ranks. Times are in µs. */
export interface ScalingFigure {
  readonly by: 'heddle' | 'torch';
  readonly network: string;
  readonly ranks: number;
  /** weak: a rank has as many examples as one process; strong: all together have. */
  readonly kind: 'one' | 'weak' | 'strong';
  /** Examples of a rank. */
  readonly batch: number;
  readonly step: Spread;
  readonly compute?: Spread;
  readonly exchange?: Spread;
  /** The examples per second, by ranks times those of one process. */
  readonly efficiency?: number;
  /** The share of the exchange's time that the step does not show, 0 to 1. */
  readonly hidden?: number;
}

export interface ScalingResults extends Circumstances {
  readonly benchmark: 'scaling';
  readonly method: string;
  readonly device: string;
  readonly threads: number;
  readonly figures: readonly ScalingFigure[];
  readonly skipped: readonly { readonly by: string; readonly reason: string }[];
}

const CHILD = fileURLToPath(new URL('./scaling-child.js', import.meta.url));
const TORCH = fileURLToPath(new URL('../../torch_ddp.py', import.meta.url));
/** Those that both know: their inputs. */
const NETWORKS: Readonly<Record<string, readonly number[]>> = {
  mlp: [1, 28, 28],
  lenet5: [1, 28, 28],
  cnn: [1, 28, 28],
};

/** What rank 0 of so many says. */
async function run(
  by: 'heddle' | 'torch',
  ranks: number,
  threads: number,
  job: Omit<ScalingJob, 'device'> & { readonly device: 'cpu' | 'cuda' },
): Promise<ScalingReport> {
  const port = await freePort();
  const outputs = await Promise.all(
    Array.from({ length: ranks }, (_, rank) => {
      const own = { ...job, device: job.device === 'cuda' ? `cuda:${rank}` : 'cpu' };
      const args = by === 'heddle' ? [CHILD] : [TORCH];
      const env = {
        ...process.env,
        ...{ RANK: String(rank), WORLD_SIZE: String(ranks), LOCAL_RANK: String(rank) },
        ...{ LOCAL_WORLD_SIZE: String(ranks), MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(port) },
        ...{ HEDDLE_THREADS: String(threads), OMP_NUM_THREADS: String(threads) },
      };
      const command = by === 'heddle' ? process.execPath : 'python3';
      return outputOf(spawn(command, [...args, JSON.stringify(own)], { env, stdio: 'pipe' }));
    }),
  );
  return JSON.parse(outputs[0]!) as ScalingReport;
}

/** @throws ArgumentError for a network that is not one of these, or a batch that ranks cannot divide */
export async function runScalingBench(options: BenchScalingOptions): Promise<ScalingResults> {
  const { ranks = [2], networks = ['mlp', 'lenet5'], batch = 512, rounds = 20 } = options;
  for (const name of networks)
    if (!NETWORKS[name])
      throw new ArgumentError(
        `no network is called '${name}'. Expected one of: ${Object.keys(NETWORKS).join(', ')}.`,
      );
  for (const n of ranks)
    if (batch % n !== 0) throw new ArgumentError(`a batch of ${batch} is not divisible among ${n} ranks.`);
  const gpus = spawnSync('nvidia-smi', ['-L'], { encoding: 'utf8' });
  const device = options.device ?? (gpus.status === 0 && gpus.stdout.includes('GPU 0') ? 'cuda' : 'cpu');
  const threads = Math.max(1, Math.floor(availableParallelism() / Math.max(...ranks)));
  const hasTorch = spawnSync('python3', ['-c', 'import torch']).status === 0;
  const figures: ScalingFigure[] = [];
  const skipped = hasTorch ? [] : [{ by: 'torch', reason: 'python3 has no torch' }];
  const peers = hasTorch && options.peer !== false ? (['heddle', 'torch'] as const) : (['heddle'] as const);
  for (const network of networks) {
    const job = { network, inputShape: NETWORKS[network]!, rounds, device } as const;
    const alone = new Map<string, number>();
    const measure = async (n: number, kind: ScalingFigure['kind'], own: number): Promise<void> => {
      for (const by of peers) {
        const report = await run(by, n, threads, { ...job, batch: own });
        const step = spreadOf(report.step);
        if (kind === 'one') alone.set(by, step.median);
        const shared =
          kind === 'one' ? {} : sharedFigures(report, (alone.get(by)! * own) / batch / step.median);
        figures.push({ by, network, ranks: n, kind, batch: own, step, ...shared });
      }
    };
    await measure(1, 'one', batch);
    for (const n of ranks) {
      await measure(n, 'weak', batch);
      await measure(n, 'strong', batch / n);
    }
  }
  return {
    ...circumstances('heddle bench scaling'),
    benchmark: 'scaling',
    method:
      'Training steps (Adam) on random images that lie on the device: µs on rank 0, five calls at a time, all ranks beginning together; ' +
      'a step, the same without the exchange of gradients, and the exchange alone take turns. Every process, also one ' +
      'alone, has as many threads. efficiency is by examples per second; hidden = 1 − (step − compute) / exchange, from 0 to 1.',
    ...{ device, threads, figures, skipped },
  };
}

/** @param efficiency of the step */
function sharedFigures(report: ScalingReport, efficiency: number): Partial<ScalingFigure> {
  const [step, compute, exchange] = [report.step, report.compute, report.exchange].map((us) =>
    us.length > 0 ? spreadOf(us) : undefined,
  );
  const known = { efficiency: rounded(efficiency) };
  if (!compute || !exchange) return known;
  const shown = (step!.median - compute.median) / exchange.median;
  return { ...known, compute, exchange, hidden: rounded(Math.min(1, Math.max(0, 1 - shown))) };
}

export function scalingReport({ figures, skipped }: ScalingResults): string {
  const percent = (v: number): string => `${(100 * v).toFixed(0)} %`;
  const lines = figures.map(
    ({ by, network, ranks, kind, batch, step, efficiency, hidden }) =>
      `${by.padEnd(8)}${network.padEnd(8)}${String(ranks).padStart(2)} ranks ${kind.padEnd(7)}` +
      `${String(batch).padStart(6)} each${step.median.toFixed(0).padStart(9)} µs` +
      (efficiency === undefined ? '' : `${percent(efficiency).padStart(8)} efficiency`) +
      (hidden === undefined ? '' : `, ${percent(hidden)} of the exchange hidden`),
  );
  return [...lines, ...skipped.map(({ by, reason }) => `${by} skipped: ${reason}`), ''].join('\n');
}

export async function benchScaling(options: BenchScalingOptions): Promise<number> {
  const results = await runScalingBench(options);
  process.stdout.write(scalingReport(results));
  const path = options.json ?? join('bench', 'results', `scaling-${results.date.slice(0, 10)}.json`);
  await writeResults(path, results);
  process.stdout.write(`written to ${path}\n`);
  return 0;
}
