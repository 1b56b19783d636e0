/** What the kernels of attention are given. */
import type { DType } from '../../core/dtype.js';
import type { KernelIo, View } from '../../graph/fused-op.js';
import { type AttentionArg, optionalSources } from './arg.js';
import type { DropoutProblem } from './dropout.js';

/** A source of four dimensions as it lies, in elements. */
export interface RowsLayout {
  readonly offset: number;
  readonly batch: number;
  readonly head: number;
  readonly row: number;
  readonly column: number;
}

/** Whether a query may attend to a key, or what is added to their score. */
export interface MaskLayout extends RowsLayout {
  readonly dtype: DType;
}

export interface AttentionProblem {
  readonly dtype: DType;
  readonly batch: number;
  /** Of queries, and of keys and values. */
  readonly heads: number;
  readonly keyHeads: number;
  readonly queries: number;
  readonly keys: number;
  /** Of a row of queries, keys and values: the head dimension. */
  readonly width: number;
  readonly isCausal: boolean;
  readonly scale: number;
  readonly q: RowsLayout;
  readonly k: RowsLayout;
  readonly v: RowsLayout;
  readonly mask: MaskLayout | undefined;
  readonly dropout: DropoutProblem | undefined;
}

/** The problem of a gradient. */
export interface GradientProblem extends AttentionProblem {
  /** Of the output, which is (B, L, H, V). */
  readonly g: RowsLayout;
}

/** A tensor (B, L, H, X) as its rows lie: a result, or the gradient of one. */
export function rowsOf(view: View): RowsLayout {
  const { batch, head: row, row: head, column, offset } = layoutOf(view);
  return { batch, head, row, column, offset };
}

/** Whether a result, stored by pairs of features, can lie so. */
export const suitsPairs = ({ strides, offset }: View): boolean =>
  strides.at(-1) === 1 && [...strides.slice(0, -1), offset].every((n) => n % 2 === 0);

const layoutOf = ({ strides, offset }: View): RowsLayout => {
  const [batch, head, row, column] = strides as readonly [number, number, number, number];
  return { offset, batch, head, row, column };
};

function problemOf(
  [q, k, v]: readonly [View, View, View],
  last: readonly View[],
  arg: AttentionArg,
): AttentionProblem {
  const { isCausal, scale, dropout } = arg;
  const { mask, counter } = optionalSources(last, arg);
  const [batch, heads, queries, width] = q.shape as readonly [number, number, number, number];
  return {
    ...{ dtype: q.dtype, batch, heads, queries, width, isCausal, scale },
    keyHeads: k.shape[1]!,
    keys: k.shape[2]!,
    ...{ q: layoutOf(q), k: layoutOf(k), v: layoutOf(v) },
    mask: mask && { ...layoutOf(mask), dtype: mask.dtype },
    dropout: dropout && { ...dropout, offset: counter!.offset },
  };
}

/** Of sources q, k, v, and perhaps others. */
export const attentionProblem = (
  { inputs: [q, k, v, ...last] }: KernelIo,
  arg: AttentionArg,
): AttentionProblem => problemOf([q!, k!, v!], last, arg);

/** Of sources g, q, k, v, log-sum-exp, the mean of weights' gradients, and perhaps others. */
export function gradientProblem(
  { inputs: [g, q, k, v, , , ...last] }: KernelIo,
  arg: AttentionArg,
): GradientProblem {
  return { ...problemOf([q!, k!, v!], last, arg), g: rowsOf(g!) };
}
