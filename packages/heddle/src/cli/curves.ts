/** Curves of figures over epochs, as text. */

export interface Curve {
  readonly name: string;
  /** x ascending. */
  readonly points: readonly (readonly [x: number, y: number])[];
}

const MARKS = ['●', '○', '▲', '△', '■', '□', '◆', '◇'];

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
