/** The GPU's f32 matmul cut in every way, whatever the launch rule would choose: in the simulator, in all layouts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { View } from '../../src/graph/fused-op.js';
import { type GpuLimits, H200, type Target } from '../../src/kernel/ir/target.js';
import type { MatmulProblem, OperandLayout } from '../../src/ops/matmul/cpu.js';
import { matmulTile } from '../../src/ops/matmul/cuda.js';
import type { MatmulTile } from '../../src/ops/matmul/cuda-layout.js';
import { matmulSum } from '../../src/ops/matmul/cuda-store.js';
import { matmulTiles } from '../../src/ops/matmul/cuda-tiles.js';
import { matmulTensor } from '../../src/ops/matmul/tensor-core.js';
import type { TensorTile } from '../../src/ops/matmul/tensor-core-panel.js';
import type { GridKernel } from '../../src/ops/tiled.js';
import { simulate } from '../../src/runtime/sim/launch.js';
import { assertClose, identity, laidOut, type Source } from '../kernel/harness.js';
import { LAYOUTS, laidOutMatrix } from './matmul-layouts.js';

const TILES: Readonly<Record<string, MatmulTile>> = {
  'large, turned where it lies along K': {
    ...{ warps: [1, 1, 1], lanes: [8, 4], each: [8, 8], depth: 8, stages: 2, splits: 1 },
  },
  'a pipeline of three stages': {
    ...{ warps: [1, 2, 1], lanes: [8, 4], each: [4, 4], depth: 8, stages: 3, splits: 1 },
  },
  'warps along K, pairs of columns': {
    ...{ warps: [1, 1, 4], lanes: [4, 8], each: [4, 2], depth: 16, stages: 2, splits: 1 },
  },
  'K split over blocks': {
    ...{ warps: [2, 1, 2], lanes: [8, 4], each: [1, 2], depth: 8, stages: 2, splits: 3 },
  },
  'one row of lanes': {
    ...{ warps: [1, 1, 2], lanes: [1, 32], each: [2, 1], depth: 12, stages: 4, splits: 1 },
  },
};

const operandOf = (s: Source, columns: number): OperandLayout => {
  const { strides, offset }: Pick<View, 'strides' | 'offset'> = s.view ?? {
    strides: [0, columns, 1],
    offset: 0,
  };
  return { offset, batch: [1], batchStrides: [0], rowStride: strides[1]!, columnStride: strides[2]! };
};

/** Odd sizes, and multiples of every tile, whose K does not divide by the blocks that share it. */
const SIZES = [
  [37, 44, 40],
  [32, 32, 40],
] as const;

type Sizes = readonly [M: number, N: number, K: number];

const productOf = (x: Source, y: Source, [M, N, K]: Sizes): number[] => {
  const [u, v] = [x.data as Float32Array, y.data as Float32Array];
  return Array.from({ length: M * N }, (_, at) => {
    let sum = 0;
    for (let k = 0; k < K; k++) sum += u[Math.floor(at / N) * K + k]! * v[k * N + (at % N)]!;
    return sum;
  });
};

const magnitudesOf = (x: Source): Source => ({ ...x, data: (x.data as Float32Array).map(Math.abs) });

/** Numbers that bf16 and tf32 have, too: only sums are rounded. */
const coarse = (x: Source): Source => ({
  ...x,
  data: (x.data as Float32Array).map((v) => Math.round(v * 32) / 32),
});

/** Run a product, and the sum of its parts if it has several; compare. */
function check(
  make: (p: MatmulProblem) => GridKernel,
  splits: number,
  sizes: Sizes,
  [left, right]: (typeof LAYOUTS)[number],
  given?: number,
  values: (x: Source) => Source = (x) => x,
): void {
  const [M, N, K] = sizes;
  const x = values(laidOutMatrix(1, M, K, left, 1));
  const y = values(laidOutMatrix(1, K, N, right, 2));
  // Rounding errors are relative to the sum of magnitudes, however much of it cancels.
  const magnitudes = productOf(magnitudesOf(x), magnitudesOf(y), sizes);
  const tolerance = given ?? Math.max(1e-5, 2 ** -24 * Math.max(...magnitudes));
  const p: MatmulProblem = {
    ...{ batches: 1, M, N, K, finish: identity() },
    ...{ a: operandOf(x, K), b: operandOf(y, N) },
  };
  const c = new Float32Array(M * N).fill(Number.NaN);
  const parts = new Float32Array(M * N * splits).fill(Number.NaN);
  const { kernel, grid, threads, sharedBytes } = make(p);
  const sources = { a: laidOut([1, M, K], x), b: laidOut([1, K, N], y) };
  simulate(kernel, { grid, block: threads, sharedBytes }, { ...sources, c: splits > 1 ? parts : c });
  if (splits > 1) {
    const sum = matmulSum(p, splits);
    simulate(sum.kernel, { grid: sum.grid, block: sum.threads }, { parts, c });
  }
  assertClose(c, productOf(x, y, sizes), tolerance, kernel.name);
}

