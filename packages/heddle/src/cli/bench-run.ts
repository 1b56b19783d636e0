/** `heddle bench`, when it runs: measure, write the results, show them. */
import { type AccuracyOptions, runAccuracyBench } from './bench-accuracy.js';
import { type CpuBenchOptions, runCpuBench } from './bench-cpu.js';
import { accuracyReport, cpuReport } from './bench-report.js';
import { readPeers, writeResults } from './bench-results.js';

export interface BenchCpuOptions extends Omit<CpuBenchOptions, 'peers'> {
  /** A file of another library's figures. */
  readonly peer?: string;
  /** Where the results go. Default: `bench/results/cpu-<date>.json`. */
  readonly json?: string;
}

export interface BenchAccuracyOptions extends AccuracyOptions {
  /** Where the results go. Default: `bench/results/accuracy-<date>.json`. */
  readonly json?: string;
}

/** @returns the exit code: 130 if Ctrl-C ended it, with nothing written */
export async function benchCpu({ peer, json, ...options }: BenchCpuOptions): Promise<number> {
  const peers = peer === undefined ? undefined : await readPeers(peer);
  const results = await watched((watch) => runCpuBench({ ...options, ...(peers && { peers }), ...watch }));
  if (!results) return 130;
  await publish(results, cpuReport(results), json);
  return 0;
}

/** @returns the exit code: 130 if Ctrl-C ended it, with nothing written */
export async function benchAccuracy({ json, ...options }: BenchAccuracyOptions): Promise<number> {
  const results = await watched((watch) => runAccuracyBench({ ...options, ...watch }));
  if (!results) return 130;
  await publish(results, accuracyReport(results), json);
  return 0;
}

async function publish(
  results: { readonly benchmark: string; readonly date: string },
  report: string,
  json = `bench/results/${results.benchmark}-${results.date.slice(0, 10)}.json`,
): Promise<void> {
  process.stdout.write(`${report}\n`);
  await writeResults(json, results);
  process.stdout.write(`\nWritten to ${json}\n`);
}

interface Watch {
  readonly onProgress: (what: string) => void;
  readonly signal: AbortSignal;
}

/** Say on stderr what is being done, and let Ctrl-C end it. @returns undefined then */
async function watched<R>(run: (watch: Watch) => Promise<R>): Promise<R | undefined> {
  const controller = new AbortController();
  const stop = (): void => controller.abort();
  const { stderr } = process;
  const clear = stderr.isTTY ? '\r\x1b[K' : '';
  const onProgress = (what: string): void => {
    stderr.write(stderr.isTTY ? clear + what.slice(0, stderr.columns - 1) : `${what}\n`);
  };
  process.once('SIGINT', stop);
  try {
    const result = await run({ onProgress, signal: controller.signal });
    stderr.write(clear);
    return result;
  } catch (error) {
    stderr.write(clear);
    if (!controller.signal.aborted) throw error;
    stderr.write('Stopped by Ctrl-C; nothing was written.\n');
    return undefined;
  } finally {
    process.off('SIGINT', stop);
  }
}
