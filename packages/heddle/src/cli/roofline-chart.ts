/** A profile as a roofline: S. Williams et al., Roofline: an insightful visual performance model (2009). */
import type { LaunchFigures } from './launch-figures.js';
import type { StepProfile } from './step-profile.js';
import { escaped } from './svg.js';

const [LEFT, TOP, WIDTH, HEIGHT] = [64, 64, 640, 380];
const COLORS: Readonly<Record<string, string>> = {
  f32: '#1971c2',
  tf32: '#e8590c',
  bf16: '#2f9e44',
  f16: '#74b816',
};
/** Launches labelled with their name: those that take longest. */
const NAMED = 6;
/** Radius of a launch that takes all of the time; its area goes with its share. */
const LARGEST = 26;

interface Point {
  readonly launch: LaunchFigures;
  /** Floating-point operations per byte, and per second in billions. */
  readonly intensity: number;
  readonly rate: number;
}

/**
 * Each launch that computes, by its operations per byte and per second, both axes logarithmic, under the roofs of
 * memory and of each precision's products. An SVG that stands for itself.
 */
export function rooflineChart({ profile, batchSize, device, date, ceilings, launches }: StepProfile): string {
  const points = launches.flatMap((launch): Point[] => {
    const { flops = 0, bytes, us } = launch;
    return flops > 0 && bytes > 0 && us > 0
      ? [{ launch, intensity: flops / bytes, rate: flops / us / 1e3 }]
      : [];
  });
  const roofs = Object.entries(ceilings.products);
  const x = logScale(
    [...points.map((p) => p.intensity), ...roofs.map(([, top]) => top / ceilings.copy)],
    LEFT,
    WIDTH,
  );
  const y = logScale([...points.map((p) => p.rate), ...roofs.map(([, top]) => top)], TOP + HEIGHT, -HEIGHT);
  const longest = [...points].sort((a, b) => b.launch.share - a.launch.share).slice(0, NAMED);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${LEFT + WIDTH + 96} ${TOP + HEIGHT + 48}" font-family="system-ui, sans-serif" font-size="12" fill="#868e96" role="img" aria-label="roofline of ${escaped(profile)}">`,
    `<text x="8" y="22" font-size="15" font-weight="600">heddle profile ${escaped(profile)}, batch ${batchSize}: each launch under the roofline</text>`,
    `<text x="8" y="42">${escaped(device.description)}, ${date.slice(0, 10)}</text>`,
    ...x.ticks.map(
      (v) =>
        `<line x1="${x.at(v)}" x2="${x.at(v)}" y1="${TOP}" y2="${TOP + HEIGHT}" stroke="#868e96" opacity=".2"/><text x="${x.at(v)}" y="${TOP + HEIGHT + 18}" text-anchor="middle">${v}</text>`,
    ),
    ...y.ticks.map(
      (v) =>
        `<line x1="${LEFT}" x2="${LEFT + WIDTH}" y1="${y.at(v)}" y2="${y.at(v)}" stroke="#868e96" opacity=".2"/><text x="${LEFT - 8}" y="${y.at(v) + 4}" text-anchor="end">${v >= 1000 ? `${v / 1000} T` : `${v} G`}</text>`,
    ),
    `<text x="${LEFT + WIDTH / 2}" y="${TOP + HEIGHT + 38}" text-anchor="middle">operations per byte</text>`,
    `<text x="${LEFT}" y="${TOP - 6}" text-anchor="end">FLOP/s</text>`,
    ...roofs.map(([precision, top]) => {
      const ridge = top / ceilings.copy;
      const from = Math.max(x.least, y.least / ceilings.copy);
      const path = `M${x.at(from)} ${y.at(from * ceilings.copy)} L${x.at(ridge)} ${y.at(top)} H${LEFT + WIDTH}`;
      const color = COLORS[precision] ?? '#868e96';
      return `<path d="${path}" fill="none" stroke="${color}" stroke-width="1.5"/><text x="${LEFT + WIDTH + 6}" y="${y.at(top) + 4}" fill="${color}">${precision}</text>`;
    }),
    ...points.map(({ launch, intensity, rate }) => {
      const radius = Math.max(2, LARGEST * Math.sqrt(launch.share)).toFixed(1);
      const says = `${launch.name}: ${launch.us.toFixed(2)} µs, ${(100 * launch.ofRoofline).toFixed(0)} % of the roofline`;
      return `<circle cx="${x.at(intensity)}" cy="${y.at(rate)}" r="${radius}" fill="${COLORS[launch.precision]}" fill-opacity=".45"><title>${escaped(says)}</title></circle>`;
    }),
    ...longest.map(
      ({ launch, intensity, rate }) =>
        `<text x="${x.at(intensity) + 6}" y="${y.at(rate) - 8}">${escaped(launch.name)}</text>`,
    ),
    '</svg>\n',
  ].join('\n');
}

/** Powers of ten around these values, over `length` from `start` on. */
function logScale(values: readonly number[], start: number, length: number) {
  const low = Math.floor(Math.log10(Math.min(...values)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values))));
  return {
    least: 10 ** low,
    ticks: Array.from({ length: high - low + 1 }, (_, i) => Number(`1e${low + i}`)),
    at: (value: number): number => Math.round(start + (length * (Math.log10(value) - low)) / (high - low)),
  };
}
