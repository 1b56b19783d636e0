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
import { SCALING_NETWORKS } from './scaling-networks.js';

export interface BenchScalingOptions {
  /** Numbers of processes beside one (default 2). */
  readonly ranks?: readonly number[];
  /** Default on the CPU: mlp and lenet5. On GPUs: lenet5, resnet18 in tf32 and in bf16, and gpt2. */
  readonly networks?: readonly string[];
  /** Examples: of each rank in weak scaling, of all in strong scaling. Default: each network's own; on the CPU 512. */
  readonly batch?: number;
  /** Default: both. */
  readonly kinds?: readonly string[];
  /** Default: cuda, a GPU for each rank, if there is one, else cpu. */
  readonly device?: 'cpu' | 'cuda';
  /** Default 20. */
  readonly rounds?: number;
  /** Measure PyTorch, too (default: if python3 has it). */
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
  /** Bytes of the gradients that are exchanged at a time, in this order, of Heddle. */
  readonly buckets?: readonly number[];
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

type Kind = 'weak' | 'strong';

const CHILD = fileURLToPath(new URL('./scaling-child.js', import.meta.url));
const TORCH = fileURLToPath(new URL('../../torch_ddp.py', import.meta.url));

/** Steps of a round on the CPU, where they take longer. */
const CPU_CALLS = 5;

/** What rank 0 of so many says, a report for each batch. */
async function run(
  by: 'heddle' | 'torch',
  ranks: number,
  threads: number,
  job: Omit<ScalingJob, 'device'> & { readonly device: 'cpu' | 'cuda' },
  hear: (text: string) => void,
): Promise<ScalingReport[]> {
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
      return outputOf(spawn(command, [...args, JSON.stringify(own)], { env, stdio: 'pipe' }), hear);
    }),
  );
  return outputs[0]!
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as ScalingReport);
}

/** @throws ArgumentError for a network or kind that is not one of these, or a batch that ranks cannot divide */
function checked(options: BenchScalingOptions, device: 'cpu' | 'cuda') {
  const { ranks = [2], kinds = ['weak', 'strong'] } = options;
  const usual =
    device === 'cuda'
      ? ['lenet5', 'resnet18-bf16', 'resnet18-tf32', 'gpt2-bf16', 'gpt2-bf16-sharded']
      : ['mlp', 'lenet5'];
  const networks = (options.networks ?? usual).map((name) => {
    const known = SCALING_NETWORKS[name];
    if (!known)
      throw new ArgumentError(
        `no network is called '${name}'. Expected one of: ${Object.keys(SCALING_NETWORKS).join(', ')}.`,
      );
    const { batch = device === 'cuda' ? known.batch : CPU_BATCH } = options;
    for (const n of ranks)
      if (batch % n !== 0) throw new ArgumentError(`a batch of ${batch} is not divisible among ${n} ranks.`);
    return { name, batch, calls: device === 'cuda' ? known.calls : CPU_CALLS };
  });
  for (const kind of kinds)
    if (kind !== 'weak' && kind !== 'strong')
      throw new ArgumentError(`'${kind}' is no kind of scaling. Expected weak or strong.`);
  return { ranks, networks, kinds: kinds as readonly Kind[] };
}

const CPU_BATCH = 512;

/** Of one network by one library. */
async function measured(
  by: 'heddle' | 'torch',
  job: Omit<ScalingJob, 'device' | 'batches'> & { readonly device: 'cpu' | 'cuda' },
  {
    batch,
    ranks,
    kinds,
  }: { readonly batch: number; readonly ranks: readonly number[]; readonly kinds: readonly Kind[] },
  threads: number,
  progress: ScalingProgress,
): Promise<void> {
  const { network } = job;
  const [one] = await run(by, 1, threads, { ...job, batches: [batch] }, progress.hear);
  const alone = spreadOf(one!.step);
  await progress.measured({ by, network, ranks: 1, kind: 'one', batch, step: alone });
  for (const n of ranks) {
    const batches = kinds.map((kind) => (kind === 'weak' ? batch : batch / n));
    const reports = await run(by, n, threads, { ...job, batches }, progress.hear);
    for (const [i, report] of reports.entries()) {
      const step = spreadOf(report.step);
      const shared = sharedFigures(report, (alone.median * report.batch) / batch / step.median);
      await progress.measured({
        by,
        network,
        ranks: n,
        kind: kinds[i]!,
        batch: report.batch,
        step,
        ...shared,
      });
    }
  }
}

/** Is told what has been measured so far. */
interface ScalingProgress {
  /** What processes say on stderr. */
  hear(text: string): void;
  measured(figure: ScalingFigure): Promise<void>;
}

