/**
 * Element by element on a GPU, for any number of elements: the kernel is given it as its last argument. Groups that
 * differ in nothing else (an optimizer's updates of all parameters) have the same one, and are one launch
 * (schedule/passes/lists.ts).
 */
import { i32 } from '../../core/dtype.js';
import type { GraphNode } from '../../graph/node.js';
import type { Expr, MemoryNode, Param, Statement } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Lanes } from '../../kernel/ir/types.js';
import { slope } from './affine.js';
import type { LoopAxis } from './coordinates.js';
import { IN_FLIGHT, MOST, THREADS } from './elements.js';
import type { LoopScope, MemoryRead } from './evaluate.js';
import { type AnySize, add, BLOCK, computed, cut, declared, THREAD, times, variable } from './lowering.js';
import type { Survey } from './survey.js';

const LANES = 4;
/** Bytes of the widest access. */
const ACCESS = 16;

/** Undefined where more than one loop runs over the elements: how they are cut depends on their number. */
export function anySizeBody(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  axis: LoopAxis,
  scope: LoopScope,
  { loops, draws, digits, loads }: Survey,
): AnySize | undefined {
  const starts = startsOf(loads);
  const own: LoopScope = { ...scope, startOf: (memory) => starts.get(memory) ?? 0 };
  const [only, ...others] = digits;
  const atom = only!.value.terms[0]?.atom;
  if (loops || draws || !atom || others.length > 0) return undefined;
  const streams = loads.filter(({ index }) => slope(index, atom) !== 0).length;
  const most = Math.max(1, Math.min(MOST, IN_FLIGHT / Math.max(1, streams)));
  const each = 2 ** Math.floor(Math.log2(most));
  const span = THREADS * LANES;
  const size: Param = { name: 'n', schema: i32 };
  const end = k.scalarParam(size);
  const below = (position: Expr, ahead: number): Expr => k.alu('lt', [add(position, k.int(ahead)), end]);

  const at = (position: k.Variable, lanes: Lanes, inside: Statement[]): Statement[] =>
    computed(roots, outputs, cut(position, [axis], 'i', inside)[0]!, own, lanes, inside);
  const one = (position: k.Variable, lanes: Lanes): Statement => {
    const inside: Statement[] = [];
    const stores = at(position, lanes, inside);
    return k.block([...inside, ...stores]);
  };
  const out: Statement[] = [];
  const first = declared('first', add(times(BLOCK, span * each), times(THREAD, LANES)), out);
  const all: Statement[] = [];
  const stores = Array.from({ length: each }, (_, i) =>
    at(i === 0 ? first : declared('i', add(k.read(first), k.int(i * span)), all), LANES, all),
  );
  const atMost = (from: k.Variable, count: number): Expr =>
    k.alu('min', [add(k.read(from), k.int(count)), end]);
  const [i, j] = [variable('i'), variable('j')];
  const single = k.block([k.forLoop(j, k.read(i), atMost(i, LANES), k.int(1), one(j, 1), 'never')]);
  const rest = k.when(below(k.read(i), LANES - 1), one(i, LANES), single);
  out.push(
    k.when(
      below(k.read(first), (each - 1) * span + LANES - 1),
      k.block([...all, ...stores.flat()]),
      k.block([
        k.forLoop(i, k.read(first), atMost(first, each * span), k.int(span), k.block([rest]), 'never'),
      ]),
    ),
  );
  const bytesOf = ({ type }: MemoryNode, elements: number): number => elements * type.dtype.bytes;
  return {
    ...{ statement: k.block(out), size, span: span * each, threads: THREADS },
    starts: new Map([...starts].map(([memory, start]) => [memory.arg as Param, bytesOf(memory, start)])),
  };
}

/**
 * Where the kernel begins to read, of memory that it reads from elsewhere than its beginning, as a slice of a flat tensor: the kernel
 * is the same for all slices. Accesses of several elements stay at multiples of their bytes.
 */
function startsOf(loads: readonly MemoryRead[]): Map<MemoryNode, number> {
  const starts = new Map<MemoryNode, number>();
  for (const { memory, index } of loads)
    starts.set(memory, Math.min(index.constant, starts.get(memory) ?? Number.POSITIVE_INFINITY));
  for (const [memory, start] of starts)
    if (start <= 0 || (start * memory.type.dtype.bytes) % ACCESS !== 0) starts.delete(memory);
  // A loop that goes backwards begins at its end.
  for (const { memory, index } of loads)
    if (index.terms.some(({ factor }) => factor < 0)) starts.delete(memory);
  return starts;
}
