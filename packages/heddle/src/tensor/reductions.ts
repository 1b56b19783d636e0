/** Reductions as users ask for them, on nodes. */
import { aBoolean, aFinite, aNumber, type Rules, requireOptions } from '../core/arguments.js';
import { bool, i32, isByte, isFloat, isHalf, requireFloats } from '../core/dtype.js';
import { normalizeAxis } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { GraphNode, ReduceOp } from '../graph/node.js';
import { logSumExpOp } from '../ops/softmax/log-sum-exp.js';
import { squaredDeviationsOp } from '../ops/standardize/op.js';
import { type Axes, axesOf } from './axes.js';

/** Options of reductions. */
export interface ReduceOptions<K extends boolean = boolean> {
  /** Keep reduced dimensions as size 1 (default false). */
  readonly keepdim?: K;
}

/** Options of `variance` and `std`. */
export interface VarianceOptions<K extends boolean = boolean> extends ReduceOptions<K> {
  /** Subtracted from the count (default 1: the unbiased estimate, as PyTorch's). */
  readonly correction?: number;
}

/** Options of `norm`. */
export interface VectorNormOptions<K extends boolean = boolean> extends ReduceOptions<K> {
  /** Which norm: any number, ±∞ among them; default 2, the Euclidean one. */
  readonly ord?: number;
}

const REDUCE: Rules<ReduceOptions> = { keepdim: aBoolean };
const NORM: Rules<VectorNormOptions> = { ...REDUCE, ord: aNumber };
const VARIANCE: Rules<VarianceOptions> = { ...REDUCE, correction: aFinite };

/** @internal Over `axes`; sums and products of i8 and u8 are i32. */
export function reduced(op: ReduceOp, x: GraphNode, axes: Axes, options: ReduceOptions = {}): GraphNode {
  requireOptions(op, options, REDUCE);
  const over = axesOf(op, axes, x.shape.length);
  const grows = isByte(x.dtype) && (op === 'sum' || op === 'prod');
  return without(b.reduce(op, grows ? b.cast(x, i32) : x, over), over, options);
}

/** Without the dimensions that were reduced, unless they are kept. */
const without = (x: GraphNode, axes: readonly number[], { keepdim = false }: ReduceOptions): GraphNode =>
  keepdim
    ? x
    : b.reshape(
        x,
        x.shape.filter((_, i) => !axes.includes(i)),
      );

const countOf = ({ shape }: GraphNode, axes: readonly number[]): number =>
  axes.reduce((n, a) => n * shape[a]!, 1);

const scaled = (x: GraphNode, factor: number): GraphNode => b.mul(x, b.full([], x.dtype, factor));

/** @internal */
export function mean(x: GraphNode, axes: Axes, options: ReduceOptions = {}): GraphNode {
  requireFloats('mean', 'x', x);
  requireOptions('mean', options, REDUCE);
  const over = axesOf('mean', axes, x.shape.length);
  const count = countOf(x, over);
  return b.widened((wide) => scaled(without(b.sum(wide, over), over, options), 1 / count), x);
}

/** @internal */
export function variance(x: GraphNode, axes: Axes, options: VarianceOptions = {}): GraphNode {
  requireFloats('variance', 'x', x);
  requireOptions('variance', options, VARIANCE);
  const over = axesOf('variance', axes, x.shape.length);
  const count = countOf(x, over);
  return b.widened((wide) => {
    const sum = b.call(squaredDeviationsOp, [wide], { axes: over });
    return scaled(without(sum, over, options), 1 / Math.max(0, count - (options.correction ?? 1)));
  }, x);
}

/** @internal √v has no slope at 0, but where all elements are the same, their deviation has a gradient of 0. */
export function deviation(x: GraphNode, axes: Axes, options: VarianceOptions = {}): GraphNode {
  return b.widened((wide) => {
    const v = variance(wide, axes, options);
    const [zero, one] = [0, 1].map((n) => b.full([], v.dtype, n)) as [GraphNode, GraphNode];
    const isZero = b.map('eq', v, zero);
    return b.where(isZero, zero, b.map('sqrt', b.where(isZero, one, v)));
  }, x);
}

