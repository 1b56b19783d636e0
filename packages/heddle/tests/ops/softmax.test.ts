/** The CPU's softmax and cross-entropy kernels against their compositions, in the simulator. */
import { test } from 'node:test';
import { f32, i32 } from '../../src/core/dtype.js';
import { call, leaf } from '../../src/graph/build.js';
import { crossEntropyGradientOp, crossEntropyOp } from '../../src/ops/cross-entropy/op.js';
import { softmaxOp } from '../../src/ops/softmax/op.js';
import { checkInSimulator, noise } from '../kernel/harness.js';

const logits = (n: number, seed: number): Float32Array => noise(n, seed).map((v) => 20 * v);

for (const log of [false, true]) {
  test(`${log ? 'logSoftmax' : 'softmax'} of rows of many lengths`, () => {
    for (const columns of [1, 2, 3, 4, 7, 8, 9, 16, 21, 40]) {
      const x = leaf([3, columns], f32);
      checkInSimulator(call(softmaxOp, [x], { axis: 1, log }), [{ data: logits(x.size, columns) }]);
    }
  });
  test(`${log ? 'logSoftmax' : 'softmax'} of three dimensions, far from zero`, () => {
    const x = leaf([2, 3, 10], f32);
    const data = logits(x.size, 5).map((v, i) => v + (i % 2 ? 1e4 : 1e4 - 3));
    checkInSimulator(call(softmaxOp, [x], { axis: 2, log }), [{ data }]);
  });
}

test('softmax of rows with infinity and NaN', () => {
  const x = leaf([4, 5], f32);
  const data = logits(20, 1);
  data[2] = Number.NEGATIVE_INFINITY;
  data[7] = Number.POSITIVE_INFINITY;
  data[13] = Number.NaN;
  data.fill(Number.NEGATIVE_INFINITY, 15, 20);
  checkInSimulator(call(softmaxOp, [x], { axis: 1, log: false }), [{ data }]);
});

for (const [rows, classes] of [
  [1, 1],
  [5, 2],
  [7, 10],
  [3, 13],
  [2, 40],
] as const) {
  const labels = Int32Array.from({ length: rows }, (_, i) => (i * 7) % classes);
  const sources = [{ data: logits(rows * classes, rows) }, { data: labels }];
  const leaves = () => [leaf([rows, classes], f32), leaf([rows], i32)];
  test(`crossEntropy of ${rows} × ${classes}`, () =>
    checkInSimulator(call(crossEntropyOp, leaves(), null), sources));
  test(`its gradient, ${rows} × ${classes}`, () =>
    checkInSimulator(call(crossEntropyGradientOp, leaves(), null), sources));
}

test('crossEntropy of a label outside the classes is NaN in its row', () => {
  const labels = Int32Array.from([1, -1, 4, 3]);
  const leaves = [leaf([4, 4], f32), leaf([4], i32)];
  checkInSimulator(call(crossEntropyOp, leaves, null), [{ data: logits(16, 2) }, { data: labels }]);
});
