/** Padding by the elements themselves, on nodes. */
import { ShapeError } from '../core/errors.js';
import { formatShape } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { concatenate, cut, flip, type Padding, type PadMode, requireAmounts } from './movement.js';

/** Of how many elements at most there may be padding, if there are n. */
const MOST: Readonly<Record<Exclude<PadMode, 'constant'>, (n: number) => number>> = {
  reflect: (n) => Math.max(0, n - 1),
  circular: (n) => n,
  replicate: (n) => (n > 0 ? Number.POSITIVE_INFINITY : 0),
};

/** @internal @throws ArgumentError, ShapeError where there are too few elements */
export function padAround(x: GraphNode, amounts: Padding, mode: Exclude<PadMode, 'constant'>): GraphNode {
  requireAmounts(x, amounts);
  return amounts.reduce((y, [before, after], axis) => {
    const n = y.shape[axis]!;
    if (Math.max(before, after) > MOST[mode](n))
      throw new ShapeError(
        `[pad] ${mode} of ${Math.max(before, after)} elements, but dimension ${axis} of ${formatShape(x.shape)} has ${n}: at most ${MOST[mode](n)}.`,
      );
    const repeated = (from: number, count: number): GraphNode =>
      b.expand(
        cut(y, axis, from, 1),
        y.shape.map((d, i) => (i === axis ? count : d)),
      );
    const piece = {
      reflect: () => [flip(cut(y, axis, 1, before), axis), flip(cut(y, axis, n - 1 - after, after), axis)],
      circular: () => [cut(y, axis, n - before, before), cut(y, axis, 0, after)],
      replicate: () => [repeated(0, before), repeated(n - 1, after)],
    };
    if (before + after === 0) return y;
    const [first, last] = piece[mode]() as [GraphNode, GraphNode];
    return concatenate([...(before > 0 ? [first] : []), y, ...(after > 0 ? [last] : [])], axis);
  }, x);
}
