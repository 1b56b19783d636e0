/** Loop-invariant code motion: pure expressions that do not change in a loop are computed once, before it. */
import {
  block,
  declare,
  type Expr,
  type KernelIr,
  type Node,
  read,
  type Statement,
  type Variable,
} from '../ir/ir.js';
import { assignedIn, changedIn } from '../ir/walk.js';
import { Effects, isTrivial, Numbering } from './numbering.js';

/** Move invariants out of every loop of a kernel. */
export function hoistLoops(ir: KernelIr): KernelIr {
  return { ...ir, body: block(hoistIn(ir.body)) };
}

/** Move what is the same for all blocks to what runs once before them. */
export function hoistBlocks(ir: KernelIr): KernelIr {
  const { before, body } = hoistOut([ir.body], [], true);
  return { ...ir, body: block(body), lowered: { ...ir.lowered!, once: block(before) } };
}

/** What of `body` does not change while it is repeated, to run once `before`; and the rest. */
interface Hoisted {
  readonly before: readonly Statement[];
  readonly body: readonly Statement[];
}

function hoistIn(s: Statement): Statement[] {
  switch (s.op) {
    case 'block':
      return s.src.flatMap((c) => hoistIn(c as Statement));
    case 'if': {
      const [condition, ...branches] = s.src;
      return [{ ...s, src: [condition!, ...branches.map((b) => block(hoistIn(b as Statement)))] }];
    }
    case 'for': {
      const [start, end, step, body] = s.src;
      const { before, body: rest } = hoistOut(hoistIn(body as Statement), [s.arg.variable]);
      return [...before, { ...s, src: [start!, end!, step!, block(rest)] }];
    }
    case 'while': {
      const [condition, body, update] = s.src;
      const motion = new Motion([body as Statement, update as Statement], []);
      const inner = block(motion.statement(block(hoistIn(body as Statement))));
      const next = block(motion.statement(block(hoistIn(update as Statement))));
      const test = motion.expr(condition as Expr);
      return [...motion.before, { ...s, src: [test, inner, next] }];
    }
    default:
      return [s];
  }
}

/**
 * Split the statements of a loop's body.
 * @param own variables the loop itself sets
 * @param specials whether blockIdx changes: the loop is the one over blocks
 */
function hoistOut(body: readonly Statement[], own: readonly Variable[], specials = false): Hoisted {
  const motion = new Motion(body, own, specials);
  const rest = body.flatMap((s) => motion.statement(s));
  return { before: motion.before, body: rest };
}

class Motion {
  readonly before: Statement[] = [];
  readonly #changing: Set<Variable>;
  readonly #assigned: ReadonlySet<Variable>;
  readonly #specials: boolean;
  readonly #numbering = new Numbering();
  readonly #effects = new Effects();
  readonly #homes = new Map<number, Variable>();
  readonly #still = new Map<Node, boolean>();
  readonly #moved = new Map<Node, Expr>();

  constructor(body: readonly Statement[], own: readonly Variable[], specials = false) {
    this.#changing = new Set([...own, ...changedIn(body)]);
    this.#assigned = assignedIn(body);
    this.#specials = specials;
  }

  #invariant(e: Node): boolean {
    const known = this.#still.get(e);
    if (known !== undefined) return known;
    const result = this.#decide(e);
    this.#still.set(e, result);
    return result;
  }

  #decide(e: Node): boolean {
    if (e.op === 'variable') return !this.#changing.has(e.arg);
    if (e.op === 'special') return !this.#specials || !e.arg.startsWith('blockIdx');
    return this.#effects.of(e) === 'none' && e.src.every((s) => this.#invariant(s));
  }

  /** What is left of a statement. A declaration that never changes moves as it is, from wherever it stands. */
  statement(s: Statement): Statement[] {
    if (s.op === 'let' && !this.#assigned.has(s.arg) && this.#invariant(s.src[0]!)) {
      this.#changing.delete(s.arg);
      this.before.push(s);
      return [];
    }
    if (s.op === 'block') return s.src.flatMap((c) => this.statement(c as Statement));
    const src = s.src.map((c) =>
      c.type.kind === 'none'
        ? block(this.statement(c as Statement))
        : c.type.kind === 'value'
          ? this.expr(c as Expr)
          : c,
    );
    return [{ ...s, src } as Statement];
  }

  /** `e` with its largest invariant parts replaced by variables set before the loop. */
  expr(e: Expr): Expr {
    if (isTrivial(e)) return e;
    const known = this.#moved.get(e);
    if (known) return known;
    const result = this.#invariant(e) ? this.#home(e) : this.#inside(e);
    this.#moved.set(e, result);
    return result;
  }

  #home(e: Expr): Expr {
    const number = this.#numbering.of(e, () => 0);
    let variable = this.#homes.get(number);
    if (!variable) {
      variable = { name: 'fixed', type: e.type, constant: true };
      this.#homes.set(number, variable);
      this.before.push(declare(variable, e));
    }
    return read(variable);
  }

  #inside(e: Expr): Expr {
    const src = e.src.map((s) => (s.type.kind === 'value' ? this.expr(s as Expr) : s));
    return { ...e, src } as Expr;
  }
}
