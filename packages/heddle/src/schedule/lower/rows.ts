/**
 * Rows on a GPU: a team of threads, from one thread to a block, takes a row. It reads the row once, by accesses of 16
 * bytes, and keeps it in registers through all reductions over it and what is made of them; a longer row is read
 * again for each reduction. Sums go through shuffles, then shared memory, always in the same order.
 */
import { i32 } from '../../core/dtype.js';
import type { GraphNode } from '../../graph/node.js';
import type { ArrayDecl, Expr, MemoryNode, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { GPU, type Target } from '../../kernel/ir/target.js';
import { type Lanes, value as valueType } from '../../kernel/ir/types.js';
import type { MatrixReduction } from '../group.js';
import { Accumulation, type CombiningOp, identityOf, opOf } from './accumulate.js';
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
  settled,
  THREAD,
  times,
  toIndex,
} from './lowering.js';
import { guarded, levelsOf, neededInside } from './members.js';

/** Elements of a row that a thread keeps in registers, if the threads of a block are enough for that: else twice as many. */
const KEPT = 16;

export function rowsBody(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  reduction: MatrixReduction,
  memories: Memories,
  target: Target,
): Body {
  const axes = reduction.structure.runs.map((r): LoopAxis => ({ size: r.size, splits: new Set() }));
  return settled(axes, memories, () => new Rows(roots, outputs, reduction, axes, memories, target).body());
}

/** All lanes of a vector together. */
export function joined(op: CombiningOp, v: Expr): Expr {
  const lanes = Array.from({ length: v.type.lanes }, (_, i) => (v.type.lanes === 1 ? v : k.lane(v, i)));
  const halve = (from: readonly Expr[]): Expr =>
    from.length === 1
      ? from[0]!
      : k.alu(op, [halve(from.slice(0, from.length / 2)), halve(from.slice(from.length / 2))]);
  return halve(lanes);
}

/** Neighbouring elements of the row that a thread has: where, and what computes there. */
interface RowPiece {
  readonly at: Coordinates;
  readonly evaluator: Evaluator;
  /** Whether the row goes so far; undefined if it always does. */
  readonly inside: Expr | undefined;
}

/** How threads share out the rows. */
interface Shares {
  readonly lanes: Lanes;
  /** Threads of a row: a power of two. */
  readonly team: number;
  /** Vectors that a thread has at a time. */
  readonly each: number;
  readonly rowsPerBlock: number;
}

function sharesOf({ rows, columns }: MatrixReduction['structure'], inner: number, target: Target): Shares {
  const busy = rows >= 16 * target.units;
  const lanes = ([4, 2] as const).find((n) => inner % n === 0 && (busy || columns >= 32 * n)) ?? 1;
  const vectors = columns / lanes;
  const most = (columns > GPU.threadsPerBlock * KEPT ? 2 * KEPT : KEPT) / lanes;
  const few = Math.min(4, most);
  const perThread = (n: number): number => powerOfTwo(vectors / n);
  // A warp needs no shared memory. Where rows are many, a thread has several vectors, for more bytes on their way and
  // fewer shuffles; where they are few, more threads finish sooner.
  const team =
    vectors <= 32 * (busy ? few : 1)
      ? Math.min(32, busy ? Math.max(Math.min(8, perThread(1)), perThread(few)) : perThread(1))
      : Math.min(GPU.threadsPerBlock, Math.max(64, perThread(few)));
  const each = Math.min(most, Math.ceil(vectors / team));
  const threads = rows * team >= 128 * target.units ? 128 : 32;
  return { lanes, team, each, rowsPerBlock: team > 32 ? 1 : threads / team };
}

class Rows {
  readonly #out: Statement[] = [];
  readonly #arrays: ArrayDecl[] = [];
  readonly #held = new Map<GraphNode, Expr>();
  readonly #roots: readonly GraphNode[];
  readonly #outputs: readonly MemoryNode[];
  readonly #reduction: MatrixReduction;
  readonly #axes: readonly LoopAxis[];
  readonly #scope: LoopScope;
  readonly #shares: Shares;
  readonly #thread: Variable;
  readonly #row: Coordinates;
  /** Whether there is such a row; undefined if always. */
  readonly #isRow: Expr | undefined;
  /** The pieces of a row that stays in registers. */
  readonly #kept: readonly RowPiece[] | undefined;

