/** A profile as a roofline: S. Williams et al., Roofline: an insightful visual performance model (2009). */
import { FONT_SIZE, legendOf, type PictureOptions, picture } from './chart.js';
import { digits, prefixed } from './numbers.js';
import { INK, MUTED, SERIES } from './palette.js';

/** A training step, launch by launch, as `heddle profile` measures it. */
export interface Profile {
  /** The network. */
  readonly profile: string;
  /** Examples of the step. */
  readonly batchSize: number;
  /** What it ran on. */
  readonly device: { readonly description: string };
  /** In ISO 8601. */
  readonly date: string;
  /** GB/s of a copy, and GFLOP/s of products by their arithmetic. */
  readonly ceilings: { readonly copy: number; readonly products: Readonly<Record<string, number>> };
  /** In the order in which they ran. */
  readonly launches: readonly {
    readonly name: string;
    /** Microseconds. */
    readonly us: number;
    /** Of the time of all launches, from 0 to 1. */
    readonly share: number;
    /** Read and written. */
    readonly bytes: number;
    /** Floating-point operations. */
    readonly flops?: number;
    /** What products are computed in. */
    readonly precision: string;
  }[];
}

const HEIGHT = 400;
/** Launches labelled with their name: those that take longest. */
const NAMED = 6;
/** Diameter of a launch that takes all of the time; its area goes with its share. */
const LARGEST = 52;
/** The colour of each arithmetic stays the same from chart to chart. */
const PRECISIONS = ['f32', 'tf32', 'bf16', 'f16', 'i8'];

/**
 * Each launch that computes, by its operations per byte and per second, both axes logarithmic, under the roofs of
 * memory and of each precision's products (S. Williams, A. Waterman and D. Patterson, Roofline, 2009). The area of a circle is
 * the share of the time.
 * @param step what `heddle profile --json` writes
 * @returns the text of an SVG
 */
export function rooflineChart(step: Profile, options: PictureOptions = {}): string {
  const { profile, batchSize, device, date, ceilings, launches } = step;
  const points = launches.flatMap(({ name, us, share, bytes, flops = 0, precision }) =>
    flops > 0 && bytes > 0 && us > 0
      ? [{ name, share, precision, at: [flops / bytes, (1e6 * flops) / us] as const }]
      : [],
  );
  const roofs = Object.entries(ceilings.products).map(([precision, rate]) => ({
    precision,
    top: 1e9 * rate,
    ridge: rate / ceilings.copy,
  }));
  const x = decades([...points.map(({ at }) => at[0]), ...roofs.map(({ ridge }) => ridge)]);
  const y = decades([...points.map(({ at }) => at[1]), ...roofs.map(({ top }) => top)]);
  const named = [...points].sort((a, b) => b.share - a.share).slice(0, NAMED);
  const colorOf = (precision: string): string =>
    SERIES[Math.max(0, PRECISIONS.indexOf(precision)) % SERIES.length]!.light;
  const heading = {
    title: `${profile}, batch ${batchSize}: each launch under the roofline`,
    subtitle: `${device.description}, ${date.slice(0, 10)}`,
  };
  return picture(heading, options, (frame) => {
    const legend = legendOf(
      roofs.map(({ precision }) => `products in ${precision}`),
      frame,
    );
    const top = frame.top + legend.height + 26;
    return {
      height: top + HEIGHT,
      option: {
        legend: legend.legend,
        grid: {
          left: 12,
          right: 32,
          top,
          bottom: 36,
          outerBoundsMode: 'same',
          outerBoundsContain: 'axisLabel',
        },
        xAxis: {
          ...{ type: 'log', name: 'FLOP per byte', nameLocation: 'middle', nameGap: 28, ...x },
          axisLabel: { formatter: (v: number) => digits(v) },
        },
        yAxis: {
          ...{ type: 'log', name: 'FLOP/s', ...y, nameGap: 12 },
          nameTextStyle: { align: 'left', color: INK.light, fontSize: FONT_SIZE },
          axisLabel: { formatter: (v: number) => prefixed(v) },
        },
        series: [
          ...roofs.map(({ precision, top, ridge }) => {
            const from = Math.max(x.min, y.min / (1e9 * ceilings.copy));
            return {
              ...{ type: 'line' as const, name: `products in ${precision}`, silent: true, symbol: 'none' },
              ...{ emphasis: { disabled: true }, itemStyle: { color: colorOf(precision) } },
              lineStyle: { width: 1.5, color: colorOf(precision) },
              data: [
                [from, from * 1e9 * ceilings.copy],
                [ridge, top],
                [x.max, top],
              ],
            };
          }),
          {
            ...{ type: 'scatter', name: 'launches', silent: true, emphasis: { disabled: true } },
            labelLayout: { hideOverlap: true, moveOverlap: 'shiftY' },
            data: points.map((point) => ({
              name: point.name,
              value: [...point.at],
              symbolSize: Math.max(4, LARGEST * Math.sqrt(point.share)),
              itemStyle: { color: colorOf(point.precision), opacity: 0.55 },
              label: {
                ...{ show: named.includes(point), position: 'top', formatter: () => point.name },
                ...{ color: MUTED.light, distance: 2, opacity: 1 },
              },
            })),
          },
        ],
      },
    };
  });
}

/** Powers of ten around these values. */
function decades(values: readonly number[]): { readonly min: number; readonly max: number } {
  const low = Math.floor(Math.log10(Math.min(...values)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values))));
  return { min: Number(`1e${low}`), max: Number(`1e${high}`) };
}