/** @internal log Σ e^x, computed from x − max x; −∞ of nothing, and where all are −∞. */
export function logSumExp(x: GraphNode, axes: Axes, options: ReduceOptions = {}): GraphNode {
  requireFloats('logSumExp', 'x', x);
  requireOptions('logSumExp', options, REDUCE);
  const over = axesOf('logSumExp', axes, x.shape.length);
  const exp = isHalf(x.dtype) ? 'exp16' : 'exp';
  return b.widened((wide) => without(b.call(logSumExpOp, [wide], { axes: over, exp }), over, options), x);
}

/** @internal (Σ |x|^ord)^(1/ord); the largest or smallest |x| of ±∞, how many are not 0 of 0. */
export function norm(x: GraphNode, axes: Axes, options: VectorNormOptions = {}): GraphNode {
  requireFloats('norm', 'x', x);
  requireOptions('norm', options, NORM);
  const over = axesOf('norm', axes, x.shape.length);
  const { ord = 2 } = options;
  const size = (wide: GraphNode): GraphNode => b.map('abs', wide);
  if (Math.abs(ord) === Number.POSITIVE_INFINITY) {
    const op = ord > 0 ? 'max' : 'min';
    return without(b.reduce(op, size(x), over), over, options);
  }
  return b.widened((wide) => {
    if (ord === 0) {
      const isThere = b.map('ne', wide, b.like(wide, 0));
      return without(b.sum(b.cast(isThere, wide.dtype), over), over, options);
    }
    if (ord === 1) return without(b.sum(size(wide), over), over, options);
    const power = ord === 2 ? b.mul(wide, wide) : b.map('pow', size(wide), b.like(wide, ord));
    const total = without(b.sum(power, over), over, options);
    // The root has no slope at 0, where the gradient is 0.
    const isZero = b.map('eq', total, b.like(total, 0));
    const inside = b.where(isZero, b.like(total, 1), total);
    const root = ord === 2 ? b.map('sqrt', inside) : b.map('pow', inside, b.like(inside, 1 / ord));
    return b.where(isZero, total, root);
  }, x);
}

/** @internal Whether any element, or every one, is not 0 (or is true). */
export function vote(name: 'any' | 'all', x: GraphNode, axes: Axes, options: ReduceOptions = {}): GraphNode {
  requireOptions(name, options, REDUCE);
  const over = axesOf(name, axes, x.shape.length);
  const hit = b.map(name === 'any' ? 'ne' : 'eq', x, b.like(x, x.dtype === bool ? false : 0));
  const hits = b.sum(b.cast(hit, i32), over);
  return without(b.map(name === 'any' ? 'ne' : 'eq', hits, b.like(hits, 0)), over, options);
}

/**
 * @internal Index of the largest or smallest element along `axis` (undefined: of all, in row order): the first of several;
 * of a NaN if there is one.
 */
export function argOf(
  op: 'max' | 'min',
  x: GraphNode,
  axis: number | undefined,
  options: ReduceOptions = {},
): GraphNode {
  if (axis === undefined) {
    const index = argOf(op, b.reshape(x, [x.size]), 0, options);
    return options.keepdim
      ? b.reshape(
          index,
          x.shape.map(() => 1),
        )
      : index;
  }
  const at = normalizeAxis(`arg${op}`, axis, x.shape.length);
  const best = b.reduce(op, x, [at]);
  const equal = b.map('eq', x, b.expand(best, x.shape));
  const hit = isFloat(x.dtype) ? b.map('or', equal, b.map('ne', x, x)) : equal;
  const position = b.iota(x.shape, at);
  return reduced('min', b.where(hit, position, b.like(position, x.shape[at]!)), at, options);
}
