/** The GPU's matmul kernels against the composition, in the simulator: layouts, edges, batches, all ways to cut. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, f16, f32 } from '../../src/core/dtype.js';
import type { Precision } from '../../src/core/precision.js';
import { call, leaf } from '../../src/graph/build.js';
import { callOf } from '../../src/graph/fused-op.js';
import { matmulOp } from '../../src/ops/matmul/op.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import { checkInSimulator, identity, ioFor, kernelOf } from '../kernel/harness.js';
import { LAYOUTS, type Layout, laidOutMatrix } from './matmul-layouts.js';

/** A share of the largest value that a sum's terms can have; operands have 10 and 7 bits of fraction. */
const TOLERANCE: Readonly<Record<Precision, number>> = { f32: 1e-5, tf32: 4e-3, bf16: 3e-2 };

const check = (
  b: number,
  m: number,
  n: number,
  k: number,
  left: Layout,
  right: Layout,
  precision: Precision = 'f32',
): void => {
  const node = call(matmulOp, [leaf([b, m, k], f32), leaf([b, k, n], f32)], { precision });
  const sources = [laidOutMatrix(b, m, k, left, m + k), laidOutMatrix(b, k, n, right, n + 7)];
  checkInSimulator(node, sources, TOLERANCE[precision], SIM_TARGET);
};

const SIZES: readonly (readonly [number, number, number, number])[] = [
  [1, 1, 1, 1],
  [1, 1, 17, 3],
  [1, 17, 1, 65],
  [1, 3, 65, 17],
  [1, 12, 20, 136],
  [3, 5, 9, 6],
  [2, 16, 8, 12],
];

for (const [left, right] of LAYOUTS) {
  for (const [b, m, n, k] of SIZES)
    test(`matmul ${b}×${m}×${k} · ${k}×${n}, ${left} · ${right}`, () => check(b, m, n, k, left, right));
}

for (const precision of ['tf32', 'bf16'] as const) {
  for (const [left, right] of LAYOUTS) {
    test(`matmul 2×33×36 · 36×24 in ${precision}, ${left} · ${right}`, () =>
      check(2, 33, 24, 36, left, right, precision));
  }
  test(`matmul 17×300 · 300×9 in ${precision}`, () => check(1, 17, 9, 300, 'rows', 'columns', precision));
}

for (const [dtype, tolerance] of [
  [bf16, 2e-2],
  [f16, 2e-3],
] as const) {
  for (const [left, right] of LAYOUTS) {
    test(`matmul 2×33×40 · 40×24 of ${dtype.name}, ${left} · ${right}`, () => {
      const node = call(matmulOp, [leaf([2, 33, 40], dtype), leaf([2, 40, 24], dtype)], { precision: 'f32' });
      const sources = [laidOutMatrix(2, 33, 40, left, 1, dtype), laidOutMatrix(2, 40, 24, right, 2, dtype)];
      checkInSimulator(node, sources, tolerance, SIM_TARGET);
    });
  }
}

test('16-bit floats are multiplied on tensor cores from compute capability 8.0 on', () => {
  for (const dtype of [f16, bf16]) {
    const node = call(matmulOp, [leaf([32, 32], dtype), leaf([32, 32], dtype)], { precision: 'f32' });
    assert.equal(kernelOf(node, { ...SIM_TARGET, capability: 75 }), undefined);
    const io = ioFor(node, [{ data: new Uint16Array() }, { data: new Uint16Array() }], SIM_TARGET, identity);
    const [first] = kernelOf(node, SIM_TARGET)!.variants!(io, callOf(node).arg);
    assert.match(first!.name, new RegExp(`^${dtype.name}-`));
  }
});

test('batches are blocks of the first dimension, which has room for all', () => {
  const node = call(matmulOp, [leaf([70000, 3, 4], f32), leaf([70000, 4, 2], f32)], { precision: 'f32' });
  const nothing = { data: new Float32Array() };
  const io = ioFor(node, [nothing, nothing], SIM_TARGET, identity);
  for (const stage of kernelOf(node, SIM_TARGET)!.plan(io, callOf(node).arg)) {
    assert.ok('kernel' in stage);
    assert.ok(stage.grid[0] >= 70000);
    assert.ok(stage.grid[1] <= 65535);
    assert.equal(stage.grid[2], 1);
  }
});
