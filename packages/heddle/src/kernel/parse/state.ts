/** One translation of a kernel: where in the source it is, and the statements made so far. */
import type { Statement as AstStatement, Expression } from 'acorn';
import { KernelError, type Location } from '../../core/errors.js';
import { type ArrayDecl, declare, type Expr, read, type Statement, type Variable } from '../ir/ir.js';
import type { ValueType } from '../ir/types.js';
import { type Captured, SourcePlace } from './capture.js';
import { type Fact, typeIn } from './facts.js';
import { fromExpr, Scope, type Syntax, type Value } from './values.js';

/**
 * How expressions and statements are translated. They contain each other (a call holds a function, a function holds
 * statements), so the translators of the parts reach both through `Parsing`; parse.ts assembles them.
 */
export interface Translator {
  readonly expression: (p: Parsing, node: Expression) => Value;
  readonly statement: (p: Parsing, node: AstStatement) => void;
}

/** A variable that is being assigned and whose type is not known yet. */
interface OpenTarget {
  readonly variable: Variable;
  /** The place by which its type may become a fact. */
  readonly open: string;
}

/** Where in the source the translation is. */
interface Around {
  readonly scope: Scope;
  /** The function: the kernel, or one that is inlined. */
  readonly source: Captured;
  /** Inlined calls around this point: the key of each place inside includes it. */
  readonly path: string;
  /** How many these are. */
  readonly depth: number;
  /** The innermost loop of the function: `break` and `continue` may leave it unless it is unrolled. */
  readonly loop?: 'loop' | 'unrolled' | undefined;
  /** Whether it depends on values if this point is reached. */
  readonly isConditional: boolean;
  /** The name that the value being translated will get. */
  readonly naming?: string | undefined;
  readonly target?: OpenTarget | undefined;
}

/** What the source gives a kernel: fixed for all its translations. */
export interface TranslationInput {
  readonly kernel: Captured;
  /** The parameters and the context. */
  readonly given: readonly Extract<Value, { kind: 'record' }>[];
  readonly translator: Translator;
}

/** Ends a translation that misses a fact. Nobody sees it, and there are many: one has a stack trace for all. */
const UNRESOLVED = new KernelError('a fact is missing');

export class Parsing {
  readonly arrays = new Map<string, ArrayDecl>();
  readonly #origin: TranslationInput;
  readonly #facts: Map<string, Fact['is']>;
  /** Changed by `within` and `nested` alone. */
  #around: Around;
  /** The statements of the innermost block; changed by `nested` alone. */
  #out: Statement[] = [];
  /** Variables that nobody wrote or can name: they keep results until they are used. */
  readonly #kept = new Set<Variable>();
  /** The facts that variables may need, by their keys: types of those made of literals, loops that count with them. */
  readonly #open = new Map<Variable, string>();
  readonly #counters = new Map<Variable, string>();
  /** Places that have been translated without their fact. */
  readonly #withoutFact = new Set<string>();
  #missing: Fact | undefined;

  /** @param facts to which a translation adds those that it has found on its way */
  constructor(origin: TranslationInput, facts: Map<string, Fact['is']>) {
    this.#origin = origin;
    this.#facts = facts;
    this.#around = { scope: new Scope(), source: origin.kernel, path: '', depth: 0, isConditional: false };
  }

  /** The fact that would resolve the error this translation has ended with. */
  get missing(): Fact | undefined {
    return this.#missing;
  }

  get kernel(): Captured {
    return this.#origin.kernel;
  }
  get given(): TranslationInput['given'] {
    return this.#origin.given;
  }
  get around(): Around {
    return this.#around;
  }
  get scope(): Scope {
    return this.#around.scope;
  }
  get source(): Captured {
    return this.#around.source;
  }
  get out(): readonly Statement[] {
    return this.#out;
  }

  /** Translate an expression, with the statements that it takes. */
  expression(node: Expression): Value {
    return this.#origin.translator.expression(this, node);
  }

  /** Translate a statement. */
  statement(node: AstStatement): void {
    this.#origin.translator.statement(this, node);
  }

  /** Give the kernel an array that no source declares. */
  reserve(array: ArrayDecl): void {
    if (![...this.arrays.values()].includes(array)) this.arrays.set(`reserved ${this.arrays.size}`, array);
  }

  // ── Places ───────────────────────────────────────────────────────────────────────────────────────────────────

