/** Values stay what they were: ops that give their operand back, state that is an argument, too. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32, jit, maxPool2d, memory, ones, type Tensor, tensor, useDevice, zeros } from '../src/index.js';
import { DEVICES } from './case-runner.js';

const list = async (t: Tensor): Promise<number[]> => Array.from(await t.data(), Number);

/** Ops that leave (2, 2) as it is. */
const IDENTITIES: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  'mul(1)': (x) => x.mul(1),
  'div(1)': (x) => x.div(1),
  'sub(0)': (x) => x.sub(0),
  cast: (x) => x.cast(f32),
  reshape: (x) => x.reshape([2, 2]),
  permute: (x) => x.permute([0, 1]),
  expand: (x) => x.expand([2, 2]),
  'sum of no axes': (x) => x.sum([]),
};

for (const device of DEVICES) {
  const on = (name: string, body: () => Promise<void>): void => {
    test(`${device}: ${name}`, async () => {
      useDevice(device);
      await body();
    });
  };

  for (const [name, same] of Object.entries(IDENTITIES)) {
    on(`${name} is a value of its own: a step, a write and dispose leave it alone`, async () => {
      const w = tensor([
        [1, 2],
        [3, 4],
      ]);
      const step = jit(() => {
        w.assign(w.mul(2));
      });
      const before = same(w);
      step();
      assert.deepEqual(await list(w), [2, 4, 6, 8]);
      assert.deepEqual(await list(before), [1, 2, 3, 4]);
      step();
      const between = same(w);
      w.write([9, 9, 9, 9]);
      assert.deepEqual(await list(between), [4, 8, 12, 16]);
      same(w).dispose();
      assert.deepEqual(await list(w), [9, 9, 9, 9]);
      assert.deepEqual(await list(before), [1, 2, 3, 4]);
      step();
      assert.deepEqual(await list(w), [18, 18, 18, 18]);
    });
  }

  on('an argument that is the state, too, has the values it had at the call', async () => {
    const w = tensor([1, 2, 3]);
    const step = jit((x: Tensor) => {
      const sum = x.sum();
      w.assign(w.mul(2));
      return x.mul(x.mul(sum).sum()).sum();
    });
    // Σ x · Σ(x Σx) = (Σx)³
    assert.equal(await step(tensor([1, 2, 3])).item(), 216);
    assert.deepEqual(await list(w), [2, 4, 6]);
    for (let times = 0; times < 3; times++) {
      const sum = 12 * 2 ** times;
      assert.equal(await step(w).item(), sum ** 3);
      assert.deepEqual(
        await list(w),
        [4, 8, 12].map((v) => v * 2 ** times),
      );
    }
  });

  on('dispose gives the memory back with the last tensor of a node', async () => {
    const a = tensor(new Float32Array(1 << 18));
    const b = a.cast(f32);
    const before = memory().used;
    a.dispose();
    await assert.rejects(a.data(), /has been disposed of/);
    assert.equal((await list(b)).length, 1 << 18);
    b.dispose();
    assert.equal(memory().used, before - (1 << 20));
    a.dispose();
    b.dispose();
  });

  on('a value that was computed is one, however it was made', async () => {
    const views = [
      tensor([1, 2, 3, 4]).reshape([2, 2]),
      tensor([
        [1, 3],
        [2, 4],
      ]).permute([1, 0]),
      tensor([7]).expand([2, 2]),
    ];
    for (const x of views) {
      const values = await list(x);
      assert.deepEqual(
        await list(x.mul(2)),
        values.map((v) => 2 * v),
      );
      assert.deepEqual(
        await list(x.neg()),
        values.map((v) => -v),
      );
    }
  });

  on('zeros and ones that were overwritten are no constants any more', async () => {
    const m = zeros([4]);
    const step = jit(() => {
      m.assign(m.add(1));
      return m.sum();
    });
    step();
    step();
    assert.deepEqual(await list(tensor([10, 10, 10, 10]).sub(m)), [8, 8, 8, 8]);
    const t = ones([4]);
    await t.data();
    t.write([2, 3, 4, 5]);
    assert.deepEqual(await list(tensor([1, 1, 1, 1]).mul(t)), [2, 3, 4, 5]);
    const u = zeros([1, 1, 4, 4]);
    await u.data();
    u.write(Array.from({ length: 16 }, (_, i) => i));
    const zero = tensor(new Float32Array(16), { shape: [1, 1, 4, 4] });
    assert.deepEqual(await list(maxPool2d(zero.add(u), 2)), [5, 7, 13, 15]);
    const bias = tensor([1, 2]).reshape([1, 2, 1, 1]).expand([1, 2, 2, 2]);
    await bias.data();
    assert.deepEqual(await list(maxPool2d(bias.add(1), 2)), [2, 3]);
  });

  on('several tensors may be assigned the same value', async () => {
    const [p, t, w] = [tensor([1, 2, 3]), tensor([9, 9, 9]), tensor([4, 4, 4])];
    const distance = jit(() => {
      const d = p.sub(t).square().sum();
      const v = p.mul(0.5);
      p.assign(v);
      t.assign(v);
      w.assign(zeros([3]));
      return d;
    });
    assert.equal(await distance().item(), 64 + 49 + 36);
    assert.deepEqual(
      [await list(p), await list(t), await list(w)],
      [
        [0.5, 1, 1.5],
        [0.5, 1, 1.5],
        [0, 0, 0],
      ],
    );
    assert.equal(await distance().item(), 0);
    assert.deepEqual(await list(t), [0.25, 0.5, 0.75]);
    const reset = jit(() => {
      const before = p.add(t).sum();
      p.assign(zeros([3]));
      t.assign(zeros([3]));
      return before;
    });
    assert.equal(await reset().item(), 3);
    assert.deepEqual(
      [await list(p), await list(t)],
      [
        [0, 0, 0],
        [0, 0, 0],
      ],
    );
    p.write([1, 1, 1]);
    assert.deepEqual(await list(t), [0, 0, 0]);
  });

  on('two tensors of one node, both updated', async () => {
    const a = tensor([1, 2]);
    const b = a.mul(1);
    const step = jit(() => {
      a.assign(a.add(b));
      b.assign(b.mul(10));
    });
    step();
    assert.deepEqual(
      [await list(a), await list(b)],
      [
        [2, 4],
        [10, 20],
      ],
    );
    step();
    assert.deepEqual(
      [await list(a), await list(b)],
      [
        [12, 24],
        [100, 200],
      ],
    );
  });
}
