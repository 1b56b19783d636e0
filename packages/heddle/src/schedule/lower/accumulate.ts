/**
 * The accumulators of a reduction's loops. One accumulator for all of n terms would be off by up to n roundings, and a
 * sum of f32 ones would stop at 2²⁴. So an accumulator of floats takes MOST_TERMS terms, is added to the accumulator of
 * the level above, and starts again. Each term passes through log(n) / log(MOST_TERMS) levels:
 *
 *   |error| ≤ MOST_TERMS · ⌈log n / log MOST_TERMS⌉ · u · Σ|xᵢ|,   u = 2⁻²⁴ in f32, to first order
 *
 * N. Higham, The accuracy of floating point summation, SIAM J. Sci. Comput. 14 (1993): an order of summation in which no
 * term takes part in more than h additions has the bound h·u·Σ|xᵢ|. Lanes and threads that share a sum only make h smaller.
 */
import { bool, i32, LIMITS } from '../../core/dtype.js';
import { argOf, type GraphNode } from '../../graph/node.js';
import type { Expr, Statement, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import type { Scalar } from '../../kernel/ir/ops.js';
import { type Lanes, value as valueType } from '../../kernel/ir/types.js';

/** Terms that an accumulator of floats takes. */
export const MOST_TERMS = 16;

export type CombiningOp = 'add' | 'mul' | 'min' | 'max';

export const opOf = (node: GraphNode): CombiningOp => {
  if (node.op !== 'reduce') return 'add';
  const { op } = argOf(node, 'reduce');
  return op === 'sum' ? 'add' : op === 'prod' ? 'mul' : op;
};

/** What leaves a reduction as it is. */
export const identityOf = (node: GraphNode, lanes: Lanes): Expr =>
  k.splat(k.constant(node.dtype, IDENTITY[opOf(node)](node)), lanes);

export const zeroOf = ({ dtype }: GraphNode): Scalar =>
  dtype === bool ? false : dtype.name === 'i64' ? 0n : 0;

const IDENTITY = {
  add: zeroOf,
  mul: ({ dtype }: GraphNode): Scalar => (dtype.name === 'i64' ? 1n : 1),
  max: (node: GraphNode): Scalar => lowest(node, -1),
  min: (node: GraphNode): Scalar => lowest(node, 1),
} as const;

function lowest({ dtype }: GraphNode, sign: -1 | 1): Scalar {
  if (dtype.kind === 'float') return sign * Number.POSITIVE_INFINITY;
  const limit = LIMITS[dtype.name]![sign < 0 ? 0 : 1];
  return dtype.name === 'i64' ? limit : Number(limit);
}

/** Accumulators of one loop, and the nodes that they are for. */
interface Level {
  readonly node: GraphNode;
  readonly variable: Variable;
}

const accumulator = (node: GraphNode, lanes: Lanes): Variable => ({
  name: 'acc',
  type: valueType(node.dtype, lanes),
  constant: false,
});

const declared = ({ node, variable }: Level): Statement =>
  k.declare(variable, identityOf(node, variable.type.lanes));

/** The loops around what adds one term to each accumulator, built from the innermost to the outermost. */
export class Accumulation {
  #body: Statement[] = [];
  /** Of the innermost level that is not yet complete. */
  #level: Level[] = [];
  /** Terms that its accumulators take. */
  #terms = 1;
  /** Whether it is the first: the loops of levels above stay loops, or the code would grow with the levels. */
  #isFirst = true;

  /** An accumulator more, for the statements from here on. */
  open(node: GraphNode, lanes: Lanes): Variable {
    const variable = accumulator(node, lanes);
    this.#level.push({ node, variable });
    return variable;
  }

  /** Inside the next loop: statements that add up to `terms` terms to an accumulator. */
  add(statements: readonly Statement[], terms = 1): void {
    this.#body.push(...statements);
    this.#terms = Math.max(this.#terms, terms);
  }

  /**
   * A loop around all that there is: `counter` is 0, `step`, 2·`step`, … below `end`.
   * @param unrolled the innermost loop, so that the loads of all its terms are on their way together
   */
  loop(counter: Variable, end: number, step = 1, unrolled = false): void {
    const most = this.#level.some(({ node }) => isInexact(node)) ? MOST_TERMS : Number.POSITIVE_INFINITY;
    let [variable, by] = [counter, step];
    while (this.#terms * Math.ceil(end / by) > most) {
      const turns = Math.floor(most / this.#terms);
      if (turns > 1) {
        const first: Variable = { name: 'first', type: valueType(i32), constant: true };
        const next = k.alu('add', [k.read(first), k.int(turns * by)]);
        const stop = end % (turns * by) === 0 ? next : k.alu('min', [next, k.int(end)]);
        this.#body = [k.forLoop(variable, k.read(first), stop, k.int(by), k.block(this.#body), 'never')];
        [variable, by] = [first, turns * by];
      }
      this.#rise();
    }
    const unroll = this.#isFirst ? unrolled : 'never';
    this.#body = [k.forLoop(variable, k.int(0), k.int(end), k.int(by), k.block(this.#body), unroll)];
    this.#terms *= Math.ceil(end / by);
  }

  /** Complete the level: its accumulators are terms of the level above. */
  #rise(): void {
    const above = this.#level.map(({ node, variable }) => ({
      node,
      variable: accumulator(node, variable.type.lanes),
    }));
    this.#body = [
      ...this.#level.map(declared),
      ...this.#body,
      ...this.#level.map(({ node, variable }, i): Statement => {
        const total = above[i]!.variable;
        return k.set(total, k.alu(opOf(node), [k.read(total), k.read(variable)]));
      }),
    ];
    this.#level = above;
    this.#terms = 1;
    this.#isFirst = false;
  }

  /** @param out the loops go here @returns what holds the totals, in the order in which the accumulators were opened */
  close(out: Statement[]): Variable[] {
    out.push(...this.#level.map(declared), ...this.#body);
    return this.#level.map(({ variable }) => variable);
  }
}

/** Whether the order of the terms changes the result by more than NaN: additions of floats round. */
const isInexact = (node: GraphNode): boolean => opOf(node) === 'add' && node.dtype.kind === 'float';
