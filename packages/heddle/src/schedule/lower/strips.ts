/**
 * Columns on a GPU that are reduced and needed again: a block takes a strip of neighbouring columns (strip-shares.ts says
 * how wide) and does everything there is to do for it. Threads side by side take neighbouring columns, threads above each
 * other take turns down the columns; their results meet through shuffles, then shared memory, always in the same order.
 */
import { i32 } from '../../core/dtype.js';
import type { GraphNode } from '../../graph/node.js';
import type { Expr, MemoryNode, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Target } from '../../kernel/ir/target.js';
import { value as valueType } from '../../kernel/ir/types.js';
import type { MatrixReduction } from '../group.js';
import { Accumulation, opOf } from './accumulate.js';
import { type Coordinates, type LoopAxis, loopSizes } from './coordinates.js';
import { Evaluator, type Vector } from './evaluate.js';
import { inputsOf, KeptPieces, readsOf } from './kept-pieces.js';
import { add, BLOCK, type Body, declared, lessThan, type Memories, THREAD, times } from './lowering.js';
import { MatrixKernel, type MatrixWork, matrixBody, type Piece } from './matrix-kernel.js';
import { rowsOfWarp, SHARED_TURN, type Strips, stripsOf } from './strip-shares.js';

/** Elements that a thread has on their way where it keeps none: more would not fit into its registers. */
const IN_FLIGHT = 16;
/** Vectors of them at most. */
const MOST_VECTORS = 8;

export function stripsBody(
  roots: readonly GraphNode[],
  outputs: readonly MemoryNode[],
  reduction: MatrixReduction,
  memories: Memories,
  target: Target,
): Body {
  const work = { roots, outputs, reduction, memories };
  return matrixBody(reduction, memories, (axes) => new StripKernel(work, axes, target).body());
}

/** Pieces that a thread takes in a loop: numbers `from` to `to` of its column, `turn` at a time. */
interface Section {
  readonly from: number;
  readonly to: number;
  readonly turn: number;
  /** In shared memory, after they were read once. */
  readonly isKept: boolean;
}

type Visit = (pieces: readonly Piece[], out: Statement[]) => void;

class StripKernel {
  readonly #kernel: MatrixKernel;
  readonly #out: Statement[];
  readonly #structure: MatrixReduction['structure'];
  readonly #shares: Strips;
  /** The thread's number among those side by side, and among those above each other. */
  readonly #x: Variable;
  readonly #y: Variable;
  /** The thread's columns, and whether there are such; undefined if always. */
  readonly #column: Coordinates;
  readonly #isColumn: Expr | undefined;
  readonly #vector: Vector | undefined;
  /** The pieces in shared memory. */
  readonly #kept: KeptPieces | undefined;
  #isCopied = false;
  readonly #pieces: readonly Piece[];
  readonly #sections: readonly Section[];

