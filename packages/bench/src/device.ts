/** `heddle bench kernels`, `layers` and `train`: device time against the ceilings of the same run. */

import { setImmediate } from 'node:timers/promises';
import { type Ceilings, measureCeilings, realDevice } from 'heddle/internal/cli/ceilings.js';
import {
  type Circumstances,
  circumstances,
  type MeasuredDevice,
  measuredDevice,
  rounded,
  type Spread,
  spreadOf,
} from 'heddle/internal/cli/figures.js';
import type { TrainingSteps } from 'heddle/internal/cli/training-steps.js';
import { ArgumentError } from 'heddle/internal/core/errors.js';
import type { Device } from 'heddle/internal/runtime/device.js';
import {
  type DeviceCase,
  type KernelCase,
  kernelCases,
  TRAIN_CASES,
  unnamedTrainCases,
} from './device-cases.js';
import { LARGE_CASES } from './large-cases.js';
import { layerCases } from './layer-cases.js';
import type { DevicePeers } from './peers.js';
import { selectCases } from './workload.js';

export type DeviceBench = 'kernels' | 'layers' | 'large' | 'train';

export interface DeviceBenchOptions {
  /** Ids of cases, or their first words. Default: all. */
  readonly only?: readonly string[];
  readonly peers?: DevicePeers;
  /** The options as they were given, for the record. */
  readonly given?: string;
  readonly onProgress?: (what: string) => void;
  /** Told of all results so far after each case. */
  readonly onMeasured?: (results: DeviceResults) => Promise<void>;
  readonly signal?: AbortSignal;
}

/** Times in µs. */
export interface DeviceMeasurement extends Spread {
  readonly case: string;
  readonly title: string;
  readonly launches: number;
  readonly gflops?: number;
  readonly gigabytes?: number;
  /** The least time that the ceilings allow / the median. */
  readonly ofCeiling?: number;
  readonly peer?: {
    readonly peer: string;
    readonly version?: string;
    /** The fastest of its modes. */
    readonly mode: string;
    readonly us: number;
    /** Heddle's median / the peer's: below 1 Heddle takes less. */
    readonly ratio: number;
  };
}

export interface TrainMeasurement extends DeviceMeasurement {
  /** By the device's events. */
  readonly device: Spread;
  /** Wall-clock time of a step in a loop of calls. */
  readonly calls: Spread;
  /** Of a call until it returns. */
  readonly host: Spread;
}

export interface DeviceResults<M extends DeviceMeasurement = DeviceMeasurement> extends Circumstances {
  readonly benchmark: DeviceBench;
  readonly device: MeasuredDevice;
  readonly method: string;
  readonly ceilings?: Ceilings;
  readonly measurements: readonly M[];
}

const METHOD = {
  kernels:
    "Own kernels, without the vendor's libraries. Device time by events: a round repeats the compiled program without a wait for about 10 ms; the figures are of " +
    'seven rounds after a warm-up. Random data; matrices of 8192² do not fit in any cache, smaller operands stay there, ' +
    "as between a network's layers. Ceilings are of the same run.",
  layers:
    'Layers and losses: one program computes the result and the gradients of the input and of all weights. Optimizers: an ' +
    'update of 25 million parameters. Device time by events: a round repeats the program without a wait for about 10 ms; the figures are of seven rounds after a warm-up. Ceilings are of the same run.',
  large:
    "Own kernels, without the vendor's libraries, on random data. Device time by events: a round repeats the compiled program without a wait for about 10 ms; the figures are of seven rounds after a warm-up. Ceilings are of the same run.",
  train:
    'A step on a batch that is on the device: forward, backward and the optimizer. The figures are wall-clock time of ' +
    '200 steps (fewer above 2.5 ms) between two synchronisations, started at once as fit does, five rounds after one to ' +
    'warm up. device: by the events of the device. calls: started by a call each. host: a call until it returns, 20 of ' +
    'them on an empty queue, 25 rounds after 100, or half a second, to warm up.',
} as const;

const CASES = {
  kernels: kernelCases,
  layers: layerCases,
  large: (large: boolean): readonly KernelCase[] => {
    if (large) return LARGE_CASES;
    throw new ArgumentError('[bench large] is for GPUs: on a processor, use heddle bench kernels.');
  },
} as const;

/**
 * Device time of kernels, or of layers, losses, ops and optimizers.
 * @throws ArgumentError for a case that does not exist, or on the simulator · the signal's reason
 */
export async function runKernelsBench(
  options: DeviceBenchOptions = {},
  which: keyof typeof CASES = 'kernels',
): Promise<DeviceResults> {
  const device = realDevice();
  const cases = selectCases(CASES[which](isLarge(device)), options.only);
  const before = await ceilingsOf(device, options);
  const timed: { readonly of: KernelCase; readonly spread: Spread; readonly launches: number }[] = [];
  const top = header(which, device, options);
  const results = (): DeviceResults => {
    const ceilings = timed.reduce((known, { of, spread }) => raised(known, of, spread.median), before);
    const measurements = timed.map(({ of, spread, launches }) =>
      measurement(of, spread, launches, options, ceilings),
    );
    return { ...top, ceilings, measurements };
  };
  for (const of of cases) {
    begin(of, options);
    const workload = of.prepare();
    const { us } = await workload.profile({ each: false });
    timed.push({ of, spread: spreadOf(us), launches: workload.launches });
    workload.dispose();
    await options.onMeasured?.(results());
  }
  return results();
}

/**
 * Time of training steps, on the device, in a loop and on the host.
 * @throws ArgumentError for a case that does not exist, or on the simulator · the signal's reason
 */
