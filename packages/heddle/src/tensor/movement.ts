/** Movement of elements as users ask for it, on nodes. */
import {
  aList,
  aNumber,
  integerFrom,
  listOf,
  oneOf,
  type Rules,
  requireArgument,
  shown,
} from '../core/arguments.js';
import { bool } from '../core/dtype.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { formatShape, normalizeAxis, sizeOf } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';
import { type Axes, axesOf } from './axes.js';

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

/** How the elements around are chosen when a tensor is padded. */
export type PadMode = 'constant' | 'reflect' | 'replicate' | 'circular';

/** Options of `pad`. */
export interface PadOptions {
  /** The value of the elements around (default 0); for a bool 0 or 1. */
  readonly value?: number;
  /**
   * 'constant' (default): `value`; 'reflect': the elements mirrored at the first and the last one; 'replicate': these repeated;
   * 'circular': those of the other end.
   */
  readonly mode?: PadMode;
}

/** @internal */
export const PAD: Rules<PadOptions> = {
  value: aNumber,
  mode: oneOf('constant', 'reflect', 'replicate', 'circular'),
};

const { holds: isCount } = integerFrom(0);

/** @internal @throws ArgumentError unless there is a pair of counts for each dimension */
export function requireAmounts(x: GraphNode, amounts: Padding): void {
  const isPair = (a: unknown): boolean => Array.isArray(a) && a.length === 2 && a.every(isCount);
  const rank = x.shape.length;
  if (!Array.isArray(amounts) || amounts.length !== rank || !amounts.every(isPair))
    throw new ArgumentError(
      `[pad] amounts is ${shown(amounts)}, must be [before, after] ≥ 0 for each of the ${rank} dimensions, as in pad([[0, 0], [1, 1]]).`,
    );
}

