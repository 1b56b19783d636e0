/**
 * Tensors: what users touch. An operation makes a graph node and returns at once; values are computed when they are
 * asked for (`await t.data()`, `await t.item()`) or when a `jit` step runs. Nothing is to be disposed of in a loop.
 */
import {
  aBoolean,
  aNumber,
  anArrayLike,
  aString,
  atLeast,
  type Rules,
  requireArgument,
  requireOptions,
  shown,
} from '../core/arguments.js';
import {
  bool,
  type DataOf,
  type DType,
  type DTypeName,
  describeValues,
  f32,
  isOf,
  requireFloats,
} from '../core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import { aPrecision, type Precision } from '../core/precision.js';
import { formatShape, normalizeAxis, requireShape, type Shape } from '../core/shape.js';
import { dispose } from '../engine/ownership.js';
import * as engine from '../engine/realize.js';
import { currentTrace, isFromBefore, setOwner } from '../engine/trace.js';
import * as b from '../graph/build.js';
import { parametersOf, vjp } from '../graph/grad.js';
import type { GraphNode } from '../graph/node.js';
import type { ScalarOp } from '../kernel/ir/ops.js';
import * as activation from '../ops/activation/op.js';
import { matmul } from '../ops/matmul/op.js';
import { scan } from '../ops/scan/op.js';
import { softmax } from '../ops/softmax/op.js';
import type { Ordered } from '../ops/sort/op.js';
import { forProduct, inFull, met } from './autocast.js';
import { type Axes, inferShape } from './axes.js';
import * as elementary from './elementary.js';
import { TensorHandle } from './handle.js';
import { type Index, index, select, takeFlat } from './indexing.js';
import type { Padding, PadOptions } from './movement.js';
import * as movement from './movement.js';
import { type ArraysByRank, type NestedArray, nested } from './nested.js';
import { padAround } from './padding.js';
import { getPrecision } from './precision.js';
import { describeTensor, INSPECT, type InspectOptions, isInside } from './print.js';
import {
  argOf,
  deviation,
  logSumExp,
  mean,
  norm,
  type ReduceOptions,
  reduced,
  type VarianceOptions,
  type VectorNormOptions,
  variance,
  vote,
} from './reductions.js';
import type { IndexAddOptions } from './scattering.js';
import * as scattering from './scattering.js';
import type {
  Broadcast,
  Fitted,
  Flattened,
  GivenShape,
  Permuted,
  Product,
  Reduced,
  Reshaped,
  ResultShape,
  Squeezed,
  Transposed,
  Uninferred,
  Unsqueezed,
} from './shape-types.js';
import type { SortOptions, TopkOptions } from './sorting.js';
import * as sorting from './sorting.js';

/** What a tensor's dtype is where nothing else is said: any whose elements arrive as numbers, which i64's do not. */
export type NumberDType = Exclude<DTypeName, 'i64'>;

/** A tensor of any dtype. */
export type AnyTensor = Tensor<Shape, DTypeName>;

/** The shape of a tensor; `[]` of a number. */
export type ShapeOf<T> = T extends Tensor<infer S, infer _> ? S : [];

/** The shapes of a list of tensors. */
export type ShapesOf<L extends readonly AnyTensor[]> = { readonly [K in keyof L]: ShapeOf<L[K]> };

/** The dtype of a tensor. */
export type DTypeOf<T> = T extends Tensor<infer _, infer D> ? D : never;

/** A number, or a tensor. Numbers take the dtype of the tensor they meet. */
export type Operand = AnyTensor | number | boolean | bigint;

/** The shape that the tensor T and the operand O are broadcast to. */
export type Met<T, O> = O extends number | boolean | bigint
  ? ShapeOf<T>
  : ResultShape<Broadcast<ShapeOf<T>, ShapeOf<O>>>;

/** The shape of `where`: the condition T, X and Y broadcast. */
export type ChosenShape<T, X, Y> = ResultShape<Broadcast<Met<T, X>, ShapeOf<Y>>>;

/** The dtype of `where`: that of the tensors among its operands, else f32. */
export type ChosenDType<X> = [X] extends [number | boolean | bigint] ? 'f32' : DTypeOf<X>;

/** The operand O of the tensor T, or a text that says why they do not broadcast. */
export type Fits<T, O> = O extends number | boolean | bigint
  ? O
  : Fitted<Broadcast<ShapeOf<T>, ShapeOf<O>>, O>;

/** The dtype of sums and products. */
export type Summed<D extends DTypeName> = D extends 'i8' | 'u8' ? 'i32' : D;

/** The results of `sort` and `topk`. */
export interface Sorted<S extends Shape, D extends DTypeName> {
  /** The elements in order. */
  readonly values: Tensor<S, D>;
  /** Where each of them was along the axis. */
  readonly indices: Tensor<S, 'i32'>;
}

/** Options of `allclose`. */
export interface AllcloseOptions {
  /** Of the other tensor's elements (default 1e-5). */
  readonly rtol?: number;
  /** Default 1e-8. */
  readonly atol?: number;
  /** Whether NaN is close to NaN (default false). */
  readonly equalNan?: boolean;
}

const ALLCLOSE: Rules<AllcloseOptions> = { rtol: atLeast(0), atol: atLeast(0), equalNan: aBoolean };

/** Options of matrix products. */
export interface MatmulOptions {
  /** How exactly products of f32 are computed; default: `getPrecision().matmul`. */
  readonly precision?: Precision | undefined;
}

/** @internal */
export const MATMUL: Rules<MatmulOptions> = { precision: aPrecision };

/**
 * Numbers of one dtype in any number of dimensions, with gradients: made by `tensor`, `zeros`, `rand`…, and by
 * operations.
 */
export class Tensor<S extends Shape = Shape, D extends DTypeName = NumberDType> extends TensorHandle<S, D> {
  /** The gradient that `backward` has accumulated here; undefined before. */
  grad: Tensor<S, D> | undefined;

