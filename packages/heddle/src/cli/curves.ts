/** Curves of figures over epochs: as text, and as an SVG. */
import { escaped } from './svg.js';

export interface Curve {
  readonly name: string;
  /** x ascending. */
  readonly points: readonly (readonly [x: number, y: number])[];
}

const MARKS = ['●', '○', '▲', '△', '■', '□', '◆', '◇'];
const COLORS = ['#1971c2', '#e8590c', '#2f9e44', '#9c36b5', '#e03131', '#0c8599', '#f08c00', '#495057'];

interface Range {
  readonly low: number;
  readonly high: number;
}

function rangeOf(values: readonly number[]): Range {
  const finite = values.filter(Number.isFinite);
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const around = Math.abs(low) / 2 || 0.5;
  return low < high ? { low, high } : { low: low - around, high: high + around };
}

const figure = (v: number): string => (Math.abs(v) >= 100 ? v.toFixed(0) : v.toPrecision(4));

/** Curves as lines of text, `width` wide with the axis, under which the curves' names stand with their marks. */
export function textCurves(curves: readonly Curve[], width: number, height = 14): string {
  const all = curves.flatMap(({ points }) => points);
  if (all.length === 0) return '(no epochs yet)';
  const [x, y] = [rangeOf(all.map(([px]) => px)), rangeOf(all.map(([, py]) => py))];
  const margin = Math.max(figure(y.low).length, figure(y.high).length) + 2;
  const columns = Math.max(10, width - margin);
  const cells = Array.from({ length: height }, () => Array.from({ length: columns }, () => ' '));
  const place = ({ low, high }: Range, v: number, count: number): number =>
    Math.round(((v - low) / (high - low)) * (count - 1));
  for (const [i, { points }] of curves.entries())
    for (const [px, py] of points)
      if (Number.isFinite(py))
        cells[height - 1 - place(y, py, height)]![place(x, px, columns)] = MARKS[i % MARKS.length]!;
  const lines = cells.map((row, i) => {
    const label = i === 0 ? figure(y.high) : i === height - 1 ? figure(y.low) : '';
    return `${label.padStart(margin - 2)} │${row.join('').trimEnd()}`;
  });
  const ends = [String(x.low), String(x.high)] as const;
  const axis = `${' '.repeat(margin - 1)}└${'─'.repeat(columns)}`;
  const under = `${' '.repeat(margin)}${ends[0]}${ends[1].padStart(columns - ends[0].length)}`;
  const names = curves.map(({ name }, i) => `${' '.repeat(margin)}${MARKS[i % MARKS.length]} ${name}`);
  return [...lines, axis, under, ...names].join('\n');
}

const [LEFT, TOP, WIDTH, HEIGHT] = [72, 56, 640, 320];

/** Curves as an SVG that stands for itself. */
export function svgCurves(title: string, curves: readonly Curve[]): string {
  const all = curves.flatMap(({ points }) => points).filter(([, v]) => Number.isFinite(v));
  const [x, y] = [rangeOf(all.map(([px]) => px)), rangeOf(all.map(([, py]) => py))];
  const at = ([px, py]: readonly [number, number]): string =>
    `${(LEFT + ((px - x.low) / (x.high - x.low)) * WIDTH).toFixed(1)},${(TOP + HEIGHT - ((py - y.low) / (y.high - y.low)) * HEIGHT).toFixed(1)}`;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => ({
    at: TOP + HEIGHT * (1 - share),
    value: y.low + share * (y.high - y.low),
  }));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${LEFT + WIDTH + 24} ${TOP + HEIGHT + 40 + 20 * curves.length}" font-family="system-ui, sans-serif" font-size="12" fill="#868e96" role="img" aria-label="${escaped(title)}">`,
    `<text x="8" y="24" font-size="15" font-weight="600">${escaped(title)}</text>`,
    ...ticks.map(
      ({ at: line, value }) =>
        `<line x1="${LEFT}" x2="${LEFT + WIDTH}" y1="${line}" y2="${line}" stroke="#868e96" opacity=".2"/><text x="${LEFT - 8}" y="${line + 4}" text-anchor="end">${figure(value)}</text>`,
    ),
    `<text x="${LEFT}" y="${TOP + HEIGHT + 18}">epoch ${x.low}</text><text x="${LEFT + WIDTH}" y="${TOP + HEIGHT + 18}" text-anchor="end">${x.high}</text>`,
    ...curves.map(({ name, points }, i) => {
      const color = COLORS[i % COLORS.length];
      const line = points
        .filter(([, v]) => Number.isFinite(v))
        .map(at)
        .join(' ');
      return `<polyline points="${line}" fill="none" stroke="${color}" stroke-width="2"/><text x="${LEFT}" y="${TOP + HEIGHT + 40 + 20 * i}" fill="${color}">${escaped(name)}</text>`;
    }),
    '</svg>\n',
  ].join('\n');
}