/** @internal */
export function pad(x: GraphNode, amounts: Padding, value: number): GraphNode {
  requireAmounts(x, amounts);
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

/** @internal Nodes one after the other along `at`; their other sizes agree. */
export function concatenate(nodes: readonly GraphNode[], at: number): GraphNode {
  const [first, ...others] = nodes as readonly [GraphNode, ...GraphNode[]];
  const total = nodes.reduce((n, x) => n + x.shape[at]!, 0);
  const shape = first.shape.map((d, i) => (i === at ? total : d));
  const position = b.iota(shape, at);
  const only = (n: number): number[] => shape.map((_, i) => (i === at ? n : 0));
  const spread = (x: GraphNode, start: number): GraphNode =>
    b.pad(x, only(start), only(total - start - x.shape[at]!));
  let start = first.shape[at]!;
  let result = spread(first, 0);
  for (const x of others) {
    result = b.where(b.map('lt', position, b.like(position, start)), result, spread(x, start));
    start += x.shape[at]!;
  }
  return result;
}

/** @internal Elements `from` to `from + size` along `at`. */
export const cut = (x: GraphNode, at: number, from: number, size: number): GraphNode =>
  b.slice(
    x,
    x.shape.map((_, i) => (i === at ? from : 0)),
    x.shape.map((d, i) => (i === at ? size : d)),
  );

/** @internal */
export function roll(x: GraphNode, shifts: number | readonly number[], axes: Axes): GraphNode {
  const by = typeof shifts === 'number' ? [shifts] : shifts;
  requireArgument('roll', 'shifts', by, listOf(integerFrom(Number.MIN_SAFE_INTEGER)));
  if (axes === undefined) {
    const flat = b.reshape(x, [x.size]);
    return b.reshape(
      roll(
        flat,
        by.reduce((a, n) => a + n, 0),
        0,
      ),
      x.shape,
    );
  }
  const over = axesOf('roll', axes, x.shape.length);
  if (over.length !== by.length)
    throw new ShapeError(`[roll] ${by.length} shifts for ${over.length} axes: give one for each.`);
  return over.reduce((y, at, i) => {
    const n = y.shape[at]!;
    const shift = n === 0 ? 0 : ((by[i]! % n) + n) % n;
    return shift === 0 ? y : concatenate([cut(y, at, n - shift, shift), cut(y, at, 0, n - shift)], at);
  }, x);
}

const COUNTS = listOf(integerFrom(0));

/** @internal */
export function repeat(x: GraphNode, counts: readonly number[]): GraphNode {
  requireArgument('repeat', 'counts', counts, COUNTS, 'Write repeat([2, 1]).');
  const before = counts.length - x.shape.length;
  if (before < 0)
    throw new ShapeError(
      `[repeat] ${counts.length} counts for the ${x.shape.length} dimensions of ${formatShape(x.shape)}: give one for each.`,
    );
  const shape = [...counts.slice(0, before).map(() => 1), ...x.shape];
  const apart = b.reshape(
    x,
    shape.flatMap((d) => [1, d]),
  );
  const repeated = b.expand(
    apart,
    shape.flatMap((d, i) => [counts[i]!, d]),
  );
  return b.reshape(
    repeated,
    shape.map((d, i) => d * counts[i]!),
  );
}

/** @internal */
export function repeatInterleave(x: GraphNode, count: number, axis: number): GraphNode {
  requireArgument('repeatInterleave', 'count', count, integerFrom(0));
  const at = normalizeAxis('repeatInterleave', axis, x.shape.length);
  const apart = [...x.shape.slice(0, at + 1), 1, ...x.shape.slice(at + 1)];
  const repeated = b.expand(
    b.reshape(x, apart),
    apart.map((d, i) => (i === at + 1 ? count : d)),
  );
  return b.reshape(
    repeated,
    x.shape.map((d, i) => (i === at ? d * count : d)),
  );
}

/** @internal Pieces along `axis`: of `sizes` each, the last perhaps smaller, or of these sizes. */
export function split(x: GraphNode, sizes: number | readonly number[], axis: number): GraphNode[] {
  const at = normalizeAxis('split', axis, x.shape.length);
  const whole = x.shape[at]!;
  if (typeof sizes === 'number') requireArgument('split', 'sizes', sizes, integerFrom(1));
  else requireArgument('split', 'sizes', sizes, COUNTS);
  const list =
    typeof sizes === 'number'
      ? Array.from({ length: Math.max(1, Math.ceil(whole / sizes)) }, (_, i) =>
          Math.min(sizes, whole - i * sizes),
        )
      : sizes;
  const total = list.reduce((a, n) => a + n, 0);
  if (total !== whole)
    throw new ShapeError(
      `[split] sizes ${list.join(' + ')} are ${total}, but axis ${axis} of ${formatShape(x.shape)} has ${whole}.`,
    );
  let from = 0;
  return list.map((size) => {
    from += size;
    return cut(x, at, from - size, size);
  });
}

/** @internal At most `count` pieces of equal size along `axis`, the last perhaps smaller. */
export function chunk(x: GraphNode, count: number, axis: number): GraphNode[] {
  requireArgument('chunk', 'count', count, integerFrom(1));
  const at = normalizeAxis('chunk', axis, x.shape.length);
  return split(x, Math.max(1, Math.ceil(x.shape[at]! / count)), at);
}

/** @internal The slices along `axis`, without it. */
export function unbind(x: GraphNode, axis: number): GraphNode[] {
  const at = normalizeAxis('unbind', axis, x.shape.length);
  const shape = x.shape.filter((_, i) => i !== at);
  return Array.from({ length: x.shape[at]! }, (_, i) => b.reshape(cut(x, at, i, 1), shape));
}

/** @internal Of the last two dimensions the elements on and below a diagonal, or on and above it; the others are 0. */
export function triangle(side: 'tril' | 'triu', x: GraphNode, diagonal: number): GraphNode {
  requireArgument(side, 'diagonal', diagonal, integerFrom(Number.MIN_SAFE_INTEGER));
  const { length } = x.shape;
  if (length < 2)
    throw new ShapeError(`[${side}] x is ${formatShape(x.shape)}, must have 2 dimensions or more.`);
  // Beyond the corners all diagonals are the same.
  const [rows, columns] = x.shape.slice(-2) as [number, number];
  const within = Math.max(-rows, Math.min(columns, diagonal));
  const row = b.iota(x.shape, length - 2);
  const distance = b.sub(b.iota(x.shape, length - 1), row);
  const isKept = b.map(side === 'tril' ? 'le' : 'ge', distance, b.like(distance, within));
  return b.where(isKept, x, b.like(x, x.dtype === bool ? false : 0));
}
