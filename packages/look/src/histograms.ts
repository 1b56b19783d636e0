/** How the weights of a model are distributed, and their gradients. */
import { type AnyTensor, ArgumentError, type nn, realize } from 'heddle';
import { FONT, type PictureOptions, picture, WIDTH } from './chart.js';
import { valuesOf } from './layers.js';
import { digits } from './numbers.js';
import { INK, MUTED, SERIES } from './palette.js';

/** Values in bins of equal width. */
export interface Histogram {
  /** How many values each bin has. */
  readonly counts: readonly number[];
  /** Where the first bin begins. */
  readonly low: number;
  /** Where the last bin ends. */
  readonly high: number;
  /** Of the values themselves. */
  readonly mean: number;
  /** The standard deviation of the values themselves, divided by their number. */
  readonly std: number;
}

/**
 * The finite ones of some values in bins of equal width, from the least value to the largest.
 * @param bins how many; default 40
 * @throws ArgumentError if none is finite
 */
export function histogram(values: ArrayLike<number>, bins = 40): Histogram {
  const finite = Array.from(values).filter(Number.isFinite);
  const [least, most] = finite.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
  ] as [number, number]);
  if (finite.length === 0) throw new ArgumentError('[histogram] there is no finite value to count.');
  const around = Math.abs(least) / 2 || 0.5;
  const [low, high] = least < most ? [least, most] : [least - around, least + around];
  const counts = new Array<number>(bins).fill(0);
  for (const v of finite) counts[Math.min(bins - 1, Math.floor(((v - low) / (high - low)) * bins))]!++;
  const mean = finite.reduce((a, b) => a + b, 0) / finite.length;
  const std = Math.sqrt(finite.reduce((sum, v) => sum + (v - mean) ** 2, 0) / finite.length);
  return { counts, low, high, mean, std };
}

/**
 * The gradients of a loss by the dotted names of the parameters. Gradients that the model has stay as they are.
 * @param loss computes one number from the model, and is called once
 * @returns of each parameter that the loss depends on, its elements in f64
 */
export async function gradientsOf(
  model: nn.Module,
  loss: () => AnyTensor,
): Promise<ReadonlyMap<string, Float64Array>> {
  const parameters = [...model.namedParameters()];
  const before = parameters.map(([, p]) => p.grad);
  try {
    model.zeroGrad();
    loss().backward();
    // As one program: each of them needs most of the others.
    realize(...parameters.flatMap(([, { grad }]) => grad ?? []));
    const found = new Map<string, Float64Array>();
    for (const [name, { grad }] of parameters) if (grad) found.set(name, await valuesOf(grad));
    return found;
  } finally {
    for (const [i, [, p]] of parameters.entries()) p.grad = before[i];
  }
}

/** Options of `histogramsSvg`. */
export interface HistogramsOptions extends PictureOptions {
  /** Gradients to draw beside the weights, by the names of the parameters: see `gradientsOf`. */
  readonly gradients?: ReadonlyMap<string, Float64Array>;
  /** Draw at most so many parameters; default 24. */
  readonly most?: number;
}

const ROW = 112;
const PLOT = 56;

/**
 * Histograms of the weights of each layer, and of their gradients. Vectors such as biases are drawn only where a model has
 * nothing else.
 * @returns the text of an SVG
 */
export async function histogramsSvg(model: nn.Module, options: HistogramsOptions = {}): Promise<string> {
  const { gradients, most = 24, ...drawing } = options;
  const { width = WIDTH } = drawing;
  const parameters = [...model.namedParameters()];
  const matrices = parameters.filter(([, { ndim }]) => ndim > 1);
  const all = matrices.length > 0 ? matrices : parameters;
  const shown = all.slice(0, most);
  const kinds = gradients ? (['weights', 'gradients'] as const) : (['weights'] as const);
  const plots = await Promise.all(
    shown.flatMap(([name, p], row) =>
      kinds.map(async (kind, column) => {
        const values = kind === 'weights' ? await valuesOf(p) : gradients!.get(name);
        return values && { name, row, column, kind, shape: p.shape, bins: histogram(values) };
      }),
    ),
  ).then((found) => found.filter((plot) => plot !== undefined));
  const heading = {
    title: gradients ? 'Weights and gradients by layer' : 'Weights by layer',
    subtitle: `${shown.length < all.length ? `the first ${shown.length} of ${all.length} parameters` : 'all weights'}${gradients ? '; gradients of one batch' : ''}; heights are relative`,
  };
  return picture(heading, drawing, ({ top }) => {
    const column = (width - 24) / kinds.length;
    const place = (plot: { row: number; column: number }) => ({
      left: 12 + plot.column * column,
      top: top + 8 + plot.row * ROW,
    });
    return {
      height: top + ROW * shown.length + 16,
      option: {
        grid: plots.map((plot) => {
          const { left, top } = place(plot);
          return { left: left + 4, top: top + 30, width: column - 24, height: PLOT };
        }),
        graphic: plots.flatMap((plot) => {
          const { left, top } = place(plot);
          const { mean, std } = plot.bins;
          const says = plot.kind === 'weights' ? plot.name : `∂ ${plot.name}`;
          return [
            {
              ...{ type: 'text' as const, silent: true, x: left + 4, y: top },
              style: { text: clipped(says, column - 24), fill: INK.light, fontSize: 12, fontFamily: FONT },
            },
            {
              ...{ type: 'text' as const, silent: true, x: left + 4, y: top + 15 },
              style: {
                text: `${digits(mean, 2)} ± ${digits(std, 2)}`,
                fill: MUTED.light,
                fontSize: 11,
                fontFamily: FONT,
              },
            },
          ];
        }),
        xAxis: plots.map(({ bins: { low, high } }, i) => ({
          ...{ type: 'value' as const, gridIndex: i, min: low, max: high, splitLine: { show: false } },
          ...{ axisLine: { onZero: false }, interval: high - low },
          axisLabel: {
            formatter: (v: number) => digits(v, 2),
            ...{ showMinLabel: true, showMaxLabel: true, alignMinLabel: 'left', alignMaxLabel: 'right' },
          },
        })),
        yAxis: plots.map((_, i) => ({ type: 'value' as const, gridIndex: i, show: false, min: 0 })),
        series: plots.map(({ kind, bins: { counts, low, high } }, i) => {
          const step = (high - low) / counts.length;
          const color = SERIES[kind === 'weights' ? 0 : 1]!.light;
          return {
            ...{ type: 'line' as const, xAxisIndex: i, yAxisIndex: i, step: 'end' as const, symbol: 'none' },
            ...{ silent: true, emphasis: { disabled: true }, lineStyle: { width: 1, color } },
            areaStyle: { color, opacity: 0.5 },
            data: [...counts, counts.at(-1)!].map((count, k) => [low + k * step, count]),
          };
        }),
      },
    };
  });
}

const clipped = (text: string, width: number): string => {
  const room = Math.floor(width / 7);
  return text.length <= room ? text : `…${text.slice(text.length - room + 1)}`;
};
