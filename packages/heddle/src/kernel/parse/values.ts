/** What names and expressions of the source stand for. */
import type { Node as AstNode, Expression, Pattern, PrivateIdentifier, Program } from 'acorn';
import type { DType } from '../../core/dtype.js';
import type { Expr, MemoryNode, Variable } from '../ir/ir.js';
import type { IrFunction } from '../ir/ir-function.js';
import type { Lanes } from '../ir/types.js';
import type { Captured, FunctionNode } from './capture.js';

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
      /** Its place, by which its type may be a fact. */
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

export type RecordValue = Extract<Value, { kind: 'record' }>;

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
      readonly variable: Variable;
      /** The place by which its type may become a fact. */
      readonly open?: string;
    };

export class Scope {
  /** None until something is declared: most blocks declare nothing. */
  #names: Map<string, Binding> | undefined;
  readonly #outer: Scope | undefined;
  constructor(outer?: Scope) {
    this.#outer = outer;
  }
  get(name: string): Binding | undefined {
    return this.#names?.get(name) ?? this.#outer?.get(name);
  }
  set(name: string, binding: Binding): void {
    this.#names ??= new Map();
    this.#names.set(name, binding);
  }
  /** All names that are known here. */
  names(): string[] {
    return [...(this.#names?.keys() ?? []), ...(this.#outer?.names() ?? [])];
  }
}
