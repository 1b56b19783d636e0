/**
 * Benchmark results as one picture: how many times faster than the peer each case is, or else how near its ceiling; of
 * ladders, the rate of each rung.
 */

import { type Bar, type BarChart, barChart } from 'heddle-look';
import type { DeviceMeasurement, DeviceResults } from './device.js';
import type { LadderResults } from './matmul.js';
import { namesOf } from './peers.js';
import type { TransposeResults } from './transpose.js';

/** What is drawn: a bar's length is `value`, and `mark` is a line at what it is compared with. */
interface Scale extends Pick<BarChart, 'title' | 'x' | 'mark'> {
  readonly value: (m: DeviceMeasurement) => number | undefined;
  readonly text: (m: DeviceMeasurement, value: number) => string;
}

/** The chart of a file of figures. */
export const chartOfResults = (results: DeviceResults | LadderResults | TransposeResults): string =>
  'steps' in results ? ladderChart(results) : chartOf(results);

/** Of `heddle bench kernels` and `heddle bench train`. */
export function chartOf(results: DeviceResults): string {
  const scale = scaleOf(results.measurements);
  const bars = results.measurements.flatMap((m): Bar[] => {
    const value = scale.value(m);
    return value === undefined ? [] : [{ label: m.title, value, text: scale.text(m, value) }];
  });
  return draw(results, { ...scale, bars });
}

/** Of the ladder at its largest size; of products and convolutions, those in f32, since tensor cores would dwarf them. */
export function ladderChart(results: LadderResults | TransposeResults): string {
  const size = Math.max(...results.steps.map((s) => s.size));
  if (results.benchmark === 'transpose') {
    const steps = results.steps.filter((s) => s.size === size);
    return draw(results, {
      title: `the ladder at ${size}²`,
      x: 'bytes read and written per second (GB/s)',
      mark: markAt(steps.find((s) => s.rung === 'copy')?.gigabytes, 'a copy'),
      bars: steps.map(({ rung, gigabytes, median }) => ({
        ...{ label: rung, value: gigabytes },
        text: `${short(gigabytes)} GB/s (${short(median)} µs)`,
      })),
    });
  }
  const steps = results.steps.filter(
    (s) => s.size === size && !s.arithmetic && !/tf32|f16|fp16|tensor cores/.test(s.rung),
  );
  const best = steps.find((s) => s.ofPeer !== undefined);
  return draw(results, {
    title: `the ladder at ${results.benchmark === 'conv' ? `${size} channels` : `${size}³`}, f32`,
    x: 'rate (TFLOP/s)',
    mark: markAt(best && best.gflops / 1000 / best.ofPeer!, 'the fastest peer'),
    bars: steps.map(({ rung, gflops, median }) => ({
      ...{ label: rung, value: gflops / 1000 },
      text: `${short(gflops / 1000)} TFLOP/s (${short(median)} µs)`,
    })),
  });
}

const markAt = (value: number | undefined, name: string): BarChart['mark'] =>
  value === undefined ? undefined : { value, name };

/** The chart, under what was measured where and when. */
const draw = (
  { benchmark, device, date }: Pick<DeviceResults, 'device' | 'date'> & { readonly benchmark: string },
  { title, ...chart }: BarChart,
): string =>
  barChart({
    title: `heddle bench ${benchmark}: ${title}`,
    subtitle: `${device.description}, ${date.slice(0, 10)}`,
    ...chart,
  });

function scaleOf(measurements: readonly DeviceMeasurement[]): Scale {
  const peers = namesOf(measurements.map((m) => m.peer));
  if (peers !== '') {
    return {
      title: `times as fast as the best of ${peers}`,
      x: 'time of the peer ÷ time of Heddle',
      mark: markAt(1, 'as fast'),
      value: (m) => m.peer && m.peer.us / m.median,
      text: (m, value) => `${value.toFixed(2)}× (${short(m.median)} µs)`,
    };
  }
  if (measurements.some((m) => m.ofCeiling !== undefined)) {
    return {
      title: 'share of what the ceilings of the same run allow',
      x: 'least time that the ceilings allow ÷ time',
      mark: markAt(1, '100 %'),
      value: (m) => m.ofCeiling,
      text: (m, value) => `${(100 * value).toFixed(0)} % (${short(m.median)} µs)`,
    };
  }
  return {
    title: 'times',
    x: 'time (µs)',
    mark: undefined,
    value: (m) => m.median,
    text: (m) => `${short(m.median)} µs`,
  };
}

const short = (us: number): string => us.toFixed(us < 100 ? 1 : 0);