for (const [name, tile] of Object.entries(TILES)) {
  for (const layouts of LAYOUTS) {
    test(`matmul, ${name}: ${layouts.join(' · ')}`, () => {
      for (const sizes of SIZES) check((p) => matmulTile(p, tile), tile.splits, sizes, layouts);
    });
  }
}

for (const layouts of LAYOUTS) {
  test(`matmul in three products of tf32: ${layouts.join(' · ')}`, () => {
    const tile: TensorTile = { warps: [2, 1, 1], each: [1, 4], depth: 16, stages: 2, splits: 1 };
    for (const sizes of SIZES) check((p) => matmulTensor(p, tile, 'tf32x3'), 1, sizes, layouts);
  });
}

for (const precision of ['tf32', 'bf16'] as const) {
  test(`matmul in ${precision}, K split over blocks`, () => {
    const tile: TensorTile = { warps: [1, 1, 1], each: [2, 4], depth: 32, stages: 2, splits: 2 };
    for (const sizes of [
      [32, 32, 128],
      [33, 35, 48],
    ] as const)
      check((p) => matmulTensor(p, tile, precision), 2, sizes, ['rows', 'columns'], 3e-2);
  });
}

for (const precision of ['tf32', 'bf16'] as const) {
  test(`matmul in ${precision}, steps shared by warps along K`, () => {
    const tile: TensorTile = { warps: [1, 1, 2], each: [2, 4], depth: 64, stages: 2, splits: 1 };
    for (const layouts of [
      ['rows', 'rows'],
      ['columns', 'columns'],
    ] as const)
      check((p) => matmulTensor(p, tile, precision), 1, [33, 36, 136], layouts, 3e-2);
  });
}

test('a long K, summed piece by piece', () => {
  // One piece more than a warp's share takes, and a step of that.
  for (const [warps, N, K] of [
    [1, 6, 4104],
    [2, 5, 8200],
  ] as const) {
    const tile: MatmulTile = {
      ...{ warps: [1, 1, warps], lanes: [8, 4], each: [2, 2], depth: 16, stages: 3, splits: 1 },
    };
    check((p) => matmulTile(p, tile), 1, [9, N, K], ['rows', 'columns']);
  }
  for (const precision of ['tf32', 'bf16'] as const) {
    const tile: TensorTile = { warps: [1, 1, 1], each: [1, 4], depth: 32, stages: 2, splits: 1 };
    check((p) => matmulTensor(p, tile, precision), 1, [9, 6, 8296], ['rows', 'columns'], undefined, coarse);
  }
});

test('tiles are cut for the GPU that they run on: two blocks fit into one with less shared memory', () => {
  /** Of compute capability 8.9. */
  const limits: GpuLimits = {
    ...{
      sharedBytesPerBlock: 99 * 1024,
      sharedBytesPerMultiprocessor: 100 * 1024,
      sharedBytesReserved: 1024,
    },
    ...{ registersPerMultiprocessor: 65536, threadsPerMultiprocessor: 1536, blocksPerMultiprocessor: 24 },
    ...{ parameterBytes: 4096, cacheBytes: 72 * 2 ** 20 },
  };
  const side: OperandLayout = { offset: 0, batch: [1], batchStrides: [0], rowStride: 1000, columnStride: 1 };
  const problem = { batches: 1, M: 1000, N: 1000, K: 1000, finish: identity(), a: side, b: side };
  const bytesOn = (target: Target): number =>
    Math.max(...matmulTiles(problem, target, 8).map((tile) => matmulTile(problem, tile).sharedBytes));
  assert.ok(bytesOn({ ...H200, limits }) <= 49 * 1024);
  assert.ok(bytesOn(H200) > 49 * 1024, 'with an H200 there is more');
});
