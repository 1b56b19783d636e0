/** What is selected, as by max pooling, as bytes. */
import * as b from '../../graph/build.js';
import { callOf, type FusedOp, type OfIntegers } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { Quantized } from './arg.js';

/**
 * Rounding what was selected as the selection of what is rounded first: kernels before it then store bytes. Both give the same,
 * as rounding never decreases; only a window that holds NaN gives its largest byte instead of 0.
 */
export function selectedOfRounded(
  rounding: FusedOp<Quantized>,
  [x, ...by]: readonly GraphNode[],
  to: Quantized,
): OfIntegers | undefined {
  if (x!.isLeaf || x!.op !== 'call' || to.dtype !== 'i8' || by[0]!.size !== 1) return undefined;
  const { op, arg } = callOf(x!);
  // Windows side by side are where the values are made.
  if (!op.selects?.(arg) || op.windows?.(arg, x!)) return undefined;
  const values = b.call(op, [b.call(rounding, [x!.src[0]!, ...by], to)], arg);
  return { sums: values, values };
}
