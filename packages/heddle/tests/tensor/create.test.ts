/** Making tensors, reading them, and what they say of themselves. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import * as H from '../../src/index.js';
import {
  type AnyTensor,
  arange,
  bf16,
  bool,
  eye,
  f16,
  f32,
  f64,
  full,
  i8,
  i32,
  i64,
  linspace,
  meshgrid,
  ones,
  tensor,
  u8,
  u32,
  useDevice,
  zeros,
} from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

for (const device of DEVICES) {
  const on = (name: string, body: () => Promise<void> | void): void => {
    test(`${device}: ${name}`, async () => {
      useDevice(device);
      await body();
    });
  };
  const is = async (
    t: AnyTensor,
    shape: readonly number[],
    dtype: H.DType,
    nested: H.NestedArray,
  ): Promise<void> => {
    assert.deepEqual([t.shape, t.dtype.name], [shape, dtype.name]);
    assert.deepEqual(await t.array(), nested);
  };

  on('nested arrays, numbers and booleans', async () => {
    await is(
      tensor([
        [1, 2, 3],
        [4, 5, 6],
      ]),
      [2, 3],
      f32,
      [
        [1, 2, 3],
        [4, 5, 6],
      ],
    );
    await is(tensor(7), [], f32, 7);
    await is(tensor([]), [0], f32, []);
    await is(tensor([[], []]), [2, 0], f32, [[], []]);
    await is(tensor([[true], [false]]), [2, 1], bool, [[true], [false]]);
    await is(tensor([true, 0]), [2], f32, [1, 0]);
    await is(tensor([-1, 0, 300], { dtype: i32 }), [3], i32, [-1, 0, 300]);
    await is(tensor([1.9, -1.9, 3e9]).cast(i32), [3], i32, [1, -1, 2 ** 31 - 1]);
    await is(
      tensor(
        [
          [1, 2],
          [3, 4],
        ],
        { shape: [4] },
      ),
      [4],
      f32,
      [1, 2, 3, 4],
    );
    await is(tensor([0.1], { dtype: f64 }), [1], f64, [0.1]);
    await is(tensor([0.1]), [1], f32, [Math.fround(0.1)]);
  });

  on('typed arrays keep their type', async () => {
    await is(tensor(Float32Array.of(1.5)), [1], f32, [1.5]);
    await is(tensor(Float64Array.of(0.1, 0.2), { shape: [2, 1] }), [2, 1], f64, [[0.1], [0.2]]);
    await is(tensor(Int32Array.of(-1)), [1], i32, [-1]);
    await is(tensor(Uint32Array.of(2 ** 32 - 1)), [1], u32, [2 ** 32 - 1]);
    await is(tensor(Int8Array.of(-128)), [1], i8, [-128]);
    await is(tensor(Uint8Array.of(255)), [1], u8, [255]);
    await is(tensor(BigInt64Array.of(-5n)), [1], i64, [-5]);
    await is(tensor(Uint8Array.of(0, 1, 2), { dtype: bool }), [3], bool, [false, true, true]);
    await is(tensor(Float32Array.of(1, 2.5), { dtype: f16 }), [2], f16, [1, 2.5]);
    await is(tensor(Float32Array.of(1, 2.5), { dtype: bf16 }), [2], bf16, [1, 2.5]);
  });

  on('data arrives in the array type of its dtype', async () => {
    const rows = [
      [f32, Float32Array],
      [f64, Float64Array],
      [i32, Int32Array],
      [u32, Uint32Array],
      [i8, Int8Array],
      [u8, Uint8Array],
      [bool, Uint8Array],
      [i64, BigInt64Array],
      [f16, Float32Array],
      [bf16, Float32Array],
    ] as const;
    for (const [dtype, type] of rows) {
      const data = await ones([3], { dtype }).data();
      assert.ok(data instanceof type, dtype.name);
      assert.deepEqual(Array.from(data, Number), [1, 1, 1]);
    }
  });

  on('full, zeros, ones, eye, arange', async () => {
    await is(zeros([2, 2]), [2, 2], f32, [
      [0, 0],
      [0, 0],
    ]);
    await is(ones([2], { dtype: i64 }), [2], i64, [1, 1]);
    await is(full([2], true), [2], bool, [true, true]);
    await is(full([], 3, { dtype: u8 }), [], u8, 3);
    await is(full([1], 2, { dtype: i32 }), [1], i32, [2]);
    await is(zeros([0, 3]), [0, 3], f32, []);
    await is(eye(3, { dtype: i32 }), [3, 3], i32, [
      [1, 0, 0],
      [0, 1, 0],
      [0, 0, 1],
    ]);
    await is(linspace(-1, 1, 5), [5], f32, [-1, -0.5, 0, 0.5, 1]);
    await is(linspace(3, 9, 1), [1], f32, [3]);
    await is(linspace(0, 1, 0), [0], f32, []);
    assert.deepEqual((await linspace(0, 0.3, 4, { dtype: f64 }).data())[3], 0.3);
    const [rows, columns] = meshgrid([arange(2), arange(3)]) as [AnyTensor, AnyTensor];
    await is(rows, [2, 3], i32, [
      [0, 0, 0],
      [1, 1, 1],
    ]);
    await is(columns, [2, 3], i32, [
      [0, 1, 2],
      [0, 1, 2],
    ]);
    const [across] = meshgrid([arange(2), arange(3)], { indexing: 'xy' });
    await is(across!, [3, 2], i32, [
      [0, 1],
      [0, 1],
      [0, 1],
    ]);
    await is(arange(4), [4], i32, [0, 1, 2, 3]);
    await is(arange(2, 9, { step: 3 }), [3], i32, [2, 5, 8]);
    await is(arange(5, 1, { step: -2 }), [2], i32, [5, 3]);
    await is(arange(3, 1), [0], i32, []);
    await is(arange(1, { step: 0.25 }), [4], f32, [0, 0.25, 0.5, 0.75]);
    await is(arange(0.5, 3), [3], f32, [0.5, 1.5, 2.5]);
    await is(arange(3, { dtype: f32 }), [3], f32, [0, 1, 2]);
  });
}

beforeEach(() => {
  useDevice(DEVICES[0]!);
});

test('what a tensor says of itself', () => {
  const t = zeros([2, 3], { requiresGrad: true });
  assert.equal(String(t), 'Tensor((2,3), f32, requiresGrad)');
  assert.equal(String(zeros([], { dtype: i32 })), 'Tensor((), i32)');
  assert.deepEqual([t.size, t.ndim, t.requiresGrad, t.grad], [6, 2, true, undefined]);
  assert.equal(H.device().name, DEVICES[0]);
});

test('values need not be asked for to be known as constants: nothing is launched for shapes', () => {
  const before = H.engineStats().launches;
  const t = zeros([1000, 1000]).add(1).reshape([10, -1]).transpose();
  assert.deepEqual(t.shape, [100_000, 10]);
  assert.equal(H.engineStats().launches, before);
});

test('elementwise chains are one launch; a graph that comes again is compiled once', async () => {
  const step = async (v: number): Promise<void> => {
    const x = tensor([v, 2, 3]);
    await x.mul(2).add(1).exp().sub(x).tanh().data();
  };
  await step(1);
  const before = H.engineStats();
  await step(2);
  const after = H.engineStats();
  assert.equal(after.compiled, before.compiled);
  assert.equal(after.launches, before.launches + 1);
});

test('realize computes several together and keeps their values', async () => {
  const x = tensor([1, 2]);
  const [y, z] = [x.add(1), x.mul(3)];
  const before = H.engineStats().runs;
  H.realize(y, z);
  assert.equal(H.engineStats().runs, before + 1);
  assert.deepEqual(
    [await y.array(), await z.array()],
    [
      [2, 3],
      [3, 6],
    ],
  );
  assert.equal(H.engineStats().runs, before + 1);
});
