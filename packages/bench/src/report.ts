/** Benchmark results as tables for a terminal. */
import type { Circumstances } from 'heddle/internal/cli/figures.js';
import { duration, percent, table } from 'heddle/internal/cli/format.js';
import type { AccuracyResults } from './accuracy.js';
import type { DeviceMeasurement, DeviceResults, TrainMeasurement } from './device.js';
import type { LadderResults } from './matmul.js';
import type { MnistResults } from './mnist.js';
import { namesOf } from './peers.js';
import type { CpuResults, Measurement } from './results.js';
import type { StartResults } from './start.js';
import type { TransposeResults } from './transpose.js';

export function cpuReport(results: CpuResults): string {
  const { measurements, skipped } = results;
  const peer = measurements.find((m) => m.peer)?.peer;
  const rows = measurements.map((m) => [
    m.title,
    String(m.threads),
    m.fma ? 'yes' : 'no',
    withUnit(m, m.median),
    withUnit(m, m.min),
    withUnit(m, m.p90),
    m.rate ? `${m.rate.value.toFixed(1)} ${m.rate.unit}` : '',
    m.launches === undefined ? '' : String(m.launches),
    ...(peer ? (m.peer ? [withUnit(m, m.peer.median), m.peer.ratio.toFixed(2)] : ['', '']) : []),
  ]);
  const header = ['workload', 'threads', 'FMA', 'median', 'min', 'p90', 'rate', 'launches'];
  if (peer) header.push(`${peer.peer} ${peer.version}`, 'ratio');
  return [
    place(results),
    '',
    table(header, rows),
    ...(peer ? ['', `ratio: Heddle / ${peer.peer}; below 1 Heddle takes less.`] : []),
    ...skipped.map(({ case: id, reason }) => `${id} was skipped: ${reason}`),
  ].join('\n');
}

export const accuracyReport = (results: AccuracyResults): string =>
  [
    place(results),
    results.device.description,
    '',
    table(
      ['program', 'recipe', 'seed', 'epochs', 'test accuracy', 'best', 'training', 'images/s'],
      results.runs.map((run) => [
        run.program,
        run.recipe,
        String(run.seed),
        String(run.epochs.length),
        percent(run.accuracy),
        percent(Math.max(...run.epochs.map((e) => e.accuracy))),
        `${run.seconds.toFixed(1)} s`,
        String(Math.round(run.imagesPerSecond)),
      ]),
    ),
  ].join('\n');

export function kernelsReport({ ceilings, ...results }: DeviceResults): string {
  const { copy, products } = ceilings!;
  const best = Object.entries(products).map(([precision, rate]) => `${precision} ${si(rate)}FLOP/s`);
  return [
    place(results),
    results.device.description,
    `ceilings: copy ${si(copy)}B/s, matrix products ${best.join(', ')}`,
    '',
    deviceTable(results.measurements, {
      'FLOP/s': ({ gflops }) => (gflops === undefined ? '' : si(gflops)),
      'B/s': ({ gigabytes }) => (gigabytes === undefined ? '' : si(gigabytes)),
      'of ceiling': ({ ofCeiling }) => (ofCeiling ? percent(ofCeiling) : ''),
    }),
  ].join('\n');
}

export const trainReport = (results: DeviceResults<TrainMeasurement>): string =>
  [
    place(results),
    results.device.description,
    '',
    deviceTable(results.measurements, {
      device: ({ device }) => microseconds(device.median),
      calls: ({ calls }) => microseconds(calls.median),
      host: ({ host }) => microseconds(host.median),
      launches: ({ launches }) => String(launches),
    }),
    '',
    'µs: of a step when many are started at once, by the clock · device: by its events · calls: with a call each · ' +
      'host: of a call until it returns.',
  ].join('\n');

