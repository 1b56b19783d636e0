/**
 * Rows on a GPU: a team of threads, from one thread to a block, takes a row. It reads the row once and keeps it through all
 * reductions over it and what is made of them: in registers, a longer row in shared memory, and one that fits into
 * neither is read again for each reduction (row-shares.ts). Sums go through shuffles, then shared memory, always in the
 * same order.
 */
import {
  type CarriedValue,
  carriedOf,
  inputsOf,
  KeptPieces,
  LineReads,
  readsOf,
} from '#schedule/kept-rows.js';
import { i32 } from '../../core/dtype.js';
import type { GraphNode } from '../../graph/node.js';
import type { Expr, MemoryNode, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Target } from '../../kernel/ir/target.js';
import { value as valueType } from '../../kernel/ir/types.js';
import type { MatrixReduction } from '../group.js';
import { Accumulation, type CombiningOp, opOf } from './accumulate.js';
import { type Coordinates, type LoopAxis, loopSizes } from './coordinates.js';
import { Evaluator } from './evaluate.js';
import { add, BLOCK, type Body, declared, lessThan, type Memories, THREAD, times } from './lowering.js';
import { MatrixKernel, type MatrixWork, matrixBody, type Piece } from './matrix-kernel.js';
import { levelsOf } from './members.js';
import { rowSharesOf } from './row-shares.js';
import type { RowShares } from './shared-rows.js';

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

/** Pieces that a thread takes in turns: numbers `from` to `to` of its row, `turn` at a time. */
interface Section {
  readonly from: number;
  readonly to: number;
  readonly turn: number;
}

/** Something that is done with pieces `base + from` and those after it. */
type Visit = (pieces: readonly Piece[], out: Statement[], base: Expr | undefined, from: number) => void;

class Rows {
  readonly #kernel: MatrixKernel;
  readonly #out: Statement[];
  readonly #structure: MatrixReduction['structure'];
  readonly #shares: RowShares;
  readonly #thread: Variable;
  readonly #row: Coordinates;
  /** Whether there is such a row; undefined if always. */
  readonly #isRow: Expr | undefined;
  /** The pieces of a row that stays in registers. */
  readonly #pieces: readonly Piece[] | undefined;
  /** Those of one that stays in shared memory, once they are there. */
  readonly #kept: KeptPieces | undefined;
  /** What takes the place of the elements there, and how many more levels of reductions come before it does. */
  readonly #carried: CarriedValue | undefined;
  #level = 0;
  readonly #reads: LineReads;
  readonly #line: Evaluator;

