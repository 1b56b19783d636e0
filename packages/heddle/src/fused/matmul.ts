/** Matrix product (B1). */
import { isFloat } from '../core/dtype.js';
import { DTypeError, ShapeError } from '../core/errors.js';
import { broadcastShapes, formatShape } from '../core/shape.js';
import * as b from '../graph/build.js';
import type { FusedOp } from '../graph/fused-op.js';
import type { GraphNode } from '../graph/node.js';

/** (…, M, K) × (…, K, N) → (…, M, N). Both sources have the same leading dimensions (`matmul` broadcasts them). */
export const matmulOp: FusedOp<null> = {
  name: 'matmul',
  infer: ([x, y]) => ({ shape: [...x!.shape.slice(0, -1), y!.shape.at(-1)!], dtype: x!.dtype }),
  compose: ([x, y]) => {
    // (…, M, K, 1) · (…, 1, K, N), summed over K
    const rank = x!.shape.length;
    const left = b.reshape(x!, [...x!.shape, 1]);
    const right = b.reshape(y!, [...y!.shape.slice(0, -2), 1, ...y!.shape.slice(-2)]);
    const product = b.sum(b.map('mul', left, right), [rank - 1]);
    return b.reshape(product, [...x!.shape.slice(0, -1), y!.shape.at(-1)!]);
  },
  grad: ({ src: [x, y] }, g) => [
    x!.requiresGrad ? matmul(g, b.transpose(y!)) : undefined,
    y!.requiresGrad ? matmul(b.transpose(x!), g) : undefined,
  ],
  kernels: [],
};

/** (…, M, K) × (…, K, N) → (…, M, N); leading dimensions broadcast. @throws ShapeError, DTypeError */
export function matmul(x: GraphNode, y: GraphNode): GraphNode {
  if (x.shape.length < 2 || y.shape.length < 2) {
    throw new ShapeError(
      `[matmul] takes matrices, got ${formatShape(x.shape)} × ${formatShape(y.shape)}. Add a dimension with .unsqueeze().`,
    );
  }
  if (x.dtype !== y.dtype)
    throw new DTypeError(
      `[matmul] dtypes differ: ${x.dtype.name} and ${y.dtype.name}. Convert one with .cast(${x.dtype.name}).`,
    );
  if (!isFloat(x.dtype))
    throw new DTypeError(`[matmul] takes floats, got ${x.dtype.name}. Convert with .cast(f32).`);
  const [inner, other] = [x.shape.at(-1)!, y.shape.at(-2)!];
  if (inner !== other) {
    throw new ShapeError(
      `[matmul] inner sizes differ: ${formatShape(x.shape)} × ${formatShape(y.shape)}, ${inner} ≠ ${other}. Transpose the right side?`,
    );
  }
  const lead = broadcastShapes('matmul', x.shape.slice(0, -2), y.shape.slice(0, -2));
  // One left matrix per batch and a single right one is one tall product.
  if (y.shape.length === 2 && x.shape.length > 2) {
    const rows = x.shape.slice(0, -1).reduce((n, d) => n * d, 1);
    return b.reshape(b.call(matmulOp, [b.reshape(x, [rows, inner]), y], null), [
      ...x.shape.slice(0, -1),
      y.shape[1]!,
    ]);
  }
  return b.call(
    matmulOp,
    [b.expand(x, [...lead, ...x.shape.slice(-2)]), b.expand(y, [...lead, ...y.shape.slice(-2)])],
    null,
  );
}
