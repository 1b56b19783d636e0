/**
 * What the kernels of a matrix have in common that reduce its lines, the rows or the columns, and need the elements again:
 * rows.ts and strips.ts. They share out the elements among threads, each in its own way.
 */
import type { GraphNode } from '../../graph/node.js';
import type { ArrayDecl, Expr, MemoryNode, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Lanes } from '../../kernel/ir/types.js';
import type { MatrixReduction } from '../group.js';
import { identityOf } from './accumulate.js';
import type { Coordinates, LoopAxis } from './coordinates.js';
import type { Evaluator, LoopScope } from './evaluate.js';
import { type Body, cut, declared, type Memories, scopeOf, settled, storesOf } from './lowering.js';
import { guarded, levelsOf, neededInside } from './members.js';

/** What a kernel computes, and what of. */
export interface MatrixWork {
  readonly roots: readonly GraphNode[];
  readonly outputs: readonly MemoryNode[];
  readonly reduction: MatrixReduction;
  readonly memories: Memories;
}

/** The body of a kernel, whose axes are split until its accesses are plain. */
export function matrixBody(
  { structure }: MatrixReduction,
  memories: Memories,
  make: (axes: readonly LoopAxis[]) => Body,
): Body {
  const axes = structure.runs.map((r): LoopAxis => ({ size: r.size, splits: new Set() }));
  return settled(axes, memories, () => make(axes));
}

/** Neighbouring elements that a thread has: where, and what computes there. */
export interface Piece {
  readonly at: Coordinates;
  readonly evaluator: Evaluator;
  /** Whether the line goes so far; undefined if it always does. */
  readonly inside: Expr | undefined;
}

/** Something that is stored: `memory` gets the values of `root`. */
interface Result {
  readonly root: GraphNode;
  readonly memory: MemoryNode;
}

/** The statements of such a kernel, and what its threads know by then. */
export class MatrixKernel {
  readonly out: Statement[] = [];
  readonly arrays: ArrayDecl[] = [];
  /** What is the same for a whole line, and computed. */
  readonly held = new Map<GraphNode, Expr>();
  readonly scope: LoopScope;
  readonly reduction: MatrixReduction;
  readonly #axes: readonly LoopAxis[];
  /** Results of which a line has one. */
  readonly #ofLine: readonly Result[];
  readonly ofElement: readonly Result[];

  /** @param more what the kernel knows besides, for its scope */
  constructor(
    { roots, outputs, reduction, memories }: MatrixWork,
    axes: readonly LoopAxis[],
    more: Partial<LoopScope> = {},
  ) {
    this.reduction = reduction;
    this.#axes = axes;
    this.scope = { ...scopeOf(memories, false), aligned: true, ...more, held: (node) => this.held.get(node) };
    const perLine = new Set(reduction.members.flatMap(({ node, per }) => (per === 'row' ? [node] : [])));
    const results = roots.map((root, i): Result => ({ root, memory: outputs[i]! }));
    this.#ofLine = results.filter(({ root }) => perLine.has(root));
    this.ofElement = results.filter(({ root }) => !perLine.has(root));
  }

  /** Of one result of each reduction. */
  get resultBytes(): number {
    return this.reductions.reduce((n, { dtype }) => n + dtype.bytes, 0);
  }

  get reductions(): GraphNode[] {
    return this.reduction.members.flatMap(({ node }) => (node.op === 'reduce' ? [node] : []));
  }

  /** The axes along the lines, which are reduced, or those across them. */
  #axesOf(along: boolean): LoopAxis[] {
    return this.#axes.filter((_, i) => this.reduction.structure.runs[i]!.marked === along);
  }

  /** Where a line is. */
  line(number: Variable): Coordinates {
    return cut(number, this.#axesOf(false), 'i', this.out).flat();
  }

  /** Where an element of a line is. @param prefix of the names of its coordinates */
  element(line: Coordinates, place: Variable, prefix: string, out: Statement[]): Coordinates {
    const along = this.#axesOf(true);
    const digits = cut(place, along, prefix, out);
    return this.#axes.flatMap((axis) =>
      along.includes(axis)
        ? digits[along.indexOf(axis)]!
        : line.filter(({ origin }) => origin?.axis === axis),
    );
  }

  /** What a line has one of: reductions side by side, then what is computed from them, and so on. */
  compute(line: Coordinates, evaluator: Evaluator, reduce: (nodes: readonly GraphNode[]) => void): void {
    const early = neededInside(this.reduction);
    for (const level of levelsOf(this.reduction)) {
      reduce(level.filter((node) => node.op === 'reduce'));
      for (const node of level)
        if (node.op !== 'reduce' && early.has(node))
          this.held.set(node, k.read(declared('each', evaluator.value(node, line), this.out)));
    }
  }

  /** What a piece contributes to a reduction. */
  term(node: GraphNode, { at, evaluator, inside }: Piece, lanes: Lanes, out: Statement[]): Expr {
    const v = k.read(declared('v', evaluator.value(node.src[0]!, at), out));
    return inside ? k.select(k.splat(inside, lanes), v, identityOf(node, lanes)) : v;
  }

  /** Shared memory in which the threads of a block put together what they have of each reduction. */
  parts(nodes: readonly GraphNode[], dims: readonly number[]): MemoryNode[] {
    return nodes.map(({ dtype }) => {
      const array: ArrayDecl = { name: 'part', dtype, space: 'shared', dims, lanes: 1 };
      this.arrays.push(array);
      return k.arrayNode(array);
    });
  }

  /** Store what a line has one of, where the conditions hold. */
  storeLine(line: Coordinates, evaluator: Evaluator, conditions: readonly Expr[]): void {
    if (this.#ofLine.length === 0) return;
    const inside: Statement[] = [];
    const stores = stored(evaluator.within(inside), line, this.#ofLine, inside);
    this.out.push(guarded(conditions, [...inside, ...stores]));
  }

  /** Store what every element has, where the conditions hold: all that is read, before the first store of a thread. */
  storePieces(pieces: readonly Piece[], conditions: readonly Expr[], out: Statement[]): void {
    const stores: Statement[] = [];
    for (const { at, evaluator, inside } of pieces) {
      const all = [...(inside ? [inside] : []), ...conditions];
      if (all.length === 0) {
        stores.push(...stored(evaluator, at, this.ofElement, out));
        continue;
      }
      const within: Statement[] = [];
      const own = stored(evaluator.within(within), at, this.ofElement, within);
      out.push(guarded(all, [...within, ...own]));
    }
    out.push(...stores);
  }
}

/** The values at a place, computed into `out`. @returns the stores */
const stored = (
  evaluator: Evaluator,
  at: Coordinates,
  results: readonly Result[],
  out: Statement[],
): Statement[] =>
  results.flatMap(({ root, memory }) => {
    const v = declared('v', evaluator.value(root, at), out);
    evaluator.define(root, at, k.read(v));
    return storesOf(memory, k.read(v), root, at, evaluator);
  });
