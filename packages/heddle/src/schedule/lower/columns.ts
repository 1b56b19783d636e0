/**
 * Columns on a GPU: what is reduced is not contiguous, the results are. Threads side by side take neighbouring
 * columns (by accesses of 16 bytes where there are many), threads one above the other take turns down the columns;
 * their sums meet in shared memory, always in the same order.
 */
import { i32 } from '../../core/dtype.js';
import type { GraphNode } from '../../graph/node.js';
import type { ArrayDecl, Expr, MemoryNode, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Target } from '../../kernel/ir/target.js';
import { type Lanes, value as valueType } from '../../kernel/ir/types.js';
import type { MatrixReduction } from '../group.js';
import { Accumulation, identityOf, opOf } from './accumulate.js';
import { type Coordinates, type LoopAxis, loopSizes } from './coordinates.js';
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
import { matrixBody } from './matrix-kernel.js';

/** Threads of a block, and of one where there are fewer blocks than multiprocessors. */
const THREADS = { many: 256, few: 1024 } as const;
/** Bytes that memory gives at least. */
const SECTOR = 32;
/** Vectors of a column that a thread has on their way. */
const IN_FLIGHT = 8;
/** Elements from which accesses are of 16 bytes: below, more threads finish sooner. */
const WIDE = 2 ** 18;

export function columnsBody(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  reduction: MatrixReduction,
  memories: Memories,
  target: Target,
): Body {
  return matrixBody(reduction, memories, (axes) =>
    columns(roots, outputs, reduction, axes, memories, target),
  );
}

