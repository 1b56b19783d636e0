/**
 * Benchmark results as one picture: how many times faster than the peer each case is, or else how near its ceiling; of
 * ladders, the rate of each rung.
 */

import { escaped } from 'heddle/internal/cli/svg.js';
import type { DeviceMeasurement, DeviceResults } from './device.js';
import type { LadderResults } from './matmul.js';
import { namesOf } from './peers.js';
import type { TransposeResults } from './transpose.js';

const ROW = 22;
const LABEL = 330;
const BARS = 360;
const RIGHT = 150;
const TOP = 64;

/** What is drawn: a bar's length is `value`, and `mark` is where a line stands for what it is compared with. */
interface Scale {
  readonly title: string;
  readonly mark: number;
  readonly value: (m: DeviceMeasurement) => number | undefined;
  readonly text: (m: DeviceMeasurement, value: number) => string;
}

interface Bar {
  readonly label: string;
  readonly value: number;
  readonly text: string;
}

interface Chart {
  readonly title: string;
  /** Where a dashed line stands; bars that reach it are green. */
  readonly mark: number;
  readonly bars: readonly Bar[];
}

/** Of `heddle bench kernels` and `heddle bench train`. */
export function chartOf(results: DeviceResults): string {
  const scale = scaleOf(results.measurements);
  const bars = results.measurements.flatMap((m): Bar[] => {
    const value = scale.value(m);
    return value === undefined ? [] : [{ label: m.title, value, text: scale.text(m, value) }];
  });
  return draw(results, { ...scale, bars });
}

/** Of the ladder at its largest size; of products, those in f32, since tensor cores would dwarf them. */
export function ladderChart(results: LadderResults | TransposeResults): string {
  const size = Math.max(...results.steps.map((s) => s.size));
  if (results.benchmark === 'transpose') {
    const steps = results.steps.filter((s) => s.size === size);
    return draw(results, {
      title: `GB/s at ${size}² (dashed: a copy)`,
      mark: steps.find((s) => s.rung === 'copy')?.gigabytes ?? 0,
      bars: steps.map(({ rung, gigabytes, median }) => ({
        ...{ label: rung, value: gigabytes },
        text: `${short(gigabytes)} GB/s (${short(median)} µs)`,
      })),
    });
  }
  const steps = results.steps.filter((s) => s.size === size && !/tf32|f16|fp16/.test(s.rung));
  const best = steps.find((s) => s.ofPeer !== undefined);
  return draw(results, {
    title: `TFLOP/s at ${size}³, f32${best ? ' (dashed: the fastest peer)' : ''}`,
    mark: best ? best.gflops / 1000 / best.ofPeer! : 0,
    bars: steps.map(({ rung, gflops, median }) => ({
      ...{ label: rung, value: gflops / 1000 },
      text: `${short(gflops / 1000)} TFLOP/s (${short(median)} µs)`,
    })),
  });
}

/** An SVG that stands for itself: no scripts, no fonts to load, readable on light and dark ground. */
function draw(
  { benchmark, device, date }: Pick<DeviceResults, 'device' | 'date'> & { readonly benchmark: string },
  { title, mark: marked, bars }: Chart,
): string {
  const longest = Math.max(marked, ...bars.map(({ value }) => value));
  const x = (value: number): number => Math.round(LABEL + (BARS * value) / longest);
  const [width, height] = [LABEL + BARS + RIGHT, TOP + ROW * bars.length + 16];
  const rows = bars.map(({ label, value, text }, i) => {
    const y = TOP + ROW * i;
    const color = value >= marked ? '#2f9e44' : '#e8590c';
    return [
      `<text x="${LABEL - 8}" y="${y + 14}" text-anchor="end">${escaped(label)}</text>`,
      `<rect x="${LABEL}" y="${y + 2}" width="${Math.max(1, x(value) - LABEL)}" height="${ROW - 6}" rx="2" fill="${color}"/>`,
      `<text x="${x(value) + 6}" y="${y + 14}">${escaped(text)}</text>`,
    ].join('');
  });
  const mark = x(marked);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12" fill="#868e96" role="img" aria-label="${escaped(title)}">`,
    `<text x="8" y="22" font-size="15" font-weight="600">heddle bench ${benchmark}: ${escaped(title)}</text>`,
    `<text x="8" y="42">${escaped(device.description)}, ${date.slice(0, 10)}</text>`,
    ...rows,
    `<line x1="${mark}" x2="${mark}" y1="${TOP - 6}" y2="${height - 10}" stroke="#868e96" stroke-dasharray="3 3"/>`,
    '</svg>\n',
  ].join('\n');
}

function scaleOf(measurements: readonly DeviceMeasurement[]): Scale {
  const peers = namesOf(measurements.map((m) => m.peer));
  if (peers !== '') {
    return {
      title: `times as fast as the best of ${peers} (dashed: 1×)`,
      mark: 1,
      value: (m) => m.peer && m.peer.us / m.median,
      text: (m, value) => `${value.toFixed(2)}× (${short(m.median)} µs)`,
    };
  }
  if (measurements.some((m) => m.ofCeiling !== undefined)) {
    return {
      title: 'share of what the ceilings of the same run allow (dashed: 100 %)',
      mark: 1,
      value: (m) => m.ofCeiling,
      text: (m, value) => `${(100 * value).toFixed(0)} % (${short(m.median)} µs)`,
    };
  }
  return { title: 'µs', mark: 0, value: (m) => m.median, text: (m) => `${short(m.median)} µs` };
}

const short = (us: number): string => us.toFixed(us < 100 ? 1 : 0);
