/** Cross-entropy of logits against class labels: −log softmax(logits)[label], row by row. */
import { f32, i32, requireFloats } from '../../core/dtype.js';
import { DTypeError, ShapeError } from '../../core/errors.js';
import { formatShape } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp, KernelChoice, KernelIo } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { IrFunction } from '../../kernel/ir/ir-function.js';
import { crossEntropyGradientRows, crossEntropyRows, LONGEST, type RowsProblem } from '../softmax/cpu.js';
import { softmax } from '../softmax/op.js';
import { stage } from '../stage.js';
import type { Tiled } from '../tiled.js';

/** (N, C), i32 (N) → (N, C): whether a class is the row's label. */
const isLabel = (logits: GraphNode, labels: GraphNode): GraphNode =>
  b.map('eq', b.iota(logits.shape, 1), b.reshape(labels, [logits.shape[0]!, 1]));

/** A kernel that takes one row of logits, and its label, per block. */
const rowsOnCpu = (
  name: string,
  build: (problem: RowsProblem, labelsAt: number, finish: IrFunction) => Tiled,
): KernelChoice<null> => ({
  name,
  when: ({ model }, { dtype, size, src }) =>
    model === 'blocks' && dtype === f32 && size > 0 && src[0]!.shape[1]! <= LONGEST,
  finishes: true,
  plan: ({ inputs: [logits, labels], output, finish }: KernelIo) => {
    const [rows, columns] = logits!.shape as [number, number];
    const problem = { rows, columns, offset: logits!.offset };
    const rowsOf = build(problem, labels!.offset, finish(output.shape));
    return [stage(rowsOf, { input: 0 }, { input: 1 }, { output: true })];
  },
});

/** (N, C), i32 (N) → (N): the loss of each row; NaN where the label is outside 0 … C−1. */
export const crossEntropyOp: FusedOp<null> = {
  name: 'crossEntropy',
  infer: ([logits]) => ({ shape: [logits!.shape[0]!], dtype: logits!.dtype }),
  compose: ([logits, labels]) =>
    b.widened((logits) => {
      const [rows, classes] = logits.shape as [number, number];
      const p = softmax(logits, 1, true);
      const picked = b.gather(p, b.reshape(labels!, [rows, 1]), 1);
      const loss = b.reshape(b.neg(picked), [rows]);
      const low = b.map('ge', labels!, b.like(labels!, 0));
      const high = b.map('lt', labels!, b.like(labels!, classes));
      return b.where(b.map('and', low, high), loss, b.like(loss, Number.NaN));
    }, logits!),
  grad: ({ src: [logits, labels] }, g) => [
    b.mul(b.call(crossEntropyGradientOp, [logits!, labels!], null), b.reshape(g, [g.shape[0]!, 1])),
    undefined,
  ],
  kernels: [rowsOnCpu('crossEntropy-cpu', crossEntropyRows)],
};

/**
 * (N, C), i32 (N) → (N, C): softmax(logits) − onehot(labels), the gradient of each row's loss. The factor of the
 * mean is an elementwise product that follows, so a kernel takes it along.
 */
export const crossEntropyGradientOp: FusedOp<null> = {
  name: 'crossEntropyGradient',
  infer: ([logits]) => logits!,
  compose: ([logits, labels]) =>
    b.widened((logits) => {
      const p = softmax(logits, 1, false);
      return b.where(isLabel(logits, labels!), b.sub(p, b.like(p, 1)), p);
    }, logits!),
  kernels: [rowsOnCpu('crossEntropyGradient-cpu', crossEntropyGradientRows)],
};

/**
 * The loss of each row, (N): take the mean or the sum. A label outside 0 … C−1 gives NaN in its row (loaders, which
 * see labels first, raise the clear error).
 * @param logits (N, C), floats
 * @param labels (N), i32, each 0 … C−1
 * @throws ShapeError, DTypeError
 */
export function crossEntropy(logits: GraphNode, labels: GraphNode): GraphNode {
  const [rows, classes] = logits.shape;
  if (logits.shape.length !== 2 || labels.shape.length !== 1 || labels.shape[0] !== rows || classes === 0) {
    throw new ShapeError(
      `[crossEntropy] takes logits (N,C) and labels (N), got ${formatShape(logits.shape)} and ` +
        `${formatShape(labels.shape)}. One label per row, not one-hot.`,
    );
  }
  requireFloats('crossEntropy', 'logits', logits);
  if (labels.dtype !== i32)
    throw new DTypeError(`[crossEntropy] labels must be i32, got ${labels.dtype.name}. Use .cast(i32).`);
  return b.call(crossEntropyOp, [logits, labels], null);
}
