/** `heddle bench`, when it runs: measure, write the results, show them. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { realDevice } from 'heddle/internal/cli/ceilings.js';
import { writeResults, writeText } from 'heddle/internal/cli/figures.js';
import { MAIN } from 'heddle/internal/cli/main-path.js';
import { env } from 'heddle/internal/core/env.js';
import { closeDevices, listDevices, openDevice } from 'heddle/internal/runtime/registry.js';
import { useDevice } from 'heddle/internal/tensor/modes.js';
import { type AccuracyOptions, runAccuracyBench } from './accuracy.js';
import { chartOf, ladderChart } from './chart.js';
import { CONV_SIZES, runConvBench } from './conv.js';
import { type CpuBenchOptions, runCpuBench } from './cpu.js';
import {
  type DeviceBench,
  type DeviceBenchOptions,
  type DeviceResults,
  runKernelsBench,
  runTrainBench,
} from './device.js';
import { type FeedBenchOptions, feedReport, readFeedPeers, runFeedBench } from './feed.js';
import { type InferenceBenchOptions, inferenceReport, runInferenceBench } from './inference.js';
import type { LadderOptions } from './ladder.js';
import { LADDER_SIZES, type LadderResults, runMatmulBench } from './matmul.js';
import { type MnistBenchOptions, runMnistBench } from './mnist.js';
import { bestModes, type DevicePeers, readDevicePeers } from './peers.js';
import {
  accuracyReport,
  cpuReport,
  kernelsReport,
  mnistReport,
  productsReport,
  startReport,
  trainReport,
  transposeReport,
} from './report.js';
import { readPeers } from './results.js';
import { runServeBench, type ServeBenchOptions, serveReport } from './serve.js';
import { runStartBench, type StartBenchOptions } from './start.js';
import { runTransposeBench, TRANSPOSE_SIZES } from './transpose.js';
import { ladderYardsticks, measureVendor, type Yardstick, yardsticks } from './vendor.js';

export interface BenchCpuOptions extends Omit<CpuBenchOptions, 'peers'> {
  /** A file of another library's figures. */
  readonly peer?: string;
  /** Where the results go. Default: `bench/results/cpu-<date>.json`. */
  readonly json?: string;
}

