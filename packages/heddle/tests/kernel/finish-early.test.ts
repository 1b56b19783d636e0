/** What follows a matrix product, loaded before its values are there: the same results, the loads first. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import { alu, bufferParam, type Expr, int, load, type Param } from '../../src/kernel/ir/ir.js';
import { irFunction } from '../../src/kernel/ir/ir-function.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { compile } from '../../src/kernel/passes/pipeline.js';
import { matmulTile } from '../../src/ops/matmul/cuda.js';
import type { MatmulTile } from '../../src/ops/matmul/cuda-layout.js';
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
