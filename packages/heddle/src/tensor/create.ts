/** Making tensors. */
import {
  aBoolean,
  aFinite,
  integerFrom,
  oneOf,
  type Rule,
  type Rules,
  requireArgument,
  requireOptions,
  shown,
} from '../core/arguments.js';
import {
  aDType,
  bool,
  type DType,
  type DTypeName,
  describeValues,
  f32,
  f64,
  i8,
  i32,
  i64,
  isFloat,
  isHalf,
  isInteger,
  isOf,
  type TypedArray,
  u8,
  u32,
} from '../core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import { aShape, formatShape, normalizeAxis, requireShape, type Shape } from '../core/shape.js';
import { upload, zeroed } from '../engine/realize.js';
import { setOwner } from '../engine/trace.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { met } from './autocast.js';
import { type AnyTensor, requireTensor, requireTensors } from './checks.js';
import { noGradientOf } from './handle.js';
import { concatenate } from './movement.js';
import type {
  Count,
  Fitted,
  GivenShape,
  Joined,
  ResultShape,
  Uninferred,
  Unsqueezed,
} from './shape-types.js';
import {
  type ChosenDType,
  type ChosenShape,
  type DTypeOf,
  type NumberDType,
  type Operand,
  type ShapeOf,
  type ShapesOf,
  Tensor,
} from './tensor.js';

/** Options of all functions that make tensors. */
export interface TensorOptions<D extends DTypeName = DTypeName> {
  /** Default f32 (of typed arrays: their own type; of booleans: bool). */
  readonly dtype?: DType<D>;
  /** Whether `backward` computes a gradient for it (default false). */
  readonly requiresGrad?: boolean;
}

/** @internal The rules of `TensorOptions`. */
export const TENSOR: Rules<TensorOptions> = { dtype: aDType, requiresGrad: aBoolean };

const SHAPED: Rules<TensorOptions & { readonly shape?: Shape }> = { ...TENSOR, shape: aShape };

/** Numbers or booleans, nested to any depth. */
export type Nested = number | boolean | readonly Nested[];

/** The dtype of a tensor of such values, if no other is asked for. */
export type DTypeFor<V> = [V] extends [
  number | Float32Array | readonly number[] | readonly (readonly number[])[],
]
  ? 'f32'
  : [V] extends [boolean | readonly boolean[] | readonly (readonly boolean[])[]]
    ? 'bool'
    : [V] extends [Int32Array]
      ? 'i32'
      : [V] extends [Int8Array]
        ? 'i8'
        : [V] extends [Uint8Array]
          ? 'u8'
          : [V] extends [Float64Array]
            ? 'f64'
            : [V] extends [Uint32Array]
              ? 'u32'
              : [V] extends [BigInt64Array]
                ? 'i64'
                : NumberDType;

/** The shape of a tensor of such values, where no other is given: `[]` of a number, else not known to types. */
export type ShapeFor<V> = [V] extends [number | boolean] ? [] : Shape;

/**
 * A tensor of the given values: a number, nested arrays, or a typed array (one dimension, or `shape`).
 * @example
 * ```ts
 * import { f64, tensor } from 'heddle';
 *
 * const x = tensor([[1, 2], [3, 4]]);
 * console.log(x.shape, x.dtype.name); // → [ 2, 2 ] f32
 * console.log(tensor(Float32Array.of(1, 2, 3, 4), { shape: [2, 2], dtype: f64 }).dtype.name); // → f64
 * ```
 * @throws ShapeError if nested arrays differ in length, or the values do not fill `shape`
 */
export function tensor<
  D extends DTypeName,
  V extends Nested | TypedArray,
  const S extends Shape = ShapeFor<V>,
>(
  data: V,
  options: TensorOptions<D> & { readonly dtype: DType<D>; readonly shape?: S },
): Tensor<GivenShape<S>, D>;
export function tensor<V extends Nested | TypedArray, const S extends Shape = ShapeFor<V>>(
  data: V,
  options?: TensorOptions & { readonly dtype?: never; readonly shape?: S },
): Tensor<GivenShape<S>, DTypeFor<V>>;
export function tensor(
  data: Nested | TypedArray,
  options?: TensorOptions & { readonly shape?: Shape },
): Tensor;
export function tensor(
  data: Nested | TypedArray,
  options: TensorOptions & { readonly shape?: Shape } = {},
): AnyTensor {
  requireOptions('tensor', options, SHAPED);
  const { values, shape, dtype } = ArrayBuffer.isView(data)
    ? { values: data, shape: [data.length], dtype: dtypeOf(data) }
    : flattenNested(data);
  return fromNode(
    upload(values, options.shape ?? shape, options.dtype ?? dtype, options.requiresGrad),
    options,
  );
}

