/** Reductions as users ask for them, on nodes. */
import { aBoolean, aFinite, type Rules, requireOptions } from '../core/arguments.js';
import { i32, isFloat, requireFloats, u8 } from '../core/dtype.js';
import { normalizeAxis } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { GraphNode, ReduceOp } from '../graph/node.js';
import { type Axes, axesOf } from './axes.js';

/** Options of reductions. */
export interface ReduceOptions {
  /** Keep reduced dimensions as size 1 (default false). */
  readonly keepdim?: boolean;
}

/** Options of `variance` and `std`. */
export interface VarianceOptions extends ReduceOptions {
  /** Subtracted from the count (default 1: the unbiased estimate, as PyTorch's). */
  readonly correction?: number;
}

const REDUCE: Rules<ReduceOptions> = { keepdim: aBoolean };
const VARIANCE: Rules<VarianceOptions> = { ...REDUCE, correction: aFinite };

/** @internal Over `axes`; sums and products of u8 are i32. */
export function reduced(op: ReduceOp, x: GraphNode, axes: Axes, options: ReduceOptions = {}): GraphNode {
  requireOptions(op, options, REDUCE);
  const over = axesOf(op, axes, x.shape.length);
  const grows = x.dtype === u8 && (op === 'sum' || op === 'prod');
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
    const deviation = b.sub(wide, scaled(b.sum(wide, over), 1 / count));
    const sum = b.sum(b.mul(deviation, deviation), over);
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

/** @internal Index of the largest or smallest element along `axis`: the first of several; of a NaN if there is one. */
export function argOf(op: 'max' | 'min', x: GraphNode, axis: number, options: ReduceOptions = {}): GraphNode {
  const at = normalizeAxis(`arg${op}`, axis, x.shape.length);
  const best = b.reduce(op, x, [at]);
  const equal = b.map('eq', x, b.expand(best, x.shape));
  const hit = isFloat(x.dtype) ? b.map('or', equal, b.map('ne', x, x)) : equal;
  const position = b.iota(x.shape, at);
  return reduced('min', b.where(hit, position, b.like(position, x.shape[at]!)), at, options);
}
