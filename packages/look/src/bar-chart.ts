/** Bars beside one another, against a mark. */
import { type PictureOptions, picture, textWidth, WIDTH } from './chart.js';
import { digits } from './numbers.js';
import { INK, PAPER, SERIES } from './palette.js';

/** A bar of a chart. */
export interface Bar {
  /** To the left of the bar. */
  readonly label: string;
  /** Its length, in the unit of the axis; at least 0. */
  readonly value: number;
  /** To the right of the bar, such as the value with its unit. */
  readonly text: string;
}

/** What a bar chart shows. */
export interface BarChart {
  /** Above the chart. */
  readonly title: string;
  /** Under the title. */
  readonly subtitle?: string;
  /** What the bars measure, with its unit. */
  readonly x: string;
  /** A dashed line at a value to compare with, and what it is. */
  readonly mark?: { readonly value: number; readonly name: string } | undefined;
  /** From top to bottom. */
  readonly bars: readonly Bar[];
}

const ROW = 24;
/** The mark ends where a text begins. */
const ON_PAPER = { backgroundColor: PAPER.light, padding: [2, 4], distance: 2 };

/**
 * Horizontal bars, from the first at the top: blue from the mark on, orange below it.
 * @returns the text of an SVG
 */
export function barChart(chart: BarChart, options: PictureOptions = {}): string {
  const { title, subtitle, x, mark, bars } = chart;
  const { width = WIDTH } = options;
  const beside = Math.max(0, ...bars.map(({ text }) => textWidth(text)));
  const label = Math.min(0.5 * width, Math.max(0, ...bars.map(({ label }) => textWidth(label))) + 8);
  return picture({ title, subtitle }, options, ({ top }) => {
    const from = top + (mark ? 18 : 0);
    return {
      height: from + ROW * bars.length + 52,
      option: {
        grid: { left: label + 12, right: beside + 16, top: from, bottom: 52 },
        xAxis: {
          ...{ type: 'value', name: x, nameLocation: 'middle', nameGap: 28, min: 0 },
          axisLabel: { formatter: (v: number) => digits(v), hideOverlap: true },
          ...(mark && { max: (range: { max: number }) => (range.max < mark.value ? mark.value : null) }),
        },
        yAxis: {
          ...{ type: 'category', inverse: true, data: bars.map((bar) => bar.label) },
          ...{ axisTick: { show: false }, axisLine: { show: false } },
          axisLabel: { color: INK.light, width: label, overflow: 'truncate', interval: 0 },
        },
        series: [
          {
            ...{ type: 'bar', silent: true, z: 6, emphasis: { disabled: true }, barWidth: ROW - 9 },
            data: bars.map(({ value, text }) => ({
              value,
              itemStyle: {
                color: SERIES[!mark || value >= mark.value ? 0 : 1]!.light,
                borderRadius: [0, 2, 2, 0],
              },
              label: { show: true, position: 'right', color: INK.light, formatter: () => text, ...ON_PAPER },
            })),
            ...(mark && {
              markLine: {
                ...{ silent: true, symbol: 'none', data: [{ xAxis: mark.value }] },
                lineStyle: { color: INK.light, type: 'dashed', width: 1 },
                label: { position: 'start' as const, color: INK.light, formatter: () => mark.name },
              },
            }),
          },
        ],
      },
    };
  });
}