  constructor(work: MatrixWork, axes: readonly LoopAxis[], target: Target) {
    this.#kernel = new MatrixKernel(work, axes);
    const { structure } = work.reduction;
    this.#out = this.#kernel.out;
    this.#structure = structure;
    const inputs = inputsOf(work);
    const reads = readsOf(inputs);
    const inner = loopSizes(axes.at(-1)!).at(-1)!;
    this.#shares = stripsOf(structure, inner, reads, this.#kernel.resultBytes, target);
    const { lanes, across, inRegisters, inShared, pieces } = this.#shares;
    const out = this.#out;
    const span = across * lanes;
    this.#x = declared('x', k.alu('mod', [THREAD, k.int(across)]), out);
    this.#y = declared('y', k.alu('idiv', [THREAD, k.int(across)]), out);
    let column = declared('column', add(times(BLOCK, span), times(k.read(this.#x), lanes)), out);
    if (structure.rows % span !== 0) {
      // Beyond the end: read the last columns again, and take no notice of them.
      this.#isColumn = lessThan(k.read(column), structure.rows);
      column = declared('column', k.alu('min', [k.read(column), k.int(structure.rows - lanes)]), out);
    }
    this.#column = this.#kernel.line(column);
    this.#vector = lanes > 1 ? { atom: this.#column.at(-1)!.value.terms[0]!.atom, lanes } : undefined;
    if (inShared > 0) {
      const threads = across * this.#shares.down;
      this.#kept = new KeptPieces(this.#kernel, inputs, {
        ...{ threads, lanes, first: inRegisters, count: inShared },
      });
      this.#copy(this.#kept);
    }
    this.#pieces = Array.from({ length: inRegisters }, (_, n) => this.#piece(undefined, n, inRegisters, out));
    const rest = inRegisters + inShared;
    const streamed = Math.max(1, Math.min(MOST_VECTORS, Math.floor(IN_FLIGHT / lanes / reads.tensors)));
    this.#sections = [
      { from: rest, to: pieces, turn: Math.min(streamed, pieces - rest), isKept: false },
      { from: inRegisters, to: rest, turn: SHARED_TURN, isKept: true },
    ].filter(({ from, to }) => from < to);
  }

  body(): Body {
    const columns = new Evaluator(this.#kernel.scope, this.#vector, this.#out);
    this.#kernel.compute(this.#column, columns, (nodes) => this.#reduce(nodes));
    this.#store(columns);
    const { lanes, across, down } = this.#shares;
    return {
      statement: k.block(this.#out),
      arrays: this.#kernel.arrays,
      grid: [Math.ceil(this.#structure.rows / (across * lanes)), 1, 1],
      block: [across * down, 1, 1],
      ...(this.#kept && { sharedBytes: this.#kept.bytes }),
    };
  }

  /** Piece `base + n` of the thread's columns; no piece of this base is further down than `base + to`. */
  #piece(base: Expr | undefined, n: number, to: number, out: Statement[]): Piece {
    const { columns: length } = this.#structure;
    const { down } = this.#shares;
    let position: Expr = n === 0 ? k.read(this.#y) : add(k.read(this.#y), k.int(n * down));
    if (base) position = add(times(base, down), position);
    let row = declared('row', position, out);
    const inside = (base ? to : n + 1) * down > length ? lessThan(k.read(row), length) : undefined;
    if (inside) row = declared('row', k.alu('min', [k.read(row), k.int(length - 1)]), out);
    const at = this.#kernel.element(this.#column, row, `r${n}_`, out);
    return { at, inside, evaluator: new Evaluator(this.#kernel.scope, this.#vector, out) };
  }

  /** Start to copy to shared memory what the thread keeps there: all of it is on its way at once. */
  #copy(kept: KeptPieces): void {
    const { inRegisters, inShared } = this.#shares;
    const inside: Statement[] = [];
    const base: Variable = { name: 'base', type: valueType(i32), constant: true };
    const pieces = Array.from({ length: SHARED_TURN }, (_, n) =>
      this.#piece(k.read(base), inRegisters + n, inRegisters + inShared, inside),
    );
    kept.copy(pieces, k.read(base), inRegisters, inside);
    const loop = k.forLoop(base, k.int(0), k.int(inShared), k.int(SHARED_TURN), k.block(inside));
    this.#out.push(loop, k.act('commitCopies', []));
  }

  /** What is done with the pieces of a section, a turn at a time. */
  #turns(
    { from, to, turn, isKept }: Section,
    visit: Visit,
  ): { readonly base: Variable; readonly inside: Statement[] } {
    const inside: Statement[] = [];
    const base: Variable = { name: 'base', type: valueType(i32), constant: true };
    const last = from + Math.ceil((to - from) / turn) * turn;
    const pieces = Array.from({ length: turn }, (_, n) => this.#piece(k.read(base), from + n, last, inside));
    if (isKept) this.#kept!.take(pieces, k.read(base), from, inside);
    visit(pieces, inside);
    return { base, inside };
  }

  /** Reductions side by side: everything is read once for all of them, and their threads meet once. */
  #reduce(nodes: readonly GraphNode[]): void {
    if (nodes.length === 0) return;
    const { lanes } = this.#shares;
    const out = this.#out;
    const termsOf = (node: GraphNode, pieces: readonly Piece[], into: Statement[]): Expr[] =>
      pieces.map((piece) => this.#kernel.term(node, piece, lanes, into));
    const terms = nodes.map((node) => termsOf(node, this.#pieces, out));
    for (const section of this.#sections) {
      if (section.isKept && !this.#isCopied) out.push(k.act('waitCopies', [k.int(0)]));
      const sums = new Accumulation();
      const accumulators = nodes.map((node) => sums.open(node, lanes));
      const { base, inside } = this.#turns(section, (pieces, into) => {
        nodes.forEach((node, i) => {
          const total = termsOf(node, pieces, into).reduce(joining(node));
          into.push(k.set(accumulators[i]!, joining(node)(k.read(accumulators[i]!), total)));
        });
      });
      sums.add(inside);
      sums.loop(base, section.to - section.from, section.turn);
      sums.close(out).forEach((total, i) => {
        terms[i]!.push(k.read(total));
      });
    }
    this.#isCopied = true;
    this.#together(
      nodes,
      nodes.map((node, i) => inPairs(node, terms[i]!)),
    );
  }

  /** The values of all threads of the same columns, held in each of them. */
  #together(nodes: readonly GraphNode[], own: readonly Expr[]): void {
    const { across, down, lanes } = this.#shares;
    const out = this.#out;
    const butterfly = (node: GraphNode, from: Expr, width: number): Expr => {
      let v = k.read(declared('s', from, out));
      for (let by = width / 2; by >= 1; by /= 2) {
        const others = Array.from({ length: lanes }, (_, i) =>
          k.intrinsic('shuffleXor', [lanes === 1 ? v : k.lane(v, i), k.int(by * across)], node.dtype),
        );
        const other = lanes === 1 ? others[0]! : k.vector(others);
        v = k.read(declared('s', joining(node)(v, other), out));
      }
      return v;
    };
    const rows = rowsOfWarp(across);
    const groups = down / rows;
    const ofGroup = nodes.map((node, i) => butterfly(node, own[i]!, rows));
    if (groups === 1) {
      nodes.forEach((node, i) => {
        this.#kernel.held.set(node, ofGroup[i]!);
      });
      return;
    }
    const parts = this.#kernel.parts(nodes, [groups, across * lanes]);
    const place = (group: Expr): Expr[] => [group, times(k.read(this.#x), lanes)];
    const inWarp = k.alu('mod', [k.read(this.#y), k.int(rows)]);
    const group = k.alu('idiv', [k.read(this.#y), k.int(rows)]);
    const stores = parts.map((part, i) => k.store(part, ofGroup[i]!, place(group)));
    out.push(rows === 1 ? k.block(stores) : k.when(k.alu('eq', [inWarp, k.int(0)]), k.block(stores)));
    out.push(k.barrier());
    nodes.forEach((node, i) => {
      const side = Math.min(rows, groups);
      const mine = k.alu('mod', [inWarp, k.int(side)]);
      const read = Array.from({ length: groups / side }, (_, n) =>
        k.load(parts[i]!, place(n === 0 ? mine : add(mine, k.int(n * side))), lanes),
      );
      this.#kernel.held.set(node, butterfly(node, inPairs(node, read), side));
    });
  }

  /** Results for every column, then for every element. */
  #store(columns: Evaluator): void {
    const kernel = this.#kernel;
    const out = this.#out;
    const isColumn = this.#isColumn ? [this.#isColumn] : [];
    const isFirst = k.alu('eq', [k.read(this.#y), k.int(0)]);
    kernel.storeLine(this.#column, columns, [isFirst, ...isColumn]);
    if (kernel.ofElement.length === 0) return;
    const visit: Visit = (pieces, into) => kernel.storePieces(pieces, isColumn, into);
    visit(this.#pieces, out);
    for (const section of this.#sections) {
      const { from, to, turn } = section;
      const { base, inside } = this.#turns(section, visit);
      out.push(k.forLoop(base, k.int(0), k.int(to - from), k.int(turn), k.block(inside)));
    }
  }
}

const joining =
  (node: GraphNode) =>
  (a: Expr, b: Expr): Expr =>
    k.alu(opOf(node), [a, b]);

/** Neighbours first, then their results. */
function inPairs(node: GraphNode, terms: readonly Expr[]): Expr {
  if (terms.length === 1) return terms[0]!;
  const middle = Math.ceil(terms.length / 2);
  return joining(node)(inPairs(node, terms.slice(0, middle)), inPairs(node, terms.slice(middle)));
}