  constructor(
    roots: readonly GraphNode[],
    outputs: readonly MemoryNode[],
    reduction: MatrixReduction,
    axes: readonly LoopAxis[],
    memories: Memories,
    target: Target,
  ) {
    this.#roots = roots;
    this.#outputs = outputs;
    this.#reduction = reduction;
    this.#axes = axes;
    this.#scope = {
      ...scopeOf(memories, false),
      aligned: true,
      held: (node) => this.#held.get(node),
    };
    const { structure } = reduction;
    this.#shares = sharesOf(structure, loopSizes(axes.at(-1)!).at(-1)!, target);
    const { team, lanes, each, rowsPerBlock } = this.#shares;
    const out = this.#out;
    const index =
      rowsPerBlock === 1 ? BLOCK : add(times(BLOCK, rowsPerBlock), k.alu('idiv', [THREAD, k.int(team)]));
    this.#thread = declared('t', rowsPerBlock === 1 ? THREAD : k.alu('mod', [THREAD, k.int(team)]), out);
    let row = declared('row', index, out);
    if (structure.rows % rowsPerBlock !== 0) {
      this.#isRow = lessThan(k.read(row), structure.rows);
      row = declared('row', k.alu('min', [k.read(row), k.int(structure.rows - 1)]), out);
    }
    this.#row = cut(row, this.#axesOf(false), 'i', out).flat();
    if (structure.columns <= team * lanes * each) this.#kept = this.#pieces(undefined, out);
  }

  #axesOf(marked: boolean): LoopAxis[] {
    return this.#axes.filter((_, i) => this.#reduction.structure.runs[i]!.marked === marked);
  }

  body(): Body {
    const { structure } = this.#reduction;
    const early = neededInside(this.#reduction);
    const rows = new Evaluator(this.#scope, undefined, this.#out);
    for (const level of levelsOf(this.#reduction)) {
      this.#reduce(level.filter((node) => node.op === 'reduce'));
      for (const node of level)
        if (node.op !== 'reduce' && early.has(node))
          this.#held.set(node, k.read(declared('each', rows.value(node, this.#row), this.#out)));
    }
    this.#store(rows);
    const { team, rowsPerBlock } = this.#shares;
    return {
      statement: k.block(this.#out),
      arrays: this.#arrays,
      grid: [Math.ceil(structure.rows / rowsPerBlock), 1, 1],
      block: [Math.max(32, team * rowsPerBlock), 1, 1],
    };
  }

  /** The vectors of a thread, from element `base` of the row on (by default its start). */
  #pieces(base: Expr | undefined, out: Statement[]): RowPiece[] {
    const { columns } = this.#reduction.structure;
    const { team, lanes, each } = this.#shares;
    const step = team * lanes;
    const reduced = this.#axesOf(true);
    const kept = this.#axesOf(false);
    const own = times(k.read(this.#thread), lanes);
    return Array.from({ length: each }, (_, n): RowPiece => {
      let position: Expr = n === 0 ? own : add(own, k.int(n * step));
      if (base) position = add(position, base);
      let column = declared('c', position, out);
      const partial = base ? columns % (step * each) !== 0 : (n + 1) * step > columns;
      const inside = partial ? lessThan(k.read(column), columns) : undefined;
      // Beyond the end: read the last elements again, and take no notice of them.
      if (partial) column = declared('c', k.alu('min', [k.read(column), k.int(columns - lanes)]), out);
      const digits = cut(column, reduced, `c${n}_`, out);
      const rowOf = (axis: LoopAxis): Coordinates => this.#row.filter((d) => d.origin?.axis === axis);
      const at = this.#axes.flatMap((axis) =>
        kept.includes(axis) ? rowOf(axis) : digits[reduced.indexOf(axis)]!,
      );
      const counter = at.at(-1)!.value.terms[0]?.atom;
      const vector = lanes > 1 ? { atom: counter!, lanes } : undefined;
      return { at, inside, evaluator: new Evaluator(this.#scope, vector, out) };
    });
  }

  /** Do something with all pieces of the row: those in registers, or in a loop. */
  #sweep(out: Statement[], body: (pieces: readonly RowPiece[], out: Statement[]) => void): void {
    if (this.#kept) {
      body(this.#kept, out);
      return;
    }
    const { base, inside, step } = this.#turn(body);
    out.push(
      k.forLoop(base, k.int(0), k.int(this.#reduction.structure.columns), k.int(step), k.block(inside)),
    );
  }

  /** What a thread does with its pieces from element `base` of the row on; `step` is how far they reach. */
  #turn(body: (pieces: readonly RowPiece[], out: Statement[]) => void): {
    readonly base: Variable;
    readonly inside: readonly Statement[];
    readonly step: number;
  } {
    const { team, lanes, each } = this.#shares;
    const inside: Statement[] = [];
    const base: Variable = { name: 'base', type: valueType(i32), constant: true };
    body(this.#pieces(k.read(base), inside), inside);
    return { base, inside, step: team * lanes * each };
  }

  /** Reductions side by side: the row is read once for all of them, and their threads meet once. */
  #reduce(nodes: readonly GraphNode[]): void {
    const { lanes } = this.#shares;
    const out = this.#out;
    const combined = (node: GraphNode, pieces: readonly RowPiece[], into: Statement[]): Expr =>
      pieces
        .map(({ at, evaluator, inside }): Expr => {
          const value = evaluator.value(node.src[0]!, at);
          const v = k.read(declared('v', value, into));
          return inside ? k.select(k.splat(inside, lanes), v, identityOf(node, lanes)) : v;
        })
        .reduce((a, b) => k.alu(opOf(node), [a, b]));
    let own: Expr[] = [];
    if (this.#kept) own = nodes.map((node) => k.read(declared('own', combined(node, this.#kept!, out), out)));
    else if (nodes.length > 0) {
      const sums = new Accumulation();
      const accumulators = nodes.map((node) => sums.open(node, lanes));
      const { base, inside, step } = this.#turn((pieces, into) => {
        nodes.forEach((node, i) => {
          const acc = accumulators[i]!;
          const value = combined(node, pieces, into);
          into.push(k.set(acc, k.alu(opOf(node), [k.read(acc), value])));
        });
      });
      sums.add(inside);
      sums.loop(base, this.#reduction.structure.columns, step);
      own = sums.close(out).map((total) => k.read(total));
    }
    this.#together(
      nodes,
      own.map((v, i) => joined(opOf(nodes[i]!), v)),
    );
  }

  /** The values of all threads of a row, held in each of them. */
  #together(nodes: readonly GraphNode[], own: readonly Expr[]): void {
    const { team } = this.#shares;
    const out = this.#out;
    const butterfly = (node: GraphNode, from: Expr, width: number): Expr => {
      let v = k.read(declared('s', from, out));
      for (let by = width / 2; by >= 1; by /= 2) {
        const other = k.intrinsic('shuffleXor', [v, k.int(by)], node.dtype);
        v = k.read(declared('s', k.alu(opOf(node), [v, other]), out));
      }
      return v;
    };
    const ofWarp = nodes.map((node, i) => butterfly(node, own[i]!, Math.min(32, team)));
    if (team <= 32 || nodes.length === 0) {
      nodes.forEach((node, i) => {
        this.#held.set(node, ofWarp[i]!);
      });
      return;
    }
    const warps = team / 32;
    const parts = nodes.map(({ dtype }): MemoryNode => {
      const array: ArrayDecl = { name: 'part', dtype, space: 'shared', dims: [warps], lanes: 1 };
      this.#arrays.push(array);
      return k.arrayNode(array);
    });
    const lane = k.special('laneId');
    const stores = parts.map((part, i) => k.store(part, ofWarp[i]!, [k.special('warpId')]));
    out.push(k.when(k.alu('eq', [lane, k.int(0)]), k.block(stores)));
    out.push(k.barrier());
    nodes.forEach((node, i) => {
      const part = k.load(parts[i]!, [k.alu('mod', [lane, k.int(warps)])]);
      this.#held.set(node, butterfly(node, part, warps));
    });
  }

  /** Results for every row, then for every element: all that is read, before the first store of a thread. */
  #store(rows: Evaluator): void {
    const out = this.#out;
    const { members } = this.#reduction;
    const perRow = new Set(members.flatMap(({ node, per }) => (per === 'row' ? [node] : [])));
    const results = this.#roots.map((root, i) => ({
      root,
      memory: this.#outputs[i]!,
      ofRow: perRow.has(root),
    }));
    const ofRow = results.filter((r) => r.ofRow);
    const ofElement = results.filter((r) => !r.ofRow);
    const { team } = this.#shares;
    if (ofRow.length > 0) {
      const inside: Statement[] = [];
      const evaluator = rows.within(inside);
      const stores = ofRow.map(({ root, memory }) => {
        const v = declared('v', evaluator.value(root, this.#row), inside);
        evaluator.define(root, this.#row, k.read(v));
        return k.store(memory, k.read(v), [toIndex(this.#row)]);
      });
      const conditions = [
        ...(team > 1 ? [k.alu('eq', [k.read(this.#thread), k.int(0)])] : []),
        ...(this.#isRow ? [this.#isRow] : []),
      ];
      out.push(guarded(conditions, [...inside, ...stores]));
    }
    if (ofElement.length === 0) return;
    this.#sweep(out, (pieces, into) => {
      const stores: Statement[] = [];
      for (const { at, evaluator, inside } of pieces) {
        const conditions = [...(inside ? [inside] : []), ...(this.#isRow ? [this.#isRow] : [])];
        const within: Statement[] = conditions.length > 0 ? [] : into;
        const own = conditions.length > 0 ? evaluator.within(within) : evaluator;
        const mine = ofElement.map(({ root, memory }) => {
          const v = declared('v', own.value(root, at), within);
          own.define(root, at, k.read(v));
          return k.store(memory, k.read(v), [toIndex(at)]);
        });
        if (conditions.length > 0) into.push(guarded(conditions, [...within, ...mine]));
        else stores.push(...mine);
      }
      into.push(...stores);
    });
  }
}
