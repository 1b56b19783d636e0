/** Principal components (K. Pearson, On lines and planes of closest fit to systems of points in space, 1901). */
import { ArgumentError, f64, noGrad, type Shape, type Tensor, tensor } from 'heddle';
import { legendOf, type PictureOptions, picture } from './chart.js';
import { valuesOf } from './layers.js';
import { digits, percent } from './numbers.js';
import { INK, SERIES } from './palette.js';

/** What `pca` gives. */
export interface Projection {
  /** count × components: each row in the directions of largest variance, from the mean. */
  readonly points: readonly (readonly number[])[];
  /** The share of the variance along each component. */
  readonly explained: readonly number[];
  /** components × features: the directions, of length 1; the largest entry of each is positive. */
  readonly directions: readonly (readonly number[])[];
}

/** Directions that are iterated besides those asked for: the more, the faster they settle. */
const MORE = 6;
const ROUNDS = 200;
/** Directions have settled when the cosine of none's turn is further from 1. */
const SETTLED = 1e-15;

/**
 * The directions in which rows vary most (principal component analysis), by subspace iteration on the device in f64.
 * @param rows numbers (count, features), at least 2 rows
 * @param components how many directions, at most as many as rows and as features; default 2
 * @throws ArgumentError for rows of another rank, or too few of them
 */
export async function pca(rows: Tensor, components = 2): Promise<Projection> {
  const [count, features] = rows.shape as [number, number];
  if (rows.ndim !== 2 || count < 2 || components > Math.min(count, features))
    throw new ArgumentError(
      `[pca] rows are (${rows.shape.join(',')}), must be (N,D) with N ≥ 2, and N and D at least the ${components} components.`,
    );
  const x: Doubles = noGrad(() => {
    const wide = rows.detach().cast(f64);
    return wide.sub(wide.mean(0, { keepdim: true })).realize();
  });
  const total = (await valuesOf(x.square().sum()))[0]!;
  const width = Math.min(components + MORE, count, features);
  // Any start will do that has a part of every direction.
  let basis = orthonormal(
    Array.from({ length: width }, (_, k) =>
      Float64Array.from({ length: features }, (_, i) => Math.cos((i + 1) * (k + 1) * 0.7 + k)),
    ),
  );
  for (let round = 0; round < ROUNDS; round++) {
    const images = await timesCovariance(x, basis);
    const next = ritz(basis, images);
    const turned = Math.max(...next.slice(0, components).map((v, k) => 1 - Math.abs(dot(v, basis[k]!))));
    basis = next;
    if (turned < SETTLED) break;
  }
  const directions = basis.slice(0, components).map(pointingUp);
  const projected = await valuesOf(x.matmul(columns(directions)));
  const points = Array.from({ length: count }, (_, i) => [
    ...projected.subarray(i * components, (i + 1) * components),
  ]);
  const explained = directions.map((_, k) =>
    total > 0 ? points.reduce((sum, point) => sum + point[k]! ** 2, 0) / total : 0,
  );
  return { points, explained, directions: directions.map((v) => [...v]) };
}

type Vector = Float64Array;

const dot = (a: Vector, b: Vector): number => a.reduce((sum, v, i) => sum + v * b[i]!, 0);

/** Of f64. */
type Doubles = Tensor<Shape, 'f64'>;

/** Vectors as the columns of a matrix. */
const columns = (vectors: readonly Vector[]): Doubles => {
  const values = Float64Array.from(vectors.flatMap((v) => [...v]));
  return tensor(values, { shape: [vectors.length, vectors[0]!.length] }).transpose(0, 1);
};

/** xᵀ x v of each vector v. */
async function timesCovariance(x: Doubles, basis: readonly Vector[]): Promise<Vector[]> {
  const values = await valuesOf(
    x
      .transpose(0, 1)
      .matmul(x.matmul(columns(basis)))
      .transpose(0, 1),
  );
  const size = basis[0]!.length;
  return basis.map((_, k) => values.slice(k * size, (k + 1) * size));
}

/** By modified Gram–Schmidt, twice. A vector that depends on those before it becomes one that does not. */
function orthonormal(vectors: readonly Vector[]): Vector[] {
  const basis: Vector[] = [];
  for (const [k, vector] of vectors.entries()) {
    let rest = vector.slice();
    for (let tries = 0; ; tries++) {
      const before = Math.sqrt(dot(rest, rest));
      for (let pass = 0; pass < 2; pass++)
        for (const done of basis) {
          const share = dot(rest, done);
          for (let i = 0; i < rest.length; i++) rest[i]! -= share * done[i]!;
        }
      const length = Math.sqrt(dot(rest, rest));
      if (length > 1e-12 * before && length > 0) {
        basis.push(rest.map((v) => v / length));
        break;
      }
      rest = new Float64Array(rest.length);
      rest[(k + tries) % rest.length] = 1;
    }
  }
  return basis;
}

/** The next basis: that of the images, turned so that its vectors are the best guesses at directions, the largest first. */
function ritz(basis: readonly Vector[], images: readonly Vector[]): Vector[] {
  const small = basis.map((v) => images.map((w) => dot(v, w)));
  const turns = eigenvectors(small);
  const turned = turns.map((turn) => {
    const sum = new Float64Array(basis[0]!.length);
    for (const [k, share] of turn.entries())
      for (let i = 0; i < sum.length; i++) sum[i]! += share * images[k]![i]!;
    return sum;
  });
  return orthonormal(turned);
}

