/** Elements by their order, and by a mask, as users ask for them, on nodes. */
import { aBoolean, integerFrom, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import { bool, type DType, i32 } from '../core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../core/errors.js';
import { formatShape, normalizeAxis, type Shape, stridesOf } from '../core/shape.js';
import * as engine from '../engine/realize.js';
import { currentTrace } from '../engine/trace.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { indexSelect } from '../ops/index-add/op.js';
import { type Ordered, order } from '../ops/sort/op.js';

/** Options of `sort` and `argsort`. */
export interface SortOptions {
  /** The largest first (default false). */
  readonly descending?: boolean;
}

/** Options of `topk`. */
export interface TopkOptions {
  /** Whether the largest elements are wanted (default), or the smallest. */
  readonly largest?: boolean;
}

const SORT: Rules<SortOptions> = { descending: aBoolean };
const TOPK: Rules<TopkOptions> = { largest: aBoolean };

/** @internal */
export function sort(op: 'sort' | 'argsort', x: GraphNode, axis: number, options: SortOptions): Ordered {
  requireOptions(op, options, SORT);
  return order(op, x, axis, options.descending ?? false);
}

/** @internal */
export function topk(x: GraphNode, k: number, axis: number, options: TopkOptions): Ordered {
  requireArgument('topk', 'k', k, integerFrom(0));
  requireOptions('topk', options, TOPK);
  const at = x.shape.length === 0 ? 0 : normalizeAxis('topk', axis, x.shape.length);
  const whole = x.shape[at] ?? 1;
  if (k > whole)
    throw new ShapeError(
      `[topk] k is ${k}, but axis ${axis} of ${formatShape(x.shape)} has ${whole} elements.`,
    );
  const { values, indices } = order('topk', x, axis, options.largest ?? true);
  const first = (y: GraphNode): GraphNode =>
    b.slice(
      y,
      y.shape.map(() => 0),
      y.shape.map((d, i) => (i === at ? k : d)),
    );
  return { values: first(values), indices: first(indices) };
}

/** The values, to choose by them. @throws ArgumentError within `jit` */
async function valuesOf(op: string, x: GraphNode): Promise<(number | bigint)[]> {
  if (currentTrace())
    throw new ArgumentError(
      `[${op}] is not for jitted functions: the size of its result depends on values. Use maskedFill, or where, there.`,
    );
  return Array.from<number | bigint>(engine.decode(await engine.readBytes(x), x.dtype));
}

/** Where values are not 0. */
const placesOf = (values: readonly (number | bigint)[]): number[] =>
  values.flatMap((v, i) => (v === 0 || v === 0n ? [] : [i]));

/** A computed leaf on the device of `like`. */
const beside = (
  like: GraphNode,
  values: ArrayLike<number | bigint>,
  shape: Shape,
  dtype: DType = i32,
): GraphNode => engine.upload(values, shape, dtype, false, 'tensors', engine.bufferOf(like).device);

/** @internal (count, dimensions) */
export async function nonzero(x: GraphNode): Promise<GraphNode> {
  const found = placesOf(await valuesOf('nonzero', x));
  const strides = stridesOf(x.shape);
  const coordinates = found.flatMap((place) =>
    x.shape.map((d, axis) => Math.floor(place / strides[axis]!) % d),
  );
  return beside(x, coordinates, [found.length, x.shape.length]);
}

/** @internal (count) */
export async function maskedSelect(x: GraphNode, mask: GraphNode): Promise<GraphNode> {
  if (mask.dtype !== bool)
    throw new DTypeError(
      `[maskedSelect] mask must be bool, got ${mask.dtype.name}. Compare first, as in x.gt(0).`,
    );
  const [from, chosen] = b.broadcast('maskedSelect', x, mask) as [GraphNode, GraphNode];
  const found = placesOf(await valuesOf('maskedSelect', chosen));
  return indexSelect(b.reshape(from, [from.size]), beside(chosen, found, [found.length]), 0);
}

/** @internal Ascending; each NaN counts. */
export async function unique(x: GraphNode): Promise<GraphNode> {
  const sorted = order('unique', b.reshape(b.detach(x), [x.size]), 0, false).values;
  const values = await valuesOf('unique', sorted);
  const found = values.filter((v, i) => i === 0 || v !== values[i - 1]);
  return beside(sorted, found, [found.length], x.dtype);
}
