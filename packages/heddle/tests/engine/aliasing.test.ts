/** Values stay what they were: ops that give their operand back, equal values in one memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  buffer,
  f32,
  full,
  jit,
  kernel,
  maxPool2d,
  memory,
  nn,
  ones,
  realize,
  type Tensor,
  tensor,
  useDevice,
  zeros,
} from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

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

/** Ways to two tensors of equal values that are computed together. */
const EQUAL: Readonly<Record<string, () => readonly [Tensor, Tensor]>> = {
  'equal expressions': () => {
    const t = tensor([1, 2, 3, 4]);
    const made = [t.mul(2), t.mul(2)] as const;
    realize(...made);
    return made;
  },
  'constants that were filled': () => {
    const made = [full([4], 2), full([4], 2)] as const;
    realize(...made);
    return made;
  },
  'two tensors assigned the same value': () => {
    const [x, y, t] = [zeros([4]), zeros([4]), tensor([1, 2, 3, 4])];
    const value = t.mul(2).detach();
    x.assign(value);
    y.assign(value);
    return [x, y];
  },
  'states assigned the same value in jit': () => {
    const [x, y] = [tensor([0, 0, 0, 0]), tensor([0, 0, 0, 0])];
    jit((t: Tensor) => {
      const value = t.flip(0);
      x.assign(value);
      y.assign(value);
    })(tensor([8, 6, 4, 2]));
    return [x, y];
  },
  'equal results of jit': () => jit((t: Tensor) => [t.mul(2), t.mul(2)] as const)(tensor([1, 2, 3, 4])),
  'a result and a state of jit': () => {
    const x = tensor([0, 0, 0, 0]);
    const y = jit((t: Tensor) => {
      x.assign(t.flip(0));
      return t.flip(0);
    })(tensor([8, 6, 4, 2]));
    return [x, y];
  },
  'parameters loaded from one state': () => {
    const [x, y] = [new nn.Linear(2, 2), new nn.Linear(2, 2)];
    const weight = tensor([1, 2, 3, 4]).mul(2).reshape([2, 2]);
    for (const layer of [x, y]) layer.loadStateDict({ weight, bias: zeros([2]) });
    return [x.weight, y.weight];
  },
};

/** Ways to change a tensor to 7, 8, 9, 10. */
const CHANGES: Readonly<Record<string, (t: Tensor) => void | Promise<void>>> = {
  write: (t) => void t.write([7, 8, 9, 10]),
  'an update in place': (t) => jit((by: Tensor) => void t.assign(t.mul(0).add(by)))(by(t)),
  'an assignment of what it is not read for': (t) =>
    jit((by: Tensor) => void t.assign(by.mul(2).sub(by)))(by(t)),
  'a kernel': (t) =>
    kernel('put', { x: buffer(f32) }, ({ x }, { globalId, f32 }) => {
      x[globalId.x] = f32(globalId.x + 7);
    }).launch({ grid: 1, block: 4 }, { x: t }),
};
const by = (t: Tensor): Tensor => tensor([7, 8, 9, 10]).reshape(t.shape);

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

  for (const [made, equal] of Object.entries(EQUAL)) {
    on(`${made} have values of their own, whatever changes one of them`, async () => {
      for (const [how, change] of Object.entries(CHANGES)) {
        const [x, y] = equal();
        assert.deepEqual(await list(x), await list(y), how);
        for (const [t, other] of [
          [x, y],
          [y, x],
        ] as const) {
          const before = await list(other);
          await change(t);
          assert.deepEqual(await list(other), before, how);
          assert.deepEqual(await list(t), [7, 8, 9, 10], how);
        }
      }
    });
  }

  on('memory that equal values share is given back with the last of them', async () => {
    const before = memory().used;
    const [x, y] = [ones([1 << 18]), ones([1 << 18])];
    realize(x, y);
    const shared = memory().used;
    assert.ok(shared < before + (2 << 20), 'one memory');
    x.dispose();
    await assert.rejects(x.data(), /has been disposed of/);
    assert.equal((await list(y))[0], 1);
    y.dispose();
    // What earlier tests left may be collected meanwhile: there is never more.
    assert.ok(memory().used <= shared - (1 << 20));
  });

  on('what jit assigns without reading it stays in the memory that it has', async () => {
    const [x, z] = [ones([1 << 18]), zeros([1 << 18])];
    realize(x, z);
    const step = jit((x: Tensor) => void z.assign(x.mul(3)));
    step(x);
    const before = memory().used;
    for (let times = 0; times < 4; times++) step(x);
    assert.ok(memory().used <= before, `${memory().used} bytes, ${before} before`);
    const old = z.detach();
    step(tensor(new Float32Array(1 << 18)));
    assert.deepEqual([(await list(old))[0], (await list(z))[0]], [3, 0]);
  });

  on('a computed value that is overwritten passes no gradient on to what it was made of', async () => {
    const w = tensor([1, 2], { requiresGrad: true });
    const y = w.mul(3);
    assert.deepEqual(await list(y), [3, 6]);
    y.write([5, 7]);
    y.square().sum().backward();
    assert.equal(w.grad, undefined);
    assert.deepEqual(await list(y.grad!), [10, 14]);
  });

  on('an argument that has the values of the state keeps them', async () => {
    const w = tensor([1, 2, 3]);
    const step = jit((x: Tensor) => {
      const sum = x.sum();
      w.assign(w.mul(2));
      return x.mul(x.mul(sum).sum()).sum();
    });
    // Σ x · Σ(x Σx) = (Σx)³
    for (let times = 0; times < 3; times++) {
      const sum = 6 * 2 ** times;
      assert.equal(await step(times % 2 ? w.mul(1) : w.detach()).item(), sum ** 3);
      assert.deepEqual(
        await list(w),
        [2, 4, 6].map((v) => v * 2 ** times),
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
    assert.ok(memory().used <= before - (1 << 20));
    a.dispose();
    b.dispose();
  });

  on(
    'what was made of a tensor that stands for another value by now outlives a tensor of the same node',
    async () => {
      const w = tensor([1, 2]);
      const [same, triple] = [w.mul(1), w.mul(3)];
      w.assign(w.add(1));
      same.dispose();
      assert.deepEqual(await list(triple), [3, 6]);
      await assert.rejects(same.data(), /has been disposed of/);
    },
  );

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
