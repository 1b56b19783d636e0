/** What the parser knows at a point of the source: names and their meanings, and the statements made so far. */
import type {
  Node as AstNode,
  Statement as AstStatement,
  Expression,
  Pattern,
  PrivateIdentifier,
  Program,
} from 'acorn';
import type { DType } from '../../core/dtype.js';
import { KernelError, type Location } from '../../core/errors.js';
import {
  type ArrayDecl,
  declare,
  type Expr,
  type MemoryNode,
  read,
  type Statement,
  type Variable,
} from '../ir/ir.js';
import type { IrFunction } from '../ir/ir-function.js';
import type { Lanes, ValueType } from '../ir/types.js';
import { type Captured, type FunctionNode, Place } from './capture.js';

/** Any acorn node that has a place in the source. */
export type Syntax = AstNode | Expression | Pattern | PrivateIdentifier | Program;

/** What an expression of the source stands for. */
export type Value =
  /** Something computed by the kernel. */
  | { readonly kind: 'expr'; readonly expr: Expr }
  /** Known when the kernel is compiled: a number or boolean without a dtype yet, a dtype, an array of numbers… */
  | { readonly kind: 'static'; readonly value: unknown }
  /** Made of literals only, so it takes the dtype that its context asks for: `c ? 1 : 0`, `splat4(0)`. */
  | {
      readonly kind: 'flexible';
      readonly natural: DType;
      readonly lanes: Lanes;
      readonly make: (dtype: DType) => Expr;
      /** Its place, for `Parsing.settle`. */
      readonly key: string;
    }
  | { readonly kind: 'memory'; readonly memory: MemoryNode; readonly name: string }
  /** Names with meanings: the parameters, the context, `globalId`. */
  | {
      readonly kind: 'record';
      readonly name: string;
      /** What there is to get, for errors. */
      readonly names: readonly string[];
      readonly get: (name: string) => Value | undefined;
    }
  /** A function of the language: `barrier`, `Math.exp`. */
  | { readonly kind: 'builtin'; readonly name: string }
  /** A function of the author's, to be inlined. */
  | {
      readonly kind: 'function';
      readonly name: string;
      readonly node: FunctionNode;
      readonly source: Captured;
      readonly scope: Scope;
    }
  /** A function that builds its result as IR. */
  | { readonly kind: 'ir-function'; readonly name: string; readonly build: IrFunction['build'] }
  /** The result of a call that has none. */
  | { readonly kind: 'void' };

export const fromExpr = (expr: Expr): Value => ({ kind: 'expr', expr });
export const fromStatic = (value: unknown): Value => ({ kind: 'static', value });
export const VOID: Value = { kind: 'void' };

/** What a name stands for: a value for good, or a variable that statements set. */
export type Binding =
  | Value
  /** Taken from the parameters or the context, which have no such name: an error once it is used. */
  | { readonly kind: 'missing'; readonly name: string; readonly from: Value }
  | {
      readonly kind: 'variable';
      readonly variable: Variable /** See `Parsing.decide`. */;
      readonly open?: string;
    };

export class Scope {
  readonly #names = new Map<string, Binding>();
  readonly #outer: Scope | undefined;
  constructor(outer?: Scope) {
    this.#outer = outer;
  }
  get(name: string): Binding | undefined {
    return this.#names.get(name) ?? this.#outer?.get(name);
  }
  set(name: string, binding: Binding): void {
    this.#names.set(name, binding);
  }
  /** All names that are known here. */
  names(): string[] {
    return [...this.#names.keys(), ...(this.#outer?.names() ?? [])];
  }
}

/** Something learned on the way changes what was parsed before it: begin again, knowing it. */
export class Restart extends Error {}

/** What restarts have taught, by the place they are about. */
export interface Lessons {
  /** Types of `let`s whose initial value is a bare literal, from the first typed value assigned to them. */
  readonly types: Map<string, ValueType>;
  /** Loops whose variable must be known at compile time. */
  readonly unrolled: Set<string>;
}

/**
 * How expressions and statements are translated. They contain each other (a call holds a function, a function holds
 * statements), so the translators of the parts reach both through `Parsing`; parse.ts assembles them.
 */
export interface Translator {
  readonly expression: (p: Parsing, node: Expression) => Value;
  readonly statement: (p: Parsing, node: AstStatement) => void;
}

/** The state of one pass over a kernel. */
export class Parsing {
  scope = new Scope();
  /** The parameters and the context of the kernel. */
  given: readonly Extract<Value, { kind: 'record' }>[] = [];
  /** The statements of the innermost block. */
  out: Statement[] = [];
  readonly arrays = new Map<string, ArrayDecl>();
  readonly lessons: Lessons;
  /** Loops around this point that `break` and `continue` may leave; 'unrolled' ones they may not. */
  loops: ('loop' | 'unrolled')[] = [];
  /** Variables that nobody wrote or can name: they keep results until they are used. */
  readonly kept = new Set<Variable>();
  /** Variables of counted loops with constant bounds, by the loop's key. */
  readonly counters = new Map<Variable, string>();
  /** The variable that is being assigned, if its type is still open. */
  target: { readonly variable: Variable; readonly open: string } | undefined;
  /** Variables whose initial value is made of literals: they take the type of the first typed value they meet. */
  readonly openConstants = new Map<Variable, string>();
  /** The name that the value being parsed will get. */
  naming: string | undefined;
  /** Inlined calls around this point: the key of each place inside includes it. */
  path = '';
  depth = 0;
  /** Sides of ifs and choices around this point. */
  conditions = 0;
  /** The function being parsed: the kernel, or one that is inlined. */
  source: Captured;
  readonly kernel: Captured;
  readonly #translator: Translator;

