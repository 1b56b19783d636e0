/** What the renderers of memory and of wide vectors ask of that of expressions (expressions.ts), which calls them. */
import type { DType } from '../../core/dtype.js';
import type { Expr, Variable } from '../../kernel/ir/ir.js';
import type { ScalarOp } from '../../kernel/ir/ops.js';
import type { FunctionBuilder, Local } from './encode.js';

export interface WasmEmitter {
  readonly f: FunctionBuilder;
  readonly variables: ReadonlyMap<Variable, readonly Local[]>;
  /** The locals of a variable, declared the first time: one, or one per lane if it is wide. */
  variable(v: Variable): readonly Local[];
  /** Compute `e` into `to`. All of a wide value is computed before any of it is set. */
  into(e: Expr, to: readonly Local[]): void;
  /** Push a value that is not wide. */
  push(e: Expr): void;
  /** Compute a wide value into locals, one per lane. */
  wide(e: Expr): readonly Local[];
  /** Compute a value that is not wide into a fresh local. */
  keep(e: Expr): Local;
  /** One lane of an op. */
  apply(name: ScalarOp, t: DType, operands: readonly (() => void)[], safeDivisor: boolean): void;
  /** [vector] → its lane. */
  extract(t: DType, lane: number): void;
  /** [scalar] → its bits as another dtype of the same size. */
  reinterpret(from: DType, to: DType): void;
}
