/** `heddle bench collectives`: all-reduce between processes of this machine, over TCP and by MPI, and between GPUs by NCCL. */
import { fork, spawn, spawnSync } from 'node:child_process';
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
import { countDevices } from 'heddle/internal/runtime/registry.js';
import type { RankReport, RankSettings } from './collectives-child.js';
import type { GpuSettings } from './collectives-gpu-child.js';
import { freePort, outputOf } from './processes.js';

export interface BenchCollectivesOptions {
  /** Numbers of processes (default 2 and 4; of GPUs, as far as there are so many). */
  readonly ranks?: readonly number[];
  /** tcp, mpi, nccl (default: all). */
  readonly only?: readonly string[];
  /** Bytes that each rank has. */
  readonly sizes?: readonly number[];
  /** Where the results go. Default: `bench/results/collectives-<date>.json`. */
  readonly json?: string;
}

/** One way, number of ranks and size. */
export interface CollectiveFigure extends Spread {
  /** `MPI_Allreduce` is MPI's own reduction, without Heddle; `torch` is torch.distributed's, by NCCL, in a CUDA graph if it says so. */
  readonly by: RankReport['by'];
  readonly ranks: number;
  readonly bytes: number;
  readonly unit: 'ms';
  /** Bytes that each rank sends and gets at the least, 2 · (ranks − 1) / ranks of its own, per time of the median, in GB/s. */
  readonly bandwidth: number;
}

export interface CollectivesResults extends Circumstances {
  readonly benchmark: 'collectives';
  readonly method: string;
  readonly figures: readonly CollectiveFigure[];
  readonly skipped: readonly { readonly by: string; readonly reason: string }[];
}

const SIZES = [1e3, 1e5, 1e6, 1e7, 1e8];
/** Of GPUs: multiples of 64 bytes, whose sums are the program's result as they are. The largest is what the links give. */
const GPU_SIZES = [1024, 102_400, 1e6, 1e7, 1e8, 5e8];
const GPU_CHILD = fileURLToPath(new URL('./collectives-gpu-child.js', import.meta.url));
const TORCH = fileURLToPath(new URL('../../torch_collectives.py', import.meta.url));
const CHILD = fileURLToPath(new URL('./collectives-child.js', import.meta.url));

/** What the ranks of one run say, from the first of them. */
async function runRanks(by: 'tcp' | 'mpi', ranks: number, sizes: readonly number[]): Promise<RankReport[]> {
  const settings = JSON.stringify({ by, ranks, sizes } satisfies RankSettings);
  const children =
    by === 'tcp'
      ? Array.from({ length: ranks }, (_, r) => fork(CHILD, [settings, String(r)], { silent: true }))
      : [
          spawn('mpirun', ['--oversubscribe', '-n', String(ranks), process.execPath, CHILD, settings], {
            env: { ...process.env, OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1' },
            stdio: 'pipe',
          }),
        ];
  // What one rank leaves for the others.
  const passOn = (message: object): void => {
    for (const one of children) one.send(message);
  };
  if (by === 'tcp') for (const child of children) child.on('message', passOn);
  const outputs = await Promise.all(children.map((child) => outputOf(child)));
  return JSON.parse(outputs[0]!) as RankReport[];
}

/** The same of processes with a GPU each. @param command what starts a rank */
async function runGpuRanks(
  command: readonly string[],
  ranks: number,
  sizes: readonly number[],
): Promise<RankReport[]> {
  const port = await freePort();
  const [program = '', ...args] = command;
  const children = Array.from({ length: ranks }, (_, rank) => {
    const settings = JSON.stringify({ device: `cuda:${rank}`, sizes } satisfies GpuSettings);
    const env = {
      ...process.env,
      ...{ RANK: String(rank), WORLD_SIZE: String(ranks), LOCAL_RANK: String(rank) },
      ...{ LOCAL_WORLD_SIZE: String(ranks), MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(port) },
    };
    return spawn(program, [...args, settings], { env, stdio: 'pipe' });
  });
  const outputs = await Promise.all(children.map((child) => outputOf(child)));
  return JSON.parse(outputs[0]!) as RankReport[];
}

export async function runCollectivesBench({
  ranks = [2, 4],
  only = ['tcp', 'mpi', 'nccl'],
  sizes,
}: BenchCollectivesOptions): Promise<CollectivesResults> {
  const figures: CollectiveFigure[] = [];
  const skipped: { by: string; reason: string }[] = [];
  const add = (n: number, reports: readonly RankReport[]): void => {
    for (const { by, bytes, milliseconds } of reports) {
      const spread = spreadOf(milliseconds);
      const bandwidth = rounded((2 * (n - 1) * bytes) / n / spread.median / 1e6);
      figures.push({ by, ranks: n, bytes, ...spread, unit: 'ms', bandwidth });
    }
  };
  for (const by of ['tcp', 'mpi'] as const) {
    if (!only.includes(by)) continue;
    if (by === 'mpi' && spawnSync('mpirun', ['--version'], { stdio: 'ignore' }).status !== 0) {
      skipped.push({ by, reason: 'there is no mpirun' });
      continue;
    }
    for (const n of ranks) add(n, await runRanks(by, n, sizes ?? SIZES));
  }
  if (only.includes('nccl')) {
    const gpus = countDevices('cuda');
    for (const n of ranks) {
      if (n > gpus) {
        skipped.push({
          by: `nccl of ${n} ranks`,
          reason: `there ${gpus === 1 ? 'is 1 GPU' : `are ${gpus} GPUs`}`,
        });
        continue;
      }
      add(n, await runGpuRanks([process.execPath, GPU_CHILD], n, sizes ?? GPU_SIZES));
      try {
        add(n, await runGpuRanks(['python3', TORCH], n, sizes ?? GPU_SIZES));
      } catch (error) {
        skipped.push({ by: 'torch', reason: (error as Error).message.slice(-300) });
      }
    }
  }
  return {
    ...circumstances('heddle bench collectives'),
    benchmark: 'collectives',
    method:
      'Sums of f32 over processes of this machine: ms on rank 0 from a barrier to the result, after two runs that do not count. ' +
      'bandwidth is 2 (ranks − 1) / ranks · bytes / median, in GB/s. MPI_Allreduce is called on the same values in the ' +
      'processes of mpi. nccl and torch: the time of a GPU, a mean of many sums one after the other, from one graph where it says so.',
    figures,
    skipped,
  };
}

export function collectivesReport({ figures, skipped }: CollectivesResults): string {
  const size = (bytes: number): string => (bytes < 1e6 ? `${bytes / 1e3} KB` : `${bytes / 1e6} MB`);
  const lines = figures.map(
    ({ by, ranks, bytes, median, bandwidth }) =>
      `${by.padEnd(14)}${String(ranks).padStart(3)} ranks${size(bytes).padStart(9)}` +
      `${median.toFixed(3).padStart(11)} ms${bandwidth.toFixed(3).padStart(9)} GB/s`,
  );
  return [...lines, ...skipped.map(({ by, reason }) => `${by} skipped: ${reason}`), ''].join('\n');
}

export async function benchCollectives(options: BenchCollectivesOptions): Promise<number> {
  const results = await runCollectivesBench(options);
  process.stdout.write(collectivesReport(results));
  const path = options.json ?? join('bench', 'results', `collectives-${results.date.slice(0, 10)}.json`);
  await writeResults(path, results);
  process.stdout.write(`written to ${path}\n`);
  return 0;
}
