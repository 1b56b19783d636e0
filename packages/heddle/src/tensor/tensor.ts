/**
 * Tensors: what users touch. An operation makes a graph node and returns at once; values are computed when they are
 * asked for (`await t.data()`, `await t.item()`) or when a `jit` step runs. Nothing is to be disposed of in a loop.
 */
import { inspect } from 'node:util';
import {
  bool,
  type DType,
  describeValues,
  f32,
  i32,
  isFloat,
  isOf,
  type TypedArray,
  u8,
} from '../core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import type { Precision } from '../core/precision.js';
import { formatShape, normalizeAxis, type Shape, sizeOf } from '../core/shape.js';
import { dispose } from '../engine/ownership.js';
import * as engine from '../engine/realize.js';
import { isFromBefore, placeholderFor } from '../engine/trace.js';
import * as activation from '../fused/activation.js';
import { matmul } from '../fused/matmul.js';
import { softmax } from '../fused/softmax.js';
import * as b from '../graph/build.js';
import { parametersOf, vjp } from '../graph/grad.js';
import type { GraphNode } from '../graph/node.js';
import type { ScalarOp } from '../kernel/ops.js';
import { type Axes, axesOf, inferShape } from './axes.js';
import { type Index, index } from './indexing.js';
import { getPrecision } from './modes.js';
import { describeTensor, INSPECT, type InspectOptions, isInside } from './print.js';

/** A number, or a tensor. Numbers take the dtype of the tensor they meet. */
export type Operand = Tensor | number | boolean;

export interface ReduceOptions {
  /** Keep reduced dimensions as size 1 (default false). */
  readonly keepdim?: boolean;
}

export interface MatmulOptions {
  readonly precision?: Precision;
}

/** `depth` of a graph at which it is computed without being asked, so that loops cannot grow it without bound. */
const MAX_DEPTH = 2000;

export class Tensor<S extends Shape = Shape> {
  /** @internal */
  #node: GraphNode;
  /** The gradient that `backward` has accumulated here; undefined before. */
  grad: Tensor<S> | undefined;

  /**
   * @internal Tensors are made by `tensor`, `zeros`, `rand`… and by operations.
   * @param isNew it is of a leaf of its own: else it has no gradient where none is recorded, if it is its operand's, too
   */
  constructor(node: GraphNode, isNew = false) {
    if (node.requiresGrad && !isNew && !b.recordsGradients()) node = b.detach(node);
    if (node.depth > MAX_DEPTH && !node.storage) engine.realize([node]);
    node.tensors++;
    this.#node = node;
  }

  /** @internal The graph node: within a traced function, what stands for this tensor there. */
  get node(): GraphNode {
    return placeholderFor(this, this.#node);
  }

  /** @internal The node itself, traced or not. */
  get ownNode(): GraphNode {
    return this.#node;
  }

  /** @internal */
  set ownNode(node: GraphNode) {
    this.#node.tensors--;
    node.tensors++;
    this.#node = node;
  }

  get shape(): S {
    return this.#node.shape as S;
  }

  get dtype(): DType {
    return this.#node.dtype;
  }

  /** How many elements. */
  get size(): number {
    return sizeOf(this.#node.shape);
  }

  /** How many dimensions. */
  get ndim(): number {
    return this.#node.shape.length;
  }

  /** Whether `backward` reaches this tensor. */
  get requiresGrad(): boolean {
    return this.#node.requiresGrad;
  }

  // ── arithmetic; operands broadcast ─────────────────────────────────────────────────────────────────────────────

  #unary(op: ScalarOp): Tensor<S> {
    return new Tensor(b.map(op, this.node));
  }

  #binary(op: ScalarOp, other: Operand): Tensor {
    return new Tensor(b.map(op, this.node, operand(other, this)));
  }