export async function runTrainBench(
  options: DeviceBenchOptions = {},
): Promise<DeviceResults<TrainMeasurement>> {
  const device = realDevice();
  const measurements: TrainMeasurement[] = [];
  const top = header('train', device, options);
  const cases = options.only ? TRAIN_CASES : unnamedTrainCases(isLarge(device));
  for (const of of selectCases(cases, options.only)) {
    begin(of, options);
    const steps = of.prepare();
    const { us } = await steps.profile({ each: false });
    const together = await loopTimes(device, (count) => steps.repeat(count));
    const calls = await loopTimes(device, (count) => {
      for (let i = 0; i < count; i++) steps.again();
    });
    const host = await hostTimes(device, steps);
    measurements.push({
      ...measurement(of, spreadOf(together), steps.launches, options),
      device: spreadOf(us),
      calls: spreadOf(calls),
      host: spreadOf(host),
    });
    steps.dispose();
    await options.onMeasured?.({ ...top, measurements });
  }
  return { ...top, measurements };
}

const header = (
  benchmark: DeviceBench,
  device: Device,
  { given = '' }: DeviceBenchOptions,
): Omit<DeviceResults, 'measurements' | 'ceilings'> => ({
  benchmark,
  ...circumstances(`npx heddle bench ${benchmark}${given}`),
  device: measuredDevice(device),
  method: METHOD[benchmark],
});

/** Whether sizes for a GPU make sense. */
const isLarge = (device: Device): boolean => device.target.model === 'threads';

function begin({ title }: DeviceCase, { onProgress, signal }: DeviceBenchOptions): void {
  signal?.throwIfAborted();
  onProgress?.(title);
}

function measurement(
  of: DeviceCase,
  spread: Spread,
  launches: number,
  { peers }: DeviceBenchOptions,
  ceilings?: Ceilings,
): DeviceMeasurement {
  const { flops, bytes } = of;
  const known = peers?.get(of.peer);
  const least = ceilings && leastUs(of, ceilings);
  return {
    case: of.id,
    title: of.title,
    ...spread,
    launches,
    ...(flops !== undefined && { gflops: rounded(flops / spread.median / 1e3) }),
    ...(bytes !== undefined && { gigabytes: rounded(bytes / spread.median / 1e3) }),
    ...(least && { ofCeiling: rounded(least / spread.median) }),
    ...(known && { peer: { ...known, ratio: rounded(spread.median / known.us) } }),
  };
}

// ── ceilings ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** What this device reaches now; a peer's figures count, too. */
async function ceilingsOf(device: Device, options: DeviceBenchOptions): Promise<Ceilings> {
  options.onProgress?.('ceilings: copy, matrix products');
  let ceilings = await measureCeilings(device);
  for (const of of kernelCases(isLarge(device))) {
    const known = options.peers?.get(of.peer);
    if (known) ceilings = raised(ceilings, of, known.us);
  }
  return ceilings;
}

/** With what this time of a case shows to be possible. */
function raised(ceilings: Ceilings, { id, flops, bytes, precision }: DeviceCase, us: number): Ceilings {
  if (id.startsWith('copy-'))
    return { ...ceilings, copy: Math.max(ceilings.copy, rounded(bytes! / us / 1e3)) };
  if (!id.startsWith('matmul-') || !precision) return ceilings;
  const rate = Math.max(ceilings.products[precision] ?? 0, rounded(flops! / us / 1e3));
  return { ...ceilings, products: { ...ceilings.products, [precision]: rate } };
}

/** The roofline: as long as memory takes, or arithmetic. S. Williams et al. (2009) */
function leastUs({ flops = 0, bytes = 0, precision = 'f32' }: DeviceCase, ceilings: Ceilings): number {
  const arithmetic = ceilings.products[precision];
  return Math.max(bytes / ceilings.copy, arithmetic ? flops / arithmetic : 0) / 1e3;
}

// ── training steps ───────────────────────────────────────────────────────────────────────────────────────────────

const LOOP = { steps: 200, rounds: 5, warmup: 10, mostUs: 500_000 } as const;
/** Rounds of so few steps that they fit into any queue. */
const HOST = { steps: 20, rounds: 25, warmup: 100 } as const;

/** Wall-clock time of each of the steps that `run` starts, in µs: a sample for each round. */
async function loopTimes(device: Device, run: (count: number) => void): Promise<number[]> {
  const loop = async (count: number): Promise<number> => {
    await device.synchronize();
    const start = performance.now();
    run(count);
    await device.synchronize();
    return ((performance.now() - start) * 1e3) / count;
  };
  const count = Math.ceil(Math.min(LOOP.steps, LOOP.mostUs / (await loop(LOOP.warmup))));
  await loop(count);
  const times: number[] = [];
  for (let i = 0; i < LOOP.rounds; i++) {
    times.push(await loop(count));
    await setImmediate();
  }
  return times;
}

/** Time of a call until it returns, in µs: a sample for each round, once V8 knows the code. */
async function hostTimes(device: Device, steps: TrainingSteps): Promise<number[]> {
  const round = async (): Promise<number> => {
    await device.synchronize();
    const start = performance.now();
    for (let k = 0; k < HOST.steps; k++) steps.again();
    return ((performance.now() - start) * 1e3) / HOST.steps;
  };
  const end = performance.now() + LOOP.mostUs / 1e3;
  for (let i = 0; i < HOST.warmup && performance.now() < end; i++) await round();
  const times: number[] = [];
  for (let i = 0; i < HOST.rounds; i++) times.push(await round());
  return times;
}