/** @internal Zeros in memory of their own, which is there from the start: for what is updated from step to step. */
export function storedZeros<const S extends Shape, D extends DTypeName = 'f32'>(
  shape: S,
  options: TensorOptions<D> = {},
): Tensor<GivenShape<S>, Uninferred<D, DTypeName>> {
  const { dtype = f32 as DType, requiresGrad } = options;
  return fromNode(zeroed(shape, dtype, requiresGrad), options);
}

/** @internal A tensor that owns a leaf. */
export function fromNode<S extends Shape, D extends DTypeName>(
  node: GraphNode,
  { requiresGrad = false }: TensorOptions,
): Tensor<S, D> {
  if (requiresGrad && !isFloat(node.dtype)) throw noGradientOf(node.dtype);
  const own = requiresGrad && !node.requiresGrad ? b.detach(node, true) : node;
  const made = new Tensor<S, D>(own, true);
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
  [Int8Array, i8],
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
          `[tensor] takes numbers and booleans, got ${(at as unknown) instanceof Tensor ? 'a tensor. stack([…]) makes one of several' : shown(at)}.`,
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

/** `value` in every element. Default dtype f32, of a boolean bool. */
export function full<const S extends Shape, D extends DTypeName = 'f32'>(
  shape: S,
  value: number | bigint,
  options?: TensorOptions<D>,
): Tensor<GivenShape<S>, Uninferred<D, DTypeName>>;
export function full<const S extends Shape, D extends DTypeName = 'bool'>(
  shape: S,
  value: boolean,
  options?: TensorOptions<D>,
): Tensor<GivenShape<S>, Uninferred<D, DTypeName>>;
export function full(shape: Shape, value: number | boolean | bigint, options: TensorOptions = {}): AnyTensor {
  return filled('full', shape, value, options);
}

/** 0 in every element. Default dtype f32. */
export const zeros = <const S extends Shape, D extends DTypeName = 'f32'>(
  shape: S,
  options: TensorOptions<D> = {},
): Tensor<GivenShape<S>, Uninferred<D, DTypeName>> => filled('zeros', shape, 0, options);
/** 1 in every element. Default dtype f32. */
export const ones = <const S extends Shape, D extends DTypeName = 'f32'>(
  shape: S,
  options: TensorOptions<D> = {},
): Tensor<GivenShape<S>, Uninferred<D, DTypeName>> => filled('ones', shape, 1, options);

const aValue: Rule = {
  must: 'a number or a boolean',
  holds: (v) => typeof v === 'number' || typeof v === 'boolean' || typeof v === 'bigint',
};

function filled<S extends Shape, D extends DTypeName>(
  op: string,
  shape: Shape,
  value: number | boolean | bigint,
  options: TensorOptions,
): Tensor<S, D> {
  requireShape(op, shape);
  requireArgument(op, 'value', value, aValue);
  requireOptions(op, options, TENSOR);
  const dtype = options.dtype ?? (typeof value === 'boolean' ? bool : f32);
  const exact = typeof value === 'boolean' || (typeof value === 'number' && !isInteger(dtype));
  if (!exact && !isOf(dtype, value))
    throw new DTypeError(
      `[${op}] ${shown(value)} cannot be represented as ${dtype.name} (${describeValues(dtype)}).`,
    );
  return fromNode(b.full(shape, dtype, dtype === i64 ? BigInt(value) : value), options);
}

/** Options of `arange`. */
export interface ArangeOptions<D extends DTypeName = DTypeName> extends TensorOptions<D> {
  /** From one element to the next, not 0 (default 1). */
  readonly step?: number;
}

const ARANGE: Rules<ArangeOptions> = { ...TENSOR, step: aFinite };

/**
 * 0, step, 2·step, … below `stop`, one dimension. Default dtype i32 for whole numbers, else f32.
 * @example
 * ```ts
 * import { arange } from 'heddle';
 *
 * console.log(await arange(3).array()); // → [ 0, 1, 2 ]
 * console.log(await arange(1, 2, { step: 0.25 }).array()); // → [ 1, 1.25, 1.5, 1.75 ]
 * ```
 * @throws ArgumentError, DTypeError for a dtype that cannot represent an element
 */
export function arange<N extends number, D extends DTypeName = 'i32' | 'f32'>(
  stop: N,
  options?: TensorOptions<D>,
): Tensor<[Count<N>], D>;
/** 0, step, 2·step, … below `stop` (above it, if step is negative). */
export function arange<D extends DTypeName = 'i32' | 'f32'>(
  stop: number,
  options: ArangeOptions<D>,
): Tensor<[number], D>;
/** start, start + step, … below `stop` (above it, if step is negative). */
export function arange<D extends DTypeName = 'i32' | 'f32'>(
  start: number,
  stop: number,
  options?: ArangeOptions<D>,
): Tensor<[number], D>;
export function arange(
  startOrStop: number,
  stopOrOptions?: number | ArangeOptions,
  more?: ArangeOptions,
): AnyTensor {
  const fromZero = more === undefined && typeof stopOrOptions !== 'number';
  const [first, last] = fromZero ? [0, startOrStop] : [startOrStop, stopOrOptions as number];
  const given = fromZero ? (stopOrOptions as ArangeOptions | undefined) : more;
  const options = given === undefined ? {} : given;
  requireOptions('arange', options, ARANGE);
  const { step = 1 } = options;
  for (const [name, value] of Object.entries({ start: first, stop: last, step }))
    requireArgument('arange', name, value, aFinite);
  if (step === 0) throw new ArgumentError('[arange] step must not be 0.');
  const count = Math.max(0, Math.ceil((last - first) / step));
  const dtype: DType = options.dtype ?? ([first, step].every(Number.isInteger) ? i32 : f32);
  const ends = count > 0 ? [first, first + (count - 1) * step] : [];
  const stray = isInteger(dtype)
    ? (ends.find((v) => !isOf(dtype, v)) ?? [step].find((v) => !isOf(i64, v)))
    : undefined;
  if (stray !== undefined)
    throw new DTypeError(
      `[arange] from ${first} to ${last} in steps of ${step}: ${stray} cannot be represented as ${dtype.name} (${describeValues(dtype)}). Choose another dtype.`,
    );
  // A step back is none of u8, and a large start none of i32.
  const inner = !isInteger(dtype) || [...ends, step].every((v) => isOf(dtype, v)) ? dtype : i64;
  const number = (v: number): GraphNode => b.full([], inner, inner === i64 ? BigInt(v) : v);
  const scaled = b.mul(b.cast(b.iota([count], 0), inner), number(step));
  return fromNode(b.cast(first === 0 ? scaled : b.add(scaled, number(first)), dtype), options);
}

/**
 * `count` numbers from `start` to `end`, both included, at equal distances, one dimension. Default dtype f32.
 * @example
 * ```ts
 * import { linspace } from 'heddle';
 *
 * console.log(await linspace(0, 1, 5).array()); // → [ 0, 0.25, 0.5, 0.75, 1 ]
 * ```
 * @throws ArgumentError, DTypeError unless of floats
 */
export function linspace<N extends number, D extends DTypeName = 'f32'>(
  start: number,
  end: number,
  count: N,
  options: TensorOptions<D> = {},
): Tensor<[N], Uninferred<D, DTypeName>> {
  for (const [name, value] of Object.entries({ start, end }))
    requireArgument('linspace', name, value, aFinite);
  requireArgument('linspace', 'count', count, integerFrom(0));
  requireOptions('linspace', options, TENSOR);
  const dtype: DType = options.dtype ?? f32;
  if (!isFloat(dtype)) throw new DTypeError(`[linspace] takes a dtype of floats, got ${dtype.name}.`);
  const step = count > 1 ? (end - start) / (count - 1) : 0;
  const compute = isHalf(dtype) ? f32 : dtype;
  const position = b.cast(b.iota([count], 0), compute);
  // The second half counts from the end, so that it is met exactly.
  const from = (first: number, n: GraphNode): GraphNode => b.add(b.mul(n, b.like(n, step)), b.like(n, first));
  const last = b.sub(position, b.like(position, count - 1));
  const isEarly = b.map('lt', position, b.like(position, count / 2));
  return fromNode(b.cast(b.where(isEarly, from(start, position), from(end, last)), dtype), options);
}

/** Options of `meshgrid`. */
export interface MeshgridOptions {
  /** 'ij' (default): the first tensor runs along the first dimension; 'xy': along the second. */
  readonly indexing?: 'ij' | 'xy';
}

const MESHGRID: Rules<MeshgridOptions> = { indexing: oneOf('ij', 'xy') };

/**
 * The coordinates of a grid: of n tensors of one dimension each, n tensors of all their sizes, each varying along its own
 * dimension.
 * @throws ShapeError, ArgumentError
 */
export function meshgrid<D extends DTypeName>(
  tensors: readonly Tensor<Shape, D>[],
  options: MeshgridOptions = {},
): Tensor<Shape, D>[] {
  requireTensors('meshgrid', 'tensors', tensors);
  requireOptions('meshgrid', options, MESHGRID);
  for (const [i, t] of tensors.entries())
    if (t.ndim !== 1)
      throw new ShapeError(`[meshgrid] tensor ${i} is ${formatShape(t.shape)}, must have one dimension.`);
  const order = tensors.map((_, i) => (options.indexing === 'xy' && i < 2 && tensors.length > 1 ? 1 - i : i));
  const shape = order.map((i) => tensors[i]!.size);
  return tensors.map((t, i) => t.reshape(order.map((o) => (o === i ? t.size : 1))).expand(shape));
}

/** The identity matrix (n, n). */
export function eye<N extends number, D extends DTypeName = 'f32'>(
  n: N,
  options: TensorOptions<D> = {},
): Tensor<[N, N], Uninferred<D, DTypeName>> {
  requireArgument('eye', 'n', n, integerFrom(0));
  requireOptions('eye', options, TENSOR);
  return fromNode(b.cast(b.map('eq', b.iota([n, n], 0), b.iota([n, n], 1)), options.dtype ?? f32), options);
}

/**
 * Tensors one after the other along `axis`; the other sizes agree.
 * @example
 * ```ts
 * import { cat, ones, zeros } from 'heddle';
 *
 * console.log(await cat([zeros([2, 1]), ones([2, 2])], 1).array()); // → [ [ 0, 1, 1 ], [ 0, 1, 1 ] ]
 * ```
 */
export function cat<const L extends readonly AnyTensor[], X extends number = 0>(
  tensors: L & Uninferred<Fitted<Joined<ShapesOf<L>, X>, unknown>>,
  axis: X = 0 as X,
): Tensor<ResultShape<Joined<ShapesOf<L>, X>>, DTypeOf<L[number]>> {
  requireTensors('cat', 'tensors', tensors);
  const first = tensors[0];
  if (!first) throw new ArgumentError('[cat] takes at least one tensor.');
  const at = normalizeAxis('cat', axis, first.ndim);
  const nodes = met(...tensors.map((t) => t.node));
  const { dtype } = nodes[0]!;
  for (const t of nodes) {
    if (t.shape.length !== first.ndim || t.shape.some((d, i) => i !== at && d !== first.shape[i])) {
      throw new ShapeError(
        `[cat] shapes differ outside axis ${axis}: ${formatShape(first.shape)} and ${formatShape(t.shape)}.`,
      );
    }
    if (t.dtype !== dtype)
      throw new DTypeError(
        `[cat] dtypes differ: ${dtype.name} and ${t.dtype.name}. Convert with .cast(${dtype.name}).`,
      );
  }
  return new Tensor(concatenate(nodes, at));
}

/**
 * Tensors of one shape along a new dimension before `axis`.
 * @example
 * ```ts
 * import { stack, tensor } from 'heddle';
 *
 * console.log(await stack([tensor([1, 2]), tensor([3, 4])]).array()); // → [ [ 1, 2 ], [ 3, 4 ] ]
 * ```
 */
export function stack<const L extends readonly AnyTensor[], X extends number = 0>(
  tensors: L,
  axis: X = 0 as X,
): Tensor<Unsqueezed<ShapeOf<L[number]>, X, L['length']>, DTypeOf<L[number]>> {
  requireTensors('stack', 'tensors', tensors);
  const at: number = axis;
  return new Tensor(
    cat(
      tensors.map((t) => t.unsqueeze(at)),
      at,
    ).node,
  );
}

/**
 * Elements of `then` where `condition` is true, else of `otherwise`; all broadcast.
 * @example
 * ```ts
 * import { tensor, where } from 'heddle';
 *
 * const x = tensor([-1, 0, 2]);
 * console.log(await where(x.gt(0), x, 0).array()); // → [ 0, 0, 2 ]
 * ```
 */
export function where<T extends AnyTensor, X extends Operand, Y extends Operand>(
  condition: T,
  then: X,
  otherwise: Y,
): Tensor<ChosenShape<T, X, Y>, ChosenDType<X | Y>> {
  requireTensor('where', 'condition', condition);
  return condition.where(then, otherwise) as Tensor<ChosenShape<T, X, Y>, ChosenDType<X | Y>>;
}
