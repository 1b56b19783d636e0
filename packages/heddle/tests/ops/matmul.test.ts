/** The CPU's matmul kernels against the composition, in the simulator: layouts, edges, batches, coordinates. */
import { after, test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import { call, leaf } from '../../src/graph/build.js';
import { matmulOp } from '../../src/ops/matmul/op.js';
import { CpuDevice } from '../../src/runtime/cpu/device.js';
import { checkInSimulator, checkOnDevice } from '../kernel/harness.js';
import { LAYOUTS, type Layout, laidOutMatrix } from './matmul-layouts.js';

const check = (b: number, m: number, n: number, k: number, left: Layout, right: Layout): void => {
  const node = call(matmulOp, [leaf([b, m, k], f32), leaf([b, k, n], f32)], { precision: 'f32' });
  checkInSimulator(node, [laidOutMatrix(b, m, k, left, m + k), laidOutMatrix(b, k, n, right, n + 7)]);
};

for (const [left, right] of LAYOUTS) {
  test(`matmul ${left} · ${right} at odd sizes`, () => {
    // How long a sum is does not matter to how the result is cut: other K at the smallest and largest edges only.
    for (const m of [1, 2, 3, 4, 5, 9])
      for (const n of [1, 3, 4, 8, 10, 13])
        for (const k of m % 4 === 1 && n % 4 === 1 ? [1, 4, 7] : [7]) check(1, m, n, k, left, right);
  });
  test(`matmul ${left} · ${right} in batches`, () => {
    check(3, 5, 9, 6, left, right);
    check(2, 1, 33, 5, left, right);
  });
}

const device = new CpuDevice();
after(() => device.close());

/** Sizes at which the packed kernel takes over, with K in more than one piece, and edges in every direction. */
const LARGE: readonly (readonly [number, number, number, number])[] = [
  [1, 130, 141, 127],
  [1, 67, 74, 515],
  [1, 16, 2100, 63],
  [2, 70, 133, 257],
  [1, 300, 1, 700],
  [1, 1, 300, 700],
];

for (const [left, right] of LAYOUTS) {
  test(`matmul ${left} · ${right}, large, on the CPU`, async () => {
    for (const [b, m, n, k] of LARGE) {
      const node = call(matmulOp, [leaf([b, m, k], f32), leaf([b, k, n], f32)], { precision: 'f32' });
      const x = laidOutMatrix(b, m, k, left, 3);
      const y = laidOutMatrix(b, k, n, right, 4);
      await checkOnDevice(device, node, [x, y], product(b, m, n, k, x.data, y.data), 1e-4);
    }
  });
}

function product(
  b: number,
  m: number,
  n: number,
  k: number,
  x: ArrayLike<number | bigint>,
  y: ArrayLike<number | bigint>,
): number[] {
  const out = new Array<number>(b * m * n).fill(0);
  for (let z = 0; z < b; z++) {
    for (let i = 0; i < m; i++) {
      for (let l = 0; l < k; l++) {
        const factor = Number(x[(z * m + i) * k + l]);
        for (let j = 0; j < n; j++) out[(z * m + i) * n + j]! += factor * Number(y[(z * k + l) * n + j]);
      }
    }
  }
  return out;
}
