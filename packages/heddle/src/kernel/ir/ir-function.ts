/**
 * A device function that builds IR instead of being parsed: how the scheduler hands fused work to a hand-written
 * kernel. Passed as a constant, called in the kernel like any helper: `y[i] = finish(acc, row, column)`.
 */
import { topological } from '../../core/node.js';
import { type ArrayDecl, type Expr, type Node, read, type Statement, type Variable } from './ir.js';
import type { ValueType } from './types.js';

export interface IrFunction {
  readonly kind: 'ir-function';
  /**
   * The value of a call. Arguments arrive as expressions without side effects, cheap to repeat; `emit` puts a
   * statement before the one that holds the call, `reserve` gives the kernel an array that these use.
   */
  readonly build: (
    args: readonly Expr[],
    emit: (statement: Statement) => void,
    reserve: (array: ArrayDecl) => void,
  ) => Expr;
  /** For the type checker of kernels: calling it gives a number. An array of the thread's stands for all its elements. */
  (...args: readonly (number | object)[]): number;
}

/** Make one. Its type says it can be called; only kernels may. */
export function irFunction(build: IrFunction['build']): IrFunction {
  const outside = (): number => {
    throw new TypeError('an IR function is called inside a kernel only');
  };
  return Object.assign(outside, { kind: 'ir-function', build } as const);
}

/**
 * Whether a call does nothing but give a value, and reads memory only at places that `valid` arguments and constants say: then it
 * may be made with any others.
 * @param types of the arguments @param valid their numbers
 */
export function isSafeCall(
  { build }: IrFunction,
  types: readonly ValueType[],
  valid: readonly number[],
): boolean {
  const statements: Statement[] = [];
  const args = types.map((type, i): Variable => ({ name: `a${i}`, type, constant: true }));
  const result = build(
    args.map((arg) => read(arg)),
    (statement) => statements.push(statement),
    () => {},
  );
  const isValid = (n: Node): boolean => n.op !== 'variable' || valid.includes(args.indexOf(n.arg));
  const isSafe = ({ op, src }: Node): boolean =>
    src.every((s) => s.op !== 'buffer') ||
    (op === 'load' && topological<Node>(src.slice(1) as Node[]).every(isValid));
  return (
    statements.every(({ op }) => op === 'let') && topological<Node>([result, ...statements]).every(isSafe)
  );
}

export const isIrFunction = (v: unknown): v is IrFunction =>
  typeof v === 'function' && (v as { kind?: unknown }).kind === 'ir-function';
