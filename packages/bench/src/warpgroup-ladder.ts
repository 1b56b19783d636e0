/**
 * The last rungs of the ladder of matrix products: bf16 on tensor cores, up to what a Hopper GPU needs.
 *
 *   mma           mma.sync: each warp loads fragments of the tiles into registers; threads copy the tiles (cp.async)
 *   wgmma         the copy engine (TMA) brings a tile, and warpgroups multiply it where it lies in shared memory
 *   ring          four stages: the copy engine works ahead
 *   producer      a warp of its own starts the copies; mbarriers say which stages are full and empty, and no barrier
 *                 stops the whole block; the warps that multiply get the registers that the copying ones do not need
 *   cluster       two blocks that need the same tile of B copy half of it each, to both (multicast)
 *   persistent    a block for each multiprocessor takes one tile of C after the other: copies run ahead over the end
 *                 of a tile, whose sums leave by way of the copy engine
 *
 * The first and the last are kernels that Heddle itself uses (ops/matmul).
 */
import { bf16 } from 'heddle/internal/core/dtype.js';
import { irFunction } from 'heddle/internal/kernel/ir/ir-function.js';
import { buffer, tensorMap } from 'heddle/internal/kernel/ir/types.js';
import { defineKernel } from 'heddle/internal/kernel/language/language.js';
import type { MatmulProblem } from 'heddle/internal/ops/matmul/cpu.js';
import { matmulTensor } from 'heddle/internal/ops/matmul/tensor-core.js';
import { matmulWarpgroups } from 'heddle/internal/ops/matmul/warpgroup-product.js';
import type { GridKernel } from 'heddle/internal/ops/tiled.js';
import type { KernelLaunch } from 'heddle/internal/runtime/device.js';
import type { Sizes } from './matmul-ladder.js';

/** A launch, on whose GPU there are so many multiprocessors. */
export type WarpgroupRung = (sizes: Sizes, units: number) => GridKernel & Pick<KernelLaunch, 'cluster'>;

/** Of C, of a block; steps along K of a stage, which are the 128 bytes of a row of a tile. */
const TILE = { rows: 128, columns: 256, depth: 64 } as const;

/** Threads that multiply: two warpgroups. */
const MULTIPLYING = 256;
/** Registers of a thread that copies, and of one that multiplies. */
const REGISTERS = { producer: 40, consumer: 232 } as const;

interface Pipeline {
  readonly stages: number;
  /** Whether a third warpgroup copies. Otherwise the first thread does, and a barrier ends each step. */
  readonly producer?: boolean;
  /** Blocks of a cluster, below each other. Default: 1. */
  readonly cluster?: 1 | 2;
}