function columns(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  { structure, members }: MatrixReduction,
  axes: readonly LoopAxis[],
  memories: Memories,
  { units }: Target,
): Body {
  // Of a column there are `columns` elements to reduce, and there are `rows` columns.
  const { rows: results, columns: length, runs } = structure;
  const held = new Map<GraphNode, Expr>();
  const scope: LoopScope = { ...scopeOf(memories, false), aligned: true, held: (node) => held.get(node) };
  const inner = loopSizes(axes.at(-1)!).at(-1)!;
  const lanes: Lanes = inner % 4 === 0 && results * length >= WIDE ? 4 : 1;
  const blocksOf = (across: number): number => Math.ceil(results / (across * lanes));
  const reductions = members.flatMap(({ node }) => (node.op === 'reduce' ? [node] : []));
  const least = SECTOR / (lanes * Math.min(...reductions.map(({ src }) => src[0]!.dtype.bytes)));
  let across = Math.min(32, powerOfTwo(results / lanes));
  // Few long columns are spread over more multiprocessors, and their elements over more threads.
  const areFew = (): boolean => blocksOf(across) < units && (length * across) / THREADS.many > IN_FLIGHT;
  while (across > least && areFew()) across /= 2;
  const threads = areFew() ? THREADS.few : THREADS.many;
  const down = Math.max(32 / across, Math.min(threads / across, powerOfTwo(length / 2)));
  const each = Math.min(IN_FLIGHT, Math.ceil(length / down));
  const span = across * lanes;

  const out: Statement[] = [];
  const arrays: ArrayDecl[] = [];
  const x = declared('x', k.alu('mod', [THREAD, k.int(across)]), out);
  const y = declared('y', k.alu('idiv', [THREAD, k.int(across)]), out);
  let column = declared('column', add(times(BLOCK, span), times(k.read(x), lanes)), out);
  const partial = results % span !== 0;
  const inside = lessThan(k.read(column), results);
  // Beyond the end: read the last columns again, and take no notice of them.
  if (partial) column = declared('column', k.alu('min', [k.read(column), k.int(results - lanes)]), out);
  const axesOf = (marked: boolean): LoopAxis[] => axes.filter((_, i) => runs[i]!.marked === marked);
  const kept = axesOf(false);
  const reduced = axesOf(true);
  const ofColumn = cut(column, kept, 'i', out);
  const at: Coordinates = ofColumn.flat();
  const vector = lanes > 1 ? { atom: at.at(-1)!.value.terms[0]!.atom, lanes } : undefined;

  // Down the columns, all reductions at once.
  const accumulation = new Accumulation();
  const accumulators = reductions.map((node) => accumulation.open(node, lanes));
  const turn = (base: Expr | undefined, into: Statement[]): void => {
    const pieces = Array.from({ length: each }, (_, n) => {
      let position: Expr = n === 0 ? k.read(y) : add(k.read(y), k.int(n * down));
      if (base) position = add(position, base);
      let k0 = declared('k', position, into);
      const ends = base ? length % (down * each) !== 0 : (n + 1) * down > length;
      const valid = ends ? lessThan(k.read(k0), length) : undefined;
      if (ends) k0 = declared('k', k.alu('min', [k.read(k0), k.int(length - 1)]), into);
      const digits = cut(k0, reduced, `k${n}_`, into);
      const place = axes.flatMap((axis) =>
        kept.includes(axis) ? ofColumn[kept.indexOf(axis)]! : digits[reduced.indexOf(axis)]!,
      );
      const evaluator = new Evaluator(scope, vector, into);
      const values = reductions.map((node) => {
        const v = k.read(declared('v', evaluator.value(node.src[0]!, place), into));
        return valid ? k.select(k.splat(valid, lanes), v, identityOf(node, lanes)) : v;
      });
      return values;
    });
    reductions.forEach((node, i) => {
      const op = opOf(node);
      const total = pieces.map((p) => p[i]!).reduce((a, b) => k.alu(op, [a, b]));
      into.push(k.set(accumulators[i]!, k.alu(op, [k.read(accumulators[i]!), total])));
    });
  };
  const body: Statement[] = [];
  if (length <= down * each) {
    turn(undefined, body);
    accumulation.add(body);
  } else {
    const base: Variable = { name: 'base', type: valueType(i32), constant: true };
    turn(k.read(base), body);
    accumulation.add(body);
    accumulation.loop(base, length, down * each);
  }
  const sums = accumulation.close(out);

  // Halve the threads above each other until one is left.
  const parts = reductions.map((node, i): MemoryNode => {
    const array: ArrayDecl = {
      name: 'part',
      dtype: node.dtype,
      space: 'shared',
      dims: [down, span],
      lanes: 1,
    };
    if (down > 1) arrays.push(array);
    const memory = k.arrayNode(array);
    if (down > 1) out.push(k.store(memory, k.read(sums[i]!), [k.read(y), times(k.read(x), lanes)]));
    return memory;
  });
  for (let half = down / 2; half >= 1; half /= 2) {
    out.push(k.barrier());
    const stores = reductions.flatMap((node, i): Statement[] => {
      const place = (row: Expr): Expr => k.load(parts[i]!, [row, times(k.read(x), lanes)], lanes);
      const other = place(add(k.read(y), k.int(half)));
      const sum = k.set(sums[i]!, k.alu(opOf(node), [k.read(sums[i]!), other]));
      const keep = k.store(parts[i]!, k.read(sums[i]!), [k.read(y), times(k.read(x), lanes)]);
      return half > 1 ? [sum, keep] : [sum];
    });
    out.push(k.when(lessThan(k.read(y), half), k.block(stores)));
  }

  const final: Statement[] = [];
  reductions.forEach((node, i) => {
    held.set(node, k.read(declared('sum', k.read(sums[i]!), final)));
  });
  const evaluator = new Evaluator(scope, vector, final);
  const stores = roots.flatMap((root, i) => {
    const v = declared('v', evaluator.value(root, at), final);
    evaluator.define(root, at, k.read(v));
    return storesOf(outputs[i]!, k.read(v), root, at, evaluator);
  });
  const first = k.alu('eq', [k.read(y), k.int(0)]);
  const condition = partial ? k.alu('and', [first, inside]) : first;
  out.push(k.when(condition, k.block([...final, ...stores])));
  return {
    statement: k.block(out),
    arrays,
    grid: [Math.ceil(results / span), 1, 1],
    block: [across * down, 1, 1],
  };
}
