/** Axes and shapes as users give them. */
import { type Rule, requireArgument, shown } from '../core/arguments.js';
import { ShapeError } from '../core/errors.js';
import { aShape, formatShape, normalizeAxis, type Shape, sizeOf } from '../core/shape.js';

/** One axis, several, or all (undefined). Negative axes count from the back. */
export type Axes = number | readonly number[] | undefined;

/** @internal Axes counted from the front, without repeats. */
export function axesOf(op: string, axes: Axes, rank: number): number[] {
  if (axes === undefined) return Array.from({ length: rank }, (_, i) => i);
  if (typeof axes !== 'number' && !Array.isArray(axes))
    throw new ShapeError(`[${op}] ${shown(axes)} is not an axis: pass an integer, or a list of them.`);
  const list = (typeof axes === 'number' ? [axes] : axes).map((a) => normalizeAxis(op, a, rank));
  if (new Set(list).size !== list.length) throw new ShapeError(`[${op}] axes (${list.join(',')}) repeat.`);
  return list;
}

const INFERRED: Rule = {
  ...aShape,
  must: 'a list of integers ≥ 0, one of which may be −1, as in reshape([2, -1])',
  holds: (v) => Array.isArray(v) && v.every((d) => d === -1 || aShape.holds([d])),
};

/** A shape with its −1, if there is one, inferred. @throws ShapeError */
export function inferShape(shape: Shape, like: { readonly shape: Shape; readonly size: number }): Shape {
  requireArgument('reshape', 'shape', shape, INFERRED);
  const unknown = shape.filter((d) => d === -1).length;
  if (unknown === 0) return shape;
  const known = sizeOf(shape.filter((d) => d !== -1));
  if (unknown > 1 || known === 0 || like.size % known !== 0) {
    throw new ShapeError(
      `[reshape] cannot infer the −1 dimension: ${formatShape(like.shape)} (${like.size} elements) to ${formatShape(shape)}.`,
    );
  }
  return shape.map((d) => (d === -1 ? like.size / known : d));
}
