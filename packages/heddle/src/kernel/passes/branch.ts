/**
 * Selects of which only one side may be evaluated (it reads memory or has an effect) become `if` statements before
 * the statement they stand in. Then every expression may be evaluated as a whole, its parts shared and moved.
 */
import { bool } from '../../core/dtype.js';
import {
  alu,
  block,
  breakLoop,
  constant,
  type Expr,
  type KernelIr,
  type Node,
  read,
  type Statement,
  set,
  type Variable,
  when,
} from '../ir/ir.js';
import { Effects } from './numbering.js';

/** Begins the lowered form: what a branch chooses is set there, and declared nowhere. */
export function branchSelects(ir: KernelIr): KernelIr {
  const body = block(statements(ir.body, new Effects()));
  return { ...ir, body, lowered: { once: block([]), scratchBytes: undefined, from: ir } };
}

function statements(s: Statement, effects: Effects): Statement[] {
  const inner = (c: Node): Statement => block(statements(c as Statement, effects));
  const lifted = new Lifted(effects);
  const src = (): Node[] =>
    s.src.map((c) =>
      c.type.kind === 'none' ? inner(c) : c.type.kind === 'value' ? lifted.expr(c as Expr) : c,
    );
  if (s.op === 'block') return s.src.flatMap((c) => statements(c as Statement, effects));
  const result = { ...s, src: src() } as Statement;
  if (s.op !== 'while' || lifted.before.length === 0) return [...lifted.before, result];
  return [whileWith(lifted.before, result)];
}

/** A loop whose condition takes statements to compute: they run, and it is tested, at the start of each round. */
export function whileWith(before: readonly Statement[], loop: Statement): Statement {
  const [condition, body, update] = loop.src as [Expr, Statement, Statement];
  const stop = when(alu('not', [condition]), block([breakLoop()]));
  return { ...loop, src: [constant(bool, true), block([...before, stop, body]), update] } as Statement;
}

/** The expressions of one statement, and what must run before it. */
class Lifted {
  readonly before: Statement[] = [];
  readonly #effects: Effects;
  readonly #outer: Lifted | undefined;
  readonly #done = new Map<Node, Expr>();

  constructor(effects: Effects, outer?: Lifted) {
    this.#effects = effects;
    this.#outer = outer;
  }

  #known(e: Node): Expr | undefined {
    const outer = this.#outer;
    return this.#done.get(e) ?? (outer ? outer.#known(e) : undefined);
  }

  expr(e: Expr): Expr {
    if (this.#effects.of(e) === 'none') return e;
    const known = this.#known(e);
    if (known) return known;
    const result = this.#isOneSided(e) ? this.#lift(e) : this.#rebuilt(e);
    this.#done.set(e, result);
    return result;
  }

  #isOneSided(e: Expr): boolean {
    const [condition, then, otherwise] = e.src as Expr[];
    return (
      e.op === 'select' &&
      condition!.type.lanes === 1 &&
      (this.#effects.of(then!) !== 'none' || this.#effects.of(otherwise!) !== 'none')
    );
  }

  #lift(e: Expr): Expr {
    const [condition, ...sides] = e.src as [Expr, Expr, Expr];
    const variable: Variable = { name: 'chosen', type: e.type, constant: false };
    const test = this.expr(condition);
    const [then, otherwise] = sides.map((side) => {
      const inside = new Lifted(this.#effects, this);
      const value = inside.expr(side);
      return block([...inside.before, set(variable, value)]);
    });
    this.before.push(when(test, then!, otherwise, e.at));
    return read(variable);
  }

  #rebuilt(e: Expr): Expr {
    const src = e.src.map((s) => (s.type.kind === 'value' ? this.expr(s as Expr) : s));
    return src.every((s, i) => s === e.src[i]) ? e : ({ ...e, src } as Expr);
  }
}
