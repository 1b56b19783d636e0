/** Sorting rows that no block holds, in `jit` and by several kernels; elements whose number depends on values. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as H from '../../src/index.js';
import { type AnyTensor, bool, f64, i32, i64, jit, type Tensor, tensor, useDevice } from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

const list = async (t: AnyTensor | undefined): Promise<number[]> => {
  assert.ok(t);
  return Array.from(await t.data(), Number);
};

for (const device of DEVICES) {
  const on = (name: string, body: () => Promise<void>): void => {
    test(`${device}: ${name}`, async () => {
      useDevice(device);
      await body();
    });
  };

  on('rows of several chunks', async () => {
    for (const [rows, n, dtype] of [
      [2, 1025, H.f32],
      [1, 2600, i32],
      [3, 1024, i64],
    ] as const) {
      const values = Float64Array.from({ length: rows * n }, (_, i) => Math.floor(60 * Math.sin(i * i + 1)));
      const x = tensor(values, { shape: [rows, n], dtype: dtype as H.DType<'f32'> });
      const order = values.subarray(0, rows * n);
      const expected = Array.from({ length: rows }, (_, r) =>
        Array.from({ length: n }, (_, i) => i).sort((a, b) => order[r * n + a]! - order[r * n + b]! || a - b),
      );
      assert.deepEqual(await x.argsort().array(2), expected, `${rows} × ${n} of ${dtype.name}`);
      const again = jit((x: Tensor) => x.sort().values);
      assert.deepEqual(
        await list(again(x)),
        expected.flatMap((places, r) => places.map((i) => order[r * n + i])),
      );
    }
  });

  on('maskedSelect, nonzero and unique', async () => {
    const x = tensor(
      [
        [3, 0, 2],
        [0, 3, -1],
      ],
      { requiresGrad: true },
    );
    const picked = await x.maskedSelect(x.gt(0));
    assert.deepEqual(await list(picked), [3, 2, 3]);
    picked
      .mul(tensor([1, 10, 100]))
      .sum()
      .backward();
    assert.deepEqual(await x.grad!.array(), [
      [1, 0, 10],
      [0, 100, 0],
    ]);
    const row = await x.maskedSelect(tensor([false, true, true]));
    assert.deepEqual(await list(row), [0, 2, 3, -1]);
    assert.deepEqual(await (await x.nonzero()).array(2), [
      [0, 0],
      [0, 2],
      [1, 1],
      [1, 2],
    ]);
    assert.deepEqual(await list(await x.unique()), [-1, 0, 2, 3]);
    const nothing = H.zeros([2, 0, 3]);
    assert.deepEqual((await nothing.nonzero()).shape, [0, 3]);
    assert.deepEqual((await nothing.unique()).shape, [0]);
    assert.deepEqual((await nothing.maskedSelect(nothing.gt(0))).shape, [0]);
    assert.deepEqual((await tensor(3).nonzero()).shape, [1, 0]);
    const big = tensor(BigInt64Array.of(2n ** 60n, 1n, 2n ** 60n));
    assert.deepEqual(await (await big.unique()).data(), BigInt64Array.of(1n, 2n ** 60n));
  });
}

test('misuse of sorting and of what depends on values', async () => {
  useDevice(DEVICES[0]!);
  const x = tensor([1, 2]);
  assert.throws(() => x.topk(3), /\[topk\] k is 3, but axis -1 of \(2\) has 2 elements/);
  assert.throws(() => x.sort(1), /\[sort\].*axis/);
  await assert.rejects(x.maskedSelect(x as never), /\[maskedSelect\] mask must be bool, got f32/);
  await assert.rejects(x.maskedSelect(tensor([true, false, true])), /broadcast/);
  let inside: Promise<AnyTensor> | undefined;
  jit((x: Tensor) => {
    inside = x.nonzero();
    return x.mul(1);
  })(x);
  await assert.rejects(inside!, /\[nonzero\] is not for jitted functions: the size of its result/);
  assert.deepEqual(await list(tensor(5).sort().indices), [0]);
  assert.equal(H.zeros([2], { dtype: f64 }).gt(0).sort().values.dtype, bool);
});

test('misuse of scatter, scatterAdd, indexAdd and what picks by position', () => {
  useDevice(DEVICES[0]!);
  const x = H.ones([2, 3]);
  const index = H.zeros([2, 3], { dtype: i32 });
  assert.throws(() => x.scatter(1, x, x), /\[scatter\] index must be i32, got f32/);
  assert.throws(
    () => x.scatter(1, H.zeros([3, 3], { dtype: i32 }), H.ones([3, 3])),
    /\[scatter\] index \(3,3\)/,
  );
  assert.throws(() => x.scatter(0, index, H.ones([1, 3])), /must not be larger than src \(1,3\)/);
  assert.throws(() => x.scatterAdd(1, index, x.cast(f64)), /\[scatterAdd\] dtypes differ: x is f32, src f64/);
  assert.throws(() => x.gt(0).scatterAdd(1, index, x.gt(0)), /\[scatterAdd\] takes numbers, got bool/);
  assert.throws(() => x.indexAdd(0, index, x), /\[indexAdd\] index \(2,3\) must have one dimension/);
  const first = H.zeros([1], { dtype: i32 });
  assert.throws(() => x.indexAdd(0, first, x), /src \(2,3\) be \(1,3\)/);
  assert.throws(() => x.indexSelect(0, index), /\[indexSelect\] index is \(2,3\), must have one dimension/);
  assert.throws(() => x.take(x), /\[take\] index must be i32, got f32/);
});
