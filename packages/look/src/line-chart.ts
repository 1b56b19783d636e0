/** Figures over steps or epochs. */
import { FONT_SIZE, legendOf, type PictureOptions, picture } from './chart.js';
import { digits } from './numbers.js';
import { INK } from './palette.js';

/** A line of a chart. */
export interface Curve {
  /** In the legend. */
  readonly name: string;
  /** x ascending. What is not finite is a gap. */
  readonly points: readonly (readonly [x: number, y: number])[];
}

/** What a line chart shows. */
export interface LineChart {
  /** Above the chart. */
  readonly title: string;
  /** Under the title. */
  readonly subtitle?: string;
  /** What is along the x axis, with its unit: 'epoch'. */
  readonly x: string;
  /** What is along the y axis, with its unit: 'loss (nats)'. */
  readonly y: string;
  /** How numbers of the y axis are written: as they are (default), or shares of 1 in percent. */
  readonly format?: 'number' | 'percent';
  /** The lines. */
  readonly curves: readonly Curve[];
}

const HEIGHT = 300;
/** From this share on, the axis ends at 100 %. */
const NEARLY_ALL = 0.8;
/** Fewer points are marked. */
const MARKED = 30;
/** Lines differ by more than their colour. */
const DASHES = ['solid', 'dashed', 'dotted', [8, 3, 2, 3]] as const;

/**
 * Curves over a common x axis, each with a colour and a dash pattern of its own.
 * @returns the text of an SVG
 */
export function lineChart(chart: LineChart, options: PictureOptions = {}): string {
  const { title, subtitle, x, y, format = 'number', curves } = chart;
  const labelled =
    format === 'percent' ? (v: number) => `${digits(100 * v, 4)} %` : (v: number) => digits(v, 4);
  const range = rangeOf(curves);
  return picture({ title, subtitle }, options, (frame) => {
    // A lone curve that the title names needs no legend.
    const [first, ...others] = curves.map(({ name }) => name);
    const isNamed = others.length === 0 && title.toLowerCase().includes((first ?? '').toLowerCase());
    const legend = isNamed ? { legend: { show: false }, height: 0 } : legendOf([first!, ...others], frame);
    const top = frame.top + legend.height + 26;
    return {
      height: top + HEIGHT,
      option: {
        legend: legend.legend,
        grid: {
          ...{
            left: 12,
            right: 24,
            top,
            bottom: 36,
            outerBoundsMode: 'same',
            outerBoundsContain: 'axisLabel',
          },
        },
        xAxis: {
          ...{ type: 'value', name: x, nameLocation: 'middle', nameGap: 28, ...range },
          axisLine: { onZero: false },
          axisLabel: { formatter: (v: number) => digits(v, 4), hideOverlap: true },
        },
        yAxis: {
          ...{ type: 'value', name: y, scale: true, nameLocation: 'end', nameGap: 12 },
          ...(format === 'percent' && { max: ({ max }: { max: number }) => (max > NEARLY_ALL ? 1 : null) }),
          nameTextStyle: { align: 'left', color: INK.light, fontSize: FONT_SIZE },
          axisLabel: { formatter: labelled },
        },
        series: curves.map(({ name, points }, i) => ({
          ...{ type: 'line' as const, name, silent: true, emphasis: { disabled: true } },
          data: points.map(([px, py]) => [px, Number.isFinite(py) ? py : Number.NaN]),
          ...{ showSymbol: points.length < MARKED, symbol: 'circle', symbolSize: 5 },
          lineStyle: { width: 2, type: DASHES[Math.floor(i / 2) % DASHES.length] as 'solid' },
        })),
      },
    };
  });
}

/** From a whole number to a whole number, marked at whole numbers, where there are some between. */
function rangeOf(curves: readonly Curve[]): {
  readonly min: number;
  readonly max: number;
  readonly minInterval?: number;
} {
  const all = curves.flatMap(({ points }) => points.map(([x]) => x));
  const [low, high] = [Math.min(...all), Math.max(...all)];
  return high - low < 1.5
    ? { min: low, max: high }
    : { min: Math.floor(low), max: Math.ceil(high), minInterval: 1 };
}