/** A tile of C for each block, by wgmma. */
function tileByTile(name: string, { M, N, K }: Sizes, pipeline: Pipeline): ReturnType<WarpgroupRung> {
  const { stages, producer = false, cluster = 1 } = pipeline;
  const panels = TILE.columns / 64;
  const kernel = defineKernel(
    name,
    {
      a: tensorMap(bf16, { sizes: [M, K], box: [TILE.rows, TILE.depth] }),
      b: tensorMap(bf16, { sizes: [K, N], box: [TILE.depth, 64] }),
      c: buffer(bf16),
    },
    ({ a, b, c }, context) => {
      const { barrier, bf16, blockIdx, f32, i32, idiv, laneId, local, mbarriers, sharedTile, threadIdx } =
        context;
      const { arrive, arriveCluster, arriveExpect, arriveRemote, clusterRank, initBarrier } = context;
      const { tmaLoad, tmaLoadMulticast, waitBarrier, waitCluster } = context;
      const { commitWgmma, fenceWgmma, lowerRegisters, raiseRegisters, waitWgmma, wgmma } = context;
      const { M, N, cluster, columns, depth, panels, producer, rows, stages, steps } = context;
      const { MULTIPLYING, REGISTERS } = context;
      const row = blockIdx.x * rows;
      const column = blockIdx.y * columns;
      const group = idiv(threadIdx.x, 128);
      const as = sharedTile(bf16, stages, 1, rows, depth);
      const bs = sharedTile(bf16, stages, panels, depth, 64);
      const full = mbarriers(stages);
      const empty = mbarriers(stages);
      const start = (step: number) => {
        const stage = step % stages;
        arriveExpect(full, stage, (rows + columns) * depth * 2);
        tmaLoad(as, stage, 0, 0, 0, a, row, step * depth, full, stage);
        if (cluster > 1) {
          for (let i = 0; i < idiv(panels, cluster); i++) {
            const panel = clusterRank * idiv(panels, cluster) + i;
            const at = column + 64 * panel;
            tmaLoadMulticast(bs, stage, panel, 0, 0, b, step * depth, at, full, stage, 2 ** cluster - 1);
          }
        } else
          for (let i = 0; i < panels; i++)
            tmaLoad(bs, stage, i, 0, 0, b, step * depth, column + 64 * i, full, stage);
      };

      if (threadIdx.x === 0)
        for (let s = 0; s < stages; s++) {
          initBarrier(full, s, 1);
          // Of each warp that multiplies what this block copies.
          initBarrier(empty, s, cluster * idiv(MULTIPLYING, 32));
        }
      barrier();
      if (cluster > 1) {
        arriveCluster();
        waitCluster();
      }

      if (producer && threadIdx.x >= MULTIPLYING) {
        lowerRegisters(REGISTERS.producer);
        let step = i32(threadIdx.x === MULTIPLYING ? 0 : steps);
        while (step < steps) {
          waitBarrier(empty, step % stages, idiv(step, stages) + 1);
          start(step);
          step += 1;
        }
      } else {
        if (producer) raiseRegisters(REGISTERS.consumer);
        const sums = local(f32, idiv(columns, 2));
        for (let i = 0; i < idiv(columns, 2); i++) sums[i] = 0;
        fenceWgmma(sums);
        if (!producer && threadIdx.x === 0) for (let s = 0; s < Math.min(stages - 1, steps); s++) start(s);
        let step = i32(0);
        while (step < steps) {
          const stage = step % stages;
          if (!producer && threadIdx.x === 0 && step + stages - 1 < steps) start(step + stages - 1);
          waitBarrier(full, stage, idiv(step, stages));
          for (let k = 0; k < depth; k += 16)
            wgmma(sums, as, stage, 0, 64 * group, k, bs, stage, 0, k, 0, false, true);
          commitWgmma();
          waitWgmma(sums, 0);
          if (!producer) barrier();
          else if (cluster > 1) {
            if (laneId < cluster) arriveRemote(empty, stage, laneId);
          } else if (laneId === 0) arrive(empty, stage);
          step += 1;
        }
        const first = row + 16 * idiv(threadIdx.x, 32) + idiv(laneId, 4);
        for (let i = 0; i < idiv(columns, 2); i++) {
          const r = first + 8 * (idiv(i, 2) % 2);
          const n = column + 8 * idiv(i, 4) + 2 * (laneId % 4) + (i % 2);
          if (r < M && n < N) c[r * N + n] = bf16(sums[i]);
        }
      }
      // The other block still copies to this one, and arrives at its mbarriers.
      if (cluster > 1) {
        arriveCluster();
        waitCluster();
      }
    },
    {
      ...{ ...TILE, M, N, cluster, panels, producer, stages },
      ...{ steps: Math.ceil(K / TILE.depth), MULTIPLYING, REGISTERS },
    },
  );
  const down = Math.ceil(M / TILE.rows / cluster) * cluster;
  return {
    kernel,
    grid: [down, Math.ceil(N / TILE.columns), 1],
    threads: producer ? MULTIPLYING + 128 : MULTIPLYING,
    sharedBytes: 0,
    ...(cluster > 1 && { cluster: [cluster, 1, 1] }),
  };
}

/** As Heddle's kernels are told of a product. */
function problem({ M, N, K }: Sizes): MatmulProblem {
  const rows = (columns: number) => ({
    ...{ offset: 0, batch: [], batchStrides: [], rowStride: columns, columnStride: 1 },
  });
  return { batches: 1, M, N, K, a: rows(K), b: rows(N), finish: irFunction(([value]) => value!) };
}

/** By rungs. K and N are multiples of 8, as the copy engine's strides are multiples of 16 bytes. */
export const WARPGROUP_LADDER: Readonly<Record<string, WarpgroupRung>> = {
  mma: (s) =>
    matmulTensor(
      problem(s),
      { warps: [2, 4, 1], each: [4, 4], depth: 32, stages: 4, splits: 1 },
      'bf16',
      bf16,
    ),
  wgmma: (s) => tileByTile('matmulWgmma', s, { stages: 1 }),
  ring: (s) => tileByTile('matmulRing', s, { stages: 4 }),
  producer: (s) => tileByTile('matmulProducer', s, { stages: 4, producer: true }),
  cluster: (s) => tileByTile('matmulCluster', s, { stages: 4, producer: true, cluster: 2 }),
  persistent: (s, units) =>
    matmulWarpgroups(
      problem(s),
      { groups: 2, each: 1, columns: TILE.columns, stages: 3, splits: 1 },
      bf16,
      units,
    ),
};
