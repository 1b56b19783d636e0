/** A product of bytes as one of words: four along K. */
import type { KernelIo } from '../../graph/fused-op.js';
import type { MatmulProblem } from '../matmul/cpu.js';

/** x (M, K) · wᵀ of contiguous rows; K and strides count words. */
export function wordsOf({ inputs: [x, w], finish, plain }: KernelIo): MatmulProblem {
  const [M, bytes] = x!.shape as [number, number];
  const N = w!.shape[0]!;
  const K = bytes / 4;
  const none = { offset: 0, batch: [], batchStrides: [] };
  return {
    ...{ batches: 1, M, N, K, finish: finish([1, M, N]), followed: !plain },
    a: { ...none, rowStride: K, columnStride: 1 },
    b: { ...none, rowStride: 1, columnStride: K },
  };
}
