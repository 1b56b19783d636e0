/** Which classes are taken for which. */
import { type PictureOptions, picture, textWidth, WIDTH } from './chart.js';
import { percent } from './numbers.js';
import { HEAT, heatStep, PAPER, textOn } from './palette.js';

/** Options of `confusionMatrixSvg`. */
export interface ConfusionOptions extends PictureOptions {
  /** What the classes are called; default: their numbers. */
  readonly classes?: readonly string[];
  /** Texts of the cells: how many (default), or which share of the row. The colours are of the shares. */
  readonly cells?: 'counts' | 'rates';
}

/** Cells of fewer pixels have no text. */
const READABLE = 22;

/**
 * A confusion matrix: a row for each class, a column for each prediction.
 * @param counts classes × classes, as `metrics.confusionMatrix` and `confusionOf` give them
 * @returns the text of an SVG
 */
export function confusionMatrixSvg(
  counts: readonly (readonly number[])[],
  options: ConfusionOptions = {},
): string {
  const { classes, cells = 'counts', ...drawing } = options;
  const { width = WIDTH } = drawing;
  const names = counts.map((_, c) => classes?.[c] ?? String(c));
  const sums = counts.map((row) => row.reduce((a, b) => a + b, 0));
  const all = sums.reduce((a, b) => a + b, 0);
  const right = counts.reduce((sum, row, c) => sum + row[c]!, 0);
  const longest = Math.max(...names.map((name) => textWidth(name)));
  const slanted = longest > (width - longest - 60) / counts.length - 4;
  const left = Math.min(0.3 * width, longest) + 40;
  const cell = Math.min(56, (width - left - 16) / counts.length);
  const size = cell * counts.length;
  const shareOf = (row: number, column: number): number =>
    sums[row]! > 0 ? counts[row]![column]! / sums[row]! : 0;
  const text = (row: number, column: number): string => {
    const count = counts[row]![column]!;
    if (count === 0) return '';
    if (cells === 'counts')
      return count >= 10_000 && cell < 44 ? `${Math.round(count / 1000)}k` : String(count);
    const share = 100 * shareOf(row, column);
    return share < 0.95 ? share.toFixed(1).replace('0.', '.') : share.toFixed(0);
  };
  const heading = {
    title: 'Confusion matrix',
    subtitle: `${right.toLocaleString('en-US')} of ${all.toLocaleString('en-US')} examples are right: ${percent(right / all, 2)}. ${cells === 'counts' ? 'Cells: examples' : 'Cells: percent of the class'}; colour: share of the class`,
  };
  return picture(heading, drawing, ({ top }) => {
    const above = slanted ? Math.min(120, 0.8 * longest + 16) : 24;
    const axis = {
      ...{ type: 'category' as const, data: names, axisTick: { show: false }, axisLine: { show: false } },
      axisLabel: { interval: 0 },
    };
    return {
      height: Math.ceil(top + 22 + above + size + 12),
      option: {
        grid: { left, top: top + 22 + above, width: size, height: size },
        xAxis: {
          ...axis,
          ...{ position: 'top', name: 'taken for', nameLocation: 'middle', nameGap: above },
          axisLabel: { interval: 0, ...(slanted && { rotate: 45 }) },
        },
        yAxis: {
          ...axis,
          ...{ inverse: true, name: 'is', nameLocation: 'middle', nameGap: left - 20, nameRotate: 90 },
          axisLabel: { interval: 0, width: left - 36, overflow: 'truncate' },
        },
        visualMap: {
          ...{ type: 'piecewise', show: false, dimension: 2 },
          pieces: HEAT.map(({ light }, step) => ({ value: step, color: light })),
        },
        series: [
          {
            ...{ type: 'heatmap', silent: true, emphasis: { disabled: true } },
            data: counts.flatMap((row, r) =>
              row.map((_, c) => {
                const step = heatStep(Math.sqrt(shareOf(r, c)));
                return {
                  value: [c, r, step],
                  itemStyle: { borderColor: PAPER.light, borderWidth: 1 },
                  label: {
                    ...{ show: cell >= READABLE, formatter: () => text(r, c), color: textOn(step).light },
                    fontSize: cell < 34 ? 10 : 12,
                  },
                };
              }),
            ),
          },
        ],
      },
    };
  });
}
