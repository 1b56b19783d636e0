/** How much a launch has to do, roughly: counted along the kernel's statements, loops by their bounds. */
import type { DType } from '../../core/dtype.js';
import {
  type ArrayDecl,
  block,
  declare,
  type Expr,
  type KernelIr,
  type Node,
  read,
  type Statement,
  type Variable,
} from './ir.js';
import type { IrFunction } from './ir-function.js';
import { convert, evaluate, OPS, type Scalar } from './ops.js';
import { value } from './types.js';

/** What is counted. */
export interface Cost {
  /** Of a statement, and of a round of a loop, without what is in it. */
  readonly statement: number;
  /** Of an expression without its sources. */
  readonly expression: (e: Expr) => number;
  /** Of an operation without a result, without what is in it. Default: 0. */
  readonly effect?: (s: Statement & { op: 'effect' }) => number;
  /** `while (i < end) { …; i += step; }` is counted as the loop it is; else every `while` has 16 rounds. */
  readonly countsWhile?: true;
}

/** A launch as far as it says how often loops run: sizes, and arguments that are known. */
export interface CountedLaunch {
  readonly grid: readonly [number, number, number];
  readonly block: readonly [number, number, number];
  readonly args: readonly (object | { readonly value: Scalar })[];
}

/** Instructions, roughly. */
export const INSTRUCTIONS: Cost = {
  statement: 1,
  expression: (e) => {
    if (e.src.length === 0) return 0;
    return e.op === 'alu' ? OPS[e.arg].cost : e.op === 'intrinsic' ? 20 : 1;
  },
};

/** As long as a thread takes, roughly. What decides on the CPU's threads was measured with `INSTRUCTIONS`. */
export const DURATION: Cost = { ...INSTRUCTIONS, countsWhile: true };

/** Rounds of a loop whose bounds are not known. */
const ROUNDS = 16;

/**
 * The cost of the first thread of the first block; where it branches, of the dearer side. A lowered kernel costs what it
 * did before.
 */
export function costOfThread(ir: KernelIr, launch: CountedLaunch, cost: Cost): number {
  const known = costs.get(ir) ?? new Map<Cost, Map<string, number>>();
  costs.set(ir, known);
  const ofLaunches = known.get(cost) ?? new Map<string, number>();
  known.set(cost, ofLaunches);
  const values = launch.args.map((arg) => ('value' in arg ? arg.value : ''));
  const key = `${launch.grid} ${launch.block} ${values}`;
  const found =
    ofLaunches.get(key) ?? new Estimate(ir, launch, cost).statement((ir.lowered?.from ?? ir).body);
  ofLaunches.set(key, found);
  return found;
}

/** Instructions of a call, roughly: of arguments that are there already. @param dtypes of the arguments */
export function costOfCall({ build }: IrFunction, dtypes: readonly DType[]): number {
  const body: Statement[] = [];
  const arrays: ArrayDecl[] = [];
  const args = dtypes.map((dtype, i) => read({ name: `a${i}`, type: value(dtype), constant: true }));
  const result = build(
    args,
    (statement) => body.push(statement),
    (array) => arrays.push(array),
  );
  body.push(declare({ name: 'result', type: result.type, constant: true }, result));
  const ir: KernelIr = { name: 'call', params: [], arrays, body: block(body) };
  return costOfThread(ir, { grid: [1, 1, 1], block: [1, 1, 1], args: [] }, INSTRUCTIONS);
}

/** Costs that are known: the blocks of a network launch the same kernels, and several passes ask for them. */
const costs = new WeakMap<KernelIr, Map<Cost, Map<string, number>>>();

class Estimate {
  readonly #values = new Map<object, Scalar>();
  /** Of variables that change: their first values. */
  readonly #starts = new Map<Variable, Scalar>();
  readonly #launch: CountedLaunch;
  readonly #cost: Cost;
  readonly #costs = new Map<Node, number>();
  readonly #found = new Map<Expr, Scalar | undefined>();

  constructor(ir: KernelIr, launch: CountedLaunch, cost: Cost) {
    this.#launch = launch;
    this.#cost = cost;
    // Of several lists of arguments the first stands for all.
    const args = launch.args.slice(ir.lists ?? 0);
    ir.params.forEach((p, i) => {
      const arg = args[i]!;
      if ('value' in arg) this.#values.set(p, arg.value as Scalar);
    });
  }