  // ── arithmetic; operands broadcast ─────────────────────────────────────────────────────────────────────────────

  /** @throws DTypeError unless this is of floats */
  #floats(op: string): GraphNode {
    requireFloats(op, 'x', this);
    return this.node;
  }

  #unary(op: ScalarOp): Tensor<S, D> {
    return new Tensor(b.map(op, this.node));
  }

  /** What is computed in f32 in mixed precision. */
  get #full(): GraphNode {
    return inFull(this.node);
  }

  /**
   * Sum; `other` is broadcast and, if a number, takes this dtype, as in all binary ops. @throws ShapeError,
   * DTypeError
   */
  add<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('add', this, other);
  }
  /** Difference. */
  sub<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('sub', this, other);
  }
  /** Product, element by element; see `matmul` for matrices. */
  mul<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('mul', this, other);
  }
  /** Floats only; use `idiv` for integers. */
  div<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('div', this, other);
  }
  /** Integer quotient, towards zero. */
  idiv<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('idiv', this, other);
  }
  /** Remainder with the sign of the dividend. */
  mod<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('mod', this, other);
  }
  /**
   * This to the power of `exponent`, as C's pow has it. As in PyTorch, the number 0.5 means `sqrt`, which differs for
   * −Infinity (NaN) and −0.
   */
  pow<T extends AnyTensor, O extends Operand>(this: T, exponent: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    const power: unknown = exponent;
    if (power === 2) return binary('mul', this, this);
    if (power === 0.5) return new Tensor(b.map('sqrt', this.node));
    return new Tensor(b.map('pow', ...met(this.#full, operand('pow', exponent, this))));
  }
  /** The angle of the point (other, this), in radians from −π to π. @throws DTypeError unless of floats */
  atan2<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('atan2', this, other);
  }
  /** log(e^this + e^other), without overflow. @throws DTypeError unless of floats */
  logaddexp<T extends AnyTensor, O extends Operand>(
    this: T,
    other: Fits<T, O>,
  ): Tensor<Met<T, O>, DTypeOf<T>> {
    const [x, y] = met(this.node, operand('logaddexp', other, this));
    return new Tensor(elementary.logaddexp(x!, y!));
  }
  /** Remainder with the sign of the divisor, as Python's %; `mod` has the dividend's. */
  remainder<T extends AnyTensor, O extends Operand>(
    this: T,
    other: Fits<T, O>,
  ): Tensor<Met<T, O>, DTypeOf<T>> {
    const [x, y] = met(this.node, operand('remainder', other, this));
    return new Tensor(elementary.remainder(x!, y!));
  }
  /** Bits moved to the left. Integers only; the count is taken modulo their width. */
  shl<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('shl', this, other);
  }
  /** Bits moved to the right, of signed integers with the sign's after them; as `shl` otherwise. */
  shr<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('shr', this, other);
  }
  /** The smaller one, NaN if there is one. Where both are equal, each gets half of the gradient. */
  minimum<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('min', this, other);
  }
  /** The larger one, NaN if there is one. Where both are equal, each gets half of the gradient. */
  maximum<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('max', this, other);
  }
  /** Whether this is less; false of NaN. */
  lt<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, 'bool'> {
    return binary('lt', this, other);
  }
  /** Whether this is less or equal; false of NaN. */
  le<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, 'bool'> {
    return binary('le', this, other);
  }
  /** Whether this is greater; false of NaN. */
  gt<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, 'bool'> {
    return binary('gt', this, other);
  }
  /** Whether this is greater or equal; false of NaN. */
  ge<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, 'bool'> {
    return binary('ge', this, other);
  }
  /** Whether this is equal; never of NaN. */
  eq<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, 'bool'> {
    return binary('eq', this, other);
  }
  /** Whether this differs; true of NaN. */
  ne<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, 'bool'> {
    return binary('ne', this, other);
  }
  /** Bitwise on integers, logical on bools. */
  and<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('and', this, other);
  }
  /** Bitwise on integers, logical on bools. */
  or<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('or', this, other);
  }
  /** Bitwise on integers, logical on bools. */
  xor<T extends AnyTensor, O extends Operand>(this: T, other: Fits<T, O>): Tensor<Met<T, O>, DTypeOf<T>> {
    return binary('xor', this, other);
  }
  /** Bitwise on integers, logical on bools. */
  not(): Tensor<S, D> {
    return this.#unary('not');
  }
  /** −x */
  neg(): Tensor<S, D> {
    return this.#unary('neg');
  }
  /** |x|; the gradient at 0 is 0. */
  abs(): Tensor<S, D> {
    return this.#unary('abs');
  }
  /** −1, 0 or 1; NaN stays NaN. Its gradient is 0. */
  sign(): Tensor<S, D> {
    const negative = this.dtype.kind === 'uint' ? this.mul(0) : this.lt(0).where(-1, this.mul(0));
    return new Tensor(this.gt(0).where(1, negative).node);
  }
  /** e^x */
  exp(): Tensor<S, D> {
    return new Tensor(b.map('exp', this.#full));
  }
  /** e^x − 1 with full relative accuracy around 0. */
  expm1(): Tensor<S, D> {
    return new Tensor(b.map('expm1', this.#full));
  }
  /** 2^x */
  exp2(): Tensor<S, D> {
    return new Tensor(b.map('exp2', this.#full));
  }
  /** Natural logarithm; NaN below 0. */
  log(): Tensor<S, D> {
    return new Tensor(b.map('log', this.#full));
  }
  /** ln(1 + x) with full relative accuracy around 0. */
  log1p(): Tensor<S, D> {
    return new Tensor(b.map('log1p', this.#full));
  }
  /** Logarithm to base 2; NaN below 0. */
  log2(): Tensor<S, D> {
    return new Tensor(b.map('log2', this.#full));
  }
  /** √x; NaN below 0. */
  sqrt(): Tensor<S, D> {
    return this.#unary('sqrt');
  }
  /** 1 / √x */
  rsqrt(): Tensor<S, D> {
    return new Tensor(b.widened((x) => b.div(b.like(x, 1), b.map('sqrt', x)), this.#full));
  }
  /** 1 / x */
  reciprocal(): Tensor<S, D> {
    return new Tensor(b.div(b.like(this.node, 1), this.node));
  }
  /** x² */
  square(): Tensor<S, D> {
    return new Tensor(b.mul(this.node, this.node));
  }
  /** Sine of radians. */
  sin(): Tensor<S, D> {
    return this.#unary('sin');
  }
  /** Cosine of radians. */
  cos(): Tensor<S, D> {
    return this.#unary('cos');
  }
  /** Tangent of radians. @throws DTypeError unless of floats, as the functions below */
  tan(): Tensor<S, D> {
    return new Tensor(elementary.tan(this.node));
  }
  /** The angle in radians whose sine this is, from −π/2 to π/2; NaN outside of [−1, 1]. */
  asin(): Tensor<S, D> {
    return new Tensor(elementary.asin(this.node));
  }
  /** The angle in radians whose cosine this is, from 0 to π; NaN outside of [−1, 1]. */
  acos(): Tensor<S, D> {
    return new Tensor(elementary.acos(this.node));
  }
  /** The angle in radians whose tangent this is, from −π/2 to π/2. */
  atan(): Tensor<S, D> {
    return new Tensor(elementary.atan(this.node));
  }
  /** Hyperbolic sine, (e^x − e^−x) / 2. */
  sinh(): Tensor<S, D> {
    return new Tensor(elementary.sinh(this.node));
  }
  /** Hyperbolic cosine, (e^x + e^−x) / 2. */
  cosh(): Tensor<S, D> {
    return new Tensor(elementary.cosh(this.node));
  }
  /** The error function 2/√π ∫₀ˣ e^−t² dt. */
  erf(): Tensor<S, D> {
    return this.#unary('erf');
  }
  /** Hyperbolic tangent. */
  tanh(): Tensor<S, D> {
    return this.#unary('tanh');
  }
  /** To the next integer downwards. The gradient is 0. */
  floor(): Tensor<S, D> {
    return this.#unary('floor');
  }
  /** To the next integer upwards. The gradient is 0. */
  ceil(): Tensor<S, D> {
    return this.#unary('ceil');
  }
  /** To the next integer towards zero. The gradient is 0. */
  trunc(): Tensor<S, D> {
    return this.#unary('trunc');
  }
  /** To the nearest integer, ties to even. */
  round(): Tensor<S, D> {
    return this.#unary('rint');
  }
  /** The fractional part, with the sign of x: x − trunc(x). @throws DTypeError unless of floats */
  frac(): Tensor<S, D> {
    return new Tensor(elementary.frac(this.node));
  }
  /** Whether elements are neither infinite nor NaN. */
  isFinite(): Tensor<S, 'bool'> {
    return new Tensor(elementary.finite(this.node));
  }
  /** Whether elements are ∞ or −∞. */
  isInf(): Tensor<S, 'bool'> {
    return new Tensor(elementary.infinite(this.node));
  }
  /** Whether elements are NaN. */
  isNaN(): Tensor<S, 'bool'> {
    return new Tensor(b.map('ne', this.node, this.node));
  }
  /**
   * Elements limited to [low, high]; the gradient passes from low to high, both included.
   * @param low undefined: no lower limit
   * @param high undefined: no upper limit
   */
  clamp(low?: number, high?: number): Tensor<S, D> {
    const limits = Object.entries({ low, high }).filter(([, bound]) => bound !== undefined);
    for (const [name, bound] of limits) {
      requireArgument('clamp', name, bound, aNumber);
      operand('clamp', bound as number, this);
    }
    if (this.dtype.kind === 'float')
      return new Tensor(activation.clamp(this.node, low ?? -Infinity, high ?? Infinity));
    const above = low === undefined ? this : this.maximum(low);
    return high === undefined ? above : above.minimum(high);
  }
  /** The quotient rounded down: `idiv` rounds towards zero. Integers by 0 are 0. */
  floorDivide<T extends AnyTensor, O extends Operand>(
    this: T,
    other: Fits<T, O>,
  ): Tensor<Met<T, O>, DTypeOf<T>> {
    return new Tensor(floorDivide(this, new Tensor(operand('floorDivide', other, this))).node);
  }
  /** this + weight · (end − this). @throws DTypeError unless of floats */
  lerp(end: Operand, weight: Operand): Tensor<Shape, D> {
    requireFloats('lerp', 'x', this);
    const [e, w] = [end, weight].map((v) => new Tensor(operand('lerp', v, this))) as [AnyTensor, AnyTensor];
    return widely((x, e, w) => x.add(e.sub(x).mul(w)), this, e, w);
  }
  /** `value` where `mask`, a tensor of bools, is true, else the element; both broadcast. */
  maskedFill(
    mask: Tensor<Shape, 'bool'>,
    value: number | boolean | bigint | Tensor<Shape, D>,
  ): Tensor<Shape, D> {
    requireTensor('maskedFill', 'mask', mask);
    return new Tensor(mask.where(new Tensor(operand('maskedFill', value, this)), this).node);
  }
  /** max(0, x); the gradient at 0 is 0. @throws DTypeError unless of floats */
  relu(): Tensor<S, D> {
    return new Tensor(activation.relu(this.#floats('relu')));
  }
  /** 1 / (1 + e^−x), without overflow on either side. @throws DTypeError unless of floats */
  sigmoid(): Tensor<S, D> {
    return new Tensor(activation.sigmoid(this.#floats('sigmoid')));
  }
  /** This where it is true, else the other two's elements: `condition.where(a, b)`. */
  where<T extends AnyTensor, X extends Operand, Y extends Operand>(
    this: T,
    then: X,
    otherwise: Y,
  ): Tensor<ChosenShape<T, X, Y>, ChosenDType<X | Y>> {
    const like = then instanceof Tensor ? then : otherwise instanceof Tensor ? otherwise : undefined;
    const [x, y] = [then, otherwise].map((v) => operand('where', v, like)) as [GraphNode, GraphNode];
    const [p, q] = met(x, y) as [GraphNode, GraphNode];
    return new Tensor(b.where(this.node, p, q));
  }
  /** Convert the elements: to integers towards zero and saturating. */
  cast<T extends DTypeName>(dtype: DType<T>): Tensor<S, T> {
    return new Tensor(b.cast(this.node, dtype));
  }

  // ── reductions ─────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * The sum along `axes`; of i8 and u8 in i32, of 16-bit floats in f32, rounded once. Integers are summed exactly, modulo their
   * range; n floats in parts, so that the error grows like log n:
   * |error| ≤ h · u · Σ|xᵢ| to first order, h = 16·⌈log₁₆ n⌉ + 32, u = 2⁻²⁴ (f64: 2⁻⁵³).
   * N. Higham, The accuracy of floating point summation (1993). The bound holds for whatever contains a sum: means,
   * variances, norms, losses, and the gradients of what was broadcast or indexed.
   * @param axes one, several, or all of them (default)
   */
  sum<T extends AnyTensor, const X extends Axes = undefined, K extends boolean = false>(
    this: T,
    axes?: X,
    options?: ReduceOptions<K>,
  ): Tensor<Reduced<ShapeOf<T>, X, K>, Summed<DTypeOf<T>>> {
    return new Tensor(reduced('sum', this.#full, axes, options));
  }
  /** The largest. Where several are, they share the gradient evenly, as PyTorch's `amax`. */
  max<T extends AnyTensor, const X extends Axes = undefined, K extends boolean = false>(
    this: T,
    axes?: X,
    options?: ReduceOptions<K>,
  ): Tensor<Reduced<ShapeOf<T>, X, K>, DTypeOf<T>> {
    return new Tensor(reduced('max', this.node, axes, options));
  }
  /** The smallest. Where several are, they share the gradient evenly, as PyTorch's `amin`. */
  min<T extends AnyTensor, const X extends Axes = undefined, K extends boolean = false>(
    this: T,
    axes?: X,
    options?: ReduceOptions<K>,
  ): Tensor<Reduced<ShapeOf<T>, X, K>, DTypeOf<T>> {
    return new Tensor(reduced('min', this.node, axes, options));
  }
  /** Products of i8 and u8 are i32. The gradient of its gradient is right where no element is 0. */
  prod<T extends AnyTensor, const X extends Axes = undefined, K extends boolean = false>(
    this: T,
    axes?: X,
    options?: ReduceOptions<K>,
  ): Tensor<Reduced<ShapeOf<T>, X, K>, Summed<DTypeOf<T>>> {
    return new Tensor(reduced('prod', this.#full, axes, options));
  }
  /** The mean along `axes` (default: all). @throws DTypeError unless of floats */
  mean<T extends AnyTensor, const X extends Axes = undefined, K extends boolean = false>(
    this: T,
    axes?: X,
    options?: ReduceOptions<K>,
  ): Tensor<Reduced<ShapeOf<T>, X, K>, DTypeOf<T>> {
    return new Tensor(mean(this.#full, axes, options));
  }
  /** The variance along `axes` (default: all), divided by n − `correction` (default 1). @throws DTypeError */
  variance<T extends AnyTensor, const X extends Axes = undefined, K extends boolean = false>(
    this: T,
    axes?: X,
    options?: VarianceOptions<K>,
  ): Tensor<Reduced<ShapeOf<T>, X, K>, DTypeOf<T>> {
    return new Tensor(variance(this.#full, axes, options));
  }
  /** The square root of `variance`. */
  std<T extends AnyTensor, const X extends Axes = undefined, K extends boolean = false>(
    this: T,
    axes?: X,
    options?: VarianceOptions<K>,
  ): Tensor<Reduced<ShapeOf<T>, X, K>, DTypeOf<T>> {
    return new Tensor(deviation(this.#full, axes, options));
  }
  /** log Σ e^x along `axes` (default: all), without overflow. @throws DTypeError unless of floats */
  logSumExp<T extends AnyTensor, const X extends Axes = undefined, K extends boolean = false>(
    this: T,
    axes?: X,
    options?: ReduceOptions<K>,
  ): Tensor<Reduced<ShapeOf<T>, X, K>, DTypeOf<T>> {
    return new Tensor(logSumExp(this.#full, axes, options));
  }
  /** (Σ |x|^ord)^(1/ord) along `axes` (default: all), by default the Euclidean norm. @throws DTypeError unless of floats */
  norm<T extends AnyTensor, const X extends Axes = undefined, K extends boolean = false>(
    this: T,
    axes?: X,
    options?: VectorNormOptions<K>,
  ): Tensor<Reduced<ShapeOf<T>, X, K>, DTypeOf<T>> {
    return new Tensor(norm(this.#full, axes, options));
  }
  /** Whether any element along `axes` (default: all) is not 0; false of none. */
  any<T extends AnyTensor, const X extends Axes = undefined, K extends boolean = false>(
    this: T,
    axes?: X,
    options?: ReduceOptions<K>,
  ): Tensor<Reduced<ShapeOf<T>, X, K>, 'bool'> {
    return new Tensor(vote('any', this.node, axes, options));
  }
  /** Whether no element along `axes` (default: all) is 0; true of none. */
  all<T extends AnyTensor, const X extends Axes = undefined, K extends boolean = false>(
    this: T,
    axes?: X,
    options?: ReduceOptions<K>,
  ): Tensor<Reduced<ShapeOf<T>, X, K>, 'bool'> {
    return new Tensor(vote('all', this.node, axes, options));
  }
  /**
   * Index of the largest element along `axis`, i32: the first of several; of a NaN if there is one. Without an axis the
   * index in the flattened tensor.
   */
  argmax<T extends AnyTensor, const X extends number | undefined = undefined, K extends boolean = false>(
    this: T,
    axis?: X,
    options?: ReduceOptions<K>,
  ): Tensor<Reduced<ShapeOf<T>, X, K>, 'i32'> {
    return new Tensor(argOf('max', this.node, axis, options));
  }
  /** Index of the smallest element; as `argmax`. */
  argmin<T extends AnyTensor, const X extends number | undefined = undefined, K extends boolean = false>(
    this: T,
    axis?: X,
    options?: ReduceOptions<K>,
  ): Tensor<Reduced<ShapeOf<T>, X, K>, 'i32'> {
    return new Tensor(argOf('min', this.node, axis, options));
  }

  /** Running sums along `axis`: element i is the sum of those up to i, exact for integers; of i8 and u8 in i32. */
  cumsum(axis: number): Tensor<S, Summed<D>> {
    return new Tensor(scan('add', this.#full, axis));
  }
  /** Running products along `axis`: element i is the product of those up to i; of i8 and u8 in i32. */
  cumprod(axis: number): Tensor<S, Summed<D>> {
    return new Tensor(scan('mul', this.#full, axis));
  }

  /**
   * The elements along `axis` (default: the last) in order, and their `indices` before, i32. Equal elements stay as they
   * stood, and NaN counts as the largest. Gradients go back to where the elements were.
   */
  sort(axis = -1, options: SortOptions = {}): Sorted<S, D> {
    return sorted(sorting.sort('sort', this.node, axis, options));
  }
  /** The `indices` of `sort`. */
  argsort(axis = -1, options: SortOptions = {}): Tensor<S, 'i32'> {
    return new Tensor(sorting.sort('argsort', this.node, axis, options).indices);
  }
  /** The `k` largest elements along `axis` (default: the last), the largest first, and their indices; as `sort` has them. */
  topk(k: number, axis = -1, options: TopkOptions = {}): Sorted<Shape, D> {
    return sorted(sorting.topk(this.node, k, axis, options));
  }

  /** Along `axis`: e^x / Σ e^x. @throws DTypeError unless of floats */
  softmax(axis = -1): Tensor<S, D> {
    return new Tensor(
      softmax(inFull(this.#floats('softmax')), normalizeAxis('softmax', axis, this.ndim), false),
    );
  }
  /** Along `axis`: x − log Σ e^x. @throws DTypeError unless of floats */
  logSoftmax(axis = -1): Tensor<S, D> {
    return new Tensor(
      softmax(inFull(this.#floats('logSoftmax')), normalizeAxis('logSoftmax', axis, this.ndim), true),
    );
  }

  // ── movement ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** The same elements in another shape; one size may be −1. */
  reshape<T extends AnyTensor, const R extends Shape>(
    this: T,
    shape: R & Uninferred<Fitted<Reshaped<ShapeOf<T>, R>, unknown>>,
  ): Tensor<ResultShape<Reshaped<ShapeOf<T>, R>>, DTypeOf<T>> {
    return new Tensor(b.reshape(this.node, inferShape(shape, this)));
  }
  /** Dimensions `from`… and later as one. */
  flatten<T extends AnyTensor, X extends number = 0>(
    this: T,
    from: X = 0 as X,
  ): Tensor<Flattened<ShapeOf<T>, X>, DTypeOf<T>> {
    return new Tensor(movement.flatten(this.node, from));
  }
  /** The dimensions in another order: `x.permute([1, 0])`. */
  permute<T extends AnyTensor, const X extends readonly number[]>(
    this: T,
    axes: X,
  ): Tensor<Permuted<ShapeOf<T>, X>, DTypeOf<T>> {
    return new Tensor(movement.permute(this.node, axes));
  }
  /** Two dimensions exchanged (default: the last two). */
  transpose<T extends AnyTensor, X extends number = -2, Y extends number = -1>(
    this: T,
    first: X = -2 as X,
    second: Y = -1 as Y,
  ): Tensor<Transposed<ShapeOf<T>, X, Y>, DTypeOf<T>> {
    return new Tensor(movement.transpose(this.node, first, second));
  }
  /** Sizes of 1 repeated to `shape`. */
  expand<const R extends Shape>(shape: R): Tensor<GivenShape<R>, D> {
    requireShape('expand', shape);
    return new Tensor(b.expand(this.node, shape));
  }
  /** Without dimension `axis`, which has size 1. */
  squeeze<T extends AnyTensor, X extends number>(
    this: T,
    axis: X,
  ): Tensor<Squeezed<ShapeOf<T>, X>, DTypeOf<T>> {
    return new Tensor(movement.squeeze(this.node, axis));
  }
  /** With a new dimension of size 1 before `axis`. */
  unsqueeze<T extends AnyTensor, X extends number>(
    this: T,
    axis: X,
  ): Tensor<Unsqueezed<ShapeOf<T>, X>, DTypeOf<T>> {
    return new Tensor(movement.unsqueeze(this.node, axis));
  }
  /**
   * The elements with others around them.
   * @param amounts per dimension, [before, after]
   * @throws ArgumentError, DTypeError for a value that the dtype does not have, ShapeError for too few elements to mirror
   */
  pad(amounts: Padding, options: PadOptions = {}): Tensor<Shape, D> {
    requireOptions('pad', options, movement.PAD);
    const { value = 0, mode = 'constant' } = options;
    if (mode !== 'constant') return new Tensor(padAround(this.node, amounts, mode));
    if (this.dtype !== bool) operand('pad', value, this);
    return new Tensor(movement.pad(this.node, amounts, value));
  }
  /** The elements along `axis` in reverse order. */
  flip(axis: number): Tensor<S, D> {
    return new Tensor(movement.flip(this.node, axis));
  }
  /** Elements moved by `shifts` along `axes`, round the end to the front; without axes in the flattened tensor. */
  roll(shifts: number | readonly number[], axes?: Axes): Tensor<S, D> {
    return new Tensor(movement.roll(this.node, shifts, axes));
  }
  /** The whole tensor `counts[i]` times along dimension i; counts beyond the dimensions are of new ones in front. */
  repeat(counts: readonly number[]): Tensor<Shape, D> {
    return new Tensor(movement.repeat(this.node, counts));
  }
  /** Each element `count` times along `axis`, next to each other. */
  repeatInterleave(count: number, axis: number): Tensor<Shape, D> {
    return new Tensor(movement.repeatInterleave(this.node, count, axis));
  }
  /** Pieces along `axis` (default 0): of `sizes` elements, the last perhaps fewer, or of a list of sizes. */
  split(sizes: number | readonly number[], axis = 0): Tensor<Shape, D>[] {
    return movement.split(this.node, sizes, axis).map((node) => new Tensor(node));
  }
  /** At most `count` pieces of equal size along `axis` (default 0), the last perhaps smaller. */
  chunk(count: number, axis = 0): Tensor<Shape, D>[] {
    return movement.chunk(this.node, count, axis).map((node) => new Tensor(node));
  }
  /** The slices along `axis` (default 0), without that dimension. */
  unbind(axis = 0): Tensor<Shape, D>[] {
    return movement.unbind(this.node, axis).map((node) => new Tensor(node));
  }
  /** Of each matrix (…, M, N) the elements up to diagonal `diagonal` (above the main one if positive), else 0. */
  tril(diagonal = 0): Tensor<S, D> {
    return new Tensor(movement.triangle('tril', this.node, diagonal));
  }
  /** Of each matrix (…, M, N) the elements from diagonal `diagonal` on (above the main one if positive), else 0. */
  triu(diagonal = 0): Tensor<S, D> {
    return new Tensor(movement.triangle('triu', this.node, diagonal));
  }
  /**
   * NumPy-style indexing, one entry per dimension: a number, a slice `'start:stop:step'`, `null` for a new dimension,
   * `'...'`, or an i32 tensor of positions: `x.at(0)`, `x.at('1:3', '::-1')`, `x.at('...', null)`, `x.at(rows)`. In a
   * tensor, negative positions count from the back, and those out of range give 0.
   */
  at(...entries: readonly (Index | AnyTensor)[]): Tensor<Shape, D> {
    return new Tensor(
      index(
        this.node,
        entries.map((e) => (e instanceof Tensor ? e.node : e)),
      ),
    );
  }
  /** out[…, i, …] = this[…, positions[…, i, …], …] along `axis`; `positions` is i32, out of range it gives 0. */
  gather(axis: number, positions: AnyTensor): Tensor<Shape, D> {
    requireTensor('gather', 'positions', positions);
    return new Tensor(scattering.gather(this.node, axis, positions.node));
  }

  /** The slices along `axis` at the positions in `index`, i32 (n); negative ones count from the back. As `take` otherwise. */
  indexSelect(axis: number, index: AnyTensor): Tensor<Shape, D> {
    requireTensor('indexSelect', 'index', index);
    return new Tensor(select(this.node, axis, index.node));
  }
  /** The elements of the flattened tensor at the positions in `index`, i32, in its shape; out of range 0. */
  take(index: AnyTensor): Tensor<Shape, D> {
    requireTensor('take', 'index', index);
    return new Tensor(takeFlat(this.node, index.node));
  }
  /**
   * This with out[…, index[…, i, …], …] = src[…, i, …] along `axis`: of several for one place the last, always. A position
   * out of range is left out. Gradients go to what is in the result.
   * @param index i32, not larger than `src`, nor than this but along `axis`
   * @param src a tensor of this dtype, or a number
   * @throws ShapeError, DTypeError
   */
  scatter(axis: number, index: AnyTensor, src: Operand): Tensor<S, D> {
    requireTensor('scatter', 'index', index);
    return new Tensor(scattering.scatter(this.node, axis, index.node, operand('scatter', src, this)));
  }
  /** As `scatter`, but src[…, i, …] is added to what is there, always in the same order. */
  scatterAdd(axis: number, index: AnyTensor, src: AnyTensor): Tensor<S, D> {
    requireTensor('scatterAdd', 'index', index);
    requireTensor('scatterAdd', 'src', src);
    return new Tensor(scattering.scatterAdd(this.node, axis, index.node, src.node));
  }
  /**
   * This with the slices of `src` along `axis` added at the positions in `index`, i32 (n), always in the same order. A
   * position out of range is left out. @throws ShapeError, DTypeError
   */
  indexAdd(axis: number, index: AnyTensor, src: AnyTensor, options: IndexAddOptions = {}): Tensor<S, D> {
    requireTensor('indexAdd', 'index', index);
    requireTensor('indexAdd', 'src', src);
    return new Tensor(scattering.indexAdd(this.node, axis, index.node, src.node, options));
  }

  /**
   * The elements where `mask`, a tensor of bools, is true, both broadcast, in row order: one dimension. Asynchronous, since
   * their number depends on values. Gradients go back to where they were.
   * @throws ShapeError, DTypeError · ArgumentError within `jit`
   */
  async maskedSelect(mask: Tensor<Shape, 'bool'>): Promise<Tensor<Shape, D>> {
    requireTensor('maskedSelect', 'mask', mask);
    return new Tensor(await sorting.maskedSelect(this.node, mask.node));
  }
  /** Where elements are not 0, in row order: (count, dimensions), i32. Asynchronous as `maskedSelect`. */
  async nonzero(): Promise<Tensor<Shape, 'i32'>> {
    return new Tensor(await sorting.nonzero(this.node));
  }
  /** Each value once, ascending: one dimension. Asynchronous as `maskedSelect`; every NaN counts. */
  async unique(): Promise<Tensor<Shape, D>> {
    return new Tensor(await sorting.unique(this.node));
  }

  /**
   * (…, M, K) × (…, K, N) → (…, M, N); leading dimensions broadcast. A vector (K) is a row on the left and a column on the
   * right, whose dimension the result does not have. PyTorch's `mm`, `bmm` and `mv` are cases of it; see `einsum` for others.
   * @param options.precision of this product and of those for its gradients; default: `getPrecision().matmul`
   * @throws ShapeError, DTypeError
   */
  matmul<T extends AnyTensor, O extends AnyTensor>(
    this: T,
    other: Fitted<Product<ShapeOf<T>, ShapeOf<O>>, O>,
    options: MatmulOptions = {},
  ): Tensor<ResultShape<Product<ShapeOf<T>, ShapeOf<O>>>, DTypeOf<T>> {
    requireTensor('matmul', 'other', other);
    requireOptions('matmul', options, MATMUL);
    const precision = options.precision ?? getPrecision().matmul;
    return new Tensor(matmul(forProduct(this.node), forProduct(other.node), precision));
  }

  /** The sum of products of two vectors (K), a scalar. @throws ShapeError, DTypeError */
  dot(other: AnyTensor, options: MatmulOptions = {}): Tensor<[], D> {
    requireVectors('dot', this, other);
    return (this as AnyTensor).matmul(other, options) as Tensor<[], D>;
  }
  /** All products of an element of this (M) and one of another vector (N): (M, N). @throws ShapeError, DTypeError */
  outer(other: AnyTensor): Tensor<Shape, D> {
    requireVectors('outer', this, other);
    return (this as Tensor<Shape, D>).unsqueeze(1).mul(other);
  }

  // ── gradients ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** The same values; gradients stop here. */
  detach(): Tensor<S, D> {
    return new Tensor(b.detach(this.node));
  }

  /**
   * Add the gradients of this scalar to `.grad` of every tensor it depends on that requires one. It may be called again,
   * and adds the same gradients again: PyTorch's `retain_graph` is not needed, since nothing is freed that a gradient is
   * made of. For gradients that can be differentiated themselves (`create_graph`) see `grad`.
   * @throws ShapeError if it is not one element · ArgumentError if nothing it depends on requires a gradient
   */
  backward(): void {
    if (this.size !== 1)
      throw new ShapeError(
        `[backward] starts from one element, this tensor is ${formatShape(this.shape)}. Reduce it first: .mean() or .sum().`,
      );
    const root = this.node;
    const leaves = parametersOf(root);
    if (leaves.length === 0)
      throw new ArgumentError(
        '[backward] nothing here requires a gradient: make parameters with { requiresGrad: true }.',
      );
    const gradients = b.withoutGradients(() => vjp([root], [b.like(root, 1)], leaves));
    leaves.forEach((leaf, i) => {
      const g = gradients[i];
      const tensor = engine.ownerOf(leaf);
      if (!g || !(tensor instanceof Tensor) || !tensor.requiresGrad) return;
      if (tensor.grad && isFromBefore(tensor.grad))
        throw new ArgumentError(
          `[jit] a parameter of shape ${formatShape(tensor.shape)} has a gradient from before, which every call would add again. Forget it first: model.zeroGrad(), or optimizer.zeroGrad() if the optimizer has it.`,
        );
      tensor.grad = new Tensor(tensor.grad ? b.withoutGradients(() => b.add(tensor.grad!.node, g)) : g);
    });
    engine.remember(root);
  }

  // ── values ─────────────────────────────────────────────────────────────────────────────────────────────────────

  /** The elements in row-major order. f16 and bf16 arrive as Float32Array, bool as Uint8Array of 0 and 1. */
  async data(): Promise<DataOf<D>> {
    return engine.decode(await engine.readBytes(this.node), this.dtype) as DataOf<D>;
  }

  /** The one element as a number (bool: 0 or 1). @throws ShapeError if there are more */
  async item(): Promise<number> {
    if (this.size !== 1)
      throw new ShapeError(
        `[item] is for one element, this tensor is ${formatShape(this.shape)}. Use .data().`,
      );
    return Number((await this.data())[0]);
  }

  /** The elements as nested arrays of numbers, or of booleans. */
  array(): Promise<NestedArray>;
  /**
   * The elements as arrays nested `rank` deep, so that types know it: `const rows = await x.array(2)`.
   * @throws ShapeError if there are more or fewer dimensions
   */
  array<R extends keyof ArraysByRank<D> & number>(rank: R): Promise<ArraysByRank<D>[R]>;
  async array(rank?: number): Promise<unknown> {
    if (rank !== undefined && rank !== this.ndim)
      throw new ShapeError(
        `[array] rank is ${shown(rank)}, this tensor has ${this.ndim} dimensions: ${formatShape(this.shape)}.`,
      );
    return nested(await this.data(), this.shape, this.dtype);
  }

  /**
   * These values on the device `name` (cuda, cuda:1, cpu, sim), whichever is in use: this tensor if they are there, else a
   * copy, through the host. Gradients do not pass to this one; a parameter's copy is a parameter.
   * @throws DeviceError if there is no such device · ArgumentError within `jit`
   */
  async to(name: string): Promise<Tensor<S, D>> {
    requireArgument('to', 'name', name, aString);
    if (currentTrace())
      throw new ArgumentError('[to] is not for jitted functions: a program runs on one device.');
    const node = await engine.copyTo(this.node, name);
    if (node === this.node) return this;
    const copy = new Tensor<S, D>(node, true);
    setOwner(node, copy);
    return copy;
  }

  /**
   * Whether |this − other| ≤ atol + rtol · |other| everywhere; both broadcast. Infinities are close to themselves.
   * @throws ShapeError, DTypeError
   */
  async allclose(other: AnyTensor, options: AllcloseOptions = {}): Promise<boolean> {
    requireTensor('allclose', 'other', other);
    requireOptions('allclose', options, ALLCLOSE);
    const { rtol = 1e-5, atol = 1e-8, equalNan = false } = options;
    if (other.dtype !== this.dtype)
      throw new DTypeError(
        `[allclose] dtypes differ: ${this.dtype.name} and ${other.dtype.name}. Convert with .cast(${this.dtype.name}).`,
      );
    const close = new Tensor(elementary.close(this.node, other.node, { rtol, atol, equalNan }));
    return (await close.all().item()) === 1;
  }

  /** Compute the values now, and keep them. Within `jit` nothing is computed, so this does nothing. */
  realize(): this {
    if (!currentTrace()) engine.realize([this.node]);
    return this;
  }

  /**
   * Let this tensor stand for `value` from now on (same shape and dtype). Tensors made from it before keep the old
   * values. Within `jit` its memory is updated in place.
   */
  assign(value: AnyTensor): this {
    requireTensor('assign', 'value', value);
    if (value.dtype !== this.dtype)
      throw new DTypeError(
        `[assign] dtypes differ: ${this.dtype.name} ← ${value.dtype.name}. Convert with .cast(${this.dtype.name}).`,
      );
    if (formatShape(value.shape) !== formatShape(this.shape))
      throw new ShapeError(
        `[assign] shapes differ: ${formatShape(this.shape)} ← ${formatShape(value.shape)}.`,
      );
    engine.assign(this, value.node);
    return this;
  }

  /** Overwrite the values from host memory. @throws ShapeError if the length differs */
  write(values: ArrayLike<number | bigint>): this {
    requireArgument('write', 'values', values, anArrayLike);
    engine.write(this, values);
    return this;
  }

  /**
   * Give the memory back now instead of when the tensor is garbage. Neither it nor what was made from it, and is not
   * computed yet, can be used afterwards.
   */
  dispose(): void {
    dispose(this);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** What `console.log` shows: see tensor/print.ts. It computes nothing and waits for nothing. */
  [INSPECT](depth: number | null, options: InspectOptions): string {
    return describeTensor(this, isInside(depth, options));
  }

  /** `${tensor}` is its type. @throws ArgumentError where JavaScript wants its value, which may not be computed yet */
  [Symbol.toPrimitive](hint: 'string' | 'number' | 'default'): string {
    if (hint === 'string') return this.toString();
    throw new ArgumentError(
      `${this} is not a number: JavaScript's operators do not work on tensors. Use x.add(1), x.gt(0)…, or the value: await x.item().`,
    );
  }

  /** Shape and dtype, not the values: `Tensor((2,3), f32)`. */
  override toString(): string {
    return `Tensor(${formatShape(this.shape)}, ${this.dtype.name}${this.requiresGrad ? ', requiresGrad' : ''})`;
  }
}

const sorted = <S extends Shape, D extends DTypeName>({ values, indices }: Ordered): Sorted<S, D> => ({
  values: new Tensor(values),
  indices: new Tensor(indices),
});

/** An op of `x` and another operand, of shapes and dtypes that the caller says. */
const binary = <S extends Shape, D extends DTypeName>(
  op: ScalarOp,
  x: AnyTensor,
  other: unknown,
): Tensor<S, D> => new Tensor(b.map(op, ...met(x.node, operand(op, other, x))));

function floorDivide(x: AnyTensor, y: AnyTensor): AnyTensor {
  if (x.dtype.kind === 'float') return x.div(y).floor();
  const isLess = x
    .mod(y)
    .ne(0)
    .and(x.lt(0).ne(y.lt(0)));
  return x.idiv(y).sub(isLess.cast(x.dtype));
}

/** @internal `compute` of tensors of one dtype; of 16-bit floats in f32, rounded once: at each step they would lose too much. */
export function widely<T extends AnyTensor, Others extends readonly (AnyTensor | undefined)[]>(
  compute: (x: AnyTensor, ...others: Others) => AnyTensor,
  x: T,
  ...others: Others
): T {
  const wide = (t: AnyTensor | undefined) => t && new Tensor(b.wide(t.node));
  const y = compute(wide(x) as AnyTensor, ...(others.map(wide) as unknown as Others));
  return new Tensor(b.cast(y.node, x.dtype)) as AnyTensor as T;
}

/** @internal 16-bit floats as f32 in mixed precision (`autocast`), else as they are. */
export const inFullPrecision = <T extends AnyTensor>(x: T): T => new Tensor(inFull(x.node)) as AnyTensor as T;

/** @throws ArgumentError */
export function requireTensor(op: string, name: string, x: unknown): asserts x is AnyTensor {
  if (x instanceof Tensor) return;
  const hint = typeof x === 'number' || Array.isArray(x) ? ' Make one of it: tensor(…).' : '';
  throw new ArgumentError(`[${op}] ${name} is ${shown(x)}, must be a tensor.${hint}`);
}

/** @throws ArgumentError, ShapeError */
function requireVectors(op: string, x: AnyTensor, y: AnyTensor): void {
  requireTensor(op, 'other', y);
  if (x.ndim !== 1 || y.ndim !== 1)
    throw new ShapeError(
      `[${op}] takes two vectors, got ${formatShape(x.shape)} and ${formatShape(y.shape)}. Flatten them, or use matmul.`,
    );
}

/** @internal A number becomes a constant of the tensor's dtype; without one f32, or bool of a boolean. */
export function operand(op: string, v: unknown, like: AnyTensor | undefined): GraphNode {
  if (v instanceof Tensor) return v.node;
  if (typeof v !== 'number' && typeof v !== 'boolean' && typeof v !== 'bigint')
    throw new ArgumentError(`[${op}] the operand is ${shown(v)}, must be a tensor or a number.`);
  const dtype: DType = like?.dtype ?? f32;
  if (typeof v !== 'boolean' && !isOf(dtype, v))
    throw new DTypeError(
      `[${op}] ${shown(v)} cannot be represented as ${dtype.name} (${describeValues(dtype)}). Convert the tensor first: .cast(${Number.isInteger(v) && dtype !== bool ? 'i32' : 'f32'}).`,
    );
  return b.full([], dtype, dtype.name === 'i64' ? BigInt(v) : v);
}