  add(other: Operand): Tensor {
    return this.#binary('add', other);
  }
  sub(other: Operand): Tensor {
    return this.#binary('sub', other);
  }
  mul(other: Operand): Tensor {
    return this.#binary('mul', other);
  }
  /** Of floats. Integers: `idiv`. */
  div(other: Operand): Tensor {
    return this.#binary('div', other);
  }
  /** Integer quotient, towards zero. */
  idiv(other: Operand): Tensor {
    return this.#binary('idiv', other);
  }
  /** Remainder with the sign of the dividend. */
  mod(other: Operand): Tensor {
    return this.#binary('mod', other);
  }
  pow(exponent: Operand): Tensor {
    if (exponent === 2) return this.mul(this);
    if (exponent === 0.5) return this.sqrt();
    return this.#binary('pow', exponent);
  }
  minimum(other: Operand): Tensor {
    return this.#binary('min', other);
  }
  maximum(other: Operand): Tensor {
    return this.#binary('max', other);
  }
  lt(other: Operand): Tensor {
    return this.#binary('lt', other);
  }
  le(other: Operand): Tensor {
    return this.#binary('le', other);
  }
  gt(other: Operand): Tensor {
    return this.#binary('gt', other);
  }
  ge(other: Operand): Tensor {
    return this.#binary('ge', other);
  }
  eq(other: Operand): Tensor {
    return this.#binary('eq', other);
  }
  ne(other: Operand): Tensor {
    return this.#binary('ne', other);
  }
  /** Bitwise on integers, logical on bools. */
  and(other: Operand): Tensor {
    return this.#binary('and', other);
  }
  or(other: Operand): Tensor {
    return this.#binary('or', other);
  }
  xor(other: Operand): Tensor {
    return this.#binary('xor', other);
  }
  not(): Tensor<S> {
    return this.#unary('not');
  }
  neg(): Tensor<S> {
    return this.#unary('neg');
  }
  abs(): Tensor<S> {
    return this.#unary('abs');
  }
  /** −1, 0 or 1; NaN stays NaN. Its gradient is 0. */
  sign(): Tensor<S> {
    const negative = this.dtype.kind === 'uint' ? this.mul(0) : this.lt(0).where(-1, this.mul(0));
    return this.gt(0).where(1, negative) as Tensor<S>;
  }
  exp(): Tensor<S> {
    return this.#unary('exp');
  }
  exp2(): Tensor<S> {
    return this.#unary('exp2');
  }
  log(): Tensor<S> {
    return this.#unary('log');
  }
  log2(): Tensor<S> {
    return this.#unary('log2');
  }
  sqrt(): Tensor<S> {
    return this.#unary('sqrt');
  }
  rsqrt(): Tensor<S> {
    return new Tensor(b.div(b.like(this.node, 1), b.map('sqrt', this.node)));
  }
  reciprocal(): Tensor<S> {
    return new Tensor(b.div(b.like(this.node, 1), this.node));
  }
  square(): Tensor<S> {
    return new Tensor(b.mul(this.node, this.node));
  }
  /** For |x| up to 10⁶; what is larger keeps no fraction of a turn to go by. */
  sin(): Tensor<S> {
    return this.#unary('sin');
  }
  /** For |x| up to 10⁶, as `sin`. */
  cos(): Tensor<S> {
    return this.#unary('cos');
  }
  tanh(): Tensor<S> {
    return this.#unary('tanh');
  }
  floor(): Tensor<S> {
    return this.#unary('floor');
  }
  ceil(): Tensor<S> {
    return this.#unary('ceil');
  }
  trunc(): Tensor<S> {
    return this.#unary('trunc');
  }
  /** To the nearest integer, ties to even. */
  round(): Tensor<S> {
    return this.#unary('rint');
  }
  isNaN(): Tensor<S> {
    return new Tensor(b.map('ne', this.node, this.node));
  }
  /** Elements limited to [low, high]. */
  clamp(low: number, high: number): Tensor {
    return this.maximum(low).minimum(high);
  }
  /** max(0, x); the gradient at 0 is 0. */
  relu(): Tensor<S> {
    return new Tensor(activation.relu(this.node));
  }
  /** 1 / (1 + e^−x), without overflow on either side. */
  sigmoid(): Tensor<S> {
    return new Tensor(activation.sigmoid(this.node));
  }
  /** This where it is true, else the other two's elements: `condition.where(a, b)`. */
  where(then: Operand, otherwise: Operand): Tensor {
    const like = then instanceof Tensor ? then : otherwise instanceof Tensor ? otherwise : undefined;
    const [x, y] = [then, otherwise].map((v) =>
      like || v instanceof Tensor ? operand(v, like ?? (v as Tensor)) : b.full([], f32, v),
    );
    return new Tensor(b.where(this.node, x!, y!));
  }
  /** Convert the elements: to integers towards zero and saturating. */
  cast(dtype: DType): Tensor<S> {
    return new Tensor(b.cast(this.node, dtype));
  }

