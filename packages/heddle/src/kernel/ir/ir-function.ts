/**
 * A device function that builds IR instead of being parsed: how the scheduler hands fused work to a hand-written
 * kernel. Passed as a constant, called in the kernel like any helper: `y[i] = finish(acc, row, column)`.
 */
import type { Expr, Statement } from './ir.js';

export interface IrFunction {
  readonly kind: 'ir-function';
  /**
   * The value of a call. Arguments arrive as expressions without side effects, cheap to repeat; `emit` puts a
   * statement before the one that holds the call.
   */
  readonly build: (args: readonly Expr[], emit: (statement: Statement) => void) => Expr;
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

export const isIrFunction = (v: unknown): v is IrFunction =>
  typeof v === 'function' && (v as { kind?: unknown }).kind === 'ir-function';
