/** Inputs that are bytes, made numbers on the device. */
import { i32 } from '../core/dtype.js';
import type { Shape } from '../core/shape.js';
import { arange, tensor } from '../tensor/create.js';
import type { Tensor } from '../tensor/tensor.js';

/** Looks up what bytes stand for: the same numbers as on the host, bit for bit. */
export class ByteValues {
  /** One channel after the other, f32 (256 × tables). */
  readonly #table: Tensor<Shape, 'f32'>;
  readonly #tables: number;

  /** @param tables of each channel, or one for all: see `ByteInputs` */
  constructor(tables: readonly Float32Array[]) {
    this.#table = tensor(Float32Array.from(tables.flatMap((table) => [...table])));
    this.#tables = tables.length;
  }

  /** @param bytes u8 (N, channels, …) @returns f32 of the same shape */
  of(bytes: Tensor<Shape, 'u8'>): Tensor<Shape, 'f32'> {
    const places = bytes.cast(i32);
    return this.#table.at(this.#tables === 1 ? places : places.add(this.#begins(bytes.shape)));
  }

  /** Where the table of each channel begins. */
  #begins([, , ...plane]: Shape): Tensor {
    return arange(this.#tables)
      .mul(256)
      .reshape([-1, ...plane.map(() => 1)]);
  }

  dispose(): void {
    this.#table.dispose();
  }
}
