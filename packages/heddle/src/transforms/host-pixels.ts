/** Images on the host: arrays of f32. */
import type { PhiloxStream } from '../core/philox.js';
import type { Draws, Pixels } from './pixels.js';

type PixelSizes = readonly [channels: number, height: number, width: number];

export class HostPixels implements Pixels<HostPixels> {
  readonly data: Float32Array;
  readonly channels: number;
  readonly height: number;
  readonly width: number;

  constructor(data: Float32Array, [channels, height, width]: PixelSizes) {
    this.data = data;
    this.channels = channels;
    this.height = height;
    this.width = width;
  }

  add(other: HostPixels | number): HostPixels {
    return this.#with(other, (a, b) => a + b);
  }
  sub(other: HostPixels | number): HostPixels {
    return this.#with(other, (a, b) => a - b);
  }
  mul(other: HostPixels | number): HostPixels {
    return this.#with(other, (a, b) => a * b);
  }
  div(other: HostPixels | number): HostPixels {
    return this.#with(other, (a, b) => a / b);
  }
  minimum(other: HostPixels | number): HostPixels {
    return this.#with(other, (a, b) => (b < a ? b : a));
  }
  maximum(other: HostPixels | number): HostPixels {
    return this.#with(other, (a, b) => (b > a ? b : a));
  }
  lt(other: HostPixels | number): HostPixels {
    return this.#with(other, (a, b) => (a < b ? 1 : 0));
  }
  le(other: HostPixels | number): HostPixels {
    return this.#with(other, (a, b) => (a <= b ? 1 : 0));
  }
  eq(other: HostPixels | number): HostPixels {
    return this.#with(other, (a, b) => (a === b ? 1 : 0));
  }
  and(other: HostPixels): HostPixels {
    return this.#with(other, (a, b) => a * b);
  }

  where(then: HostPixels | number, otherwise: HostPixels | number): HostPixels {
    // NaN marks what the condition does not choose.
    const chosen = this.#with(then, (c, x) => (c === 0 ? Number.NaN : x));
    const rest = this.#with(otherwise, (c, x) => (c === 0 ? x : Number.NaN));
    return chosen.#with(rest, (a, b) => (Number.isNaN(a) ? b : a));
  }

  abs(): HostPixels {
    return this.#map(Math.abs);
  }
  floor(): HostPixels {
    return this.#map(Math.floor);
  }
  round(): HostPixels {
    return this.#map(roundToEven);
  }
  exp(): HostPixels {
    return this.#map(Math.exp);
  }
  log(): HostPixels {
    return this.#map(Math.log);
  }
  sqrt(): HostPixels {
    return this.#map(Math.sqrt);
  }
  sin(): HostPixels {
    return this.#map(Math.sin);
  }
  cos(): HostPixels {
    return this.#map(Math.cos);
  }

  number(value: number): HostPixels {
    return new HostPixels(Float32Array.of(value), [1, 1, 1]);
  }
  known(): number {
    return this.data[0]!;
  }
  each(values: readonly number[]): HostPixels {
    return new HostPixels(Float32Array.from(values), [values.length, 1, 1]);
  }
  rows(height: number): HostPixels {
    return new HostPixels(range(height), [1, height, 1]);
  }
  columns(width: number): HostPixels {
    return new HostPixels(range(width), [1, 1, width]);
  }
  table(values: Float32Array): HostPixels {
    return new HostPixels(values, [1, 1, values.length]);
  }

  channel(index: number): HostPixels {
    const { height, width } = this;
    const size = height * width;
    return new HostPixels(this.data.subarray(index * size, (index + 1) * size), [1, height, width]);
  }

  channelsOf(planes: readonly HostPixels[]): HostPixels {
    const height = Math.max(...planes.map((plane) => plane.height));
    const width = Math.max(...planes.map((plane) => plane.width));
    const data = new Float32Array(planes.length * height * width);
    const full = new HostPixels(new Float32Array(height * width), [1, height, width]);
    planes.forEach((plane, i) => {
      data.set(full.add(plane).data, i * height * width);
    });
    return new HostPixels(data, [planes.length, height, width]);
  }

  mean(): HostPixels {
    const size = this.height * this.width;
    return this.#overPixels(0, (sum, v) => sum + v).#map((sum) => sum / size);
  }
  min(): HostPixels {
    return this.#overPixels(Number.POSITIVE_INFINITY, (least, v) => (v < least ? v : least));
  }
  max(): HostPixels {
    return this.#overPixels(Number.NEGATIVE_INFINITY, (most, v) => (v > most ? v : most));
  }

  rowSums(): HostPixels {
    const { data, channels, height, width } = this;
    const sums = new Float32Array(channels * height);
    for (let row = 0; row < sums.length; row++) {
      let sum = 0;
      for (let i = row * width; i < (row + 1) * width; i++) sum += data[i]!;
      sums[row] = sum;
    }
    return new HostPixels(sums, [channels, height, 1]);
  }

  histogram(bins: number): HostPixels {
    const { data, channels, height, width } = this;
    const counts = new Float32Array(channels * bins);
    for (let i = 0; i < data.length; i++) counts[Math.floor(i / (height * width)) * bins + data[i]!]!++;
    return new HostPixels(counts, [channels, 1, bins]);
  }

  cumsum(): HostPixels {
    const { channels, height, width } = this;
    const sums = this.data.slice();
    for (let i = 1; i < sums.length; i++) if (i % width > 0) sums[i]! += sums[i - 1]!;
    return new HostPixels(sums, [channels, height, width]);
  }

