/** Images on a device: a tensor of f32 (N, C, H, W), where each size may be 1. */
import { f32, i32 } from '../core/dtype.js';
import type { Shape } from '../core/shape.js';
import { arange, cat, full, tensor, zeros } from '../tensor/create.js';
import { rand, randn } from '../tensor/random.js';
import type { AnyTensor, Tensor } from '../tensor/tensor.js';
import type { Draws, Pixels } from './pixels.js';

/** Numbers or conditions. */
type Values = Tensor<Shape, 'f32'>;

export class DevicePixels implements Pixels<DevicePixels> {
  /** f32, of conditions bool. */
  readonly values: Values;

  constructor(values: AnyTensor) {
    this.values = values as Values;
  }

  get images(): number {
    return this.values.shape[0]!;
  }
  get channels(): number {
    return this.values.shape[1]!;
  }
  get height(): number {
    return this.values.shape[2]!;
  }
  get width(): number {
    return this.values.shape[3]!;
  }

  add(other: DevicePixels | number): DevicePixels {
    return new DevicePixels(this.values.add(operand(other)));
  }
  sub(other: DevicePixels | number): DevicePixels {
    return new DevicePixels(this.values.sub(operand(other)));
  }
  mul(other: DevicePixels | number): DevicePixels {
    return new DevicePixels(this.values.mul(operand(other)));
  }
  div(other: DevicePixels | number): DevicePixels {
    return new DevicePixels(this.values.div(operand(other)));
  }
  minimum(other: DevicePixels | number): DevicePixels {
    return new DevicePixels(this.values.minimum(operand(other)));
  }
  maximum(other: DevicePixels | number): DevicePixels {
    return new DevicePixels(this.values.maximum(operand(other)));
  }
  lt(other: DevicePixels | number): DevicePixels {
    return new DevicePixels(this.values.lt(operand(other)));
  }
  le(other: DevicePixels | number): DevicePixels {
    return new DevicePixels(this.values.le(operand(other)));
  }
  eq(other: DevicePixels | number): DevicePixels {
    return new DevicePixels(this.values.eq(operand(other)));
  }
  and(other: DevicePixels): DevicePixels {
    return new DevicePixels(this.values.and(other.values));
  }

  where(then: DevicePixels | number, otherwise: DevicePixels | number): DevicePixels {
    const [x, y] = [then, otherwise].map((v) => (typeof v === 'number' ? this.number(v) : v)) as [
      DevicePixels,
      DevicePixels,
    ];
    return new DevicePixels(this.values.where(x.values, y.values));
  }

  abs(): DevicePixels {
    return new DevicePixels(this.values.abs());
  }
  floor(): DevicePixels {
    return new DevicePixels(this.values.floor());
  }
  round(): DevicePixels {
    return new DevicePixels(this.values.round());
  }
  exp(): DevicePixels {
    return new DevicePixels(this.values.exp());
  }
  log(): DevicePixels {
    return new DevicePixels(this.values.log());
  }
  sqrt(): DevicePixels {
    return new DevicePixels(this.values.sqrt());
  }
  sin(): DevicePixels {
    return new DevicePixels(this.values.sin());
  }
  cos(): DevicePixels {
    return new DevicePixels(this.values.cos());
  }

  number(value: number): DevicePixels {
    return new DevicePixels(full([1, 1, 1, 1], value, { dtype: f32 }));
  }
  known(): undefined {
    return undefined;
  }
  each(values: readonly number[]): DevicePixels {
    return new DevicePixels(tensor(Float32Array.from(values), { shape: [1, values.length, 1, 1] }));
  }
  rows(height: number): DevicePixels {
    return new DevicePixels(arange(height, { dtype: f32 }).reshape([1, 1, height, 1]));
  }
  columns(width: number): DevicePixels {
    return new DevicePixels(arange(width, { dtype: f32 }).reshape([1, 1, 1, width]));
  }
  table(values: Float32Array): DevicePixels {
    return new DevicePixels(tensor(values, { shape: [1, 1, 1, values.length] }));
  }

  channel(index: number): DevicePixels {
    return new DevicePixels(this.values.at(':', `${index}:${index + 1}`));
  }

  channelsOf(planes: readonly DevicePixels[]): DevicePixels {
    const shape = [0, 1, 2, 3].map((axis) =>
      planes.map(({ values }) => values.shape[axis]!).reduce(together),
    );
    return new DevicePixels(
      cat(
        planes.map(({ values }) => values.expand(shape)),
        1,
      ),
    );
  }

