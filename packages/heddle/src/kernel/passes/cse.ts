/**
 * Common subexpressions: what is computed more than once in straight-line code is computed once, into a variable.
 * Also what keeps an expression that is a graph (a polynomial in a shared x) from growing into a tree.
 */

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
import { assignedIn } from '../ir/walk.js';
import { whileWith } from './branch.js';
import { Effects, isTrivial, Numbering, type Version } from './numbering.js';

interface Entry {
  uses: number;
  /** The variable that holds it, from its declaration on. */
  variable: Variable | undefined;
}

/** The memory that buffers share, since two of them may be the same; and memory of all kinds. */
const GLOBAL = {};
const ALL = {};

/** What the first walk found where an expression stands: its entry, and whether the value was there before. */
interface Visit {
  readonly entry: Entry | undefined;
  readonly known: boolean;
}

/** Share what a lowered kernel computes more than once: what runs once, and what each block does. */
export function shareCommon(ir: KernelIr): KernelIr {
  const lowered = { ...ir.lowered!, once: eliminateCommon(ir.lowered!.once) };
  return { ...ir, body: eliminateCommon(ir.body), lowered };
}

export function eliminateCommon(body: Statement): Statement {
  const visits: Visit[] = [];
  const effects = new Effects();
  const changes = new Changes(effects);
  new Walk(visits, false, effects, changes).list([body]);
  return block(new Walk(visits, true, effects, changes).list([body]));
}

/**
 * The same walk twice: first it finds equal values and counts their uses, then it rewrites. Both meet the expressions
 * in the same order, so the second need not compare again: the n-th visit of the one is that of the other.
 */
class Walk {
  readonly #visits: Visit[];
  readonly #rewriting: boolean;
  #next = 0;
  readonly #numbering = new Numbering();
  readonly #effects: Effects;
  readonly #changes: Changes;
  /** Variables that have been declared. */
  readonly #seen = new Set<object>();
  readonly #scopes: Map<number, Entry>[] = [new Map()];
  readonly #versions = new Map<object, number>();
  #clock = 0;
  /** Declarations to stand before the current statement. */
  #pending: Statement[] = [];
  readonly #assigned = new Set<Variable>();

  constructor(visits: Visit[], rewriting: boolean, effects: Effects, changes: Changes) {
    this.#visits = visits;
    this.#rewriting = rewriting;
    this.#effects = effects;
    this.#changes = changes;
  }

  list(statements: readonly Statement[]): Statement[] {
    for (const v of assignedIn(statements)) this.#assigned.add(v);
    return statements.flatMap((s) => this.#statement(s));
  }

  #scoped<T>(body: () => T): T {
    this.#scopes.push(new Map());
    const result = body();
    this.#scopes.pop();
    return result;
  }

  #change(o: object): void {
    if (this.#rewriting) return;
    this.#versions.set(o, ++this.#clock);
    this.#numbering.moved();
  }

  /** A variable declared here for the first time held nothing before that anyone could have read. */
  #declared(v: Variable): void {
    if (this.#seen.has(v)) this.#change(v);
    this.#seen.add(v);
  }