  at(node: Syntax): Location {
    const { places, origin, shift } = this.source;
    let place = places.get(node.start);
    if (!place) {
      place = new SourcePlace(origin, node.start - shift);
      places.set(node.start, place);
    }
    return place;
  }

  textOf(node: Syntax): string {
    return this.source.text.slice(node.start - this.source.shift, node.end - this.source.shift);
  }

  /** A place of the source within the calls that lead to it. */
  key(node: Syntax): string {
    return `${this.#around.path}@${node.start}`;
  }

  /** @param resolvedBy the fact that resolves the error: the kernel is translated again with it */
  fail(node: Syntax, message: string, resolvedBy?: Fact): never {
    this.#missing = resolvedBy;
    throw resolvedBy ? UNRESOLVED : new KernelError(message, this.at(node));
  }

  readonly isKnown = (name: string): boolean => this.scope.get(name) !== undefined;

  /** Translate something in other surroundings. */
  within<T>(changes: Partial<Around>, translate: () => T): T {
    const outer = this.#around;
    this.#around = { ...outer, ...changes };
    const result = translate();
    this.#around = outer;
    return result;
  }

  /** Translate something in its own block; its statements and its result. */
  nested<T>(
    translate: () => T,
    changes: Partial<Around> = {},
  ): { readonly statements: Statement[]; readonly result: T } {
    const [out, around] = [this.#out, this.#around];
    const statements: Statement[] = [];
    this.#out = statements;
    this.#around = { ...around, ...changes, scope: new Scope(around.scope) };
    const result = translate();
    this.#around = around;
    this.#out = out;
    return { statements, result };
  }

  /** As `nested`, where it depends on values whether it happens. */
  conditional<T>(translate: () => T): { readonly statements: Statement[]; readonly result: T } {
    return this.nested(translate, { isConditional: true });
  }

  /**
   * Translate what a fact of that key can change, and once more if that is the fact it misses. Nothing before it depends on
   * the fact, unless the same place has been translated without it (in a round of a loop that is unrolled): only then the
   * kernel is translated again from its beginning. `translate` adds statements to those made so far, and changes none of them.
   */
  attempt<T>(key: string, translate: () => T): T {
    const [around, out, statements, arrays] = [this.#around, this.#out, this.#out.length, this.arrays.size];
    try {
      const made = translate();
      if (!this.#facts.has(key)) this.#withoutFact.add(key);
      return made;
    } catch (error) {
      if (this.#missing?.key !== key || this.#withoutFact.has(key)) throw error;
      this.#facts.set(key, this.#missing.is);
      this.#missing = undefined;
      this.#around = around;
      this.#out = out;
      out.length = statements;
      for (const name of [...this.arrays.keys()].slice(arrays)) this.arrays.delete(name);
      return translate();
    }
  }

  // ── Statements, and values that they keep ────────────────────────────────────────────────────────────────────

  emit(...statements: readonly Statement[]): void {
    this.#out.push(...statements);
  }

  /** Keep an expression's value in a fresh variable. */
  keep(expr: Expr, name = 't', constantForGood = true): Variable {
    const variable: Variable = { name, type: expr.type, constant: constantForGood };
    this.emit(declare(variable, expr, expr.at));
    this.#kept.add(variable);
    return variable;
  }

  /** An expression that may be used many times: itself if it is a leaf that nothing changes, else a variable. */
  repeatable(expr: Expr, name = 't'): Expr {
    return expr.src.length === 0 && isStable(expr) ? expr : read(this.keep(expr, name), expr.at);
  }

  /** `repeatable` for good: what a name of the author's will stand for. */
  lasting(expr: Expr, name: string): Expr {
    const lasting = this.repeatable(expr, name);
    if (lasting.op === 'variable') this.#kept.delete(lasting.arg);
    return lasting;
  }

  /** A variable of the author's that begins with the value of an expression and may be set. */
  settable(expr: Expr, name: string): Variable {
    const variable = this.keep(expr, name, false);
    this.#kept.delete(variable);
    return variable;
  }

  /** What a variable will be declared with: if it was kept by the last statement, that statement is not needed. */
  takeResult(expr: Expr): Expr {
    const last = this.#out.at(-1);
    const isLast = expr.op === 'variable' && last?.op === 'let' && last.arg === expr.arg;
    return (isLast && this.takeLast()) || expr;
  }

  /** The value that the last statement keeps for later; the statement goes. */
  takeLast(): Expr | undefined {
    const last = this.#out.at(-1);
    if (last?.op !== 'let' || !this.#kept.has(last.arg)) return undefined;
    this.#out.pop();
    return last.src[0] as Expr;
  }

  /** A value that statements to come do not change: itself, or kept in a variable. */
  settle(v: Value, name = 't'): Value {
    const variable = this.#settled(v, name);
    if (!variable) return v;
    this.emit(declare(...variable));
    return fromExpr(read(variable[0], variable[1].at));
  }

  /** The variable that keeps a value which could change, and its initial value. */
  #settled(v: Value, name = 't'): readonly [Variable, Expr] | undefined {
    if (v.kind !== 'expr' && v.kind !== 'flexible') return undefined;
    const type = v.kind === 'flexible' ? this.typeAt(v.key) : undefined;
    const expr = v.kind === 'expr' ? v.expr : v.make(type?.dtype ?? v.natural);
    if (isStable(expr)) return undefined;
    const variable: Variable = { name, type: expr.type, constant: true };
    if (v.kind === 'flexible' && !type) this.#open.set(variable, v.key);
    const { target } = this.#around;
    if (target && expr.op === 'variable' && expr.arg === target.variable)
      this.#open.set(variable, target.open);
    return [variable, expr];
  }

  /**
   * Translate operands in their order. If a later one makes statements (an inlined call, an atomic), what stands
   * before it and could be changed by them is computed first.
   */
  inOrder(operands: readonly (() => Value)[]): Value[] {
    const values: Value[] = [];
    for (const operand of operands) {
      let mark = this.#out.length;
      const next = operand();
      if (this.#out.length > mark) {
        values.forEach((earlier, i) => {
          const variable = this.#settled(earlier);
          if (!variable) return;
          this.#out.splice(mark++, 0, declare(...variable));
          values[i] = fromExpr(read(variable[0], variable[1].at));
        });
      }
      values.push(next);
    }
    return values;
  }

  // ── Facts ────────────────────────────────────────────────────────────────────────────────────────────────────

  /** The type of the variable declared there with literals, if it is known. */
  typeAt(key: string): ValueType | undefined {
    return typeIn(this.#facts, key);
  }

  isUnrolled(key: string): boolean {
    return this.#facts.has(key);
  }

  /** Whether a call is made for each side of this choice among its arguments. */
  isSplit(node: Syntax): boolean {
    return this.#facts.get(this.key(node)) === 'split';
  }

  /** The fact that would make a choice with that key a constant; none if it is known. */
  splitBy(key: string): Fact | undefined {
    return this.#facts.has(key) ? undefined : { key, is: 'split' };
  }

  /** A loop with constant bounds, which could be unrolled, counts with `variable`. */
  counts(variable: Variable, loop: string): void {
    this.#counters.set(variable, loop);
  }

  /** The fact that would make `expr` a constant: a loop on whose variable it depends is unrolled. */
  constantBy(expr: Expr): Fact | undefined {
    const key = expr.op === 'variable' ? this.#counters.get(expr.arg) : undefined;
    if (key !== undefined) return { key, is: 'unrolled' };
    return first(expr.src, (source) => this.constantBy(source as Expr));
  }

  /** The fact that would give `expr` another type: a variable made of literals, on which its type depends, has that. */
  typedBy(expr: Expr, type: ValueType): Fact | undefined {
    const key = expr.op === 'variable' ? this.#open.get(expr.arg) : undefined;
    if (key !== undefined) return { key, is: type };
    if (expr.op !== 'alu' && expr.op !== 'select' && expr.op !== 'splat') return undefined;
    return first(expr.src as readonly Expr[], (source) =>
      source.type.dtype === expr.type.dtype ? this.typedBy(source, type) : undefined,
    );
  }
}

/** The first of what `find` finds. */
function first<T, R>(all: readonly T[], find: (one: T) => R | undefined): R | undefined {
  for (const one of all) {
    const found = find(one);
    if (found !== undefined) return found;
  }
  return undefined;
}

const stable = new WeakMap<Expr, boolean>();

/** Whether no statement can change the value of `expr`. */
export function isStable(expr: Expr): boolean {
  if (expr.op === 'load') return false;
  if (expr.op === 'variable') return expr.arg.constant;
  if (expr.src.length === 0) return true;
  let known = stable.get(expr);
  if (known === undefined) {
    known = (expr.src as readonly Expr[]).every(isStable);
    stable.set(expr, known);
  }
  return known;
}
