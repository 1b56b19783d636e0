/** Movement ops as changes of coordinates: where an element of the result stands in the source. */
import { sizeOf } from '../../core/shape.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import type { Expr } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { type Affine, atom, ofAtom, offset, plus, times, toExpr } from './affine.js';
import { align, type Coordinates, type Digit, flatten } from './coordinates.js';

/** Neighbouring dimensions with the same mark as one. */
export function runsOf(
  shape: readonly number[],
  marked: (axis: number) => boolean,
): { size: number; marked: boolean; axes: number[] }[] {
  const runs: { size: number; marked: boolean; axes: number[] }[] = [];
  shape.forEach((d, i) => {
    const last = runs.at(-1);
    if (last && last.marked === marked(i)) {
      last.size *= d;
      last.axes.push(i);
    } else runs.push({ size: d, marked: marked(i), axes: [i] });
  });
  return runs;
}

/** The coordinates of an expanded node in its source: digits of repeated dimensions fall away. */
export function kept(node: GraphNode, at: Coordinates): Digit[] {
  const from = node.src[0]!.shape;
  const runs = runsOf(node.shape, (i) => from[i] !== node.shape[i]);
  const groups = align(
    at,
    runs.map((r) => r.size),
  );
  return runs.flatMap((r, i) => (r.marked ? [] : groups[i]!));
}

/** The coordinates of a slice in its source. */
export function sliced(node: GraphNode, at: Coordinates): Digit[] {
  const x = node.src[0]!.shape;
  const { start, step, size } = argOf(node, 'slice');
  const touched = (i: number): boolean => size[i] !== x[i] || step[i] !== 1;
  // Each touched dimension separately, the others in runs
  const parts = x.flatMap((_, i) => (touched(i) || i === 0 || touched(i - 1) ? [i] : []));
  const sizeUpTo = (n: number): number => sizeOf(size.slice(parts[n]!, parts[n + 1] ?? size.length));
  const groups = align(
    at,
    parts.map((_, n) => sizeUpTo(n)),
  );
  return parts.flatMap((axis, n) =>
    touched(axis)
      ? [{ size: x[axis]!, value: offset(times(flatten(groups[n]!), step[axis]!), start[axis]!) }]
      : groups[n]!,
  );
}

/** The coordinates of a padded node in its source, and the conditions, on these positions, under which they are inside it. */
export function padded(
  node: GraphNode,
  at: Coordinates,
): { coordinates: Digit[]; valid: Expr[]; positions: Affine[] } {
  const x = node.src[0]!.shape;
  const { before, after } = argOf(node, 'pad');
  const touched = (i: number): boolean => before[i] !== 0 || after[i] !== 0;
  const parts = x.flatMap((_, i) => (touched(i) || i === 0 || touched(i - 1) ? [i] : []));
  const groups = align(
    at,
    parts.map((axis, n) => sizeOf(node.shape.slice(axis, parts[n + 1] ?? x.length))),
  );
  const valid: Expr[] = [];
  const positions: Affine[] = [];
  const coordinates = parts.flatMap((axis, n) => {
    if (!touched(axis)) return groups[n]!;
    const position = flatten(groups[n]!);
    positions.push(position);
    if (before[axis]! > 0) valid.push(k.alu('ge', [toExpr(position), k.int(before[axis]!)]));
    if (after[axis]! > 0) valid.push(k.alu('lt', [toExpr(position), k.int(before[axis]! + x[axis]!)]));
    return [{ size: x[axis]!, value: offset(position, -before[axis]!) }];
  });
  return { coordinates, valid, positions };
}

/** Where the gathered element at `position` stands in the source, and the conditions under which there is one. */
export function gathered(
  node: GraphNode,
  at: Coordinates,
  position: Expr,
): { coordinates: Digit[]; valid: Expr[] } {
  const { axis } = argOf(node, 'gather');
  const size = node.src[0]!.shape[axis]!;
  const groups = align(at, node.shape);
  groups[axis] = [{ size, value: ofAtom(atom(position, Math.max(2, size))) }];
  const valid = [k.alu('ge', [position, k.int(0)]), k.alu('lt', [position, k.int(size)])];
  return { coordinates: groups.flat(), valid };
}

/** Where in the input an element of a window stands. */
export function windowed(node: GraphNode, at: Coordinates): Digit[] {
  const x = node.src[0]!.shape;
  const { kernel, stride, dilation } = argOf(node, 'window');
  const lead = sizeOf(node.shape.slice(0, -4));
  const [outer, oh, ow, kh, kw] = align(at, [lead, ...node.shape.slice(-4, -2), ...kernel]) as [
    Digit[],
    Digit[],
    Digit[],
    Digit[],
    Digit[],
  ];
  const position = (i: 0 | 1, o: Digit[], w: Digit[]): Digit => ({
    size: x[x.length - 2 + i]!,
    value: plus(times(flatten(o), stride[i]), times(flatten(w), dilation[i])),
  });
  return [...outer, position(0, oh, kh), position(1, ow, kw)];
}
