/** Asynchronous stores: what a GPU's copy instruction can do. */
import type { Expr, Statement } from './ir.js';

/** The load that is stored, and the condition without which zeros are. */
export interface AsyncCopy {
  readonly loaded: Extract<Expr, { op: 'load' }>;
  readonly condition: Expr | undefined;
}

/** The copy from global memory that an asynchronous store is; undefined if its value has become another. */
export function asyncCopyOf(store: Extract<Statement, { op: 'store' }>): AsyncCopy | undefined {
  const value = store.src[1] as Expr;
  const [condition, loaded, zero] = (value.op === 'select' ? value.src : [undefined, value]) as Expr[];
  if (loaded?.op !== 'load' || loaded.src[0]!.op !== 'buffer') return undefined;
  if (condition && (condition.type.lanes > 1 || !isZero(zero!))) return undefined;
  return { loaded, condition };
}

const isZero = (e: Expr): boolean =>
  e.op === 'const' ? Number(e.arg) === 0 : e.op === 'splat' && isZero(e.src[0] as Expr);
