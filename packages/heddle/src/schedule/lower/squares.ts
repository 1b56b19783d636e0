/**
 * Element by element on a GPU, where an input lies across the output (a transpose): threads take 4 × 4 elements, so that reads and
 * writes are both of neighbours.
 */
import type { GraphNode } from '../../graph/node.js';
import type { Expr, MemoryNode, Statement } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Target } from '../../kernel/ir/target.js';
import { value as valueType } from '../../kernel/ir/types.js';
import { type Affine, type Atom, offset, plus, times as scaled, slope, toExpr } from './affine.js';
import type { Digit, LoopAxis } from './coordinates.js';
import type { LoopScope } from './evaluate.js';
import { add, BLOCK, type Body, computed, cut, declared, lessThan, times } from './lowering.js';
import type { Survey } from './survey.js';

/** Side of the square of a block, and threads of a warp along the output's rows (packages/bench/src/transpose-ladder.ts compares). */
const SIDE = 64;
const ALONG = 4;

/** The loop along which inputs are contiguous that are not so along the innermost. */
function transposed(axis: LoopAxis, shape: Survey, target: Target): number | undefined {
  const { digits, loads } = shape;
  const atomOf = (d: Digit): Atom | undefined => d.value.terms[0]?.atom;
  const last = atomOf(digits.at(-1)!);
  if (shape.loops || !last || digits.at(-1)!.size % 4 !== 0 || axis.size < target.units * 4096)
    return undefined;
  const strided = loads.filter(({ index }) => {
    const step = slope(index, last);
    return step !== undefined && step > 1;
  });
  const found = digits.findIndex((d, n) => {
    const v = atomOf(d);
    return (
      n < digits.length - 1 && v && d.size % 4 === 0 && strided.some(({ index }) => slope(index, v) === 1)
    );
  });
  return found < 0 ? undefined : found;
}

/** A block takes SIDE × SIDE elements of the innermost loop and of one that an input lies along; undefined if none does. */
export function squaresBody(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  scope: LoopScope,
  shape: Survey,
  axis: LoopAxis,
  target: Target,
): Body | undefined {
  const across = transposed(axis, shape, target);
  if (across === undefined) return undefined;
  const { digits } = shape;
  const out: Statement[] = [];
  const sizes = digits.map((d) => d.size);
  const last = sizes.length - 1;
  const counts = sizes.map((size, n) => (n === last || n === across ? Math.ceil(size / SIDE) : size));
  const warp = k.special('warpId');
  const lane = k.special('laneId');
  const narrow = SIDE / 4 / ALONG;
  const thread: Readonly<Record<number, Expr>> = {
    [last]: add(times(k.alu('mod', [warp, k.int(narrow)]), ALONG), k.alu('mod', [lane, k.int(ALONG)])),
    [across]: add(
      times(k.alu('idiv', [warp, k.int(narrow)]), 32 / ALONG),
      k.alu('idiv', [lane, k.int(ALONG)]),
    ),
  };
  const valid: Expr[] = [];
  const block = declared('block', BLOCK, out);
  const blocks = cut(
    block,
    counts.map((size) => ({ size, splits: new Set<number>() })),
    'b',
    out,
  );
  const at = blocks.map(([digit], n): Digit => {
    const size = sizes[n]!;
    const { origin } = digits[n]!;
    const own = thread[n];
    if (!own) return { ...digit!, size, ...(origin ? { origin } : {}) };
    const v = declared(`i${n}`, add(times(toExpr(digit!.value), SIDE), times(own, 4)), out);
    if (size % SIDE !== 0) valid.push(lessThan(k.read(v), size));
    const counter: Atom = { size, of: { expr: k.read(v) } };
    return {
      size,
      value: { constant: 0, terms: [{ atom: counter, factor: 1 }] },
      ...(origin ? { origin } : {}),
    };
  });
  const p = at[last]!.value.terms[0]!.atom;
  const q = at[across]!.value.terms[0]!.atom;

  const inside: Statement[] = [];
  const read: { memory: MemoryNode; index: Affine; rows: readonly Expr[] }[] = [];
  const stores = [0, 1, 2, 3].map((row) => {
    /** Four vectors along the other loop, turned. */
    const gathered = (memory: MemoryNode, index: Affine): Expr | undefined => {
      const step = slope(index, p);
      const from = offset(index, -row);
      const fits =
        step !== undefined &&
        slope(index, q) === 1 &&
        from.constant % 4 === 0 &&
        from.terms.every((t) => t.atom === q || t.factor % 4 === 0);
      if (!fits) return undefined;
      let known = read.find((r) => r.memory.arg === memory.arg && isEqual(r.index, from));
      if (!known) {
        const rows = [0, 1, 2, 3].map((n): Expr => {
          const v = {
            name: 'row',
            type: valueType(memory.type.dtype, 4),
            constant: true,
          };
          inside.push(k.declare(v, k.load(memory, [toExpr(offset(from, n * step))], 4)));
          return k.read(v);
        });
        known = { memory, index: from, rows };
        read.push(known);
      }
      return k.vector(known.rows.map((r) => k.lane(r, row)));
    };
    const moved = at.map((d, n) => (n === across ? { ...d, value: offset(d.value, row) } : d));
    return computed(roots, outputs, moved, { ...scope, gathered }, 4, inside);
  });
  const body = k.block([...inside, ...stores.flat()]);
  out.push(
    valid.length === 0
      ? body
      : k.when(
          valid.reduce((a, b) => k.alu('and', [a, b])),
          body,
        ),
  );
  const grid = counts.reduce((n, d) => n * d, 1);
  return { statement: k.block(out), grid: [grid, 1, 1], block: [(SIDE / 4) ** 2, 1, 1] };
}

const isEqual = (a: Affine, b: Affine): boolean => {
  const difference = plus(a, scaled(b, -1));
  return difference.constant === 0 && difference.terms.length === 0;
};
