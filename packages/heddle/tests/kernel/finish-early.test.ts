/** What follows a matrix product, loaded before its values are there: the same results, the loads first. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import { alu, bufferParam, type Expr, int, load, type Param } from '../../src/kernel/ir/ir.js';
import { irFunction } from '../../src/kernel/ir/ir-function.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { compile } from '../../src/kernel/passes/pipeline.js';
import { convolve } from '../../src/ops/conv2d/cuda.js';
import type { ConvolveProblem } from '../../src/ops/conv2d/problem.js';
import { convolveTensor } from '../../src/ops/conv2d/tensor-core.js';
import { matmulTile } from '../../src/ops/matmul/cuda.js';
import type { MatmulTile } from '../../src/ops/matmul/cuda-layout.js';
import type { GridKernel } from '../../src/ops/tiled.js';
import { renderCuda } from '../../src/render/cuda/render.js';
import { SIM_TARGET, simulate } from '../../src/runtime/sim/launch.js';
import { assertClose, noise } from './harness.js';

const TILE: MatmulTile = {
  ...{ warps: [1, 1, 2], lanes: [8, 4], each: [2, 4], depth: 16, stages: 1, splits: 1 },
};

/** x · y + added, added an M×N matrix. */
function product(M: number, N: number, tile: MatmulTile) {
  const param: Param = { name: 'added', schema: buffer(f32) };
  const memory = bufferParam(param);
  const finish = irFunction(([v, , row, column]) => {
    const at: Expr = alu('add', [alu('mul', [row!, int(N)]), column!]);
    return alu('add', [v!, load(memory, [at], v!.type.lanes)]);
  });
  const matrix = { offset: 0, batch: [], batchStrides: [], columnStride: 1 };
  const a = { ...matrix, rowStride: 16 };
  const made = matmulTile({ batches: 1, M, N, K: 16, a, b: { ...matrix, rowStride: N }, finish }, tile);
  return { ...made, kernel: { ...made.kernel, params: [...made.kernel.params, param] } };
}

for (const [M, N, each] of [
  [32, 32, [2, 4]],
  [21, 32, [2, 4]],
  [21, 19, [1, 2]],
] as const) {
  test(`a matrix of ${M}×${N} is added to a product`, () => {
    const { kernel, grid, threads, sharedBytes } = product(M, N, { ...TILE, each });
    const [a, b, added] = [noise(M * 16, 1), noise(16 * N, 2), noise(M * N, 3)];
    const c = new Float32Array(M * N).fill(Number.NaN);
    simulate(kernel, { grid, block: threads, sharedBytes }, { a, b, c, added });
    const wanted = Array.from(c, (_, i) => {
      let sum = added[i]!;
      for (let k = 0; k < 16; k++) sum += a[Math.floor(i / N) * 16 + k]! * b[k * N + (i % N)]!;
      return sum;
    });
    assertClose(c, wanted, 1e-5, kernel.name);
  });
}

test('it is read once, before the product waits for its operands', () => {
  const text = renderCuda(compile(product(32, 32, TILE).kernel, { ...SIM_TARGET, name: 'cuda' }));
  const body = text.slice(text.indexOf('__global__'));
  assert.equal(body.match(/added \+/g)?.length, 1);
  assert.ok(body.indexOf('added +') < body.indexOf('wait_copies_0()'));
});

/** A convolution of an image with 16 kernels of 3 × 3, and what is added to its 6 × 10 results. */
const SIZE = [6, 10] as const;
function convolution(of: (p: ConvolveProblem) => GridKernel) {
  const param: Param = { name: 'added', schema: buffer(f32) };
  const memory = bufferParam(param);
  const times = (x: Expr, n: number): Expr => alu('mul', [x, int(n)]);
  const finish = irFunction(([v, , channel, row, column]) => {
    const at = alu('add', [times(alu('add', [times(channel!, SIZE[0]), row!]), SIZE[1]), column!]);
    return alu('add', [v!, load(memory, [at], v!.type.lanes)]);
  });
  const made = of({
    ...{ groups: 1, kernel: [3, 3], stride: [1, 1], dilation: [1, 1], padding: [1, 1], adjoint: false },
    ...{ images: 1, dtype: f32, inputs: 8, outputs: 16, size: SIZE, outSize: SIZE, imageOffset: 0 },
    ...{ weightOffset: 0, finish },
  });
  return { ...made, kernel: { ...made.kernel, params: [...made.kernel.params, param] } };
}

const tensorTile = (down: number, across: number, groups: number) => ({
  ...{ images: 1, rows: across * groups, columns: 10, channels: 8, stages: 1 },
  ...{ warps: [1, 2, groups] as const, each: [down, across] as const },
});

const convolutions = {
  'on tensor cores': (p: ConvolveProblem) => convolveTensor(p, tensorTile(1, 3, 2)),
  'on tensor cores, a few rows at a time': (p: ConvolveProblem) => convolveTensor(p, tensorTile(2, 6, 1)),
  'in f32': (p: ConvolveProblem) =>
    convolve(p, { images: 1, rows: 6, columns: 10, channels: 8, warps: [1, 2], each: [16, 1] }),
};

for (const [name, of] of Object.entries(convolutions)) {
  test(`a convolution ${name} reads what is added to several elements before it stores the first`, () => {
    const { kernel, grid, threads, sharedBytes } = convolution(of);
    const [x, w, added] = [noise(8 * 60, 1), noise(16 * 72, 2), noise(16 * 60, 3)].map((values) =>
      values.map((v) => Math.round(v * 64) / 64),
    );
    const y = new Float32Array(16 * 60).fill(Number.NaN);
    simulate(kernel, { grid, block: threads, sharedBytes }, { x: x!, w: w!, y, added: added! });
    const at = (c: number, row: number, column: number): number =>
      row < 0 || row >= SIZE[0] || column < 0 || column >= SIZE[1]
        ? 0
        : x![(c * SIZE[0] + row) * SIZE[1] + column]!;
    const wanted = Array.from(y, (_, i) => {
      const [o, row, column] = [Math.floor(i / 60), Math.floor(i / 10) % 6, i % 10];
      let sum = added![i]!;
      for (let k = 0; k < 72; k++) {
        const [c, ky, kx] = [Math.floor(k / 9), Math.floor(k / 3) % 3, k % 3];
        sum += w![o * 72 + k]! * at(c, row + ky - 1, column + kx - 1);
      }
      return sum;
    });
    assertClose(y, wanted, 1e-5, kernel.name);
    const text = renderCuda(compile(kernel, { ...SIM_TARGET, name: 'cuda' }));
    const body = text.slice(text.indexOf('__global__'));
    assert.equal(body.match(/added \+|added\[/g)?.length, 1);
    assert.match(body, /early\[[^;]*added/);
  });
}
