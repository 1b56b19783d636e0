/** Movement of values on the host, for shapes and small constants. */
import { DTypeError, type Shape, ShapeError } from 'heddle';
import { formatShape, sizeOf, stridesOf } from 'heddle/internal/core/shape.js';
import { ELEMENT_TYPES, type ElementType, type HostArray, limitsOf } from '../file/element-types.js';
import type { HostTensor } from '../file/host-tensor.js';
import { roundTo } from './rounding.js';

/** One value: a number, a bigint of a 64-bit integer, or a text. */
export type HostValue = number | bigint | string;

/** Reads and writes without the array's own type: an array takes what it holds. */
export type HostCells = { readonly length: number; [index: number]: HostValue };

/** The values as cells of whatever type. */
export const cells = (values: HostArray): HostCells => values as unknown as HostCells;

/** The most elements that are computed on the host: shapes and small constants have few. */
const MOST_ELEMENTS = 2 ** 22;

/** Zeroed values of a type that the library reads. @throws ShapeError for more than the host computes, DTypeError */
export function zeroed(type: ElementType, size: number): HostArray {
  if (size > MOST_ELEMENTS)
    throw new ShapeError(
      `[onnx] ${size} elements are computed of shapes alone, at most ${MOST_ELEMENTS} are.`,
    );
  if (!type.array)
    throw new DTypeError(
      `[onnx] values of type ${type.name} are asked for, which the library does not compute with.`,
    );
  return type.array(size);
}

/** A tensor of values given one by one. */
export function hostTensor(type: ElementType, shape: Shape, values: Iterable<HostValue>): HostTensor {
  const array = zeroed(type, sizeOf(shape));
  const to = cells(array);
  let i = 0;
  for (const value of values) to[i++] = value;
  return { type, shape, values: array };
}

/** A tensor of i64 from numbers. */
export const int64s = (values: readonly number[], shape: Shape = [values.length]): HostTensor =>
  hostTensor(ELEMENT_TYPES.i64, shape, values.map(BigInt));

/** The element at start + Σ index · stride, for every index of `shape`. */
export function strided(x: HostTensor, shape: Shape, start: number, strides: readonly number[]): HostTensor {
  const values = zeroed(x.type, sizeOf(shape));
  const [from, to] = [cells(x.values), cells(values)];
  let i = 0;
  for (const at of positions(shape, start, strides)) to[i++] = from[at]!;
  return { type: x.type, shape, values };
}

/** start + Σ index · stride for every index of `shape`, row by row. */
export function* positions(shape: Shape, start: number, strides: readonly number[]): Generator<number> {
  const index = new Array<number>(shape.length).fill(0);
  let at = start;
  for (let left = sizeOf(shape); left > 0; left--) {
    yield at;
    for (let d = shape.length - 1; d >= 0; d--) {
      index[d]!++;
      at += strides[d]!;
      if (index[d]! < shape[d]!) break;
      at -= shape[d]! * strides[d]!;
      index[d] = 0;
    }
  }
}

/** Strides that repeat a tensor to `shape`: 0 along the dimensions that are repeated. */
export function broadcastStrides(from: Shape, to: Shape): number[] {
  const strides = stridesOf(from);
  const ahead = to.length - from.length;
  return to.map((d, i) => {
    const size = i < ahead ? 1 : from[i - ahead]!;
    if (size !== d && size !== 1)
      throw new ShapeError(`[onnx] ${formatShape(from)} cannot be repeated to ${formatShape(to)}.`);
    return size === 1 ? 0 : strides[i - ahead]!;
  });
}