  /** All that `statements` may change holds something new. */
  #changeAll(...statements: readonly Node[]): void {
    if (this.#rewriting) return;
    for (const s of statements) {
      for (const o of this.#changes.of(s as Statement)) {
        if (o === ALL || o === GLOBAL || this.#seen.has(o) || !this.#changes.declares(o)) this.#change(o);
      }
    }
  }

  #statement(s: Statement): Statement[] {
    const outer = this.#pending;
    this.#pending = [];
    const result = this.#rebuilt(s);
    const all = [...this.#pending, ...result];
    this.#pending = outer;
    return all;
  }

  #body(s: Node): Statement {
    return block(this.#scoped(() => this.#statement(s as Statement)));
  }

  #rebuilt(s: Statement): Statement[] {
    switch (s.op) {
      case 'block':
        return s.src.flatMap((c) => this.#statement(c as Statement));
      case 'let': {
        const initial = this.#initial(s.src[0] as Expr, this.#assigned.has(s.arg) ? undefined : s.arg);
        if (this.#effects.of(s.src[0]!) === 'acts') this.#change(ALL);
        this.#declared(s.arg);
        return [{ ...s, src: [initial] }];
      }
      case 'if': {
        const condition = this.#expr(s.src[0] as Expr);
        const branches = s.src.slice(1).map((b) => this.#body(b));
        this.#changeAll(...s.src.slice(1));
        return [{ ...s, src: [condition, ...branches] }];
      }
      case 'for': {
        const [start, end, step, body] = s.src;
        const bounds = [start!, end!, step!].map((e) => this.#expr(e as Expr));
        this.#changeAll(body!);
        this.#change(s.arg.variable);
        const inner = this.#body(body!);
        this.#changeAll(body!);
        return [{ ...s, src: [...bounds, inner] }];
      }
      case 'while':
        return [this.#whileLoop(s)];
      default: {
        const src = s.src.map((e) => (e.type.kind === 'value' ? this.#expr(e as Expr) : e));
        this.#changeAll(s);
        return [{ ...s, src } as Statement];
      }
    }
  }

  #whileLoop(s: Extract<Statement, { op: 'while' }>): Statement {
    const [condition, body, update] = s.src;
    this.#changeAll(body!, update!);
    const result = this.#scoped(() => {
      const outer = this.#pending;
      this.#pending = [];
      const test = this.#expr(condition as Expr);
      const before = this.#pending;
      this.#pending = outer;
      const inner = this.#body(body!);
      this.#changeAll(body!);
      const next = this.#body(update!);
      const loop: Statement = { ...s, src: [test, inner, next] };
      return before.length === 0 ? loop : whileWith(before, loop);
    });
    this.#changeAll(body!, update!);
    return result;
  }

  #find(number: number): Entry | undefined {
    for (let i = this.#scopes.length - 1; i >= 0; i--) {
      const entry = this.#scopes[i]!.get(number);
      if (entry) return entry;
    }
    return undefined;
  }

  /** The next visit: looked up by value in the first walk, replayed in the second. */
  #visit(e: Expr): Visit {
    if (this.#rewriting) return this.#visits[this.#next++]!;
    const number = this.#numbering.of(e, this.#version);
    const found = this.#find(number);
    const entry = found ?? (this.#effects.of(e) === 'acts' ? undefined : { uses: 1, variable: undefined });
    if (entry && !found) this.#scopes[this.#scopes.length - 1]!.set(number, entry);
    const visit = { entry, known: found !== undefined };
    this.#visits.push(visit);
    return visit;
  }

  readonly #version: Version = (node) => {
    const all = this.#versions.get(ALL) ?? 0;
    switch (node.op) {
      case 'variable':
        return this.#versions.get(node.arg) ?? 0;
      case 'buffer':
        return Math.max(all, this.#versions.get(GLOBAL) ?? 0);
      case 'array':
        return Math.max(all, this.#versions.get(node.arg) ?? 0);
    }
  };

  /** A declaration's value: later uses of the same value read the declared variable. */
  #initial(e: Expr, variable: Variable | undefined): Expr {
    if (isTrivial(e) || !variable || this.#effects.of(e) === 'acts') return this.#expr(e);
    const { entry, known } = this.#visit(e);
    if (known) return this.#used(e, entry!);
    const value = this.#inside(e);
    entry!.variable = variable;
    return value;
  }

  #expr(e: Expr): Expr {
    if (isTrivial(e)) return e;
    const { entry, known } = this.#visit(e);
    if (known) return this.#used(e, entry!);
    const value = this.#inside(e);
    if (!entry || !this.#rewriting || entry.uses < 2) return value;
    entry.variable = { name: 'shared', type: e.type, constant: true };
    this.#pending.push(declare(entry.variable, value));
    return read(entry.variable);
  }

  #used(e: Expr, entry: Entry): Expr {
    if (!this.#rewriting) entry.uses++;
    return entry.variable ? read(entry.variable) : e;
  }

  #inside(e: Expr): Expr {
    const src = e.src.map((s) => (s.type.kind === 'value' ? this.#expr(s as Expr) : s));
    return { ...e, src } as Expr;
  }
}

/** What statements change: variables and memories, found once per statement. */
class Changes {
  readonly #effects: Effects;
  readonly #known = new Map<Statement, ReadonlySet<object>>();
  readonly #locals = new Set<object>();

  constructor(effects: Effects) {
    this.#effects = effects;
  }

  /** Whether `o` is a variable that a `let` declares. */
  declares(o: object): boolean {
    return this.#locals.has(o);
  }

  of(s: Statement): ReadonlySet<object> {
    let found = this.#known.get(s);
    if (!found) {
      found = this.#find(s);
      this.#known.set(s, found);
    }
    return found;
  }

  #find(s: Statement): Set<object> {
    const found = new Set<object>();
    if (s.op === 'let') this.#locals.add(s.arg);
    if (s.op === 'set' || s.op === 'let') found.add(s.arg);
    if (s.op === 'for') found.add(s.arg.variable);
    if (s.op === 'store') found.add(memoryKey(s.src[0]!));
    if (s.op === 'effect') found.add(ALL);
    for (const c of s.src) {
      if (c.type.kind === 'none') for (const o of this.of(c as Statement)) found.add(o);
      else if (this.#effects.of(c) === 'acts') found.add(ALL);
    }
    return found;
  }
}

const memoryKey = (memory: Node): object => (memory.op === 'array' ? memory.arg : GLOBAL);
