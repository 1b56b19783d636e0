/** Pieces of tensors whose first dimension is time. */
import * as b from '../graph/build.js';
import type { GraphNode } from '../graph/node.js';

/** x[start … start + count − 1] along `axis`. */
export const cut = (x: GraphNode, axis: number, start: number, count: number): GraphNode =>
  b.slice(
    x,
    x.shape.map((_, i) => (i === axis ? start : 0)),
    x.shape.map((d, i) => (i === axis ? count : d)),
  );

/** One after the other along `axis`, by halves. */
export function joined(parts: readonly GraphNode[], axis: number): GraphNode {
  if (parts.length === 1) return parts[0]!;
  const half = parts.length >> 1;
  const [left, right] = [joined(parts.slice(0, half), axis), joined(parts.slice(half), axis)];
  const only = (x: GraphNode): number[] => left.shape.map((_, i) => (i === axis ? x.shape[axis]! : 0));
  const none = left.shape.map(() => 0);
  const whole = b.pad(left, none, only(right));
  const isLeft = b.map(
    'lt',
    b.iota(whole.shape, axis),
    b.full(whole.shape, b.iota([1], 0).dtype, left.shape[axis]!),
  );
  return b.where(isLeft, whole, b.pad(right, only(left), none));
}

/** (T, N, X) at t, (N, X). */
export const at = (x: GraphNode, t: number): GraphNode => b.reshape(cut(x, 0, t, 1), x.shape.slice(1));
