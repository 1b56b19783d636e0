/** Benchmark results as tables for a terminal. */
import type { AccuracyResults } from './bench-accuracy.js';
import type { Circumstances, CpuResults, Measurement } from './bench-results.js';
import { percent, table } from './format.js';

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

const place = ({ machine, version, commit }: Circumstances): string =>
  `${machine.cpu}, ${machine.cores} cores, Node ${machine.node}; heddle ${version}${commit ? ` (${commit})` : ''}`;

function withUnit({ unit }: Measurement, value: number): string {
  const digits = value < 1 ? 3 : value < 100 ? 2 : 0;
  return `${value.toFixed(digits)} ${unit}`;
}
