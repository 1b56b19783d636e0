/** Small kernels whose blocks work together in clusters, and one whose copies (cp.async) an mbarrier waits for. */
import { bf16, buffer, f32, kernel, tensorMap } from '../../src/index.js';

/** What can be left out or done wrong in `clusterProduct`. */
export type ClusterFault =
  | 'mask'
  | 'beyond'
  | 'bytes'
  | 'reuse'
  | 'own-only'
  | 'no-start'
  | 'no-end'
  | 'end-twice'
  | 'end-alone';

/** Rows and columns of a block's part of the product, and k of a stage. */
export const PART = { rows: 64, columns: 64, depth: 64 } as const;

export interface ClusterProduct {
  readonly M: number;
  readonly N: number;
  readonly K: number;
  /** Blocks of a cluster. */
  readonly size: number;
  readonly fault?: ClusterFault;
}

/**
 * c (M, N) = a · bᵀ, in clusters of `size` blocks along N: they have the rows of a in common, so each block copies its part
 * of them to all. The last warpgroup copies, the first multiplies. Launch with grid [N / 64, M / 64] and block 256.
 */
export function clusterProduct({ M, N, K, size, fault }: ClusterProduct) {
  const slice = PART.rows / size;
  return kernel(
    'clusterProduct',
    {
      a: tensorMap(bf16, { sizes: [M, K], box: [slice, PART.depth] }),
      b: tensorMap(bf16, { sizes: [N, K], box: [PART.columns, PART.depth] }),
      c: buffer(f32),
    },
    ({ a, b, c }, context) => {
      const { barrier, bf16, blockIdx, clusterRank, clusterSize, f32, idiv, threadIdx } = context;
      const { local, mbarriers, sharedTile } = context;
      const { arriveExpect, arriveRemote, initBarrier, tmaLoad, tmaLoadMulticast, waitBarrier } = context;
      const { arriveCluster, commitWgmma, fenceWgmma, waitCluster, waitWgmma, wgmma } = context;
      const { everyone, fault, K, N, slice } = context;
      const as = sharedTile(bf16, 2, 64, 64);
      const bs = sharedTile(bf16, 2, 64, 64);
      const full = mbarriers(2);
      const empty = mbarriers(2);
      const row = blockIdx.y * 64;
      const column = blockIdx.x * 64;
      const steps = idiv(K, 64);
      if (threadIdx.x === 0)
        for (let s = 0; s < 2; s++) {
          initBarrier(full, s, 1);
          // Of each block of the cluster, which multiplies what this one copies.
          initBarrier(empty, s, fault === 'own-only' ? 1 : clusterSize);
        }
      if (fault === 'no-start') barrier();
      else {
        arriveCluster();
        waitCluster();
      }
      if (threadIdx.x === 128) {
        for (let k = 0; k < steps; k++) {
          const s = k % 2;
          // That the last tile is there does not say that nobody needs it any more.
          if (fault === 'reuse') waitBarrier(full, s, idiv(k, 2) - 1);
          else waitBarrier(empty, s, idiv(k, 2) + 1);
          arriveExpect(full, s, 2 * 64 * 64 * 2 - (fault === 'bytes' ? 128 : 0));
          const part = clusterRank * slice;
          const mask = fault === 'mask' ? everyone - 1 : fault === 'beyond' ? 2 * everyone + 1 : everyone;
          tmaLoadMulticast(as, s, part, 0, a, row + part, k * 64, full, s, mask);
          tmaLoad(bs, s, 0, 0, b, column, k * 64, full, s);
        }
      }
      if (threadIdx.x < 128) {
        const sums = local(f32, 32);
        for (let i = 0; i < 32; i++) sums[i] = 0;
        fenceWgmma(sums);
        for (let k = 0; k < steps; k++) {
          const s = k % 2;
          waitBarrier(full, s, idiv(k, 2));
          for (let d = 0; d < 64; d += 16) wgmma(sums, as, s, 0, d, bs, s, 0, d);
          commitWgmma();
          waitWgmma(sums, 0);
          context.groupBarrier(1, 128);
          if (fault === 'own-only') {
            if (threadIdx.x === 0) arriveRemote(empty, s, clusterRank);
          } else if (threadIdx.x < clusterSize) arriveRemote(empty, s, threadIdx.x);
        }
        for (let i = 0; i < 32; i++) {
          const r = row + 16 * idiv(threadIdx.x, 32) + idiv(threadIdx.x % 32, 4) + 8 * (idiv(i, 2) % 2);
          c[r * N + column + 8 * idiv(i, 4) + 2 * (threadIdx.x % 4) + (i % 2)] = sums[i];
        }
      }
      // The others still arrive at this block's mbarriers.
      if (fault === 'end-alone' && clusterRank > 0) return;
      if (fault !== 'no-end') {
        arriveCluster();
        if (fault === 'end-twice') arriveCluster();
        waitCluster();
      }
    },
    { K, N, slice, everyone: 2 ** size - 1, fault: fault ?? '' },
  );
}