export const mnistReport = (results: MnistResults): string =>
  [
    place(results),
    results.device.description,
    '',
    table(
      ['run', 'cache', 'test accuracy', 'an epoch', 'training', 'process'],
      results.runs.map(({ title, cache, accuracy, epoch, training, process }) => [
        title,
        cache,
        [...new Set([Math.min(...accuracy), Math.max(...accuracy)])].map(percent).join(' to '),
        epoch ? `${epoch.median.toFixed(3)} s` : '',
        `${duration(training.median)} s`,
        `${duration(process.median)} s`,
      ]),
    ),
    '',
    'an epoch: with its test, the first left out · training: from the first step to the end of the last test, ' +
      'compiling included · process: all of `heddle train`.',
  ].join('\n');

export const startReport = (results: StartResults): string =>
  [
    place(results),
    results.device.description,
    '',
    table(
      ['first step of', 'cache', 'total', 'imports', 'build', 'step', 'next step', 'of these'],
      results.starts.map(({ title, cache, total, imports, build, first, second, phases }) => [
        ...[title, cache],
        ...[total.median, imports, build, first, second].map((ms) => `${duration(ms / 1000)} s`),
        Object.entries(phases)
          .map(([phase, ms]) => `${phase} ${ms.toFixed(0)}`)
          .join(', '),
      ]),
    ),
    '',
    'total: from the start of the process to the value of the first loss · build: device, model and data · of these: ms of ' +
      'the phases that HEDDLE_DEBUG=1 prints (core/phases.ts).',
  ].join('\n');

/** Of `heddle bench matmul` and `heddle bench conv`. */
export const productsReport = (results: LadderResults): string =>
  [
    place(results),
    results.device.description,
    '',
    table(
      ['rung', results.benchmark === 'conv' ? 'channels' : 'size', 'µs', 'FLOP/s', 'of the best f32 peer'],
      results.steps.map(({ rung, size, median, gflops, ofPeer }) => [
        rung,
        results.benchmark === 'conv' ? `${size}` : `${size}³`,
        microseconds(median),
        si(gflops),
        ofPeer === undefined ? '' : percent(ofPeer),
      ]),
    ),
  ].join('\n');

export const transposeReport = (results: TransposeResults): string =>
  [
    place(results),
    results.device.description,
    '',
    table(
      ['rung', 'size', 'µs', 'B/s', 'of the copy'],
      results.steps.map(({ rung, size, median, gigabytes, ofCopy }) => [
        rung,
        `${size}²`,
        microseconds(median),
        si(gigabytes),
        percent(ofCopy),
      ]),
    ),
  ].join('\n');

/** Cases with their time, columns of their own, and the peer's if there are any. */
function deviceTable<M extends DeviceMeasurement>(
  measurements: readonly M[],
  columns: Readonly<Record<string, (m: M) => string>>,
): string {
  const peers = namesOf(measurements.map((m) => m.peer));
  const header = ['workload', 'µs', 'min', ...Object.keys(columns)];
  const rows = measurements.map((m) => [
    m.title,
    microseconds(m.median),
    microseconds(m.min),
    ...Object.values(columns).map((cell) => cell(m)),
    ...(peers === '' ? [] : peerCells(m)),
  ]);
  if (peers === '') return table(header, rows);
  header.push('peer, µs', 'its best', 'ratio');
  return `${table(header, rows)}\n\npeer: ${peers} · ratio: Heddle / peer; below 1 Heddle takes less.`;
}

const peerCells = ({ peer }: DeviceMeasurement): string[] =>
  peer ? [microseconds(peer.us), `${peer.peer} ${peer.mode}`, peer.ratio.toFixed(2)] : ['', '', ''];

const microseconds = (us: number): string => us.toFixed(us < 100 ? 2 : us < 1000 ? 1 : 0);

/** Thousands of millions with the prefix that keeps the number short: 51234 → 51.2 T */
const si = (giga: number): string =>
  giga >= 1000 ? `${(giga / 1000).toFixed(1)} T` : `${giga.toFixed(1)} G`;

const place = ({ machine, version, commit }: Circumstances): string =>
  `${machine.cpu}, ${machine.cores} cores, Node ${machine.node}; heddle ${version}${commit ? ` (${commit})` : ''}`;

function withUnit({ unit }: Measurement, value: number): string {
  const digits = value < 1 ? 3 : value < 100 ? 2 : 0;
  return `${value.toFixed(digits)} ${unit}`;
}
