/** The GPU's matmul kernels against the composition, in the simulator: layouts, edges, batches, all ways to cut. */
import { test } from 'node:test';
import { f32 } from '../src/core/dtype.js';
import { matmulOp } from '../src/fused/matmul.js';
import { call, leaf } from '../src/graph/build.js';
import { SIM_TARGET } from '../src/runtime/sim/launch.js';
import { checkInSimulator } from './kernel-harness.js';
import { LAYOUTS, type Layout, laidOutMatrix } from './matmul-layouts.js';

const check = (b: number, m: number, n: number, k: number, left: Layout, right: Layout): void => {
  const node = call(matmulOp, [leaf([b, m, k], f32), leaf([b, k, n], f32)], { precision: 'f32' });
  const sources = [laidOutMatrix(b, m, k, left, m + k), laidOutMatrix(b, k, n, right, n + 7)];
  checkInSimulator(node, sources, 1e-5, SIM_TARGET);
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
