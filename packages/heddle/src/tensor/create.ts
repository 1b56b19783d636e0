/** Making tensors. */
import { inspect } from 'node:util';
import {
  bool,
  type DType,
  describeValues,
  f32,
  f64,
  i32,
  i64,
  isFloat,
  isInteger,
  isOf,
  requireDType,
  type TypedArray,
  u8,
  u32,
} from '../core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import { formatShape, normalizeAxis, type Shape } from '../core/shape.js';
import { upload } from '../engine/realize.js';
import { setOwner } from '../engine/trace.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { Tensor } from './tensor.js';

export interface TensorOptions {
  /** Default f32 (of typed arrays: their own type; of booleans: bool). */
  readonly dtype?: DType;
  /** Whether `backward` computes a gradient for it (default false). */
  readonly requiresGrad?: boolean;
}

/** Numbers or booleans, nested to any depth. */
export type Nested = number | boolean | readonly Nested[];

/**
 * A tensor of the given values: a number, nested arrays, or a typed array (one dimension, or `shape`).
 * @throws ShapeError if nested arrays differ in length, or the values do not fill `shape`
 */
export function tensor<const S extends Shape>(
  data: Nested | TypedArray,
  options: TensorOptions & { readonly shape: S },
): Tensor<S>;
export function tensor(
  data: Nested | TypedArray,
  options?: TensorOptions & { readonly shape?: Shape },
): Tensor;
export function tensor(
  data: Nested | TypedArray,
  options: TensorOptions & { readonly shape?: Shape } = {},
): Tensor {
  if (options.dtype) requireDType('tensor', options.dtype);
  const { values, shape, dtype } = ArrayBuffer.isView(data)
    ? { values: data, shape: [data.length], dtype: dtypeOf(data) }
    : flattenNested(data);
  return fromNode(
    upload(values, options.shape ?? shape, options.dtype ?? dtype, options.requiresGrad),
    options,
  );
}

/** @internal A tensor that owns a leaf. */
export function fromNode<S extends Shape>(
  node: GraphNode,
  { requiresGrad = false }: TensorOptions,
): Tensor<S> {
  if (requiresGrad && !isFloat(node.dtype))
    throw new DTypeError(
      `a tensor of ${node.dtype.name} has no gradient. Make it of floats: { dtype: f32 }.`,
    );
  const own = requiresGrad && !node.requiresGrad ? b.detach(node, true) : node;
  const made = new Tensor<S>(own, true);
  setOwner(own, made);
  return made;
}

/** Subclasses, such as Buffer, count. */
const ARRAY_TYPES: readonly (readonly [abstract new (...args: never[]) => TypedArray, DType])[] = [
  [Float32Array, f32],
  [Float64Array, f64],
  [Int32Array, i32],
  [Uint32Array, u32],
  [BigInt64Array, i64],
  [Uint8Array, u8],
];

/** @throws ArgumentError for views whose elements no dtype holds */
function dtypeOf(data: TypedArray): DType {
  const [, dtype] = ARRAY_TYPES.find(([type]) => data instanceof type) ?? [];
  if (dtype) return dtype;
  if (!('length' in data) || typeof data[0] === 'bigint')
    throw new ArgumentError(
      `[tensor] takes numbers, got a ${(data as object).constructor.name}. There are tensors of i64: BigInt64Array.`,
    );
  return f32;
}

function flattenNested(data: Nested): { values: (number | bigint)[]; shape: number[]; dtype: DType } {
  const shape: number[] = [];
  for (let at: Nested = data; Array.isArray(at); at = at[0] as Nested) shape.push(at.length);
  const values: (number | bigint)[] = [];
  let booleans = true;
  const visit = (at: Nested, depth: number): void => {
    if (!Array.isArray(at)) {
      if (depth !== shape.length)
        throw new ShapeError(
          `[tensor] nesting differs: a number where ${shape.length - depth} more levels were expected.`,
        );
      if (typeof at !== 'boolean' && typeof at !== 'number' && typeof at !== 'bigint')
        throw new ArgumentError(
          `[tensor] takes numbers and booleans, got ${(at as unknown) instanceof Tensor ? 'a tensor. stack([…]) makes one of several' : inspect(at)}.`,
        );
      if (typeof at !== 'boolean') booleans = false;
      values.push(typeof at === 'bigint' ? at : Number(at));
      return;
    }
    if (depth >= shape.length)
      throw new ShapeError(
        `[tensor] nesting differs: a list where a number was expected, at depth ${depth}.`,
      );
    if (at.length !== shape[depth])
      throw new ShapeError(
        `[tensor] rows differ in length: ${shape[depth]} and ${at.length} at depth ${depth}.`,
      );
    for (const item of at) visit(item as Nested, depth + 1);
  };
  visit(data, 0);
  return { values, shape, dtype: booleans && values.length > 0 ? bool : f32 };
}