/** Tensors one after the other along `axis`. */
export function concatenate(parts: readonly HostTensor[], axis: number): HostTensor {
  const first = parts[0]!;
  const shape = first.shape.map((d, i) => (i === axis ? parts.reduce((n, p) => n + p.shape[i]!, 0) : d));
  const values = zeroed(first.type, sizeOf(shape));
  const to = cells(values);
  const outer = sizeOf(shape.slice(0, axis));
  let at = 0;
  for (let row = 0; row < outer; row++)
    for (const part of parts) {
      const width = sizeOf(part.shape.slice(axis));
      const from = cells(part.values);
      for (let i = 0; i < width; i++) to[at++] = from[row * width + i]!;
    }
  return { type: first.type, shape, values };
}

/** The slices along `axis` at `index`, whose shape takes the place of that dimension. @throws ShapeError out of range */
export function take(x: HostTensor, index: HostTensor, axis: number): HostTensor {
  const size = x.shape[axis]!;
  const picked = Array.from(cells(index.values) as ArrayLike<number | bigint>, (value) => {
    const at = Number(value) < 0 ? Number(value) + size : Number(value);
    if (at < 0 || at >= size)
      throw new ShapeError(
        `[onnx] the position ${value} is out of range for dimension ${axis} of ${formatShape(x.shape)}.`,
      );
    return at;
  });
  const inner = sizeOf(x.shape.slice(axis + 1));
  const outer = sizeOf(x.shape.slice(0, axis));
  const shape = [...x.shape.slice(0, axis), ...index.shape, ...x.shape.slice(axis + 1)];
  const values = zeroed(x.type, sizeOf(shape));
  const [from, to] = [cells(x.values), cells(values)];
  let at = 0;
  for (let o = 0; o < outer; o++)
    for (const p of picked) for (let i = 0; i < inner; i++) to[at++] = from[(o * size + p) * inner + i]!;
  return { type: x.type, shape, values };
}

/** Converted to another type: floats to integers towards zero, integers modulo their range. */
export function castHost(x: HostTensor, type: ElementType): HostTensor {
  const values = zeroed(type, sizeOf(x.shape));
  const [from, to] = [cells(x.values), cells(values)];
  for (let i = 0; i < from.length; i++) to[i] = castValue(from[i]!, x.type, type);
  return { type, shape: x.shape, values };
}

/** One value in another type. */
export function castValue(value: HostValue, from: ElementType, to: ElementType): HostValue {
  if (to.kind === 'string') return textOf(value, from);
  const number = typeof value === 'string' ? numberOf(value, to) : value;
  if (to.kind === 'float') return roundTo(to, Number(number));
  if (to.kind === 'bool') return Number(number) !== 0 || Number.isNaN(number) ? 1 : 0;
  const whole = typeof number === 'bigint' ? number : BigInt(integral(number));
  return wrapInteger(whole, to);
}

/** Into the range of an integer type, modulo its values. */
export function wrapInteger(value: bigint, type: ElementType): number | bigint {
  const wrapped = type.kind === 'int' ? BigInt.asIntN(type.bits, value) : BigInt.asUintN(type.bits, value);
  return type.bits === 64 ? wrapped : Number(wrapped);
}

/** Into the range of an integer type, the nearest value it has. */
export function saturateInteger(value: number, type: ElementType): number | bigint {
  const [least, most] = limitsOf(type).map(Number) as [number, number];
  const clamped = Math.min(Math.max(Number.isNaN(value) ? 0 : value, least), most);
  return type.bits === 64 ? BigInt(clamped) : clamped;
}

const integral = (x: number): number => (Number.isFinite(x) ? Math.trunc(x) : 0);

function numberOf(text: string, to: ElementType): number | bigint {
  const word = text.trim();
  if (/^[+-]?\d+$/.test(word) && to.kind !== 'float') return BigInt(word);
  if (/^[+-]?inf(inity)?$/i.test(word)) return word.startsWith('-') ? -Infinity : Infinity;
  return /^[+-]?nan$/i.test(word) ? Number.NaN : Number(word);
}

function textOf(value: HostValue, { kind }: ElementType): string {
  if (typeof value !== 'number' || kind !== 'float') return String(value);
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? 'INF' : '-INF';
  return String(value);
}
