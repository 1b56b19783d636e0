/** How much a launch has to do, roughly: what decides whether more than one thread is worth it. */
import type { Expr, KernelIr, Node, Statement, Variable } from '../../kernel/ir.js';
import { convert, evaluate, type Scalar, type ScalarOp } from '../../kernel/ops.js';
import type { KernelLaunch } from '../device.js';

/** What an op costs, in additions; 1 if it is not here. */
const COST: Partial<Record<ScalarOp, number>> = {
  div: 4,
  idiv: 10,
  mod: 10,
  sqrt: 5,
  exp: 18,
  exp2: 16,
  log: 25,
  log2: 25,
  sin: 20,
  cos: 20,
  tanh: 30,
  pow: 80,
};
/** Rounds of a loop whose bounds are not known. */
const ROUNDS = 16;

/** Instructions that all blocks of a launch take together. `ir` is the launch's kernel after compilation. */
export function estimateWork(ir: KernelIr, launch: KernelLaunch): number {
  const [x, y, z] = launch.grid;
  return x * y * z * new Estimate(ir, launch).statement(ir.body);
}

class Estimate {
  private readonly values = new Map<object, Scalar>();
  private readonly launch: KernelLaunch;
  private readonly costs = new Map<Node, number>();

  constructor(ir: KernelIr, launch: KernelLaunch) {
    this.launch = launch;
    ir.params.forEach((p, i) => {
      const arg = launch.args[i]!;
      if ('value' in arg) this.values.set(p, arg.value);
    });
  }

  statement(s: Statement): number {
    switch (s.op) {
      case 'let': {
        const known = this.value(s.src[0] as Expr);
        if (known !== undefined && s.arg.constant) this.values.set(s.arg, known);
        return this.expr(s.src[0]!);
      }
      case 'for': {
        const [start, end, step, body] = s.src as [Expr, Expr, Expr, Statement];
        const from = this.value(start);
        const rounds = this.rounds(from, this.value(end), this.value(step));
        this.during(s.arg.variable, from);
        return 1 + rounds * (1 + this.statement(body));
      }
      case 'while':
        return ROUNDS * (this.expr(s.src[0]!) + this.inside(s.src.slice(1)));
      case 'if': {
        const [condition, ...branches] = s.src as [Expr, ...Statement[]];
        return this.expr(condition) + Math.max(...branches.map((b) => this.statement(b)));
      }
      case 'block':
        return this.inside(s.src);
      default:
        return 1 + s.src.reduce((n, e) => n + this.expr(e), 0);
    }
  }

  private inside(statements: readonly Node[]): number {
    return statements.reduce((n, s) => n + this.statement(s as Statement), 0);
  }

  /** Inner loops may depend on an outer loop's variable: half of the way is not known, the start will do. */
  private during(variable: Variable, from: Scalar | undefined): void {
    if (from !== undefined) this.values.set(variable, from);
  }

  private rounds(start: Scalar | undefined, end: Scalar | undefined, step: Scalar | undefined): number {
    if (start === undefined || end === undefined || step === undefined) return ROUNDS;
    return Math.max(0, Math.ceil((Number(end) - Number(start)) / Number(step)));
  }

  private expr(e: Node): number {
    if (e.type.kind !== 'value') return 0;
    const known = this.costs.get(e);
    if (known !== undefined) return 0; // shared: counted once
    const own = e.src.length === 0 ? 0 : e.op === 'alu' ? (COST[e.arg] ?? 1) : e.op === 'intrinsic' ? 20 : 1;
    const cost = e.src.reduce((n, s) => n + this.expr(s), own);
    this.costs.set(e, cost);
    return cost;
  }

  /** The value of an expression, where the launch's arguments decide it. */
  private value(e: Expr): Scalar | undefined {
    switch (e.op) {
      case 'const':
        return e.arg;
      case 'param':
      case 'variable':
        return this.values.get(e.arg);
      case 'special': {
        const axis = { x: 0, y: 1, z: 2 }[e.arg.slice(-1)];
        return e.arg.startsWith('gridDim') && axis !== undefined ? this.launch.grid[axis]! : 0;
      }
      case 'cast': {
        const from = e.src[0] as Expr;
        const v = this.value(from);
        return v === undefined ? undefined : convert(from.type.dtype, e.type.dtype, v);
      }
      case 'alu': {
        if (e.type.lanes > 1) return undefined;
        const operands = e.src.map((s) => this.value(s as Expr));
        if (operands.some((v) => v === undefined)) return undefined;
        const [a, b, c] = operands as [Scalar, Scalar?, Scalar?];
        return evaluate(e.arg, (e.src[0] as Expr).type.dtype, a, b, c);
      }
      case 'select': {
        const condition = this.value(e.src[0] as Expr);
        return condition === undefined ? undefined : this.value(e.src[condition ? 1 : 2] as Expr);
      }
      default:
        return undefined;
    }
  }
}