/** @throws ArgumentError for a network or kind that is not one of these, or a batch that ranks cannot divide */
export async function runScalingBench(
  options: BenchScalingOptions,
  note: (results: ScalingResults, latest: ScalingFigure | string) => void | Promise<void> = () => {},
): Promise<ScalingResults> {
  const gpus = spawnSync('nvidia-smi', ['-L'], { encoding: 'utf8' });
  const device = options.device ?? (gpus.status === 0 && gpus.stdout.includes('GPU 0') ? 'cuda' : 'cpu');
  const { ranks, networks, kinds } = checked(options, device);
  const { rounds = 20, peer = true } = options;
  const threads = Math.max(1, Math.floor(availableParallelism() / Math.max(...ranks)));
  const hasTorch = peer && spawnSync('python3', ['-c', 'import torch']).status === 0;
  const figures: ScalingFigure[] = [];
  const skipped = hasTorch || !peer ? [] : [{ by: 'torch', reason: 'python3 has no torch' }];
  const results: ScalingResults = {
    ...circumstances('heddle bench scaling'),
    benchmark: 'scaling',
    method:
      'Training steps on random examples that lie on the device: µs on rank 0, a mean of many calls each, all ranks beginning ' +
      'together; a step, the same without the exchange of gradients, and the exchange alone take turns. Every process, also one ' +
      'alone, has as many threads. efficiency is by examples per second; hidden = 1 − (step − compute) / exchange, from 0 to 1.',
    ...{ device, threads, figures, skipped },
  };
  const progress: ScalingProgress = {
    hear(text) {
      for (const line of text.split('\n')) if (line.startsWith('-- ')) void note(results, line);
    },
    async measured(figure) {
      figures.push(figure);
      await note(results, figure);
    },
  };
  // The peer compiles for minutes: last, so that whoever ends it has the rest.
  for (const by of hasTorch ? (['heddle', 'torch'] as const) : (['heddle'] as const))
    for (const { name: network, batch, calls } of networks) {
      if (by === 'torch' && SCALING_NETWORKS[network]!.sharded) continue;
      const job = { network, calls, rounds, device } as const;
      try {
        await measured(by, job, { batch, ranks, kinds }, threads, progress);
      } catch (error) {
        if (by === 'heddle') throw error;
        skipped.push({ by: `torch ${network}`, reason: (error as Error).message.slice(-300) });
      }
    }
  return results;
}

/** @param efficiency of the step */
function sharedFigures(report: ScalingReport, efficiency: number): Partial<ScalingFigure> {
  const [step, compute, exchange] = [report.step, report.compute, report.exchange].map((us) =>
    us.length > 0 ? spreadOf(us) : undefined,
  );
  const known = { efficiency: rounded(efficiency) };
  if (!compute || !exchange) return known;
  const shown = (step!.median - compute.median) / exchange.median;
  return {
    ...known,
    compute,
    exchange,
    buckets: report.buckets,
    hidden: rounded(Math.min(1, Math.max(0, 1 - shown))),
  };
}

const percent = (v: number): string => `${(100 * v).toFixed(0)} %`;

const lineOf = ({ by, network, ranks, kind, batch, step, efficiency, hidden }: ScalingFigure): string =>
  `${by.padEnd(8)}${network.padEnd(18)}${String(ranks).padStart(2)} ranks ${kind.padEnd(7)}` +
  `${String(batch).padStart(6)} each${step.median.toFixed(0).padStart(9)} µs` +
  (efficiency === undefined ? '' : `${percent(efficiency).padStart(8)} efficiency`) +
  (hidden === undefined ? '' : `, ${percent(hidden)} of the exchange hidden`);

export const scalingReport = ({ figures, skipped }: ScalingResults): string =>
  [...figures.map(lineOf), ...skipped.map(({ by, reason }) => `${by} skipped: ${reason}`), ''].join('\n');

export async function benchScaling(options: BenchScalingOptions): Promise<number> {
  let path = options.json;
  const { skipped } = await runScalingBench(options, async (results, latest) => {
    process.stdout.write(`${typeof latest === 'string' ? latest : lineOf(latest)}\n`);
    // What is measured by now is there, whatever happens to the rest.
    path ??= join('bench', 'results', `scaling-${results.date.slice(0, 10)}.json`);
    if (typeof latest !== 'string') await writeResults(path, results);
  });
  for (const { by, reason } of skipped) process.stdout.write(`${by} skipped: ${reason}\n`);
  process.stdout.write(`written to ${path}\n`);
  return 0;
}
