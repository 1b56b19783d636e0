/** Small kernels that hand values on from thread to thread, and from what works beside threads to them, one wait short if asked. */
import { buffer, f32, i32, kernel, tensorMap } from '../../src/index.js';

/** How `turned` orders what it reads and what it writes. */
export type Order = 'group' | 'narrow' | 'other' | 'mbarrier' | 'half';

/**
 * Two groups of 128 threads turn their 128 elements of x round, in place. They meet at a barrier of their own or at an mbarrier;
 * or only half a group does, or one with half of the other. Half of a group may arrive for all of it, and is then ahead of the rest.
 */
export const turned = (order: Order) =>
  kernel(
    'turned',
    { x: buffer(f32) },
    ({ x }, context) => {
      const { arrive, barrier, groupBarrier, idiv, initBarrier, mbarriers, order, threadIdx, waitBarrier } =
        context;
      const met = mbarriers(2);
      const t = threadIdx.x % 128;
      const group = idiv(threadIdx.x, 128);
      if (t === 0) initBarrier(met, group, order === 'half' ? 64 : 128);
      barrier();
      const own = x[128 * group + t];
      if (order === 'group') groupBarrier(1 + group, 128);
      if (order === 'narrow') groupBarrier(1 + 2 * group + idiv(t, 64), 64);
      if (order === 'other') groupBarrier(1 + idiv(t, 64), 128);
      if (order === 'mbarrier') arrive(met, group);
      if (order === 'half' && t < 64) arrive(met, group);
      if (order === 'mbarrier' || order === 'half') waitBarrier(met, group, 0);
      x[128 * group + 127 - t] = own;
    },
    { order },
  );

/** x[block] goes on from each block of a cluster to the next, by way of global memory. All clusters do it in the same places. */
export const passedOn = (fault?: 'unmet') =>
  kernel(
    'passedOn',
    { x: buffer(f32), y: buffer(f32) },
    ({ x, y }, { arriveCluster, blockIdx, clusterRank, clusterSize, fault, threadIdx, waitCluster }) => {
      const first = blockIdx.x - clusterRank;
      if (threadIdx.x === 0) x[blockIdx.x] = x[blockIdx.x] + 1;
      if (fault !== 'unmet') {
        arriveCluster();
        waitCluster();
      }
      if (threadIdx.x === 0) y[blockIdx.x] = x[first + ((clusterRank + 1) % clusterSize)];
      arriveCluster();
      waitCluster();
    },
    { fault: fault ?? '' },
  );

/** Every thread counts itself in n[0]; a barrier of a group is beside that. */
export const counted = (fault?: 'plain' | 'read') =>
  kernel(
    'counted',
    { n: buffer(i32) },
    ({ n }, { atomicAdd, fault, groupBarrier, idiv, threadIdx }) => {
      if (fault !== 'plain' || threadIdx.x > 0) atomicAdd(n, 0, 1);
      groupBarrier(1 + idiv(threadIdx.x, 64), 64);
      if (fault === 'plain' && threadIdx.x === 0) n[0] = 1;
      if (fault === 'read' && threadIdx.x === 0) n[1] = n[0];
    },
    { fault: fault ?? '' },
  );

/** y = 2y in place, of a tile: threads read y, and the copy engine stores it. */
export const doubled = (fault?: 'narrow' | 'twice' | 'late' | 'written') =>
  kernel(
    'doubled',
    { y: tensorMap(f32, { sizes: [32, 32], box: [32, 32] }), raw: buffer(f32) },
    ({ y, raw }, context) => {
      const { arriveExpect, barrier, f32, fault, fenceAsync, groupBarrier, idiv, initBarrier } = context;
      const { mbarriers, sharedTile, threadIdx, tmaCommit, tmaLoad, tmaStore, tmaWait, waitBarrier } =
        context;
      const tile = sharedTile(f32, 32, 32);
      const full = mbarriers(1);
      if (threadIdx.x === 0) initBarrier(full, 0, 1);
      barrier();
      for (let i = threadIdx.x; i < 1024; i += 128) tile[idiv(i, 32)][i % 32] = 2 * raw[i];
      fenceAsync();
      groupBarrier(1, 128);
      // Its last values are read once more, by another thread than the one that stores.
      let last = f32(0);
      if (threadIdx.x === 96) last = raw[1023];
      if (fault === 'narrow') groupBarrier(2 + idiv(threadIdx.x, 64), 64);
      else groupBarrier(1, 128);
      if (fault === 'written') {
        if (threadIdx.x === 0) {
          raw[0] = last;
          fenceAsync();
          arriveExpect(full, 0, 4096);
          tmaLoad(tile, 0, 0, y, 0, 0, full, 0);
        }
        waitBarrier(full, 0, 0);
      } else if (threadIdx.x === 0) {
        tmaStore(y, 0, 0, tile, 0, 0);
        if (fault === 'twice') tmaStore(y, 0, 0, tile, 0, 0);
        tmaCommit();
        tmaWait(0);
        if (fault === 'late') raw[1] = raw[0];
      }
    },
    { fault: fault ?? '' },
  );

