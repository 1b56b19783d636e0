/** The GPU's f32 matmul cut in every way, whatever the launch rule would choose: in the simulator, in all layouts. */
import { test } from 'node:test';
import type { View } from '../src/graph/fused-op.js';
import type { MatmulProblem, Operand } from '../src/kernels/matmul-cpu.js';
import { type MatmulTile, matmulSum, matmulTile } from '../src/kernels/matmul-cuda.js';
import { MATMUL_LADDER } from '../src/kernels/matmul-cuda-ladder.js';
import { simulate } from '../src/runtime/sim/launch.js';
import { assertClose, identity, laidOut, type Source } from './kernel-harness.js';
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

const operandOf = (s: Source, columns: number): Operand => {
  const { strides, offset }: Pick<View, 'strides' | 'offset'> = s.view ?? {
    strides: [0, columns, 1],
    offset: 0,
  };
  return { offset, batch: [1], batchStrides: [0], rowStride: strides[1]!, columnStride: strides[2]! };
};

const [M, N, K] = [37, 44, 40] as const;

const productOf = (x: Source, y: Source): number[] => {
  const [u, v] = [x.data as Float32Array, y.data as Float32Array];
  return Array.from({ length: M * N }, (_, at) => {
    let sum = 0;
    for (let k = 0; k < K; k++) sum += u[Math.floor(at / N) * K + k]! * v[k * N + (at % N)]!;
    return sum;
  });
};

for (const [name, tile] of Object.entries(TILES)) {
  for (const [left, right] of LAYOUTS) {
    test(`matmul, ${name}: ${left} · ${right}`, () => {
      const x = laidOutMatrix(1, M, K, left, 1);
      const y = laidOutMatrix(1, K, N, right, 2);
      const a = operandOf(x, K);
      const b = operandOf(y, N);
      const p: MatmulProblem = { batches: 1, M, N, K, a, b, finish: identity() };
      const c = new Float32Array(M * N).fill(Number.NaN);
      const parts = new Float32Array(M * N * tile.splits).fill(Number.NaN);
      const product = matmulTile(p, tile);
      const sources = { a: laidOut([1, M, K], x), b: laidOut([1, K, N], y) };
      const launch = { grid: product.grid, block: product.threads, sharedBytes: product.sharedBytes };
      simulate(product.kernel, launch, { ...sources, c: tile.splits > 1 ? parts : c });
      if (tile.splits > 1) {
        const sum = matmulSum(p, tile.splits);
        simulate(sum.kernel, { grid: sum.grid, block: sum.threads }, { parts, c });
      }
      assertClose(c, productOf(x, y), 1e-5, name);
    });
  }
}

for (const [name, rung] of Object.entries(MATMUL_LADDER)) {
  test(`the rung '${name}' of the ladder`, () => {
    const x = laidOutMatrix(1, M, K, 'rows', 3);
    const y = laidOutMatrix(1, K, N, 'columns', 4);
    const p: MatmulProblem = {
      ...{ batches: 1, M, N, K, finish: identity() },
      ...{ a: operandOf(x, K), b: operandOf(y, N) },
    };
    const { kernel, grid, threads, sharedBytes } = rung(p);
    const c = new Float32Array(M * N).fill(Number.NaN);
    const sources = { a: laidOut([1, M, K], x), b: laidOut([1, K, N], y) };
    simulate(kernel, { grid, block: threads, sharedBytes }, { ...sources, c });
    assertClose(c, productOf(x, y), 1e-5, name);
  });
}
