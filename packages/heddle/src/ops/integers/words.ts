/** A product of bytes as one of words, four along K, or as it is. */
import type { KernelIo } from '../../graph/fused-op.js';
import type { MatmulProblem } from '../matmul/cpu.js';

/** x (M, K) · wᵀ of contiguous rows; K and strides count so many bytes. */
export function wordsOf({ inputs: [x, w], finish, plain, beside }: KernelIo, each = 4): MatmulProblem {
  const [M, bytes] = x!.shape as [number, number];
  const N = w!.shape[0]!;
  const K = bytes / each;
  const none = { offset: 0, batch: [], batchStrides: [] };
  return {
    ...{ batches: 1, M, N, K, finish: finish([1, M, N]), followed: !plain, beside },
    a: { ...none, rowStride: K, columnStride: 1 },
    b: { ...none, rowStride: 1, columnStride: K },
  };
}