/** y[cluster] = the sum of a cluster's elements of x, 64 for each block: blocks read what the others have added up. */
export const clusterSum = (fault?: 'unmet' | 'left' | 'rank' | 'early' | 'absent') =>
  kernel(
    'clusterSum',
    { x: buffer(f32), y: buffer(f32) },
    ({ x, y }, context) => {
      const { arriveCluster, barrier, blockIdx, clusterRank, clusterSize, f32, fault, globalId } = context;
      const { idiv, laneId, loadRemote, shared, threadIdx, waitCluster, warpSum } = context;
      const parts = shared(f32, 2);
      const sum = warpSum(x[globalId.x]);
      if (laneId === 0) parts[idiv(threadIdx.x, 32)] = sum;
      barrier();
      if (fault === 'early') waitCluster();
      if (fault === 'absent' && threadIdx.x >= 32) barrier();
      if (fault !== 'unmet') {
        arriveCluster();
        waitCluster();
      }
      if (threadIdx.x === 0 && clusterRank === 0) {
        let total = f32(0);
        const blocks = fault === 'rank' ? clusterSize + 1 : clusterSize;
        for (let rank = 0; rank < blocks; rank++)
          for (let i = 0; i < 2; i++) total += loadRemote(parts, i, rank);
        y[idiv(blockIdx.x, clusterSize)] = total;
      }
      if (fault !== 'left') {
        arriveCluster();
        waitCluster();
      }
    },
    { fault: fault ?? '' },
  );

/** y[block] = the sum of its cluster's elements of x, 32 for each block: blocks send the others what they have added up. */
export const sentSum = (fault?: 'unmet' | 'bytes' | 'unwaited' | 'place' | 'rank' | 'twice') =>
  kernel(
    'sentSum',
    { x: buffer(f32), y: buffer(f32) },
    ({ x, y }, context) => {
      const { arriveCluster, arriveExpect, blockIdx, clusterRank, clusterSize, f32, fault, globalId } =
        context;
      const { initBarrier, laneId, mbarriers, shared, storeRemote, waitBarrier, waitCluster, warpSum } =
        context;
      const sums = shared(f32, 2, 4);
      const full = mbarriers(1);
      if (laneId === 0) {
        initBarrier(full, 0, 1);
        arriveExpect(full, 0, fault === 'bytes' ? 12 * clusterSize : 4 * clusterSize);
      }
      arriveCluster();
      const sum = warpSum(x[globalId.x]);
      if (fault !== 'unmet') waitCluster();
      const to = fault === 'rank' ? laneId + 1 : laneId;
      const at = fault === 'place' ? 4 : fault === 'twice' ? 0 : clusterRank;
      if (laneId < clusterSize) storeRemote(sums, 1, at, full, 0, sum, to);
      if (fault !== 'unwaited') waitBarrier(full, 0, 0);
      if (laneId === 0) {
        let total = f32(0);
        for (let rank = 0; rank < clusterSize; rank++) total += sums[1][rank];
        y[blockIdx.x] = total;
      }
    },
    { fault: fault ?? '' },
  );

/** c (64, 64) = a · bᵀ of k = 64, whose tiles the threads of a warpgroup copy, 16 bytes at a time, and another multiplies. */
export const copiedProduct = (fault?: 'fence' | 'arrival' | 'count' | 'reuse') =>
  kernel(
    'copiedProduct',
    { a: buffer(f32), b: buffer(f32), c: buffer(f32) },
    ({ a, b, c }, context) => {
      const { arrive, arriveCopies, barrier, copyAsync4, f32, fault, fenceAsync, idiv, initBarrier } =
        context;
      const { local, mbarriers, sharedTile, threadIdx, waitBarrier } = context;
      const { commitWgmma, fenceWgmma, waitWgmma, wgmma } = context;
      const as = sharedTile(f32, 64, 32);
      const bs = sharedTile(f32, 64, 32);
      const full = mbarriers(1);
      const empty = mbarriers(1);
      if (threadIdx.x === 0) {
        initBarrier(full, 0, fault === 'count' ? 192 : 128);
        initBarrier(empty, 0, 128);
      }
      barrier();
      if (threadIdx.x >= 128) {
        for (let k = 0; k < 2; k++) {
          if (fault !== 'reuse') waitBarrier(empty, 0, k + 1);
          for (let i = threadIdx.x - 128; i < 512; i += 128) {
            const r = idiv(i, 8);
            const at = 4 * (i % 8);
            copyAsync4(as, r, at, a, r * 64 + k * 32 + at);
            copyAsync4(bs, r, at, b, r * 64 + k * 32 + at);
          }
          if (fault === 'arrival') arrive(full, 0);
          else arriveCopies(full, 0);
        }
      } else {
        const sums = local(f32, 32);
        for (let i = 0; i < 32; i++) sums[i] = 0;
        fenceWgmma(sums);
        for (let k = 0; k < 2; k++) {
          waitBarrier(full, 0, k);
          if (fault !== 'fence') fenceAsync();
          for (let d = 0; d < 32; d += 8) wgmma(sums, as, 0, d, bs, 0, d);
          commitWgmma();
          waitWgmma(sums, 0);
          arrive(empty, 0);
        }
        for (let i = 0; i < 32; i++) {
          const r = 16 * idiv(threadIdx.x, 32) + idiv(threadIdx.x % 32, 4) + 8 * (idiv(i, 2) % 2);
          c[r * 64 + 8 * idiv(i, 4) + 2 * (threadIdx.x % 4) + (i % 2)] = sums[i];
        }
      }
    },
    { fault: fault ?? '' },
  );