  constructor(source: Captured, lessons: Lessons, translator: Translator) {
    this.source = source;
    this.kernel = source;
    this.lessons = lessons;
    this.#translator = translator;
  }

  /** Translate an expression, with the statements that it takes. */
  expression(node: Expression): Value {
    return this.#translator.expression(this, node);
  }

  /** Translate a statement. */
  statement(node: AstStatement): void {
    this.#translator.statement(this, node);
  }

  at(node: Syntax): Location {
    return new Place(this.source.origin, node.start - this.source.shift);
  }

  textOf(node: Syntax): string {
    return this.source.text.slice(node.start - this.source.shift, node.end - this.source.shift);
  }

  fail(node: Syntax, message: string): never {
    throw new KernelError(message, this.at(node));
  }

  emit(statement: Statement): void {
    this.out.push(statement);
  }

  /** A place of the source within the calls that lead to it. */
  key(node: Syntax): string {
    return `${this.path}@${node.start}`;
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
    const type = v.kind === 'flexible' ? this.lessons.types.get(v.key) : undefined;
    const expr = v.kind === 'expr' ? v.expr : v.make(type?.dtype ?? v.natural);
    if (isStable(expr)) return undefined;
    const variable: Variable = { name, type: expr.type, constant: true };
    if (v.kind === 'flexible' && !type) this.openConstants.set(variable, v.key);
    if (this.target && expr.op === 'variable' && expr.arg === this.target.variable)
      this.openConstants.set(variable, this.target.open);
    return [variable, expr];
  }

  readonly isKnown = (name: string): boolean => this.scope.get(name) !== undefined;

  /** Run `parse` in its own block; its statements and its result. */
  nested<T>(parse: () => T): { readonly statements: Statement[]; readonly result: T } {
    const { out, scope } = this;
    this.out = [];
    this.scope = new Scope(scope);
    try {
      const result = parse();
      return { statements: this.out, result };
    } finally {
      this.out = out;
      this.scope = scope;
    }
  }

  /** As `nested`, where it depends on values whether what is parsed happens. */
  conditional<T>(parse: () => T): { readonly statements: Statement[]; readonly result: T } {
    this.conditions++;
    try {
      return this.nested(parse);
    } finally {
      this.conditions--;
    }
  }

  /** Keep an expression's value in a fresh variable. */
  keep(expr: Expr, name = 't', constantForGood = true): Variable {
    const variable: Variable = { name, type: expr.type, constant: constantForGood };
    this.emit(declare(variable, expr, expr.at));
    this.kept.add(variable);
    return variable;
  }

  /** An expression that may be used many times: itself if it is a leaf that nothing changes, else a variable. */
  repeatable(expr: Expr, name = 't'): Expr {
    return expr.src.length === 0 && isStable(expr) ? expr : read(this.keep(expr, name), expr.at);
  }

  /** `repeatable` for good: what a name of the author's will stand for. */
  lasting(expr: Expr, name: string): Expr {
    const lasting = this.repeatable(expr, name);
    if (lasting.op === 'variable') this.kept.delete(lasting.arg);
    return lasting;
  }

  /** What a variable will be declared with: if it was kept by the last statement, that statement is not needed. */
  takeResult(expr: Expr): Expr {
    const last = this.out.at(-1);
    if (expr.op !== 'variable' || last?.op !== 'let' || last.arg !== expr.arg || !this.kept.has(expr.arg))
      return expr;
    this.out.pop();
    return last.src[0] as Expr;
  }

  /**
   * Parse operands in their order. If a later one makes statements (an inlined call, an atomic), what stands
   * before it and could be changed by them is computed first.
   */
  inOrder(operands: readonly (() => Value)[]): Value[] {
    const values: Value[] = [];
    for (const operand of operands) {
      let mark = this.out.length;
      const next = operand();
      if (this.out.length > mark) {
        values.forEach((earlier, i) => {
          const variable = this.#settled(earlier);
          if (!variable) return;
          this.out.splice(mark++, 0, declare(...variable));
          values[i] = fromExpr(read(variable[0], variable[1].at));
        });
      }
      values.push(next);
    }
    return values;
  }

  /** A constant is needed: if it depends on a loop variable, begin again with that loop unrolled. */
  unrollFor(expr: Expr): void {
    const key = expr.op === 'variable' ? this.counters.get(expr.arg) : undefined;
    if (key !== undefined) {
      this.lessons.unrolled.add(key);
      throw new Restart();
    }
    for (const source of expr.src) this.unrollFor(source as Expr);
  }

  /** If the type of `expr` comes from a variable made of literals, that gets the dtype of `type`: begin again. */
  adapt(expr: Expr, type: ValueType): void {
    const key = expr.op === 'variable' ? this.openConstants.get(expr.arg) : undefined;
    if (key !== undefined) this.decide(key, type);
    if (expr.op !== 'alu' && expr.op !== 'select' && expr.op !== 'splat') return;
    for (const source of expr.src as readonly Expr[]) {
      if (source.type.dtype === expr.type.dtype) this.adapt(source, type);
    }
  }

  /** Decide the type of a variable that was open, and begin again. */
  decide(open: string, type: ValueType): never {
    this.lessons.types.set(open, type);
    throw new Restart();
  }
}

const stable = new WeakMap<Expr, boolean>();

/** Whether no statement can change the value of `expr`. */
export function isStable(expr: Expr): boolean {
  let known = stable.get(expr);
  if (known === undefined) {
    const settled = expr.op !== 'load' && (expr.op !== 'variable' || expr.arg.constant);
    known = settled && (expr.src as readonly Expr[]).every(isStable);
    stable.set(expr, known);
  }
  return known;
}
