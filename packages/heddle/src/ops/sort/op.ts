/** Sorting along an axis: the order of elements, and elements in that order. */
import { argsortChoice } from '#ops/gpu-kernels.js';
import { type DType, f32, i32, i64, isHalf, u32 } from '../../core/dtype.js';
import { normalizeAxis } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp, StageArgument } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { stage } from '../stage.js';
import { sortRows } from './cpu.js';
import { problemOf } from './problem.js';

/** (…, n) → positions: each element's place is the number of those that come before it. */
function byCounting(keys: GraphNode): GraphNode {
  const n = keys.shape.at(-1)!;
  const lead = keys.shape.slice(0, -1);
  const square = [...lead, n, n];
  const [own, other] = [lead.length, lead.length + 1];
  const mine = b.expand(b.reshape(keys, [...lead, n, 1]), square);
  const theirs = b.expand(b.reshape(keys, [...lead, 1, n]), square);
  const isEarlier = b.map('lt', b.iota(square, other), b.iota(square, own));
  const isEqual = b.map('eq', theirs, mine);
  const isBefore = b.map('or', b.map('lt', theirs, mine), b.map('and', isEqual, isEarlier));
  const place = b.sum(b.cast(isBefore, i32), [other]);
  const isThere = b.map('eq', b.expand(place, square), b.iota(square, other));
  const position = b.iota(square, own);
  return b.reshape(b.sum(b.where(isThere, position, b.like(position, 0)), [own]), keys.shape);
}

/** Keys (…, n) i32 or i64 → where the elements of each row were before they are sorted, i32, equal ones as they stood. */
const argsortOp: FusedOp<null> = {
  name: 'argsort',
  infer: ([keys]) => ({ shape: keys!.shape, dtype: i32 }),
  compose: ([keys]) => byCounting(keys!),
  kernels: [
    {
      name: 'argsort-cpu',
      when: ({ model }) => model === 'blocks',
      finishes: true,
      plan: (io) => {
        const problem = problemOf(io);
        const { rows, n, dtype } = problem;
        const memory = (scratch: string, { bytes }: DType): StageArgument => ({
          scratch,
          bytes: 2 * rows * n * bytes,
        });
        const work = [memory('keys', dtype), memory('positions', i32)];
        return [stage(sortRows(problem, io.finish([rows, n])), { input: 0 }, ...work, { output: true })];
      },
    },
    argsortChoice,
  ],
};

/** x (…, n) in the order of `positions` (…, n), a permutation of each row: its gradient goes back by the inverse one. */
const reorderOp: FusedOp<null> = {
  name: 'reorder',
  infer: ([x]) => x!,
  compose: ([x, positions]) => b.gather(x!, positions!, x!.shape.length - 1),
  grad: ({ src: [, positions] }, g) => [
    b.call(reorderOp, [g, b.call(argsortOp, [positions!], null)], null),
    undefined,
  ],
  kernels: [],
};

/**
 * Integers in the order of x: the bits of floats, of which those of negative ones count backwards. −0 is 0, and NaN is the
 * largest.
 */
function keysOf(x: GraphNode): GraphNode {
  const { dtype } = x;
  if (isHalf(dtype)) return keysOf(b.cast(x, f32));
  if (dtype.kind === 'float') {
    const key = dtype === f32 ? i32 : i64;
    const largest = key === i32 ? 2 ** 31 - 1 : 2n ** 63n - 1n;
    const bits = b.bitcast(b.where(b.map('eq', x, b.like(x, 0)), b.like(x, 0), x), key);
    const isNegative = b.map('lt', bits, b.like(bits, key === i32 ? 0 : 0n));
    const ordered = b.where(isNegative, b.map('xor', bits, b.like(bits, largest)), bits);
    return b.where(b.map('ne', x, x), b.like(bits, largest), ordered);
  }
  if (dtype === u32) return b.bitcast(b.map('xor', x, b.like(x, 2 ** 31)), i32);
  return dtype === i64 ? x : b.cast(x, i32);
}

/** The axes with `axis` last, and back: they are exchanged. */
const withLast = (x: GraphNode, axis: number): GraphNode => {
  const last = x.shape.length - 1;
  return b.permute(
    x,
    x.shape.map((_, i) => (i === axis ? last : i === last ? axis : i)),
  );
};

/** The elements of x along `axis` in order, and where they were, i32. */
export interface Ordered {
  readonly values: GraphNode;
  readonly indices: GraphNode;
}

/**
 * Equal elements stay as they stood, and NaN counts as the largest.
 * @throws ShapeError if there is no such axis
 */
export function order(op: string, x: GraphNode, axis: number, descending: boolean): Ordered {
  if (x.shape.length === 0) return { values: x, indices: b.full([], i32, 0) };
  const at = normalizeAxis(op, axis, x.shape.length);
  if (x.size === 0) return { values: x, indices: b.full(x.shape, i32, 0) };
  const rows = withLast(x, at);
  const keys = keysOf(b.detach(rows));
  const positions = b.call(argsortOp, [descending ? b.map('not', keys) : keys], null);
  return {
    values: withLast(b.call(reorderOp, [rows, positions], null), at),
    indices: withLast(positions, at),
  };
}
