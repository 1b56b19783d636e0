/** What all charts have in common: ECharts without a page, its theme, and an SVG that stands for itself. */

import {
  BarChart,
  type BarSeriesOption,
  HeatmapChart,
  type HeatmapSeriesOption,
  LineChart,
  type LineSeriesOption,
  ScatterChart,
  type ScatterSeriesOption,
} from 'echarts/charts';
import {
  GraphicComponent,
  type GraphicComponentOption,
  GridComponent,
  type GridComponentOption,
  LegendComponent,
  type LegendComponentOption,
  MarkLineComponent,
  TitleComponent,
  type TitleComponentOption,
  type VisualMapComponentOption,
  VisualMapPiecewiseComponent,
} from 'echarts/components';
import type { ComposeOption } from 'echarts/core';
import * as echarts from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';
import { darkStyle, INK, MUTED, PICTURE, PIXEL_STYLE, RULE, SERIES } from './palette.js';

echarts.use([
  ...[BarChart, HeatmapChart, LineChart, ScatterChart],
  ...[GraphicComponent, GridComponent, LegendComponent, MarkLineComponent, TitleComponent],
  VisualMapPiecewiseComponent,
  SVGRenderer,
]);

/** What a chart is for ECharts. */
export type ChartOption = ComposeOption<
  | BarSeriesOption
  | HeatmapSeriesOption
  | LineSeriesOption
  | ScatterSeriesOption
  | GraphicComponentOption
  | GridComponentOption
  | LegendComponentOption
  | TitleComponentOption
  | VisualMapComponentOption
>;

/** Options of every picture. */
export interface PictureOptions {
  /** Of the picture, in pixels; default 720. Texts keep their size, so that a picture for a phone is a narrow one. */
  readonly width?: number;
  /** Written at the top (default), or only said to those who do not see the picture. */
  readonly titled?: boolean;
}

/** What a picture shows, besides its figures. */
interface Heading {
  readonly title: string;
  /** Under the title. */
  readonly subtitle?: string | undefined;
}

export const WIDTH = 720;
/** Pixels around all. */
const EDGE = 12;
export const FONT = 'system-ui, sans-serif';
export const FONT_SIZE = 12;
const TITLE_SIZE = 15;

/** About as wide as a text is in a proportional font. */
export const textWidth = (text: string, size: number = FONT_SIZE): number => 0.6 * size * [...text].length;

/** A text in as many lines as it takes, broken between words. */
function linesOf(text: string, width: number, size: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const longer = `${lines.at(-1) ?? ''} ${word}`;
    if (lines.length > 0 && textWidth(longer, size) <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

const axis = {
  axisLine: { show: true, lineStyle: { color: MUTED.light } },
  axisTick: { show: true, lineStyle: { color: MUTED.light } },
  axisLabel: { color: MUTED.light, fontSize: FONT_SIZE },
  splitLine: { show: true, lineStyle: { color: RULE.light } },
  nameTextStyle: { color: INK.light, fontSize: FONT_SIZE },
};

const THEME = {
  color: SERIES.map(({ light }) => light),
  textStyle: { fontFamily: FONT, fontSize: FONT_SIZE, color: INK.light },
  legend: { textStyle: { color: INK.light, fontSize: FONT_SIZE } },
  ...{ valueAxis: axis, logAxis: axis, categoryAxis: { ...axis, splitLine: { show: false } } },
};

/** Where the figures of a picture begin and end, below its title. */
export interface Frame {
  readonly width: number;
  /** The first pixel below the title. */
  readonly top: number;
}

/**
 * A picture, drawn below its title.
 * @param make the rest of the chart, and the height of all of it, for the place there is
 * @returns an SVG that stands for itself, readable on light and on dark ground
 */
export function picture(
  { title, subtitle }: Heading,
  { width = WIDTH, titled = true }: PictureOptions,
  make: (frame: Frame) => { readonly height: number; readonly option: ChartOption },
): string {
  const heading = titled ? linesOf(title, width - 2 * EDGE, TITLE_SIZE + 1) : [];
  const below = titled && subtitle !== undefined ? linesOf(subtitle, width - 2 * EDGE, FONT_SIZE) : [];
  const top = EDGE + 21 * heading.length + 17 * below.length + (titled ? 8 : 0);
  const { height, option } = make({ width, top });
  const chart = echarts.init(null, THEME, { renderer: 'svg', ssr: true, width, height });
  try {
    chart.setOption({
      animation: false,
      title: {
        show: titled,
        ...{ left: EDGE, top: EDGE, padding: 0, itemGap: 4 },
        text: heading.join('\n'),
        subtext: below.join('\n'),
        textStyle: { color: INK.light, fontSize: TITLE_SIZE, fontWeight: 600, lineHeight: 21 },
        subtextStyle: { color: MUTED.light, fontSize: FONT_SIZE, lineHeight: 17 },
      },
      ...option,
    } satisfies ChartOption);
    return standalone(chart.renderToSVGString(), subtitle === undefined ? title : `${title}. ${subtitle}`);
  } finally {
    chart.dispose();
  }
}

/** Rows that a legend of these names takes, and what ECharts is told of it. */
export function legendOf(
  names: readonly string[],
  { width, top }: Frame,
  icon?: string,
): { readonly legend: LegendComponentOption; readonly height: number } {
  const room = width - 2 * EDGE;
  let [rows, used] = [1, 0];
  for (const name of names) {
    const item = 25 + 5 + textWidth(name) + 16;
    if (used > 0 && used + item > room) [rows, used] = [rows + 1, 0];
    used += item;
  }
  return {
    legend: {
      ...{ show: true, type: 'plain', data: [...names], top, left: EDGE, right: EDGE, padding: 0 },
      ...{ itemGap: 16, selectedMode: false, ...(icon !== undefined && { icon }) },
    },
    height: 22 * rows + 6,
  };
}

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

/** What ECharts makes for a page with its script becomes a file: no classes for a pointer, one style sheet, a text for all. */
function standalone(svg: string, says: string): string {
  const [, width, height] = /^<svg width="(\d+)" height="(\d+)"/.exec(svg)!;
  const inner = svg
    .replace(/^<svg [^>]*>\n/, '')
    .replace(/<\/svg>\s*$/, '')
    .replace(/<style >[\s\S]*?<\/style>\n?/g, '')
    .replace(/<rect [^>]*fill="none"><\/rect>\n/, '')
    .replace(/ (?:class|ecmeta_\w+|pointer-events|xml:space)="[^"]*"/g, '')
    .replace(/\bzr\d+-/g, 'h-')
    .replace(/<defs >\n<\/defs>\n/, '');
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" class="${PICTURE}" width="${width}" height="${height}" ` +
    `viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(says)}">\n` +
    `<style>${darkStyle(inner)}${PIXEL_STYLE}</style>\n${inner}</svg>\n`
  );
}
