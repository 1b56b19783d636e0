/**
 * Element by element on a GPU. Each thread takes neighbouring elements by accesses of 16 bytes, and several such
 * vectors at once where there is enough work to go round, so that enough bytes are on their way. Where an input lies
 * across the output, squares.ts takes them.
 */
import { squaresBody } from '#schedule/squares.js';
import type { GraphNode } from '../../graph/node.js';
import type { MemoryNode, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Target } from '../../kernel/ir/target.js';
import type { Lanes } from '../../kernel/ir/types.js';
import { affine } from './affine.js';
import type { LoopAxis } from './coordinates.js';
import type { LoopScope } from './evaluate.js';
import {
  add,
  BLOCK,
  type Body,
  computed,
  cut,
  declared,
  lessThan,
  type Memories,
  powerOfTwo,
  scopeOf,
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

export function elementsBody(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  axis: LoopAxis,
  memories: Memories,
  shape: Survey,
  target: Target,
): Body {
  const scope: LoopScope = { ...scopeOf(memories, false), aligned: true };
  const squares = squaresBody(roots, outputs, scope, shape, axis, target);
  if (squares) return squares;
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