export interface BenchAccuracyOptions extends AccuracyOptions {
  readonly device?: string;
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
export const benchAccuracy = ({ json, device, ...options }: BenchAccuracyOptions): Promise<number> =>
  onDevice(device, async () => {
    const results = await watched((watch) => runAccuracyBench({ ...options, ...watch }));
    if (!results) return 130;
    await publish(results, accuracyReport(results), json);
    return 0;
  });

export interface BenchDeviceOptions {
  readonly only?: readonly string[];
  /** A file of another library's figures. */
  readonly peer?: string;
  /** Measure the vendor's libraries, too. Default: false. */
  readonly vendor?: boolean;
  readonly device?: string;
  /** Where the results go. Default: `bench/results/kernels-<date>.json`, and train alike. */
  readonly json?: string;
  /** Where a chart goes. Default: none. */
  readonly svg?: string;
}

export interface BenchAllOptions extends Pick<BenchDeviceOptions, 'peer' | 'device'> {
  /** The folder that figures and charts go to. */
  readonly out: string;
}

/** Each in its own process. @returns the exit code: 130 if Ctrl-C ended it; what was measured before is written */
export async function benchAll({ out, peer, device }: BenchAllOptions): Promise<number> {
  const today = new Date().toISOString().slice(0, 10);
  const on = device === undefined ? [] : ['--device', device];
  const beside = peer === undefined ? [] : ['--peer', peer];
  const path = (name: string): string => join(out, `${name}-${today}`);
  const written = (name: string): string[] => ['--json', `${path(name)}.json`, '--svg', `${path(name)}.svg`];
  for (const args of [
    ['kernels', '--vendor', ...beside, ...on, ...written('kernels')],
    ['train', ...beside, ...on, ...written('train')],
    ...(onGpu(device)
      ? ['matmul', 'conv', 'transpose'].map((name) => [name, ...beside, ...on, ...written(name)])
      : []),
    ['mnist', ...on, '--json', `${path('mnist')}.json`],
  ]) {
    const child = spawn(process.execPath, [MAIN, 'bench', ...args], { stdio: 'inherit' });
    const [code] = (await once(child, 'close')) as [number | null];
    if (code !== 0) return code ?? 130;
    process.stdout.write('\n');
  }
  return 0;
}

/** Whether this device, or the one that would be taken, is a GPU. */
const onGpu = (name = env('HEDDLE_DEVICE') || listDevices().find((d) => d.available)?.name): boolean =>
  name?.startsWith('cuda') ?? false;

/** @returns the exit code: 130 if Ctrl-C ended it; what was measured before is written */
export async function benchDevice(which: DeviceBench, options: BenchDeviceOptions): Promise<number> {
  const { peer, vendor = false, device, json, svg, only } = options;
  const onMeasured = (results: DeviceResults): Promise<void> =>
    writeResults(json ?? pathOf(results), results);
  const read = peer === undefined ? new Map() : await readDevicePeers(peer);
  const given = [
    device === undefined ? '' : ` --device ${device}`,
    only ? ` --only ${only.join(',')}` : '',
    vendor ? ' --vendor' : '',
    peer === undefined ? '' : ` --peer ${peer}`,
  ].join('');
  const measured = await watched(async (watch) => {
    const peers = vendor ? await onDevice(device, () => withVendor(read, watch)) : read;
    // Kernels are our own; a network takes what the tuner finds fastest.
    if (which === 'kernels' || which === 'large') process.env.HEDDLE_VENDOR = 'off';
    return onDevice(device, () =>
      measureDevice(which, { given, peers, onMeasured, ...(only && { only }), ...watch }),
    );
  }, 'what was measured before is written');
  if (!measured) return 130;
  await publish(measured.results, measured.report, json);
  if (svg !== undefined) await writeText(svg, chartOf(measured.results));
  return 0;
}

/**
 * These figures and those of the vendor's libraries, where the device has any.
 * @param sticks what they are measured by
 */
async function withVendor(
  peers: DevicePeers,
  { onProgress, signal }: Watch,
  sticks: readonly Yardstick[] = yardsticks(),
): Promise<DevicePeers> {
  const device = realDevice();
  if (device.target.libraries.size === 0) return peers;
  const all = [...peers].map(([name, figure]) => ({ name, ...figure }));
  for await (const figure of measureVendor(device, sticks)) {
    signal.throwIfAborted();
    onProgress(`${figure.peer}: ${figure.case}`);
    if ('us' in figure) all.push({ ...figure, name: figure.case });
  }
  return bestModes(all);
}

export interface BenchVendorOptions {
  readonly device?: string;
}

/** @returns the exit code */
export const benchVendor = ({ device }: BenchVendorOptions): Promise<number> =>
  onDevice(device, async () => {
    for await (const figure of measureVendor(realDevice()))
      process.stdout.write(`${JSON.stringify(figure)}\n`);
    return 0;
  });

/** Run `body` on this device, by default the fastest, and close it. */
async function onDevice<R>(name: string | undefined, body: () => Promise<R>): Promise<R> {
  useDevice(name ?? openDevice().name);
  try {
    return await body();
  } finally {
    await closeDevices();
  }
}

async function measureDevice(
  which: DeviceBench,
  options: DeviceBenchOptions,
): Promise<{ readonly results: DeviceResults; readonly report: string }> {
  if (which !== 'train') {
    const results = await runKernelsBench(options, which);
    return { results, report: kernelsReport(results) };
  }
  const results = await runTrainBench(options);
  return { results, report: trainReport(results) };
}

/** Of `heddle bench matmul`, `heddle bench conv` and `heddle bench transpose`. */
export interface BenchLadderOptions extends Omit<BenchDeviceOptions, 'vendor'> {
  readonly sizes?: readonly number[];
}

/** @returns the exit code: 130 if Ctrl-C ended it, with nothing written */
export function benchMatmul(options: BenchLadderOptions): Promise<number> {
  const { sizes = LADDER_SIZES } = options;
  const sticks = yardsticks().filter(({ case: name }) =>
    sizes.some((n) => /^gemm \w+ (\d+)$/.exec(name)?.[1] === String(n)),
  );
  return climb(options, sizes, sticks, runMatmulBench);
}

/** @returns the exit code: 130 if Ctrl-C ended it, with nothing written */
export function benchConv(options: BenchLadderOptions): Promise<number> {
  const { sizes = CONV_SIZES } = options;
  return climb(options, sizes, ladderYardsticks(sizes), runConvBench);
}

/** The vendor's libraries by these yardsticks, then the ladder, by our own kernels alone. */
async function climb(
  options: BenchLadderOptions,
  sizes: readonly number[],
  sticks: readonly Yardstick[],
  run: (options: LadderOptions) => Promise<LadderResults>,
): Promise<number> {
  const { peer, device } = options;
  const read = peer === undefined ? new Map() : await readDevicePeers(peer);
  const results = await watched(async (watch) => {
    const peers = await onDevice(device, () => withVendor(read, watch, sticks));
    process.env.HEDDLE_VENDOR = 'off';
    return onDevice(device, () => run({ ...ladderOptions(options, sizes), peers, ...watch }));
  });
  if (!results) return 130;
  await publish(results, productsReport(results), options.json);
  if (options.svg !== undefined) await writeText(options.svg, ladderChart(results));
  return 0;
}

/** @returns the exit code: 130 if Ctrl-C ended it, with nothing written */
export const benchTranspose = (options: BenchLadderOptions): Promise<number> =>
  onDevice(options.device, async () => {
    const { peer, sizes = TRANSPOSE_SIZES } = options;
    const peers = peer === undefined ? new Map() : await readDevicePeers(peer);
    const results = await watched((watch) =>
      runTransposeBench({ ...ladderOptions(options, sizes), peers, ...watch }),
    );
    if (!results) return 130;
    await publish(results, transposeReport(results), options.json);
    if (options.svg !== undefined) await writeText(options.svg, ladderChart(results));
    return 0;
  });

function ladderOptions(
  { device, only, peer }: BenchLadderOptions,
  sizes: readonly number[],
): Pick<LadderOptions, 'sizes' | 'only' | 'given'> {
  const given = [
    device === undefined ? '' : ` --device ${device}`,
    ` --sizes ${sizes.join(',')}`,
    only ? ` --only '${only.join(',')}'` : '',
    peer === undefined ? '' : ` --peer ${peer}`,
  ].join('');
  return { sizes, given, ...(only && { only }) };
}

export interface BenchMnistOptions extends Omit<MnistBenchOptions, 'onProgress' | 'signal'> {
  /** Where the results go. Default: `bench/results/mnist-<date>.json`. */
  readonly json?: string;
}

/** @returns the exit code: 130 if Ctrl-C ended it, with nothing written */
export async function benchMnist({ json, ...options }: BenchMnistOptions): Promise<number> {
  const results = await watched((watch) => runMnistBench({ ...options, ...watch }));
  if (!results) return 130;
  await publish(results, mnistReport(results), json);
  return 0;
}

export interface BenchStartOptions extends Omit<StartBenchOptions, 'onProgress' | 'signal'> {
  /** Where the results go. Default: `bench/results/start-<date>.json`. */
  readonly json?: string;
}

/** @returns the exit code: 130 if Ctrl-C ended it, with nothing written */
export async function benchStart({ json, ...options }: BenchStartOptions): Promise<number> {
  const results = await watched((watch) => runStartBench({ ...options, ...watch }));
  if (!results) return 130;
  await publish(results, startReport(results), json);
  return 0;
}

export interface BenchFeedOptions extends Pick<FeedBenchOptions, 'only' | 'steps' | 'rounds' | 'workers'> {
  /** A file of another library's figures. */
  readonly peer?: string;
  readonly device?: string;
  /** Where the results go. Default: `bench/results/feed-<date>.json`. */
  readonly json?: string;
}

/** @returns the exit code: 130 if Ctrl-C ended it, with nothing written */
export async function benchFeed({ peer, device, json, ...options }: BenchFeedOptions): Promise<number> {
  const peers = peer === undefined ? undefined : await readFeedPeers(peer);
  const { only, steps, rounds, workers } = options;
  const given = [
    device === undefined ? '' : ` --device ${device}`,
    only ? ` --only ${only.join(',')}` : '',
    ` --steps ${steps} --rounds ${rounds} --workers ${workers}`,
    peer === undefined ? '' : ` --peer ${peer}`,
  ].join('');
  return onDevice(device, async () => {
    const results = await watched((watch) =>
      runFeedBench({ ...options, given, ...(peers && { peers }), ...watch }),
    );
    if (!results) return 130;
    await publish(results, feedReport(results), json);
    return 0;
  });
}

export interface BenchInferenceOptions extends Pick<InferenceBenchOptions, 'only' | 'seconds' | 'rounds'> {
  readonly python: string;
  /** false: Heddle alone. */
  readonly peers: boolean;
  readonly device?: string;
  /** Where the results go. Default: `bench/results/inference-<date>.json`. */
  readonly json?: string;
}

/** @returns the exit code: 130 if Ctrl-C ended it, with nothing written */
export async function benchInference(options: BenchInferenceOptions): Promise<number> {
  const { python, peers, device, json, ...rest } = options;
  const given = [
    device === undefined ? '' : ` --device ${device}`,
    rest.only ? ` --only ${rest.only.join(',')}` : '',
    ` --seconds ${rest.seconds} --rounds ${rest.rounds}`,
    peers ? '' : ' --no-peers',
  ].join('');
  return onDevice(device, async () => {
    const results = await watched((watch) =>
      runInferenceBench({ ...rest, given, python: peers ? python : undefined, ...watch }),
    );
    if (!results) return 130;
    await publish(results, inferenceReport(results), json);
    return 0;
  });
}

export interface BenchServeOptions extends Omit<ServeBenchOptions, 'given' | 'onProgress' | 'signal'> {
  /** A device's name. Default: the current one. */
  readonly device?: string;
  /** Where the results go. Default: `bench/results/serve-<date>.json`. */
  readonly json?: string;
}

/** @returns the exit code: 130 if Ctrl-C ended it, with nothing written */
export async function benchServe({ json, device, ...options }: BenchServeOptions): Promise<number> {
  const { only, seconds, rounds, clients } = options;
  const given = [
    device === undefined ? '' : ` --device ${device}`,
    only ? ` --only ${only.join(',')}` : '',
    ` --seconds ${seconds} --rounds ${rounds} --clients ${clients}`,
  ].join('');
  // The engine alone gets as many threads as the service leaves to its models.
  process.env.HEDDLE_THREADS ??= String(Math.max(1, availableParallelism() - 1));
  return onDevice(device, async () => {
    const results = await watched((watch) => runServeBench({ ...options, given, ...watch }));
    if (!results) return 130;
    await publish(results, serveReport(results), json);
    return 0;
  });
}

type Dated = { readonly benchmark: string; readonly date: string };

const pathOf = ({ benchmark, date }: Dated): string => `bench/results/${benchmark}-${date.slice(0, 10)}.json`;

async function publish(results: Dated, report: string, json = pathOf(results)): Promise<void> {
  process.stdout.write(`${report}\n`);
  await writeResults(json, results);
  process.stdout.write(`\nWritten to ${json}\n`);
}

interface Watch {
  readonly onProgress: (what: string) => void;
  readonly signal: AbortSignal;
}

/**
 * Say on stderr what is being done, and let Ctrl-C end it.
 * @param left what is said then
 * @returns undefined then
 */
async function watched<R>(
  run: (watch: Watch) => Promise<R>,
  left = 'nothing was written',
): Promise<R | undefined> {
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
    stderr.write(`Stopped by Ctrl-C; ${left}.\n`);
    return undefined;
  } finally {
    process.off('SIGINT', stop);
  }
}
