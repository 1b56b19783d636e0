/**
 * Columns on a GPU that are reduced and needed again: a block, or a cluster of blocks, takes a strip of neighbouring columns
 * (strip-shares.ts says how wide) and does everything there is to do for it. Threads side by side take neighbouring columns,
 * threads above each other take turns down the columns; what they have is put together by strip-sums.ts.
 */
import { i32 } from '../../core/dtype.js';
import type { GraphNode } from '../../graph/node.js';
import type { Expr, MemoryNode, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { clusterSizes } from '../../kernel/ir/machine.js';
import type { Target } from '../../kernel/ir/target.js';
import { value as valueType } from '../../kernel/ir/types.js';
import { type MatrixReduction, MOST_ALONE } from '../group.js';
import { Accumulation } from './accumulate.js';
import { carriedOf } from './carried.js';
import { type Coordinates, type LoopAxis, loopSizes } from './coordinates.js';
import { Evaluator, type Vector } from './evaluate.js';
import { inputsOf, KeptPieces, readsOf } from './kept-pieces.js';
import { add, BLOCK, type Body, declared, lessThan, type Memories, THREAD, times } from './lowering.js';
import { MatrixKernel, type MatrixWork, matrixBody, type Piece } from './matrix-kernel.js';
import { reductionLevels } from './members.js';
import { SHARED_TURN, type Strips, stripsOf } from './strip-shares.js';
import { inPairs, joining, StripSums } from './strip-sums.js';

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
  /** The thread's number among those side by side, and among those of its block above each other. */
  readonly #x: Variable;
  readonly #y: Variable;
  /** The latter among those of all blocks of the strip. */
  readonly #row: Variable;
  readonly #sums: StripSums;
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
    // Blocks can send each other numbers of 4 and of 8 bytes.
    const canShare = this.#kernel.reductions.every(({ dtype }) => dtype.bytes >= 4);
    const stores = this.#kernel.ofElement.length > 0;
    const isAlone = !stores && structure.columns <= MOST_ALONE;
    const clusters = canShare && !isAlone ? clusterSizes(target.capability) : [1];
    const levels = reductionLevels(work.reduction).length;
    const elements = { ...reads, isCostly: carriedOf(work, inputs) !== undefined, stores, levels };
    this.#shares = stripsOf(structure, inner, elements, this.#kernel.resultBytes, clusters, target);
    const { lanes, across, down, blocks, inRegisters, inShared, pieces } = this.#shares;
    const out = this.#out;
    const span = across * lanes;
    this.#x = declared('x', k.alu('mod', [THREAD, k.int(across)]), out);
    this.#y = declared('y', k.alu('idiv', [THREAD, k.int(across)]), out);
    const strip = blocks === 1 ? BLOCK : k.alu('idiv', [BLOCK, k.int(blocks)]);
    const rank = k.alu('mod', [BLOCK, k.int(blocks)]);
    this.#row = blocks === 1 ? this.#y : declared('y', add(times(rank, down), k.read(this.#y)), out);
    this.#sums = new StripSums(this.#kernel, this.#shares, this.#x, this.#y);
    let column = declared('column', add(times(strip, span), times(k.read(this.#x), lanes)), out);
    if (structure.rows % span !== 0) {
      // Beyond the end: read the last columns again, and take no notice of them.
      this.#isColumn = lessThan(k.read(column), structure.rows);
      column = declared('column', k.alu('min', [k.read(column), k.int(structure.rows - lanes)]), out);
    }
    this.#column = this.#kernel.line(column);
    this.#vector = lanes > 1 ? { atom: this.#column.at(-1)!.value.terms[0]!.atom, lanes } : undefined;
    if (inShared > 0) {
      const threads = across * down;
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
    const { lanes, across, down, blocks, resident } = this.#shares;
    this.#store(columns);
    return {
      statement: k.block(this.#out),
      arrays: this.#kernel.arrays,
      grid: [Math.ceil(this.#structure.rows / (across * lanes)) * blocks, 1, 1],
      block: [across * down, 1, 1],
      ...(this.#kept && { sharedBytes: this.#kept.bytes }),
      ...(resident && { resident }),
      ...(blocks > 1 && { cluster: [blocks, 1, 1] }),
    };
  }

  /** Piece `base + n` of the thread's columns; no piece of this base is further down than `base + to`. */
  #piece(base: Expr | undefined, n: number, to: number, out: Statement[]): Piece {
    const { columns: length } = this.#structure;
    const down = this.#shares.down * this.#shares.blocks;
    let position: Expr = n === 0 ? k.read(this.#row) : add(k.read(this.#row), k.int(n * down));
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
    this.#sums.together(
      nodes,
      nodes.map((node, i) => inPairs(node, terms[i]!)),
    );
  }

  /** Results for every column, then for every element. */
  #store(columns: Evaluator): void {
    const kernel = this.#kernel;
    const out = this.#out;
    const isColumn = this.#isColumn ? [this.#isColumn] : [];
    const isFirst = k.alu('eq', [k.read(this.#row), k.int(0)]);
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
