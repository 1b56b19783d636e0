/** The CPU's max pooling kernels against their compositions, in the simulator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import { call, leaf } from '../../src/graph/build.js';
import { maxPool2dGradientOp, maxPool2dOp, type PoolArg, pooledSize } from '../../src/ops/max-pool2d/op.js';
import { positionDtype } from '../../src/ops/max-pool2d/problem.js';
import { checkInSimulator, kernelOf, noise } from '../kernel/harness.js';

const pool = (
  size: [number, number],
  kernel: [number, number],
  stride: [number, number] = kernel,
  padding: [number, number] = [0, 0],
  dilation: [number, number] = [1, 1],
): PoolArg => ({ size, kernel, stride, padding, dilation });

const CASES: Readonly<Record<string, PoolArg>> = {
  '2×2 of 24 columns': pool([4, 24], [2, 2]),
  '2×2 of odd sizes': pool([5, 11], [2, 2]),
  '2×2 of one window': pool([2, 2], [2, 2]),
  '3×2': pool([7, 9], [3, 2]),
  'stride beyond the kernel': pool([7, 8], [2, 2], [3, 3]),
  '2×2 padded': pool([5, 6], [2, 2], [2, 2], [1, 1]),
  '3×3 padded': pool([7, 7], [3, 3], [3, 3], [1, 0]),
};
const OVERLAPPING: Readonly<Record<string, PoolArg>> = {
  '3×3 by 2 padded': pool([8, 9], [3, 3], [2, 2], [1, 1]),
  dilated: pool([8, 9], [2, 2], [2, 2], [0, 0], [2, 3]),
};

/** Positions in windows, one of them that of NaN. */
function positions({ kernel }: PoolArg, count: number): Uint8Array | Int32Array {
  const n = kernel[0] * kernel[1];
  const places = Array.from({ length: count }, (_, i) => (i * 7) % (n + 1));
  return n < 255 ? Uint8Array.from(places) : Int32Array.from(places);
}

/** Values with many ties, and one NaN, on 3 images of 2 channels. */
function pixels([h, w]: readonly [number, number], nan: boolean): Float32Array {
  const data = noise(6 * h * w, h + w).map((v) => Math.round(3 * v));
  if (nan) data[data.length >> 1] = Number.NaN;
  return data;
}

for (const [name, arg] of Object.entries({ ...CASES, ...OVERLAPPING })) {
  test(`maxPool2d ${name}`, () => {
    const x = leaf([3, 2, ...arg.size], f32);
    for (const nan of [false, true])
      checkInSimulator(call(maxPool2dOp, [x], arg), [{ data: pixels(arg.size, nan) }]);
  });
}
for (const [name, arg] of Object.entries(CASES)) {
  test(`maxPool2dGradient ${name}`, () => {
    const g = leaf([3, 2, ...pooledSize(arg)], f32);
    const at = leaf(g.shape, positionDtype(arg));
    const sources = [{ data: positions(arg, g.size) }, { data: noise(g.size, 9) }];
    checkInSimulator(call(maxPool2dGradientOp, [at, g], arg), sources);
  });
}
test('windows that overlap or have holes leave the gradient to the composition', () => {
  for (const arg of Object.values(OVERLAPPING)) {
    const g = leaf([1, 1, ...pooledSize(arg)], f32);
    assert.equal(kernelOf(call(maxPool2dGradientOp, [leaf(g.shape, positionDtype(arg)), g], arg)), undefined);
  }
});
