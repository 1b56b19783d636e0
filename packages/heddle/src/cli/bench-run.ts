/** `heddle bench`: measure, show a table or JSON, write the results if asked. */
import { type AccuracyOptions, runAccuracyBench } from './bench-accuracy.js';
import { type CpuBenchOptions, runCpuBench } from './bench-cpu.js';
import { accuracyReport, cpuReport } from './bench-report.js';
import { readPeers, writeResults } from './bench-results.js';

export interface OutputOptions {
  /** A file for the results, JSON. */
  readonly out?: string;
  /** Print JSON instead of a table. */
  readonly json?: boolean;
}

export async function benchCpu({
  peers,
  ...options
}: Omit<CpuBenchOptions, 'peers'> & { readonly peers?: string } & OutputOptions): Promise<void> {
  const figures = peers === undefined ? {} : { peers: await readPeers(peers) };
  const results = await watched((watch) => runCpuBench({ ...options, ...figures, ...watch }));
  await show(results, cpuReport(results), options);
}

export async function benchAccuracy(options: AccuracyOptions & OutputOptions): Promise<void> {
  const results = await watched((watch) => runAccuracyBench({ ...options, ...watch }));
  await show(results, accuracyReport(results), options);
}

async function show(results: object, report: string, { out, json }: OutputOptions): Promise<void> {
  process.stdout.write(`${json ? JSON.stringify(results, null, 2) : report}\n`);
  if (out === undefined) return;
  await writeResults(out, results);
  process.stderr.write(`written to ${out}\n`);
}

/** Say on a terminal what is being measured, and let Ctrl-C end it. */
async function watched<R>(
  run: (watch: { onProgress: (what: string) => void; signal: AbortSignal }) => Promise<R>,
): Promise<R> {
  const controller = new AbortController();
  const stop = (): void => controller.abort();
  const { stderr } = process;
  const clear = '\r\x1b[K';
  process.once('SIGINT', stop);
  try {
    return await run({
      onProgress: (what) => stderr.isTTY && stderr.write(`${clear}${what}`),
      signal: controller.signal,
    });
  } finally {
    process.off('SIGINT', stop);
    if (stderr.isTTY) stderr.write(clear);
  }
}
