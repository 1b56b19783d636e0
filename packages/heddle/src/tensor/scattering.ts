/** Values put into tensors, and taken out of them, by position, as users ask for it, on nodes. */
import { aNumber, type Rules, requireOptions } from '../core/arguments.js';
import { bool, i32, requireFloats } from '../core/dtype.js';
import { DTypeError, ShapeError } from '../core/errors.js';
import { formatShape, normalizeAxis } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { indexAddOp } from '../ops/index-add/op.js';
import * as rows from '../ops/scatter/op.js';

/** Options of `indexAdd`. */
export interface IndexAddOptions {
  /** A factor of what is added (default 1). */
  readonly alpha?: number;
}

const INDEX_ADD: Rules<IndexAddOptions> = { alpha: aNumber };

/** @throws DTypeError */
function requirePositions(op: string, index: GraphNode): void {
  if (index.dtype !== i32)
    throw new DTypeError(`[${op}] index must be i32, got ${index.dtype.name}. Convert with .cast(i32).`);
}

/** @throws DTypeError */
function requireLike(op: string, x: GraphNode, src: GraphNode): void {
  if (src.dtype !== x.dtype)
    throw new DTypeError(
      `[${op}] dtypes differ: x is ${x.dtype.name}, src ${src.dtype.name}. Convert one with .cast(${x.dtype.name}).`,
    );
}

/** Dimension `axis` last, and back: they are exchanged. */
const withLast = (x: GraphNode, axis: number): GraphNode => {
  const last = x.shape.length - 1;
  return b.permute(
    x,
    x.shape.map((_, i) => (i === axis ? last : i === last ? axis : i)),
  );
};

const cornerOf = (x: GraphNode, shape: readonly number[]): GraphNode =>
  b.slice(
    x,
    x.shape.map(() => 0),
    shape,
  );

/** `part` in the corner of a tensor of `shape`, 0 or false around it. */
const inCorner = (part: GraphNode, shape: readonly number[]): GraphNode =>
  b.pad(
    part,
    shape.map(() => 0),
    shape.map((d, i) => d - part.shape[i]!),
  );

/** The three with `axis` last; values as many as the index has. @throws ShapeError, DTypeError */
function rowsOf(op: string, x: GraphNode, axis: number, index: GraphNode, src: GraphNode) {
  requirePositions(op, index);
  requireLike(op, x, src);
  const at = normalizeAxis(op, axis, x.shape.length);
  const fits = (of: GraphNode, but: number): boolean =>
    index.shape.length === of.shape.length && index.shape.every((d, i) => i === but || d <= of.shape[i]!);
  if (!fits(x, at) || !fits(src, -1))
    throw new ShapeError(
      `[${op}] index ${formatShape(index.shape)} must not be larger than src ${formatShape(src.shape)}, nor, but for axis ${axis}, than x ${formatShape(x.shape)}.`,
    );
  return { at, places: withLast(index, at), values: withLast(cornerOf(src, index.shape), at) };
}

/** @internal */
export function gather(x: GraphNode, axis: number, index: GraphNode): GraphNode {
  const at = normalizeAxis('gather', axis, x.shape.length);
  b.checkIndex('gather', x, index, at);
  return withLast(rows.gather(withLast(x, at), withLast(index, at)), at);
}

/** @internal */
export function scatter(x: GraphNode, axis: number, index: GraphNode, src: GraphNode): GraphNode {
  if (src.shape.length === 0 && index.shape.length > 0)
    return scatter(x, axis, index, b.expand(src, index.shape));
  const { at, places, values } = rowsOf('scatter', x, axis, index, src);
  if (index.size === 0) return x;
  const found = rows.scattered(values, places, x.shape[at]!);
  const [put, isThere] = [found.values, found.isThere].map((y) => inCorner(withLast(y, at), x.shape));
  return b.where(isThere!, put!, x);
}

/** @internal */
export function scatterAdd(x: GraphNode, axis: number, index: GraphNode, src: GraphNode): GraphNode {
  if (x.dtype === bool)
    throw new DTypeError('[scatterAdd] takes numbers, got bool. Convert with .cast(i32).');
  const { at, places, values } = rowsOf('scatterAdd', x, axis, index, src);
  if (index.size === 0) return x;
  const added = withLast(rows.scatterAdd(values, places, x.shape[at]!), at);
  return b.add(x, inCorner(added, x.shape));
}

/** @internal */
export function indexAdd(
  x: GraphNode,
  axis: number,
  index: GraphNode,
  src: GraphNode,
  options: IndexAddOptions,
): GraphNode {
  requireOptions('indexAdd', options, INDEX_ADD);
  requirePositions('indexAdd', index);
  requireLike('indexAdd', x, src);
  const { alpha } = options;
  if (alpha !== undefined) requireFloats('indexAdd with alpha', 'x', x);
  const at = normalizeAxis('indexAdd', axis, x.shape.length);
  const shape = x.shape.map((d, i) => (i === at ? index.size : d));
  if (index.shape.length !== 1 || formatShape(src.shape) !== formatShape(shape))
    throw new ShapeError(
      `[indexAdd] index ${formatShape(index.shape)} must have one dimension, and src ${formatShape(src.shape)} be ${formatShape(shape)}.`,
    );
  if (src.size === 0) return x;
  const scaled = alpha === undefined ? src : b.mul(src, b.like(src, alpha));
  return b.add(x, b.call(indexAddOp, [scaled, index], { axis: at, size: x.shape[at]! }));
}