/** `value` in every element. */
export function full<const S extends Shape>(
  shape: S,
  value: number | boolean,
  options: TensorOptions = {},
): Tensor<S> {
  checkShape('full', shape);
  if (options.dtype) requireDType('full', options.dtype);
  const dtype = options.dtype ?? (typeof value === 'boolean' ? bool : f32);
  if (isInteger(dtype) && typeof value !== 'boolean' && !isOf(dtype, value))
    throw new DTypeError(`[full] ${String(value)} is no ${dtype.name}, which is ${describeValues(dtype)}.`);
  return fromNode(b.full(shape, dtype, dtype === i64 ? BigInt(value) : value), options);
}

export const zeros = <const S extends Shape>(shape: S, options: TensorOptions = {}): Tensor<S> =>
  full(shape, 0, { dtype: f32, ...options });
export const ones = <const S extends Shape>(shape: S, options: TensorOptions = {}): Tensor<S> =>
  full(shape, 1, { dtype: f32, ...options });

/** @internal */
export function checkShape(op: string, shape: Shape): void {
  if (!Array.isArray(shape))
    throw new ShapeError(`[${op}] ${String(shape)} is not a shape: pass a list, as in [2, 3].`);
  if (shape.some((d) => !Number.isInteger(d) || d < 0))
    throw new ShapeError(`[${op}] ${formatShape(shape)} is not a shape: sizes are whole numbers ≥ 0.`);
}

/** start, start + step, … below `stop` (from 0 with one argument). Default dtype i32 for whole numbers, else f32. */
export function arange(start: number, stop?: number, step = 1, options: TensorOptions = {}): Tensor {
  const [first, last] = stop === undefined ? [0, start] : [start, stop];
  if (step === 0) throw new ArgumentError('[arange] a step of 0 goes nowhere.');
  if (![first, last, step].every(Number.isFinite))
    throw new ArgumentError(
      `[arange] from ${first} to ${last} in steps of ${step}: must be numbers with an end.`,
    );
  const count = Math.max(0, Math.ceil((last - first) / step));
  const dtype = options.dtype ?? ([first, step].every(Number.isInteger) ? i32 : f32);
  const ends = count > 0 ? [first, first + (count - 1) * step] : [];
  const stray = isInteger(dtype)
    ? (ends.find((v) => !isOf(dtype, v)) ?? [step].find((v) => !isOf(i64, v)))
    : undefined;
  if (stray !== undefined)
    throw new DTypeError(
      `[arange] from ${first} to ${last} in steps of ${step}: ${stray} is no ${dtype.name}, which is ${describeValues(dtype)}. Choose another dtype.`,
    );
  // A step back is none of u8, and a large start none of i32.
  const inner = !isInteger(dtype) || [...ends, step].every((v) => isOf(dtype, v)) ? dtype : i64;
  const number = (v: number): GraphNode => b.full([], inner, inner === i64 ? BigInt(v) : v);
  const scaled = b.mul(b.cast(b.iota([count], 0), inner), number(step));
  return fromNode(b.cast(first === 0 ? scaled : b.add(scaled, number(first)), dtype), options);
}

/** The identity matrix (n, n). */
export function eye(n: number, options: TensorOptions = {}): Tensor {
  checkShape('eye', [n]);
  return fromNode(b.cast(b.map('eq', b.iota([n, n], 0), b.iota([n, n], 1)), options.dtype ?? f32), options);
}

/** Tensors one after the other along `axis`; the other sizes agree. */
export function cat(tensors: readonly Tensor[], axis = 0): Tensor {
  const first = tensors[0];
  if (!first) throw new ArgumentError('[cat] takes at least one tensor.');
  const at = normalizeAxis('cat', axis, first.ndim);
  for (const t of tensors) {
    if (t.ndim !== first.ndim || t.shape.some((d, i) => i !== at && d !== first.shape[i])) {
      throw new ShapeError(
        `[cat] shapes differ outside axis ${axis}: ${formatShape(first.shape)} and ${formatShape(t.shape)}.`,
      );
    }
    if (t.dtype !== first.dtype)
      throw new DTypeError(
        `[cat] dtypes differ: ${first.dtype.name} and ${t.dtype.name}. Convert with .cast(${first.dtype.name}).`,
      );
  }
  const total = tensors.reduce((n, t) => n + t.shape[at]!, 0);
  const shape = first.shape.map((d, i) => (i === at ? total : d));
  const position = b.iota(shape, at);
  let start = 0;
  let result: GraphNode | undefined;
  for (const t of tensors) {
    const only = (n: number): number[] => shape.map((_, i) => (i === at ? n : 0));
    const spread = b.pad(t.node, only(start), only(total - start - t.shape[at]!));
    result = result ? b.where(b.map('lt', position, b.like(position, start)), result, spread) : spread;
    start += t.shape[at]!;
  }
  return new Tensor(result!);
}

/** Tensors of one shape along a new dimension before `axis`. */
export const stack = (tensors: readonly Tensor[], axis = 0): Tensor =>
  cat(
    tensors.map((t) => t.unsqueeze(axis)),
    axis,
  );

/** Elements of `then` where `condition` is true, else of `otherwise`; all broadcast. */
export const where = (condition: Tensor, then: Tensor | number, otherwise: Tensor | number): Tensor =>
  condition.where(then, otherwise);
