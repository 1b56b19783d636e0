/** Movement of elements as users ask for it, on nodes. */
import { aList, aNumber, integerFrom, type Rules, requireArgument, shown } from '../core/arguments.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { formatShape, normalizeAxis, sizeOf } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { axesOf } from './axes.js';

/** @internal */
export function flatten(x: GraphNode, from: number): GraphNode {
  const at = normalizeAxis('flatten', from, Math.max(1, x.shape.length));
  return b.reshape(x, [...x.shape.slice(0, at), sizeOf(x.shape.slice(at))]);
}

/** @internal */
export function permute(x: GraphNode, axes: readonly number[]): GraphNode {
  requireArgument('permute', 'axes', axes, aList, 'Write permute([1, 0]).');
  return b.permute(x, axesOf('permute', axes, x.shape.length));
}

/** @internal */
export function transpose(x: GraphNode, first: number, second: number): GraphNode {
  const [p, q] = [first, second].map((a) => normalizeAxis('transpose', a, x.shape.length));
  return b.permute(
    x,
    x.shape.map((_, i) => (i === p ? q! : i === q ? p! : i)),
  );
}

/** @internal */
export function squeeze(x: GraphNode, axis: number): GraphNode {
  const at = normalizeAxis('squeeze', axis, x.shape.length);
  if (x.shape[at] !== 1)
    throw new ShapeError(
      `[squeeze] dimension ${axis} of ${formatShape(x.shape)} has size ${x.shape[at]}, not 1.`,
    );
  return b.reshape(
    x,
    x.shape.filter((_, i) => i !== at),
  );
}

/** @internal */
export function unsqueeze(x: GraphNode, axis: number): GraphNode {
  const at = normalizeAxis('unsqueeze', axis, x.shape.length + 1);
  return b.reshape(x, [...x.shape.slice(0, at), 1, ...x.shape.slice(at)]);
}

/** [before, after] of each dimension. */
export type Padding = readonly (readonly [before: number, after: number])[];

/** Options of `pad`. */
export interface PadOptions {
  /** What the elements around are (default 0); of a bool 0 or 1. */
  readonly value?: number;
}

/** @internal */
export const PAD: Rules<PadOptions> = { value: aNumber };

const { holds: isCount } = integerFrom(0);

/** @internal */
export function pad(x: GraphNode, amounts: Padding, value: number): GraphNode {
  const isPair = (a: unknown): boolean => Array.isArray(a) && a.length === 2 && a.every(isCount);
  const rank = x.shape.length;
  if (!Array.isArray(amounts) || amounts.length !== rank || !amounts.every(isPair))
    throw new ArgumentError(
      `[pad] amounts is ${shown(amounts)}, must be [before, after] ≥ 0 for each of the ${rank} dimensions, as in pad([[0, 0], [1, 1]]).`,
    );
  return b.pad(
    x,
    amounts.map((a) => a[0]),
    amounts.map((a) => a[1]),
    value,
  );
}

/** @internal */
export function flip(x: GraphNode, axis: number): GraphNode {
  const at = normalizeAxis('flip', axis, x.shape.length);
  const start = x.shape.map((d, i) => (i === at ? Math.max(0, d - 1) : 0));
  return b.slice(
    x,
    start,
    x.shape,
    x.shape.map((_, i) => (i === at ? -1 : 1)),
  );
}