  at(rows: HostPixels | number, columns: HostPixels | number, fill: HostPixels | number = 0): HostPixels {
    const [ys, xs, outside] = [rows, columns, fill].map((v) =>
      typeof v === 'number' ? this.number(v) : v,
    ) as [HostPixels, HostPixels, HostPixels];
    const { data, channels, height, width } = this;
    const [toHeight, toWidth] = [Math.max(ys.height, xs.height), Math.max(ys.width, xs.width)];
    const out = new Float32Array(channels * toHeight * toWidth);
    let to = 0;
    for (let c = 0; c < channels; c++) {
      const start = c * height * width;
      const filling = outside.data[outside.#offset(c, 0)]!;
      for (let i = 0; i < toHeight; i++) {
        const [yAt, xAt] = [ys.#offset(c, i), xs.#offset(c, i)];
        const [yStep, xStep] = [ys.width > 1 ? 1 : 0, xs.width > 1 ? 1 : 0];
        for (let j = 0; j < toWidth; j++) {
          const y = ys.data[yAt + j * yStep]!;
          const x = xs.data[xAt + j * xStep]!;
          const isInside = y >= 0 && y < height && x >= 0 && x < width;
          out[to++] = isInside ? data[start + y * width + x]! : filling;
        }
      }
    }
    return new HostPixels(out, [channels, toHeight, toWidth]);
  }

  atRows(rows: HostPixels, fill: HostPixels | number = 0): HostPixels {
    return this.at(rows, this.columns(this.width), fill);
  }
  atColumns(columns: HostPixels, fill: HostPixels | number = 0): HostPixels {
    return this.at(this.rows(this.height), columns, fill);
  }

  resample(rows: HostPixels, columns: HostPixels): HostPixels {
    const { channels, height, width } = this;
    const across = new Float32Array(channels * height * columns.height);
    for (let row = 0; row < channels * height; row++)
      for (let j = 0; j < columns.height; j++)
        across[row * columns.height + j] = weighted(columns, j, this.data, row * width, 1);
    const out = new Float32Array(channels * rows.height * columns.height);
    for (let c = 0; c < channels; c++)
      for (let i = 0; i < rows.height; i++)
        for (let j = 0; j < columns.height; j++)
          out[(c * rows.height + i) * columns.height + j] = weighted(
            rows,
            i,
            across,
            c * height * columns.height + j,
            columns.height,
          );
    return new HostPixels(out, [channels, rows.height, columns.height]);
  }

  when(condition: HostPixels, then: () => HostPixels): HostPixels {
    return condition.data[0] === 0 ? this : then();
  }

  #map(f: (value: number) => number): HostPixels {
    const { data, channels, height, width } = this;
    const out = new Float32Array(data.length);
    for (let i = 0; i < data.length; i++) out[i] = f(data[i]!);
    return new HostPixels(out, [channels, height, width]);
  }

  #with(other: HostPixels | number, f: (a: number, b: number) => number): HostPixels {
    if (typeof other === 'number') return this.#map((value) => f(value, Math.fround(other)));
    const channels = Math.max(this.channels, other.channels);
    const height = Math.max(this.height, other.height);
    const width = Math.max(this.width, other.width);
    const out = new Float32Array(channels * height * width);
    const [aStep, bStep] = [this.width > 1 ? 1 : 0, other.width > 1 ? 1 : 0];
    let to = 0;
    for (let c = 0; c < channels; c++)
      for (let i = 0; i < height; i++) {
        const [a, b] = [this.#offset(c, i), other.#offset(c, i)];
        for (let j = 0; j < width; j++) out[to++] = f(this.data[a + j * aStep]!, other.data[b + j * bStep]!);
      }
    return new HostPixels(out, [channels, height, width]);
  }

  #overPixels(start: number, f: (sum: number, value: number) => number): HostPixels {
    const { data, channels, height, width } = this;
    const size = height * width;
    const out = new Float32Array(channels);
    for (let c = 0; c < channels; c++) {
      let sum = start;
      for (let i = c * size; i < (c + 1) * size; i++) sum = f(sum, data[i]!);
      out[c] = sum;
    }
    return new HostPixels(out, [channels, 1, 1]);
  }

  /** Where a row of a channel begins; sizes of 1 stand for any. */
  #offset(channel: number, row: number): number {
    const { channels, height, width } = this;
    return ((channels > 1 ? channel : 0) * height + (height > 1 ? row : 0)) * width;
  }
}

/** Random numbers of one image. */
export class HostDraws implements Draws<HostPixels> {
  readonly #stream: PhiloxStream;

  constructor(stream: PhiloxStream) {
    this.#stream = stream;
  }

  uniform(): HostPixels {
    return new HostPixels(Float32Array.of(this.#stream.uniform()), [1, 1, 1]);
  }

  uniforms(count: number): readonly HostPixels[] {
    return Array.from({ length: count }, () => this.uniform());
  }

  normal({ channels, height, width }: HostPixels): HostPixels {
    const data = Float32Array.from({ length: channels * height * width }, () => this.#stream.normal());
    return new HostPixels(data, [channels, height, width]);
  }
}

const range = (length: number): Float32Array => Float32Array.from({ length }, (_, i) => i);

function roundToEven(value: number): number {
  const down = Math.floor(value);
  const rest = value - down;
  return rest < 0.5 || (rest === 0.5 && down % 2 === 0) ? down : down + 1;
}

/** Σ weights[row, k] · data[from + k·step]; most weights are 0. */
function weighted(weights: HostPixels, row: number, data: Float32Array, from: number, step: number): number {
  const { width } = weights;
  let sum = 0;
  for (let k = 0; k < width; k++) {
    const weight = weights.data[row * width + k]!;
    if (weight !== 0) sum += weight * data[from + k * step]!;
  }
  return sum;
}
