/**
 * Element by element on a GPU. Each thread takes neighbouring elements by accesses of 16 bytes, and several such
 * vectors at once where there is enough work to go round, so that enough bytes are on their way. Where an input lies
 * across the output (a transpose), threads take 4 × 4 elements, so that reads and writes are both of neighbours.
 */
import type { GraphNode } from '../../graph/node.js';
import type { Expr, MemoryNode, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Target } from '../../kernel/ir/target.js';
import { type Lanes, value as valueType } from '../../kernel/ir/types.js';
import { type Affine, type Atom, affine, offset, plus, times as scaled, slope, toExpr } from './affine.js';
import type { Coordinates, Digit, LoopAxis } from './coordinates.js';
import { Evaluator, type LoopScope } from './evaluate.js';
import {
  add,
  BLOCK,
  type Body,
  cut,
  declared,
  lessThan,
  type Memories,
  powerOfTwo,
  scopeOf,
  storesOf,
  THREAD,
  times,
} from './lowering.js';
import type { Survey } from './survey.js';

/** Threads of a block. */
export const THREADS = 256;
/** Vectors that a thread has on their way at most, of all inputs together. */
export const IN_FLIGHT = 8;
/**
 * Vectors that a thread takes at most. One each is too few even where nothing is read: a kernel that lets the next one
 * begin early starts its blocks so slowly that 10⁸ uniform numbers take a third longer.
 */
export const MOST = 4;
/** Operations on an element from which a thread has enough to do with one vector. */
const HEAVY = 100;
/** Side of the square of a transposing block, and threads of a warp along the output's rows (packages/bench/src/transpose-ladder.ts compares). */
const SIDE = 64;
const ALONG = 4;

export function elementsBody(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  axis: LoopAxis,
  memories: Memories,
  shape: Survey,
  target: Target,
): Body {
  const scope: LoopScope = { ...scopeOf(memories, false), aligned: true };
  const across = transposed(axis, shape, target);
  if (across !== undefined) return squaresBody(roots, outputs, scope, shape, across);
  // Two rows that draw, as those of normal numbers made in pairs: a thread computes an element of each, so that what both
  // are made of is drawn once.
  const inPairs = shape.draws && shape.digits.length > 1 && shape.digits[0]!.size === 2;
  const own: LoopAxis = inPairs ? { size: axis.size / 2, splits: axis.splits } : axis;
  const full = target.units * target.limits.threadsPerMultiprocessor;
  const lanes = lanesOf(own, shape, full);
  const vectors = own.size / lanes;
  const side = shape.work >= HEAVY ? 1 : Math.floor(IN_FLIGHT / Math.max(1, shape.loads.length));
  const most = Math.max(1, Math.min(inPairs ? MOST / 2 : MOST, side, vectors / (2 * full)));
  const each = 2 ** Math.floor(Math.log2(most));
  const threads = Math.min(THREADS, Math.max(32, powerOfTwo(vectors / target.units)));
  const span = threads * lanes;

  const out: Statement[] = [];
  const first = declared('first', add(times(BLOCK, span * each), times(THREAD, lanes)), out);
  const at = (position: Variable, inside: Statement[]): Statement[] => {
    const digits = cut(position, [own], 'i', inside)[0]!;
    const places = inPairs ? [0, 1].map((row) => [{ size: 2, value: affine(row) }, ...digits]) : [digits];
    return places.flatMap((place) => computed(roots, outputs, place, scope, lanes, inside));
  };
  const inner = (count: number): Statement => {
    const inside: Statement[] = [];
    const stores = Array.from({ length: count }, (_, i) =>
      at(i === 0 ? first : declared('i', add(k.read(first), k.int(i * span)), inside), inside),
    );
    return k.block([...inside, ...stores.flat()]);
  };
  const grid = Math.ceil(vectors / (threads * each));
  if (vectors % (threads * each) === 0) out.push(inner(each));
  else {
    const room = own.size - (each - 1) * span;
    // The last blocks may have less to do than they could.
    const rest: Statement[] = [];
    if (each > 1) {
      for (let i = 0; i < each; i++) {
        const inside: Statement[] = [];
        const moved = i === 0 ? first : declared('i', add(k.read(first), k.int(i * span)), rest);
        const stores = at(moved, inside);
        rest.push(k.when(lessThan(k.read(moved), own.size), k.block([...inside, ...stores])));
      }
    }
    out.push(k.when(lessThan(k.read(first), room), inner(each), each > 1 ? k.block(rest) : undefined));
  }
  return { statement: k.block(out), grid: [grid, 1, 1], block: [threads, 1, 1] };
}

/** Lanes of a thread: the widest that the innermost loop allows, if that leaves work for half the GPU. */
function lanesOf(axis: LoopAxis, shape: Survey, full: number): Lanes {
  const inner = shape.digits.at(-1)!.size;
  if (shape.loops) return 1;
  return ([4, 2] as const).find((n) => inner % n === 0 && axis.size / n >= full / 8) ?? 1;
}

/** Computes all roots; the stores come back, to be put after all that is computed. */
export function computed(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  at: Coordinates,
  scope: LoopScope,
  lanes: Lanes,
  out: Statement[],
): Statement[] {
  const counter = at.at(-1)!.value.terms[0]?.atom;
  const evaluator = new Evaluator(scope, lanes > 1 ? { atom: counter!, lanes } : undefined, out);
  return roots.flatMap((root, i) => {
    const v = declared('v', evaluator.value(root, at), out);
    evaluator.define(root, at, k.read(v));
    return storesOf(outputs[i]!, k.read(v), root, at, evaluator);
  });
}

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

/** A block takes SIDE × SIDE elements of the innermost loop and of loop `across`. */
function squaresBody(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  scope: LoopScope,
  { digits }: Survey,
  across: number,
): Body {
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