  // ── reductions ─────────────────────────────────────────────────────────────────────────────────────────────────

  #reduce(op: 'sum' | 'max' | 'min' | 'prod', axes: Axes, options: ReduceOptions | undefined): Tensor {
    const over = axesOf(op, axes, this.ndim);
    const grows = this.dtype === u8 && (op === 'sum' || op === 'prod');
    const kept = b.reduce(op, grows ? b.cast(this.node, i32) : this.node, over);
    return new Tensor(
      options?.keepdim
        ? kept
        : b.reshape(
            kept,
            kept.shape.filter((_, i) => !over.includes(i)),
          ),
    );
  }

  #requireFloat(op: string): void {
    if (!isFloat(this.dtype))
      throw new DTypeError(`[${op}] takes floats, got ${this.dtype.name}. Convert with .cast(f32).`);
  }

  /**
   * The sum along `axes`; of u8 in i32, of 16-bit floats in f32, rounded once. Integers are summed exactly, modulo their
   * range; n floats in parts, so that the error grows like log n:
   * |error| ≤ h · u · Σ|xᵢ| to first order, h = 16·⌈log₁₆ n⌉ + 32, u = 2⁻²⁴ (f64: 2⁻⁵³).
   * N. Higham, The accuracy of floating point summation (1993). The bound holds for whatever contains a sum: means,
   * variances, norms, losses, and the gradients of what was broadcast or indexed.
   * @param axes one, several, or all of them (default)
   */
  sum(axes?: Axes, options?: ReduceOptions): Tensor {
    return this.#reduce('sum', axes, options);
  }
  max(axes?: Axes, options?: ReduceOptions): Tensor {
    return this.#reduce('max', axes, options);
  }
  min(axes?: Axes, options?: ReduceOptions): Tensor {
    return this.#reduce('min', axes, options);
  }
  /** Of u8 in i32. */
  prod(axes?: Axes, options?: ReduceOptions): Tensor {
    return this.#reduce('prod', axes, options);
  }
  mean(axes?: Axes, options?: ReduceOptions): Tensor {
    this.#requireFloat('mean');
    const count = axesOf('mean', axes, this.ndim).reduce((n, a) => n * this.shape[a]!, 1);
    return widely(this, (x) => x.sum(axes, options).mul(1 / count));
  }
  /** @param correction subtracted from the count (default 1: the unbiased estimate, as PyTorch's) */
  variance(axes?: Axes, options?: ReduceOptions & { readonly correction?: number }): Tensor {
    this.#requireFloat('variance');
    const count = axesOf('variance', axes, this.ndim).reduce((n, a) => n * this.shape[a]!, 1);
    return widely(this, (x) =>
      x
        .sub(x.mean(axes, { keepdim: true }))
        .square()
        .sum(axes, options)
        .mul(1 / Math.max(0, count - (options?.correction ?? 1))),
    );
  }
  std(axes?: Axes, options?: ReduceOptions & { readonly correction?: number }): Tensor {
    // √v has no slope at 0, but where all elements are the same, their deviation has a gradient of 0.
    const variance = this.variance(axes, options);
    const isZero = variance.eq(0);
    return isZero.where(0, isZero.where(1, variance).sqrt());
  }
  /** Index of the largest element along `axis` (the first of several; of a NaN if there is one), i32. */
  argmax(axis: number, options?: ReduceOptions): Tensor {
    return this.#argOf('max', axis, options);
  }
  /** Index of the smallest element along `axis` (the first of several; of a NaN if there is one), i32. */
  argmin(axis: number, options?: ReduceOptions): Tensor {
    return this.#argOf('min', axis, options);
  }

  #argOf(op: 'max' | 'min', axis: number, options: ReduceOptions | undefined): Tensor {
    const at = normalizeAxis(`arg${op}`, axis, this.ndim);
    const best = b.reduce(op, this.node, [at]);
    const equal = b.map('eq', this.node, b.expand(best, this.shape));
    const hit = isFloat(this.dtype) ? b.map('or', equal, b.map('ne', this.node, this.node)) : equal;
    const position = b.iota(this.shape, at);
    return new Tensor(b.where(hit, position, b.like(position, this.shape[at]!))).min(at, options);
  }

  /** Along `axis`: e^x / Σ e^x. */
  softmax(axis = -1): Tensor {
    return new Tensor(softmax(this.node, normalizeAxis('softmax', axis, this.ndim), false));
  }
  /** Along `axis`: x − log Σ e^x. */
  logSoftmax(axis = -1): Tensor {
    return new Tensor(softmax(this.node, normalizeAxis('logSoftmax', axis, this.ndim), true));
  }

  // ── movement ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** The same elements in another shape; one size may be −1. */
  reshape<T extends Shape>(shape: T): Tensor<T> {
    return new Tensor<T>(b.reshape(this.node, inferShape(shape, this)));
  }
  /** Dimensions `from`… and later as one. */
  flatten(from = 0): Tensor {
    const at = normalizeAxis('flatten', from, Math.max(1, this.ndim));
    return this.reshape([...this.shape.slice(0, at), sizeOf(this.shape.slice(at))]);
  }
  permute(axes: readonly number[]): Tensor {
    return new Tensor(
      b.permute(
        this.node,
        axes.map((a) => normalizeAxis('permute', a, this.ndim)),
      ),
    );
  }
  /** Two dimensions exchanged (default: the last two). */
  transpose(first = -2, second = -1): Tensor {
    const [p, q] = [first, second].map((a) => normalizeAxis('transpose', a, this.ndim)) as [number, number];
    return this.permute(this.shape.map((_, i) => (i === p ? q : i === q ? p : i)));
  }
  /** Sizes of 1 repeated to `shape`. */
  expand<T extends Shape>(shape: T): Tensor<T> {
    if (!Array.isArray(shape) || shape.some((d) => !Number.isInteger(d) || d < 0))
      throw new ShapeError(`[expand] ${inspect(shape)} is not a shape: pass a list of whole numbers ≥ 0.`);
    return new Tensor<T>(b.expand(this.node, shape));
  }
  /** Without dimension `axis`, which has size 1. */
  squeeze(axis: number): Tensor {
    const at = normalizeAxis('squeeze', axis, this.ndim);
    if (this.shape[at] !== 1)
      throw new ShapeError(
        `[squeeze] dimension ${axis} of ${formatShape(this.shape)} has size ${this.shape[at]}, not 1.`,
      );
    return this.reshape(this.shape.filter((_, i) => i !== at));
  }
  /** With a new dimension of size 1 before `axis`. */
  unsqueeze(axis: number): Tensor {
    const at = normalizeAxis('unsqueeze', axis, this.ndim + 1);
    return this.reshape([...this.shape.slice(0, at), 1, ...this.shape.slice(at)]);
  }
  /** @param amounts per dimension, [before, after] · @param value of a bool 0 or 1 */
  pad(amounts: readonly (readonly [number, number])[], value = 0): Tensor {
    if (amounts.length !== this.ndim || amounts.some((a) => a.some((n) => n < 0 || !Number.isInteger(n)))) {
      throw new ArgumentError(
        `[pad] takes [before, after] ≥ 0 for each of ${this.ndim} dimensions, got ${JSON.stringify(amounts)}.`,
      );
    }
    if (this.dtype !== bool) operand(value, this);
    return new Tensor(
      b.pad(
        this.node,
        amounts.map((a) => a[0]),
        amounts.map((a) => a[1]),
        value,
      ),
    );
  }
  flip(axis: number): Tensor {
    const at = normalizeAxis('flip', axis, this.ndim);
    const start = this.shape.map((d, i) => (i === at ? Math.max(0, d - 1) : 0));
    return new Tensor(
      b.slice(
        this.node,
        start,
        this.shape,
        this.shape.map((_, i) => (i === at ? -1 : 1)),
      ),
    );
  }
  /**
   * NumPy-style indexing, one entry per dimension: a number, a slice `'start:stop:step'`, `null` for a new dimension,
   * `'...'`, or an i32 tensor of positions: `x.at(0)`, `x.at('1:3', '::-1')`, `x.at('...', null)`, `x.at(rows)`. In a
   * tensor, negative positions count from the back, and those out of range give 0.
   */
  at(...entries: readonly (Index | Tensor)[]): Tensor {
    return new Tensor(
      index(
        this.node,
        entries.map((e) => (e instanceof Tensor ? e.node : e)),
      ),
    );
  }
  /** out[…, i, …] = this[…, positions[…, i, …], …] along `axis`; `positions` is i32, out of range it gives 0. */
  gather(axis: number, positions: Tensor): Tensor {
    return new Tensor(b.gather(this.node, positions.node, normalizeAxis('gather', axis, this.ndim)));
  }

  /**
   * (…, M, K) × (…, K, N) → (…, M, N); leading dimensions broadcast.
   * @param options.precision of this product and of those for its gradients; default: `getPrecision().matmul`
   * @throws ShapeError, DTypeError
   */
  matmul(other: Tensor, options: MatmulOptions = {}): Tensor {
    return new Tensor(matmul(this.node, other.node, options.precision ?? getPrecision().matmul));
  }

  // ── gradients ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** The same values; gradients stop here. */
  detach(): Tensor<S> {
    return new Tensor(b.detach(this.node));
  }

  /**
   * Add the gradients of this scalar to `.grad` of every tensor it depends on that requires one.
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
      if (!g || !(tensor instanceof Tensor)) return;
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
  async data(): Promise<TypedArray> {
    return engine.decode(await engine.readBytes(this.node), this.dtype);
  }

  /** The one element as a number (bool: 0 or 1). @throws ShapeError if there are more */
  async item(): Promise<number> {
    if (this.size !== 1)
      throw new ShapeError(
        `[item] is for one element, this tensor is ${formatShape(this.shape)}. Use .data().`,
      );
    return Number((await this.data())[0]);
  }

  /** The elements as nested arrays. */
  async array(): Promise<NestedArray> {
    const data = await this.data();
    const nest = (depth: number, offset: number): NestedArray => {
      if (depth === this.ndim) return this.dtype === bool ? data[offset] === 1 : Number(data[offset]);
      const step = sizeOf(this.shape.slice(depth + 1));
      return Array.from({ length: this.shape[depth]! }, (_, i) => nest(depth + 1, offset + i * step));
    };
    return nest(0, 0);
  }

  /** Compute the values now, and keep them. */
  realize(): this {
    engine.realize([this.node]);
    return this;
  }

  /**
   * Let this tensor stand for `value` from now on (same shape and dtype). Tensors made from it before keep the old
   * values. Within `jit` its memory is updated in place.
   */
  assign(value: Tensor): this {
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
  write(values: ArrayLike<number>): this {
    engine.write(this, values);
    return this;
  }

  /** Give the memory back now instead of when the tensor is garbage. It must not be used afterwards. */
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

  toString(): string {
    return `Tensor(${formatShape(this.shape)}, ${this.dtype.name}${this.requiresGrad ? ', requiresGrad' : ''})`;
  }
}

export type NestedArray = number | boolean | NestedArray[];

/** @internal `compute` in f32 if x is of 16-bit floats, rounded once: at each step they would lose too much. */
export function widely<S extends Shape>(x: Tensor<S>, compute: (x: Tensor<S>) => Tensor): Tensor {
  return x.dtype.bytes === 2 ? compute(x.cast(f32)).cast(x.dtype) : compute(x);
}

/** @internal A number becomes a constant of the tensor's dtype. */
export function operand(v: Operand, like: Tensor): GraphNode {
  if (v instanceof Tensor) return v.node;
  if (typeof v !== 'number' && typeof v !== 'boolean' && typeof v !== 'bigint')
    throw new ArgumentError(`an operand is a tensor or a number, got ${inspect(v)}.`);
  if (typeof v !== 'boolean' && !isOf(like.dtype, v))
    throw new DTypeError(
      `${v} does not fit ${like.dtype.name}, whose values are ${describeValues(like.dtype)}. Convert the tensor first: .cast(${Number.isInteger(v) && like.dtype !== bool ? 'i32' : 'f32'}).`,
    );
  return b.full([], like.dtype, like.dtype.name === 'i64' ? BigInt(v) : v);
}

export { i32 };