  constructor(work: MatrixWork, axes: readonly LoopAxis[], target: Target) {
    this.#reads = new LineReads(work);
    this.#kernel = new MatrixKernel(work, axes, this.#reads.scope);
    const { out } = this.#kernel;
    const { structure } = work.reduction;
    this.#out = out;
    this.#structure = structure;
    const inputs = inputsOf(work);
    const inner = loopSizes(axes.at(-1)!).at(-1)!;
    const { resultBytes } = this.#kernel;
    const carried = carriedOf(work, inputs);
    const stores = work.roots.some((root) => root.size === structure.rows * structure.columns);
    const again = stores || levelsOf(work.reduction).length > 1;
    const elements = { ...readsOf(inputs), again, carriedBytes: carried?.node.dtype.bytes };
    this.#shares = rowSharesOf(structure, inner, elements, resultBytes, target);
    if (this.#shares.carries) this.#carried = carried;
    const { team, lanes, each, blocks, rowsPerBlock, place } = this.#shares;
    const of = (number: Expr, count: number): readonly [quotient: Expr, remainder: Expr] =>
      count === 1
        ? [number, k.int(0)]
        : [k.alu('idiv', [number, k.int(count)]), k.alu('mod', [number, k.int(count)])];
    const [cluster, rank] = of(BLOCK, blocks);
    const [above, thread] = rowsPerBlock === 1 ? [k.int(0), THREAD] : of(THREAD, team);
    const own = blocks === 1 ? thread : add(times(rank, team / blocks), thread);
    this.#thread = declared('t', own, out);
    let row = declared('row', rowsPerBlock === 1 ? cluster : add(times(cluster, rowsPerBlock), above), out);
    if (structure.rows % rowsPerBlock !== 0) {
      this.#isRow = lessThan(k.read(row), structure.rows);
      row = declared('row', k.alu('min', [k.read(row), k.int(structure.rows - 1)]), out);
    }
    this.#row = this.#kernel.line(row);
    this.#line = new Evaluator(this.#kernel.scope, undefined, out);
    this.#reads.locate(this.#row, this.#line, out);
    if (place === 'registers') this.#pieces = this.#piecesAt(undefined, 0, each, out);
    if (place === 'shared') {
      const count = Math.ceil(structure.columns / (team * lanes));
      const threads = team / blocks;
      const keeping = { threads, lanes, first: 0, count, carried: this.#carried?.node };
      const kept = new KeptPieces(this.#kernel, inputs, keeping);
      this.#sweep(out, (pieces, into, base, from) => kept.copy(pieces, base, from, into));
      out.push(k.act('commitCopies', []), k.act('waitCopies', [k.int(0)]));
      this.#kept = kept;
    }
  }

  body(): Body {
    this.#kernel.compute(this.#row, this.#line, (nodes) => this.#reduce(nodes));
    const { team, blocks, rowsPerBlock, resident } = this.#shares;
    const isCluster = blocks > 1;
    // No block ends while another reads what its warps have.
    if (isCluster) this.#out.push(k.act('arriveCluster', []));
    this.#storeLine();
    const readsFirst = this.#reads.areFirst(this.#shares);
    this.#storePieces();
    if (isCluster) this.#out.push(k.act('waitCluster', []));
    return {
      statement: k.block(this.#out),
      arrays: this.#kernel.arrays,
      grid: [Math.ceil(this.#structure.rows / rowsPerBlock) * blocks, 1, 1],
      block: [Math.max(32, (team * rowsPerBlock) / blocks), 1, 1],
      ...(this.#kept && { sharedBytes: this.#kept.bytes }),
      ...(resident && { resident }),
      ...(isCluster && { cluster: [blocks, 1, 1] }),
      readsFirst,
    };
  }

  /** Pieces `base + from` of the thread's row, `count` of them; those of a loop are all within the row. */
  #piecesAt(base: Expr | undefined, from: number, count: number, out: Statement[]): Piece[] {
    const { columns } = this.#structure;
    const { team, lanes } = this.#shares;
    const step = team * lanes;
    const own = times(k.read(this.#thread), lanes);
    return Array.from({ length: count }, (_, i): Piece => {
      const n = from + i;
      let position: Expr = n === 0 ? own : add(own, k.int(n * step));
      if (base) position = add(position, times(base, step));
      let column = declared('c', position, out);
      const partial = !base && (n + 1) * step > columns;
      const inside = partial ? lessThan(k.read(column), columns) : undefined;
      // Beyond the end: read the last elements again, and take no notice of them.
      if (partial) column = declared('c', k.alu('min', [k.read(column), k.int(columns - lanes)]), out);
      const at = this.#kernel.element(this.#row, column, `c${i}_`, out);
      const counter = at.at(-1)!.value.terms[0]?.atom;
      const vector = lanes > 1 ? { atom: counter!, lanes } : undefined;
      return { at, inside, evaluator: new Evaluator(this.#kernel.scope, vector, out) };
    });
  }

  /** Those of a long row: whole turns, then what is left. */
  get #sections(): Section[] {
    const { columns } = this.#structure;
    const { team, lanes, each } = this.#shares;
    const pieces = Math.ceil(columns / (team * lanes));
    const whole = Math.floor(columns / (team * lanes * each)) * each;
    return [
      { from: 0, to: whole, turn: each },
      { from: whole, to: pieces, turn: pieces - whole },
    ].filter(({ from, to }) => from < to);
  }

  /**
   * Do something with the pieces of a section: all at once into `out` if they are one turn.
   * @returns the variable and the statements of a loop of its turns otherwise
   */
  #turns(
    { from, to, turn }: Section,
    out: Statement[],
    visit: Visit,
  ): { readonly base: Variable; readonly inside: Statement[] } | undefined {
    const isLoop = to - from > turn;
    const base: Variable = { name: 'base', type: valueType(i32), constant: true };
    const at = isLoop ? k.read(base) : undefined;
    const inside = isLoop ? [] : out;
    const pieces = this.#piecesAt(at, from, turn, inside);
    this.#kept?.take(pieces, at, from, inside);
    visit(pieces, inside, at, from);
    return isLoop ? { base, inside } : undefined;
  }

  /** Do something with all pieces of the row: those in registers, or section by section. */
  #sweep(out: Statement[], visit: Visit): void {
    if (this.#pieces) {
      visit(this.#pieces, out, undefined, 0);
      return;
    }
    for (const section of this.#sections) {
      const { from, to, turn } = section;
      const loop = this.#turns(section, out, visit);
      if (loop) out.push(k.forLoop(loop.base, k.int(0), k.int(to - from), k.int(turn), k.block(loop.inside)));
    }
  }

  /** Reductions side by side: the row is read once for all of them, and their threads meet once. */
  #reduce(nodes: readonly GraphNode[]): void {
    const { lanes } = this.#shares;
    const out = this.#out;
    const joining = (node: GraphNode) => (a: Expr, b: Expr) => k.alu(opOf(node), [a, b]);
    const combined = (node: GraphNode, pieces: readonly Piece[], into: Statement[]): Expr =>
      pieces.map((piece) => this.#kernel.term(node, piece, lanes, into)).reduce(joining(node));
    const own = nodes.map((): Expr[] => []);
    const isFirst = this.#level === 0;
    const carries = this.#carried?.level === this.#level++;
    const carry: Visit = (pieces, into, base, from) => {
      if (carries) this.#kept!.carry(pieces, base, from, into);
    };
    const collect: Visit = (pieces, into, base, from) => {
      nodes.forEach((node, i) => {
        own[i]!.push(k.read(declared('own', combined(node, pieces, into), into)));
      });
      carry(pieces, into, base, from);
    };
    if (this.#pieces) collect(this.#pieces, out, undefined, 0);
    else if (nodes.length > 0)
      for (const section of this.#sections) {
        if (section.to - section.from === section.turn) {
          this.#turns(section, out, collect);
          continue;
        }
        const sums = new Accumulation();
        const accumulators = nodes.map((node) => sums.open(node, lanes));
        const { base, inside } = this.#turns(section, out, (pieces, into, base, from) => {
          nodes.forEach((node, i) => {
            const acc = accumulators[i]!;
            const value = combined(node, pieces, into);
            into.push(k.set(acc, joining(node)(k.read(acc), value)));
          });
          carry(pieces, into, base, from);
        })!;
        sums.add(inside);
        sums.loop(base, section.to - section.from, section.turn);
        sums.close(out).forEach((total, i) => {
          own[i]!.push(k.read(total));
        });
      }
    if (carries) this.#kept!.dropElements();
    if (isFirst) this.#reads.load(this.#row, this.#kernel.scope, out);
    this.#together(
      nodes,
      nodes.map((node, i) => joined(opOf(node), own[i]!.reduce(joining(node)))),
    );
  }

  /** The values of all threads of a row, held in each of them. */
  #together(nodes: readonly GraphNode[], own: readonly Expr[]): void {
    const { team, blocks } = this.#shares;
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
    const all = team / 32;
    const warps = all / blocks;
    const parts = this.#kernel.parts(nodes, [warps]);
    const lane = k.special('laneId');
    const stores = parts.map((part, i) => k.store(part, ofWarp[i]!, [k.special('warpId')]));
    out.push(k.when(k.alu('eq', [lane, k.int(0)]), k.block(stores)));
    out.push(...(blocks === 1 ? [k.barrier()] : [k.act('arriveCluster', []), k.act('waitCluster', [])]));
    const number = k.alu('mod', [lane, k.int(all)]);
    const warp = k.alu('mod', [number, k.int(warps)]);
    const rank = k.alu('idiv', [number, k.int(warps)]);
    nodes.forEach((node, i) => {
      const part =
        blocks === 1
          ? k.load(parts[i]!, [warp])
          : k.intrinsic('loadRemote', [parts[i]!, warp, rank], node.dtype);
      this.#kernel.held.set(node, butterfly(node, part, all));
    });
  }

  /** Under which a thread stores. */
  get #conditions(): Expr[] {
    return this.#isRow ? [this.#isRow] : [];
  }

  #storeLine(): void {
    const isFirst = this.#shares.team > 1 ? [k.alu('eq', [k.read(this.#thread), k.int(0)])] : [];
    this.#kernel.storeLine(this.#row, this.#line, [...isFirst, ...this.#conditions]);
  }

  #storePieces(): void {
    if (this.#kernel.ofElement.length === 0) return;
    this.#sweep(this.#out, (pieces, into) => this.#kernel.storePieces(pieces, this.#conditions, into));
  }
}