  mean(): DevicePixels {
    return new DevicePixels(this.values.mean([2, 3], { keepdim: true }));
  }
  min(): DevicePixels {
    return new DevicePixels(this.values.min([2, 3], { keepdim: true }));
  }
  max(): DevicePixels {
    return new DevicePixels(this.values.max([2, 3], { keepdim: true }));
  }
  rowSums(): DevicePixels {
    return new DevicePixels(this.values.sum(3, { keepdim: true }));
  }

  histogram(bins: number): DevicePixels {
    const { images: n, channels, height, width } = this;
    const values = this.values.cast(i32).reshape([n, channels, 1, height * width]);
    const ones = full(values.shape, 1, { dtype: f32 });
    return new DevicePixels(zeros([n, channels, 1, bins]).scatterAdd(3, values, ones));
  }

  cumsum(): DevicePixels {
    return new DevicePixels(this.values.cumsum(3));
  }

  at(
    rows: DevicePixels | number,
    columns: DevicePixels | number,
    fill: DevicePixels | number = 0,
  ): DevicePixels {
    const [ys, xs] = [rows, columns].map((v) => (typeof v === 'number' ? this.number(v) : v)) as [
      DevicePixels,
      DevicePixels,
    ];
    const { channels, height, width } = this;
    const isInside = within(ys, height).and(within(xs, width)).values;
    const position = ys.values.cast(i32).mul(width).add(xs.values.cast(i32));
    const [n, , toHeight, toWidth] = position.shape as [number, number, number, number];
    const images = together(n, this.images);
    const line = this.values
      .reshape([this.images, channels, height * width, 1])
      .expand([images, channels, height * width, toWidth]);
    // A position outside of a tensor gives 0.
    const taken = line.gather(2, isInside.where(position, -1).expand([images, channels, toHeight, toWidth]));
    if (fill === 0) return new DevicePixels(taken);
    return new DevicePixels(isInside).where(new DevicePixels(taken), fill);
  }

  atRows(rows: DevicePixels, fill: DevicePixels | number = 0): DevicePixels {
    return this.#along(2, rows, fill);
  }
  atColumns(columns: DevicePixels, fill: DevicePixels | number = 0): DevicePixels {
    return this.#along(3, columns, fill);
  }

  #along(axis: 2 | 3, places: DevicePixels, fill: DevicePixels | number): DevicePixels {
    const { values } = this;
    const shape = values.shape.map((size, i) =>
      i === axis ? places.values.shape[axis]! : together(size, places.values.shape[i]!),
    );
    const from = shape.with(axis, values.shape[axis]!);
    // A position outside of a tensor gives 0.
    const taken = new DevicePixels(values.expand(from).gather(axis, places.values.cast(i32).expand(shape)));
    return fill === 0 ? taken : within(places, values.shape[axis]!).where(taken, fill);
  }

  resample(rows: DevicePixels, columns: DevicePixels): DevicePixels {
    const exactly = { precision: 'f32' } as const;
    return new DevicePixels(
      rows.values.matmul(this.values, exactly).matmul(columns.values.transpose(), exactly),
    );
  }

  when(condition: DevicePixels, then: () => DevicePixels): DevicePixels {
    return condition.where(then(), this);
  }
}

/** A size of 1 stands for any. */
const together = (a: number, b: number): number => (a === 1 ? b : a);

const operand = (other: DevicePixels | number): Values | number =>
  typeof other === 'number' ? other : other.values;

const within = (positions: DevicePixels, size: number): DevicePixels =>
  new DevicePixels(positions.values.ge(0).and(positions.values.lt(size)));

/** Random numbers of the default generator. */
export class DeviceDraws implements Draws<DevicePixels> {
  readonly #images: number;

  constructor(images: number) {
    this.#images = images;
  }

  uniform(): DevicePixels {
    return new DevicePixels(rand([this.#images, 1, 1, 1]));
  }

  uniforms(count: number): readonly DevicePixels[] {
    const drawn = rand([count, this.#images, 1, 1, 1]);
    return Array.from({ length: count }, (_, i) => new DevicePixels(drawn.at(i)));
  }

  normal({ values }: DevicePixels): DevicePixels {
    return new DevicePixels(randn(values.shape));
  }
}