  statement(s: Statement): number {
    const own = this.#cost.statement;
    switch (s.op) {
      case 'let': {
        const known = this.#value(s.src[0] as Expr);
        if (known !== undefined) (s.arg.constant ? this.#values : this.#starts).set(s.arg, known);
        return this.#expr(s.src[0]!);
      }
      case 'for': {
        const [start, end, step, body] = s.src as [Expr, Expr, Expr, Statement];
        const from = this.#value(start);
        const rounds = this.#rounds(from, this.#value(end), this.#value(step));
        this.#during(s.arg.variable, from);
        return own + rounds * (own + this.statement(body));
      }
      case 'while':
        return this.#roundsOfWhile(s) * (this.#expr(s.src[0]!) + this.#inside(s.src.slice(1)));
      case 'if': {
        const [condition, ...branches] = s.src as [Expr, ...Statement[]];
        return this.#expr(condition) + Math.max(...branches.map((b) => this.statement(b)));
      }
      case 'block':
        return this.#inside(s.src);
      case 'effect':
        return own + (this.#cost.effect?.(s) ?? 0) + this.#sources(s);
      default:
        return own + this.#sources(s);
    }
  }

  #sources(s: Statement): number {
    return s.src.reduce((n, e) => n + this.#expr(e), 0);
  }

  #inside(statements: readonly Node[]): number {
    return statements.reduce((n, s) => n + this.statement(s as Statement), 0);
  }

  /** Inner loops may depend on an outer loop's variable: half of the way is not known, the start will do. */
  #during(variable: Variable, from: Scalar | undefined): void {
    if (from !== undefined) this.#values.set(variable, from);
  }

  #roundsOfWhile(s: Statement & { op: 'while' }): number {
    if (!this.#cost.countsWhile) return ROUNDS;
    const [test, ...body] = s.src as readonly [Expr, ...Statement[]];
    const [counter, end] = test.src as readonly [Expr?, Expr?];
    if (test.op !== 'alu' || test.arg !== 'lt' || counter?.op !== 'variable' || !end) return ROUNDS;
    const step = body.map((part) => stepOf(part, counter.arg)).find((e) => e !== undefined);
    return this.#rounds(this.#starts.get(counter.arg), this.#value(end), step && this.#value(step));
  }

  #rounds(start: Scalar | undefined, end: Scalar | undefined, step: Scalar | undefined): number {
    if (start === undefined || end === undefined || step === undefined) return ROUNDS;
    return Math.max(0, Math.ceil((Number(end) - Number(start)) / Number(step)));
  }

  #expr(e: Node): number {
    if (e.type.kind !== 'value') return 0;
    const known = this.#costs.get(e);
    if (known !== undefined) return 0; // shared: counted once
    const cost = e.src.reduce((n, s) => n + this.#expr(s), this.#cost.expression(e as Expr));
    this.#costs.set(e, cost);
    return cost;
  }

  /** The value of an expression, where the launch's arguments decide it. Expressions are graphs: each found once. */
  #value(e: Expr): Scalar | undefined {
    if (!this.#found.has(e)) this.#found.set(e, this.#find(e));
    return this.#found.get(e);
  }

  #find(e: Expr): Scalar | undefined {
    switch (e.op) {
      case 'const':
        return e.arg;
      case 'param':
      case 'variable':
        return this.#values.get(e.arg);
      case 'special': {
        const axis = { x: 0, y: 1, z: 2 }[e.arg.slice(-1)];
        if (axis === undefined) return 0;
        if (e.arg.startsWith('gridDim')) return this.#launch.grid[axis]!;
        return e.arg.startsWith('blockDim') ? this.#launch.block[axis]! : 0;
      }
      case 'cast': {
        const from = e.src[0] as Expr;
        const v = this.#value(from);
        return v === undefined ? undefined : convert(from.type.dtype, e.type.dtype, v);
      }
      case 'alu': {
        if (e.type.lanes > 1) return undefined;
        const operands = e.src.map((s) => this.#value(s as Expr));
        if (operands.some((v) => v === undefined)) return undefined;
        const [a, b, c] = operands as [Scalar, Scalar?, Scalar?];
        return evaluate(e.arg, (e.src[0] as Expr).type.dtype, a, b, c);
      }
      case 'select': {
        const condition = this.#value(e.src[0] as Expr);
        return condition === undefined ? undefined : this.#value(e.src[condition ? 1 : 2] as Expr);
      }
      default:
        return undefined;
    }
  }
}

/** What a statement adds to a variable, in every case. */
function stepOf(s: Statement, variable: Variable): Expr | undefined {
  if (s.op === 'block') {
    for (const inner of s.src) {
      const step = stepOf(inner as Statement, variable);
      if (step) return step;
    }
  }
  if (s.op !== 'set' || s.arg !== variable) return undefined;
  const [sum] = s.src as readonly [Expr];
  const own = sum.src[0] as Expr | undefined;
  if (sum.op !== 'alu' || sum.arg !== 'add' || own?.op !== 'variable' || own.arg !== variable)
    return undefined;
  return sum.src[1] as Expr;
}