/** Of a symmetric matrix, those of the largest eigenvalues first, by Jacobi's rotations (1846). */
function eigenvectors(matrix: readonly (readonly number[])[]): number[][] {
  const n = matrix.length;
  const a = matrix.map((row, i) => row.map((v, j) => (v + matrix[j]![i]!) / 2));
  const vectors = a.map((_, i) => a.map((_, j) => (i === j ? 1 : 0)));
  for (let sweep = 0; sweep < 50; sweep++) {
    let off = 0;
    for (let p = 0; p < n; p++)
      for (let q = p + 1; q < n; q++) {
        off += a[p]![q]! ** 2;
        rotate(a, vectors, p, q);
      }
    if (off < 1e-30 * a.reduce((sum, row, i) => sum + row[i]! ** 2, 0)) break;
  }
  return a
    .map((row, i) => ({ value: row[i]!, vector: vectors.map((v) => v[i]!) }))
    .sort((x, y) => y.value - x.value)
    .map(({ vector }) => vector);
}

/** Make a[p][q] zero. */
function rotate(a: number[][], vectors: number[][], p: number, q: number): void {
  if (a[p]![q] === 0) return;
  const theta = (a[q]![q]! - a[p]![p]!) / (2 * a[p]![q]!);
  const t = (theta >= 0 ? 1 : -1) / (Math.abs(theta) + Math.hypot(theta, 1));
  const c = 1 / Math.hypot(t, 1);
  const s = t * c;
  const turn = (row: number[]): void => {
    const [x, y] = [row[p]!, row[q]!];
    row[p] = c * x - s * y;
    row[q] = s * x + c * y;
  };
  for (const row of a) turn(row);
  for (const [k, x] of [...a[p]!].entries()) {
    const y = a[q]![k]!;
    a[p]![k] = c * x - s * y;
    a[q]![k] = s * x + c * y;
  }
  for (const row of vectors) turn(row);
}

/** A direction and its opposite are the same: the one whose largest entry is positive. */
function pointingUp(v: Vector): Vector {
  const largest = v.reduce((at, x, i) => (Math.abs(x) > Math.abs(v[at]!) ? i : at), 0);
  return v[largest]! < 0 ? v.map((x) => -x) : v;
}

/** Options of `embeddingSvg`. */
export interface EmbeddingOptions extends PictureOptions {
  /** The class of each row, which chooses its colour and mark: integers ≥ 0. */
  readonly labels?: ArrayLike<number>;
  /** What the classes are called; default: their numbers. */
  readonly classes?: readonly string[];
  /** A text at each point, in place of a mark. */
  readonly texts?: readonly string[];
  /** What is projected, for the title. */
  readonly name?: string;
}

/** Classes beyond the colours have other marks. */
const MARKS = ['circle', 'triangle', 'rect', 'diamond'] as const;

/**
 * Rows as points, projected on their two principal components by `pca`.
 * @param rows numbers (count, features), such as what the layer before the last makes of examples
 * @returns the text of an SVG
 * @throws ArgumentError as `pca` does
 */
export async function embeddingSvg(rows: Tensor, options: EmbeddingOptions = {}): Promise<string> {
  const { labels, classes, texts, name = 'vectors', ...drawing } = options;
  const { points, explained } = await pca(rows);
  const found = labels ? [...new Set(Array.from(labels))].sort((a, b) => a - b) : [0];
  const nameOf = (c: number): string => classes?.[c] ?? String(c);
  const [first, second] = explained as [number, number];
  const heading = {
    title: `${name}, projected by PCA`,
    subtitle: `${points.length} × ${rows.shape[1]}; two components explain ${percent(first + second)} of the variance`,
  };
  return picture(heading, drawing, (frame) => {
    const legend = labels ? legendOf(found.map(nameOf), frame) : { legend: { show: false }, height: 0 };
    const top = frame.top + legend.height + 26;
    const axis = { type: 'value' as const, scale: true, axisLine: { onZero: false } };
    const axisLabel = { formatter: (v: number) => digits(v), hideOverlap: true };
    return {
      height: top + Math.min(440, 0.8 * frame.width) + 12,
      option: {
        legend: legend.legend,
        grid: {
          left: 12,
          right: 20,
          top,
          bottom: 36,
          outerBoundsMode: 'same',
          outerBoundsContain: 'axisLabel',
        },
        xAxis: {
          ...axis,
          name: `component 1 (${percent(first)})`,
          nameLocation: 'middle',
          nameGap: 28,
          axisLabel,
        },
        yAxis: {
          ...{ ...axis, name: `component 2 (${percent(second)})`, axisLabel, nameGap: 12 },
          nameTextStyle: { align: 'left' },
        },
        series: found.map((label, k) => ({
          ...{ type: 'scatter' as const, name: nameOf(label), silent: true, emphasis: { disabled: true } },
          symbol: MARKS[Math.floor(k / SERIES.length) % MARKS.length]!,
          symbolSize: texts ? 0 : 6,
          itemStyle: { color: SERIES[k % SERIES.length]!.light, opacity: 0.75 },
          data: points.flatMap((point, i) =>
            !labels || labels[i] === label
              ? [
                  {
                    value: [...point],
                    ...(texts && {
                      label: { show: true, formatter: () => texts[i]!, color: INK.light, opacity: 1 },
                    }),
                  },
                ]
              : [],
          ),
        })),
      },
    };
  });
}
