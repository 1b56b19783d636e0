/**
 * The values that flow between operators. A value is a tensor of the library, or known on the host: shapes, and the constants
 * that say how to reshape, slice and pad. What moves elements works on both, so that a shape that a model computes stays known
 * while its graph is recorded, and a tensor is made of it where an operator computes with it.
 */
import { type AnyTensor, cat, type DType, DTypeError, i32, type Shape, ShapeError, tensor } from 'heddle';
import { formatShape, sizeOf, stridesOf } from 'heddle/internal/core/shape.js';
import { ELEMENT_TYPES, type ElementType, isNative } from '../file/element-types.js';
import type { HostTensor } from '../file/host-tensor.js';
import { broadcastStrides, castHost, cells, concatenate, int64s, strided, take } from './host-ops.js';
import { requireRank } from './limits.js';
import { castTensor, wrapTensor } from './tensor-ops.js';

/** A tensor of ONNX. */
export class Value {
  /** The element type; a tensor may carry it in a wider dtype. */
  readonly type: ElementType;
  /** Sizes of the dimensions. */
  readonly shape: Shape;
  /** The values, where they are known without computing on a device. */
  readonly host: HostTensor | undefined;
  #tensor: AnyTensor | undefined;

  private constructor(type: ElementType, shape: Shape, host?: HostTensor, tensor?: AnyTensor) {
    requireRank(shape.length);
    this.type = type;
    this.shape = shape;
    this.host = host;
    this.#tensor = tensor;
  }

  /** Values that are known. */
  static host(host: HostTensor): Value {
    return new Value(host.type, host.shape, host);
  }

  /** Values on a device. @param type what they stand for, if not for themselves */
  static of(tensor: AnyTensor, type: ElementType = ELEMENT_TYPES[tensor.dtype.name]): Value {
    return new Value(type, tensor.shape, undefined, tensor);
  }

  /** Whole numbers as i64: axes, sizes, positions. */
  static int64s(values: readonly number[], shape?: Shape): Value {
    return Value.host(int64s(values, shape));
  }

  /** How many elements. */
  get size(): number {
    return sizeOf(this.shape);
  }

  /** How many dimensions. */
  get rank(): number {
    return this.shape.length;
  }

  /** As a tensor on a device. @throws DTypeError for types without tensors */
  get tensor(): AnyTensor {
    this.#tensor ??= upload(this.host!);
    return this.#tensor;
  }

  /** The same elements in another shape. */
  reshape(shape: Shape): Value {
    if (sizeOf(shape) !== this.size)
      throw new ShapeError(
        `[onnx] ${formatShape(this.shape)} has ${this.size} elements, it cannot be reshaped to ${formatShape(shape)}.`,
      );
    if (this.host) return Value.host({ ...this.host, shape });
    return Value.of(this.tensor.reshape(shape as number[]), this.type);
  }

  /** The dimensions in another order. */
  permute(axes: readonly number[]): Value {
    if (!this.host) return Value.of(this.tensor.permute(axes), this.type);
    const strides = stridesOf(this.shape);
    return Value.host(
      strided(
        this.host,
        axes.map((a) => this.shape[a]!),
        0,
        axes.map((a) => strides[a]!),
      ),
    );
  }

  /** Sizes of 1, and dimensions in front, repeated to `shape`. */
  expand(shape: Shape): Value {
    const strides = broadcastStrides(this.shape, shape);
    if (this.host) return Value.host(strided(this.host, shape, 0, strides));
    const ahead = new Array<number>(shape.length - this.rank).fill(1);
    return Value.of(this.tensor.reshape([...ahead, ...this.shape]).expand(shape as number[]), this.type);
  }

  /** Per dimension the elements start, start + step, …, `size` of them. */
  slice(start: readonly number[], size: readonly number[], step: readonly number[]): Value {
    if (this.host) {
      const strides = stridesOf(this.shape);
      const from = start.reduce((n, s, i) => n + s * strides[i]!, 0);
      return Value.host(
        strided(
          this.host,
          size,
          sizeOf(size) === 0 ? 0 : from,
          strides.map((s, i) => s * step[i]!),
        ),
      );
    }
    const entries = start.map((s, i) => sliceText(s, size[i]!, step[i]!, this.shape[i]!));
    return Value.of(this.rank === 0 ? this.tensor : this.tensor.at(...entries), this.type);
  }

  /** The slices along `axis` at the positions of `index`, whose shape takes the place of that dimension. */
  take(index: Value, axis: number): Value {
    if (this.host && index.host) return Value.host(take(this.host, index.host, axis));
    const positions = positionsOf(index);
    const entries = this.shape.map((_, i) => (i === axis ? positions : ':'));
    return Value.of(this.tensor.at(...entries), this.type);
  }

  /** Converted to another type: floats to integers towards zero; integers modulo their range. */
  cast(type: ElementType): Value {
    if (type === this.type) return this;
    if (this.host) return Value.host(castHost(this.host, type));
    return Value.of(castTensor(this.tensor, this.type, type), type);
  }

  /** Values along `axis`, one after the other. */
  static concat(parts: readonly Value[], axis: number): Value {
    const [first, ...others] = parts as readonly [Value, ...Value[]];
    for (const { shape } of others)
      if (shape.length !== first.rank || shape.some((d, i) => i !== axis && d !== first.shape[i]))
        throw new ShapeError(
          `[onnx] ${parts.map((p) => formatShape(p.shape)).join(', ')} cannot be joined along dimension ${axis}: the others differ.`,
        );
    if (parts.every((p) => p.host))
      return Value.host(
        concatenate(
          parts.map((p) => p.host!),
          axis,
        ),
      );
    return Value.of(
      cat(
        parts.map((p) => p.tensor),
        axis,
      ) as AnyTensor,
      first.type,
    );
  }

  /** A tensor of results, brought back into the range of a type that a wider dtype carries. */
  static wrapped(tensor: AnyTensor, type: ElementType): Value {
    return Value.of(isNative(type) ? tensor : wrapTensor(tensor, type), type);
  }
}

/** The values of a list of values: a sequence of ONNX. */
export class Sequence {
  /** The elements. */
  readonly values: readonly Value[];
  constructor(values: readonly Value[]) {
    this.values = values;
  }
}

/** What a name of a graph stands for; undefined is an optional without a value. */
export type Datum = Value | Sequence | undefined;

/** @throws DTypeError for types without tensors */
function upload({ type, shape, values }: HostTensor): AnyTensor {
  const { dtype } = type;
  if (!dtype)
    throw new DTypeError(
      `[onnx] values of type ${type.name} cannot be computed with on a device: it has no tensors of them.`,
    );
  const array =
    isNative(type) || values instanceof BigInt64Array ? values : Int32Array.from(values as Int8Array);
  const own = type.name === 'f16' || type.name === 'bf16' || type.name === 'bool' ? values : array;
  return tensor(own as Float32Array, { dtype: dtype as DType<'f32'>, shape: shape as number[] }) as AnyTensor;
}

/** A slice as the library writes it. */
function sliceText(start: number, size: number, step: number, length: number): string {
  if (size === 0) return '0:0';
  const stop = start + step * size;
  const end = step > 0 ? String(Math.min(stop, length)) : stop < 0 ? '' : String(stop);
  return `${start}:${end}:${step}`;
}

/** The values of a value on the host as whole numbers. @throws DTypeError */
export function numbersOf(host: HostTensor): number[] {
  return Array.from(cells(host.values) as ArrayLike<number | bigint>, Number);
}

/** Positions as the i32 that the library indexes with. */
export const positionsOf = (index: Value): AnyTensor => index.tensor.cast(i32);
