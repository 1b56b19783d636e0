/**
 * Rows on a GPU: a team of threads, from one thread to a block, takes a row. It reads the row once, by accesses of 16
 * bytes, and keeps it in registers through all reductions over it and what is made of them; a longer row is read
 * again for each reduction. Sums go through shuffles, then shared memory, always in the same order.
 */
import { i32 } from '../../core/dtype.js';
import type { GraphNode } from '../../graph/node.js';
import type { Expr, MemoryNode, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { GPU, type Target } from '../../kernel/ir/target.js';
import { type Lanes, value as valueType } from '../../kernel/ir/types.js';
import type { MatrixReduction } from '../group.js';
import { Accumulation, type CombiningOp, opOf } from './accumulate.js';
import { type Coordinates, type LoopAxis, loopSizes } from './coordinates.js';
import { Evaluator } from './evaluate.js';
import {
  add,
  BLOCK,
  type Body,
  declared,
  lessThan,
  type Memories,
  powerOfTwo,
  THREAD,
  times,
} from './lowering.js';
import { MatrixKernel, type MatrixWork, matrixBody, type Piece } from './matrix-kernel.js';

/** Elements of a row that a thread keeps in registers, if the threads of a block are enough for that: else twice as many. */
const KEPT = 16;

export function rowsBody(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  reduction: MatrixReduction,
  memories: Memories,
  target: Target,
): Body {
  const work = { roots, outputs, reduction, memories };
  return matrixBody(reduction, memories, (axes) => new Rows(work, axes, target).body());
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
  readonly #kernel: MatrixKernel;
  readonly #out: Statement[];
  readonly #structure: MatrixReduction['structure'];
  readonly #shares: Shares;
  readonly #thread: Variable;
  readonly #row: Coordinates;
  /** Whether there is such a row; undefined if always. */
  readonly #isRow: Expr | undefined;
  /** The pieces of a row that stays in registers. */
  readonly #kept: readonly Piece[] | undefined;

  constructor(work: MatrixWork, axes: readonly LoopAxis[], target: Target) {
    this.#kernel = new MatrixKernel(work, axes);
    const { out } = this.#kernel;
    const { structure } = work.reduction;
    this.#out = out;
    this.#structure = structure;
    this.#shares = sharesOf(structure, loopSizes(axes.at(-1)!).at(-1)!, target);
    const { team, lanes, each, rowsPerBlock } = this.#shares;
    const index =
      rowsPerBlock === 1 ? BLOCK : add(times(BLOCK, rowsPerBlock), k.alu('idiv', [THREAD, k.int(team)]));
    this.#thread = declared('t', rowsPerBlock === 1 ? THREAD : k.alu('mod', [THREAD, k.int(team)]), out);
    let row = declared('row', index, out);
    if (structure.rows % rowsPerBlock !== 0) {
      this.#isRow = lessThan(k.read(row), structure.rows);
      row = declared('row', k.alu('min', [k.read(row), k.int(structure.rows - 1)]), out);
    }
    this.#row = this.#kernel.line(row);
    if (structure.columns <= team * lanes * each) this.#kept = this.#pieces(undefined, out);
  }

  body(): Body {
    const rows = new Evaluator(this.#kernel.scope, undefined, this.#out);
    this.#kernel.compute(this.#row, rows, (nodes) => this.#reduce(nodes));
    this.#store(rows);
    const { team, rowsPerBlock } = this.#shares;
    return {
      statement: k.block(this.#out),
      arrays: this.#kernel.arrays,
      grid: [Math.ceil(this.#structure.rows / rowsPerBlock), 1, 1],
      block: [Math.max(32, team * rowsPerBlock), 1, 1],
    };
  }

  /** The vectors of a thread, from element `base` of the row on (by default its start). */
  #pieces(base: Expr | undefined, out: Statement[]): Piece[] {
    const { columns } = this.#structure;
    const { team, lanes, each } = this.#shares;
    const step = team * lanes;
    const own = times(k.read(this.#thread), lanes);
    return Array.from({ length: each }, (_, n): Piece => {
      let position: Expr = n === 0 ? own : add(own, k.int(n * step));
      if (base) position = add(position, base);
      let column = declared('c', position, out);
      const partial = base ? columns % (step * each) !== 0 : (n + 1) * step > columns;
      const inside = partial ? lessThan(k.read(column), columns) : undefined;
      // Beyond the end: read the last elements again, and take no notice of them.
      if (partial) column = declared('c', k.alu('min', [k.read(column), k.int(columns - lanes)]), out);
      const at = this.#kernel.element(this.#row, column, `c${n}_`, out);
      const counter = at.at(-1)!.value.terms[0]?.atom;
      const vector = lanes > 1 ? { atom: counter!, lanes } : undefined;
      return { at, inside, evaluator: new Evaluator(this.#kernel.scope, vector, out) };
    });
  }

  /** Do something with all pieces of the row: those in registers, or in a loop. */
  #sweep(out: Statement[], body: (pieces: readonly Piece[], out: Statement[]) => void): void {
    if (this.#kept) {
      body(this.#kept, out);
      return;
    }
    const { base, inside, step } = this.#turn(body);
    out.push(k.forLoop(base, k.int(0), k.int(this.#structure.columns), k.int(step), k.block(inside)));
  }

  /** What a thread does with its pieces from element `base` of the row on; `step` is how far they reach. */
  #turn(body: (pieces: readonly Piece[], out: Statement[]) => void): {
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
    const combined = (node: GraphNode, pieces: readonly Piece[], into: Statement[]): Expr =>
      pieces
        .map((piece) => this.#kernel.term(node, piece, lanes, into))
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
      sums.loop(base, this.#structure.columns, step);
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
        this.#kernel.held.set(node, ofWarp[i]!);
      });
      return;
    }
    const warps = team / 32;
    const parts = this.#kernel.parts(nodes, [warps]);
    const lane = k.special('laneId');
    const stores = parts.map((part, i) => k.store(part, ofWarp[i]!, [k.special('warpId')]));
    out.push(k.when(k.alu('eq', [lane, k.int(0)]), k.block(stores)));
    out.push(k.barrier());
    nodes.forEach((node, i) => {
      const part = k.load(parts[i]!, [k.alu('mod', [lane, k.int(warps)])]);
      this.#kernel.held.set(node, butterfly(node, part, warps));
    });
  }

  /** Results for every row, then for every element. */
  #store(rows: Evaluator): void {
    const kernel = this.#kernel;
    const isRow = this.#isRow ? [this.#isRow] : [];
    const isFirst = this.#shares.team > 1 ? [k.alu('eq', [k.read(this.#thread), k.int(0)])] : [];
    kernel.storeLine(this.#row, rows, [...isFirst, ...isRow]);
    if (kernel.ofElement.length > 0)
      this.#sweep(this.#out, (pieces, into) => kernel.storePieces(pieces, isRow, into));
  }
}
