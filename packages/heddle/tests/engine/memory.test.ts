/** Memory: no growth in loops, values kept and given back, graphs that cannot grow without bound. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import * as H from '../../src/index.js';
import {
  engineStats,
  jit,
  memory,
  noGrad,
  randn,
  type Tensor,
  tensor,
  useDevice,
  zeros,
} from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

const device = DEVICES[0]!;
const list = async (t: Tensor): Promise<number[]> => Array.from(await t.data(), Number);

beforeEach(() => {
  useDevice(device);
});

/** All that is pending computed, then a collection, and turns of the event loop in which finalizers run. */
async function collect(): Promise<void> {
  zeros([1]).realize().dispose();
  const { setFlagsFromString } = await import('node:v8');
  const { runInNewContext } = await import('node:vm');
  setFlagsFromString('--expose-gc');
  for (let i = 0; i < 3; i++) {
    (runInNewContext('gc') as () => void)();
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Bytes in tensors and arenas; what compiled programs need for themselves stays with them. */
const held = (): number =>
  memory()
    .holders.filter((h) => h.label === 'tensors' || h.label === 'intermediate values')
    .reduce((n, h) => n + h.bytes, 0);

/** Without the programs' code, which workers are given once, whenever they have started: at most one for each table. */
function withoutCode({ holders }: H.MemoryReport): { used: number; buffers: number; said: string } {
  const rest = holders.filter((h) => h.label !== 'program modules');
  const buffers = (label: string): number => holders.find((h) => h.label === label)?.buffers ?? 0;
  assert.ok(buffers('program modules') <= buffers('program tables'), 'a program has its code once');
  return {
    used: rest.reduce((n, h) => n + h.bytes, 0),
    buffers: rest.reduce((n, h) => n + h.buffers, 0),
    said: rest.map((h) => `${h.buffers} × ${h.label}`).join(', '),
  };
}

/** `body` run often enough to fill all caches, then `times` more: the bytes used afterwards and before are equal. */
async function holdsStill(times: number, body: (i: number) => Promise<void> | void): Promise<void> {
  for (let i = 0; i < 20; i++) await body(i);
  await collect();
  const before = withoutCode(memory());
  for (let i = 0; i < times; i++) await body(i);
  await collect();
  const after = withoutCode(memory());
  assert.ok(
    after.used <= before.used && after.buffers <= before.buffers,
    `${before.used} bytes (${before.said}) became ${after.used} (${after.said})`,
  );
}

function smallModel(): { step: (x: Tensor, y: Tensor) => Tensor; forward: (x: Tensor) => Tensor } {
  const w1 = randn([6, 16], { requiresGrad: true });
  const w2 = randn([16, 3], { requiresGrad: true });
  const forward = (x: Tensor): Tensor => H.relu(x.matmul(w1)).matmul(w2);
  const step = (x: Tensor, y: Tensor): Tensor => {
    const loss = H.crossEntropy(forward(x), y);
    loss.backward();
    noGrad(() => {
      for (const p of [w1, w2]) {
        p.assign(p.sub(p.grad!.mul(0.01)));
        p.grad = undefined;
      }
    });
    return loss;
  };
  return { step, forward };
}

test('2,000 jitted training steps hold what 20 did', async () => {
  const step = jit(smallModel().step);
  const x = randn([8, 6]);
  const y = x.argmax(1).minimum(2);
  await holdsStill(2000, async (i) => {
    const loss = step(x.add(0).realize(), y);
    // Most values are never looked at
    if (i % 100 === 0) await loss.item();
  });
});

test('200 evaluations without jit hold what 20 did, and compile nothing new', async () => {
  const { forward } = smallModel();
  const x = randn([8, 6]);
  const evaluate = async (): Promise<void> => {
    const logits = forward(x.mul(0.5));
    await logits.argmax(1).data();
    await H.crossEntropy(logits, x.argmax(1).minimum(2)).item();
  };
  // Twice: the first also computes what the model and x are made of. And what `collect` computes.
  await evaluate();
  await evaluate();
  await collect();
  const { compiled } = engineStats();
  await holdsStill(200, evaluate);
  assert.equal(engineStats().compiled, compiled);
});

test('200 training steps without jit hold what 20 did', async () => {
  const { step } = smallModel();
  const x = randn([8, 6]);
  const y = x.argmax(1).minimum(2);
  await holdsStill(200, async () => {
    await step(x, y).item();
  });
});

test('random draws hold still', async () => {
  const draw = jit(() => H.rand([100]));
  await holdsStill(300, async () => {
    await draw().data();
    await H.rand([50]).data();
  });
});

test('x = x + 1, 100,000 times and never asked for, is computed on the way and right', async () => {
  let x = tensor([0, 0.5]);
  for (let i = 0; i < 100_000; i++) x = x.add(1);
  assert.ok(x.ownNode.depth <= 2001, `depth ${x.ownNode.depth}`);
  assert.deepEqual(await list(x), [100_000, 100_000.5]);
});

test('a state assigned 5,000 times and never asked for does not grow a graph', async () => {
  const state = tensor([1, 2]);
  for (let i = 0; i < 5000; i++) state.assign(state.add(1));
  assert.ok(state.ownNode.depth <= 2001);
  assert.deepEqual(await list(state), [5001, 5002]);
});

test('a graph that uses each value twice is not walked twice', async () => {
  let x = tensor([1, -1]);
  for (let i = 0; i < 300; i++) x = x.add(x).mul(0.5);
  assert.deepEqual(await list(x), [1, -1]);
  const w = tensor([1, 2], { requiresGrad: true });
  let y: Tensor = w;
  for (let i = 0; i < 100; i++) y = y.add(y).mul(0.5);
  y.sum().backward();
  assert.deepEqual(await list(w.grad!), [1, 1]);
});

test('chains of any length and any sharing compile, beside products, reductions and states', async () => {
  const long = (t: Tensor): Tensor => {
    let y = t;
    for (let i = 0; i < 60; i++) y = y.add(y).mul(0.5);
    for (let i = 0; i < 400; i++) y = y.add(1).sub(1);
    return y;
  };
  const state = tensor([
    [1, 2],
    [3, 4],
  ]);
  const eye = H.eye(2);
  const step = jit((x: Tensor) => {
    const product = long(x.matmul(eye));
    const sums = long(x.sum(1));
    state.assign(long(state.add(long(x))));
    return [product, sums, long(x)] as const;
  });
  const x = tensor([
    [1, 1],
    [2, 2],
  ]);
  const [product, sums, same] = step(x);
  assert.deepEqual(await product.array(), [
    [1, 1],
    [2, 2],
  ]);
  assert.deepEqual(await sums.array(), [2, 4]);
  assert.deepEqual(await same.array(), [
    [1, 1],
    [2, 2],
  ]);
  assert.deepEqual(await state.array(), [
    [2, 3],
    [5, 6],
  ]);
});

test('dispose gives the memory back at once, and twice is once', async () => {
  await collect();
  const before = held();
  const t = zeros([1000]).realize();
  const taken = held() - before;
  assert.ok(taken >= 4000, `${taken} bytes taken`);
  t.dispose();
  assert.equal(held(), before);
  t.dispose();
  assert.equal(held(), before);
});

test('using gives it back at the end of the block', async () => {
  await collect();
  const before = held();
  {
    using t = zeros([1000]).realize();
    assert.ok(held() >= before + 4000);
    assert.equal(t.size, 1000);
  }
  assert.equal(held(), before);
});

test('tensors that nobody holds free themselves', async () => {
  await collect();
  const before = held();
  for (let i = 0; i < 50; i++) zeros([1000]).realize();
  await collect();
  assert.equal(held(), before);
});

test('memory() names its holders', () => {
  const t = zeros([5000]).realize();
  const report = memory();
  assert.ok(report.holders.some((h) => h.label === 'tensors' && h.bytes >= 20_000));
  assert.ok(report.peak >= report.used && report.reserved >= report.used);
  t.dispose();
});

test('write is in place for a tensor that nothing was made from, and copies for others', async () => {
  const alone = tensor([1, 2]);
  const storage = alone.ownNode.storage;
  alone.write([3, 4]);
  assert.equal(alone.ownNode.storage, storage);
  const seen = tensor([1, 2]);
  const lazy = seen.mul(10);
  const view = seen.reshape([2, 1]);
  seen.write([3, 4]);
  assert.deepEqual(await list(seen), [3, 4]);
  assert.deepEqual(await list(lazy), [10, 20]);
  assert.deepEqual(await list(view), [1, 2]);
});

test('data() is a copy: what is done to it changes nothing', async () => {
  const t = tensor([1, 2]);
  const data = await t.data();
  data[0] = 99;
  assert.deepEqual(await list(t), [1, 2]);
  const given = Float32Array.of(1, 2);
  const made = tensor(given);
  given[0] = 99;
  assert.deepEqual(await list(made), [1, 2]);
});

test('a program of jit gives its arena back on dispose', async () => {
  await collect();
  const before = held();
  const g = jit((x: Tensor) => x.matmul(x).softmax(1).matmul(x));
  g(zeros([20, 20])).dispose();
  g.dispose();
  await collect();
  assert.equal(held(), before);
});

test('a step that trains convolutions and linear layers updates all its weights where they are', () => {
  const { nn, optim } = H;
  const [first, second, last] = [new nn.Conv2d(1, 3, 3), new nn.Conv2d(3, 4, 3), new nn.Linear(64, 5)];
  const parameters = [first, second, last].flatMap((layer) => layer.parameters());
  const optimizer = new optim.Adam(parameters, { lr: 0.01 });
  const step = jit((x: Tensor) => {
    const h = second.forward(first.forward(x).relu()).relu();
    last
      .forward(h.reshape([2, 64]))
      .square()
      .mean()
      .backward();
    optimizer.step();
  });
  const x = randn([2, 1, 8, 8]);
  step(x);
  const { buffers } = memory();
  step(x);
  assert.ok(memory().buffers <= buffers);
});

test('a profile keeps the memory of its arguments, whoever else has let go of them', async () => {
  const step = jit((x: Tensor) => x.mul(2).sum());
  let done = false;
  const profile = step.profile([randn([64])], { rounds: 5, roundUs: 10 }).finally(() => {
    done = true;
  });
  while (!done) await collect();
  assert.equal((await profile).us.length, 5);
  step.dispose();
});
