/**
 * What the threads of a line read of each other's elements: they do so before one of them stores, so that results may be written
 * over what they are made of. A gather (the loss of a line takes its target's element) reads before the first exchange of sums,
 * which it then does not keep waiting.
 */
import { some } from '../../core/node.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import type { Expr, Statement } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { GPU } from '../../kernel/ir/target.js';
import type { Coordinates } from './coordinates.js';
import { Evaluator, type GatheredElement, type LoopScope } from './evaluate.js';
import { elementsBelow } from './kept-pieces.js';
import { declared } from './lowering.js';
import type { MatrixWork } from './matrix-kernel.js';
import { gathered } from './movement.js';
import type { RowShares } from './shared-rows.js';

export class LineReads {
  readonly #work: MatrixWork;
  readonly #gathers: readonly GraphNode[];
  readonly #positions = new Map<GraphNode, Expr>();
  readonly #elements = new Map<GraphNode, GatheredElement>();
  /** What the kernel's scope needs for it. */
  readonly scope: Pick<LoopScope, 'elements'> = { elements: this.#elements };

  constructor(work: MatrixWork) {
    this.#work = work;
    this.#gathers = work.reduction.members.flatMap(({ node }) => (node.op === 'gather' ? [node] : []));
  }

  /** Load where the gathers of a line find their elements, if that does not depend on what is reduced. */
  locate(line: Coordinates, evaluator: Evaluator, out: Statement[]): void {
    const { memories, reduction } = this.#work;
    const members = new Set(reduction.members.map(({ node }) => node));
    const sources = (n: GraphNode): readonly GraphNode[] => (memories.memory(n) ? [] : n.src);
    for (const node of this.#gathers) {
      const [, index] = node.src as [GraphNode, GraphNode];
      if (some([index], (n) => members.has(n), sources)) continue;
      this.#positions.set(node, k.read(declared('place', evaluator.value(index, line), out)));
    }
  }

  /** Load the elements: for a position outside the nearest. */
  load(line: Coordinates, scope: LoopScope, out: Statement[]): void {
    for (const [node, position] of this.#positions) {
      const [x] = node.src as [GraphNode];
      const last = k.int(x.shape[argOf(node, 'gather').axis]! - 1);
      const nearest = k.alu('max', [k.alu('min', [position, last]), k.int(0)]);
      const { coordinates } = gathered(node, line, nearest);
      const evaluator = new Evaluator(scope, undefined, out);
      const load = (n: GraphNode): Expr => k.read(declared('element', evaluator.value(n, coordinates), out));
      const values = new Map(elementsBelow([x], this.#work.memories).map((n) => [n, load(n)]));
      this.#elements.set(node, { ...gathered(node, line, position), values });
    }
  }

  /** Whether all such reads come before a thread stores. */
  areFirst({ team, lanes, rowsPerBlock }: RowShares): boolean {
    const { rows, columns } = this.#work.reduction.structure;
    if (team > GPU.warp) return this.#gathers.length === this.#positions.size;
    // A warp does not wait for its stores, and threads without an element of their own read one of another.
    return this.#gathers.length === 0 && columns % (team * lanes) === 0 && rows % rowsPerBlock === 0;
  }
}