/** Two tiles come one after the other to one mbarrier, and are added up. */
export const loadedTwice = (fault?: 'short') =>
  kernel(
    'loadedTwice',
    { x: tensorMap(f32, { sizes: [16, 32], box: [8, 32] }), y: buffer(f32) },
    ({ x, y }, context) => {
      const { arriveExpect, barrier, f32, fault, idiv, initBarrier, mbarriers, sharedTile } = context;
      const { threadIdx, tmaLoad, waitBarrier } = context;
      const tiles = sharedTile(f32, 2, 8, 32);
      const full = mbarriers(1);
      if (threadIdx.x === 0) initBarrier(full, 0, 1);
      barrier();
      for (let k = 0; k < 2; k++) {
        if (threadIdx.x === 0) {
          arriveExpect(full, 0, 1024);
          tmaLoad(tiles, k, 0, 0, x, 8 * k, 0, full, 0);
        }
        if (k === 0 || fault !== 'short') waitBarrier(full, 0, k);
        barrier();
      }
      for (let i = threadIdx.x; i < 256; i += 128)
        y[i] = tiles[0][idiv(i, 32)][i % 32] + tiles[1][idiv(i, 32)][i % 32];
    },
    { fault: fault ?? '' },
  );

/** Two tiles are stored one after the other, and then written. */
export const storedTwice = (fault?: 'short') =>
  kernel(
    'storedTwice',
    { y: tensorMap(f32, { sizes: [16, 32], box: [8, 32] }) },
    ({ y }, context) => {
      const { barrier, f32, fault, fenceAsync, idiv, sharedTile, threadIdx } = context;
      const { tmaCommit, tmaStore, tmaWait } = context;
      const tiles = sharedTile(f32, 2, 8, 32);
      for (let i = threadIdx.x; i < 512; i += 128) tiles[idiv(i, 256)][idiv(i, 32) % 8][i % 32] = f32(i);
      fenceAsync();
      barrier();
      if (threadIdx.x === 0) {
        for (let k = 0; k < 2; k++) {
          tmaStore(y, 8 * k, 0, tiles, k, 0, 0);
          tmaCommit();
        }
        if (fault === 'short') tmaWait(1);
        else tmaWait(0);
        tiles[1][0][0] = 0;
        tmaWait(0);
      }
    },
    { fault: fault ?? '' },
  );

/** A warpgroup adds two products of tiles that it then writes over. */
export const multipliedTwice = (fault?: 'short') =>
  kernel(
    'multipliedTwice',
    { c: buffer(f32) },
    ({ c }, context) => {
      const { barrier, bf16, commitWgmma, f32, fault, fenceAsync, fenceWgmma, idiv, local } = context;
      const { sharedTile, threadIdx, waitWgmma, wgmma } = context;
      const as = sharedTile(bf16, 2, 64, 64);
      const bs = sharedTile(bf16, 8, 64);
      for (let i = threadIdx.x; i < 8192; i += 128) as[idiv(i, 4096)][idiv(i, 64) % 64][i % 64] = bf16(1);
      for (let i = threadIdx.x; i < 512; i += 128) bs[idiv(i, 64)][i % 64] = bf16(1);
      fenceAsync();
      barrier();
      const sums = local(f32, 4);
      for (let i = 0; i < 4; i++) sums[i] = 0;
      fenceWgmma(sums);
      for (let k = 0; k < 2; k++) {
        wgmma(sums, as, k, 0, 0, bs, 0, 0);
        commitWgmma();
      }
      if (fault === 'short') waitWgmma(sums, 1);
      else waitWgmma(sums, 0);
      barrier();
      if (threadIdx.x === 0) as[1][0][0] = bf16(2);
      waitWgmma(sums, 0);
      for (let i = 0; i < 4; i++) c[4 * threadIdx.x + i] = sums[i];
    },
    { fault: fault ?? '' },
  );

/** A thread copies four elements, and four more; the copy engine stores both. */
export const copiedTwice = (fault?: 'short' | 'fence') =>
  kernel(
    'copiedTwice',
    { x: buffer(f32), y: tensorMap(f32, { sizes: [8, 32], box: [8, 32] }), z: buffer(f32) },
    ({ x, y, z }, context) => {
      const { commitCopies, copyAsync4, f32, fault, fenceAsync, idiv, sharedTile } = context;
      const { threadIdx, tmaCommit, tmaStore, tmaWait, waitCopies } = context;
      const tile = sharedTile(f32, 8, 32);
      if (threadIdx.x === 0) {
        for (let i = 8; i < 256; i++) tile[idiv(i, 32)][i % 32] = 0;
        copyAsync4(tile, 0, 0, x, 0);
        commitCopies();
        if (fault === 'fence') {
          waitCopies(0);
          fenceAsync();
        }
        copyAsync4(tile, 0, 4, x, 4);
        commitCopies();
        if (fault === 'short') waitCopies(1);
        else waitCopies(0);
        z[0] = tile[0][4];
        waitCopies(0);
        if (fault !== 'fence') fenceAsync();
        tmaStore(y, 0, 0, tile, 0, 0);
        tmaCommit();
        tmaWait(0);
      }
    },
    { fault: fault ?? '' },
  );
