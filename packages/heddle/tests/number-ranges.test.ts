/** Where numbers end: what 16 bits would round away or overflow, NaN, counts beyond 32 bits. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { philox4x32 } from '../src/core/philox.js';
import {
  bf16,
  conv2d,
  crossEntropy,
  f16,
  Generator,
  i32,
  ones,
  rand,
  relu,
  type Tensor,
  tensor,
  u8,
  useDevice,
  zeros,
} from '../src/index.js';
import { DEVICES } from './case-runner.js';

const list = async (t: Tensor): Promise<number[]> => Array.from(await t.data(), Number);

for (const device of DEVICES) {
  const on = (name: string, body: () => Promise<void>): void => {
    test(`${device}: ${name}`, async () => {
      useDevice(device);
      await body();
    });
  };

  on('sums of 16-bit floats are rounded once, at the end', async () => {
    const many = new Int32Array(3000);
    for (const [dtype, expected] of [
      [bf16, 3008],
      [f16, 3000],
    ] as const) {
      const w = tensor([1, 2], { dtype, requiresGrad: true });
      w.at(tensor(many)).sum().backward();
      assert.deepEqual(await list(w.grad!), [expected, 0]);
    }
    const [row, column] = [tensor([[300, -300]], { dtype: f16 }), tensor([[300], [300]], { dtype: f16 })];
    assert.deepEqual(await list(row.matmul(column)), [0]);
    const image = tensor([300, -300], { dtype: f16 }).reshape([1, 2, 1, 1]);
    const weight = tensor([300, 300], { dtype: f16 }).reshape([1, 2, 1, 1]);
    assert.deepEqual(await list(conv2d(image, weight)), [0]);
    const half = ones([100_000], { dtype: f16 });
    assert.equal(await half.mean().item(), 1);
    assert.equal(await half.variance().item(), 0);
  });

  on('u8 is summed and multiplied in i32', async () => {
    const sum = ones([300], { dtype: u8 }).sum();
    assert.equal(sum.dtype, i32);
    assert.equal(await sum.item(), 300);
    assert.equal(await tensor([20, 30], { dtype: u8 }).prod().item(), 600);
  });

  on('a NaN of any bits stays one in softmax and cross-entropy', async () => {
    const bits = Int32Array.of(0x7fffffff, 0, 0, 0, 0, 0, 0, 0x3f800000);
    const x = tensor(new Float32Array(bits.buffer), { shape: [1, 8] });
    assert.ok((await list(x.softmax(1))).every(Number.isNaN));
    assert.ok(Number.isNaN(await crossEntropy(x, tensor([1], { dtype: i32 })).item()));
  });

  on('argmax and argmin point at a NaN', async () => {
    const x = tensor([
      [1, Number.NaN, 3],
      [4, 5, 6],
      [Number.NaN, 0, Number.NaN],
    ]);
    assert.deepEqual(await list(x.argmax(1)), [1, 2, 0]);
    assert.deepEqual(await list(x.argmin(1)), [1, 0, 0]);
  });

  on('gradients at NaN, and of 0⁰', async () => {
    const at = async (values: number[], fn: (x: Tensor) => Tensor): Promise<number[]> => {
      const x = tensor(values, { requiresGrad: true });
      fn(x).sum().backward();
      return list(x.grad!);
    };
    assert.deepEqual(await at([Number.NaN, 2, -1, 0], relu), [1, 1, 0, 0]);
    assert.deepEqual(await at([Number.NaN, 2, -1, 0], (x) => x.abs()), [Number.NaN, 1, -1, 0]);
    assert.deepEqual(await at([0, 2], (x) => x.pow(tensor([0, 3]))), [0, 12]);
    assert.deepEqual(await at([0, 2, -1], (z) => tensor([0, 1, 0]).pow(z)), [0, 0, Number.NEGATIVE_INFINITY]);
  });

  on('a row that was computed is summed in parts as any other', async () => {
    const x = tensor(
      new Float32Array(196_608).map((_, i) => i % 2),
      { requiresGrad: true },
    );
    const deviation = x.sub(x.mean(0, { keepdim: true }));
    await deviation.data();
    assert.equal(await deviation.square().sum().item(), 196_608 / 4);
  });

  on('random numbers go on beyond 2³² blocks', async () => {
    const generator = new Generator(3);
    generator.counter.write([2 ** 32 - 1]);
    const uniform = (word: number): number => (word >>> 8) * 2 ** -24;
    const blocks = [
      [2 ** 32 - 1, 0],
      [0, 1],
      [1, 1],
    ] as const;
    const expected = blocks.flatMap(([low, high]) => philox4x32([low, high, 0, 0], [3, 0]).map(uniform));
    assert.deepEqual(await list(rand([8], { generator })), expected.slice(0, 8));
    assert.deepEqual(await list(rand([3], { generator })), expected.slice(8, 11));
    assert.deepEqual(await list(generator.counter), [2 ** 32 + 2]);
  });
}

test('a tensor of 2³¹ elements is refused, what is computed on the way may be as large', async () => {
  useDevice('cpu');
  const refused = /\(65536,32768\) has 2147483648 elements, a tensor in memory at most/;
  await assert.rejects(zeros([2 ** 16, 2 ** 15]).data(), refused);
  assert.throws(
    () =>
      ones([2 ** 16, 1])
        .add(ones([2 ** 15]))
        .realize(),
    refused,
  );
  assert.throws(() => rand([2 ** 16, 2 ** 15]), refused);
  // (1300, 1300, 1300) on the way
  const planned = ones([1300, 1300], { dtype: f16 }).matmul(ones([1300, 1300], { dtype: f16 }));
  assert.deepEqual(await list(planned.at('0:1', '0:2')), [1300, 1300]);
});
