/** A GPU's memory over 10,000 training steps: what 20 steps took is enough for all. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import {
  crossEntropy,
  i32,
  jit,
  type MemoryReport,
  memory,
  noGrad,
  optim,
  randn,
  relu,
  synchronize,
  type Tensor,
  tensor,
  useDevice,
} from '../../src/index.js';
import { PROGRAMS } from '../../src/train/index.js';
import { cudaReason } from '../cases/case-runner.js';

const STEPS = 10_000;
const reason = cudaReason();
const skip = reason ? `not run: ${reason}` : false;
before(() => {
  if (!reason) useDevice('cuda');
});

/** What tensors leave behind is given back by finalizers: after a collection, in turns of the event loop. */
async function collect(): Promise<void> {
  const { setFlagsFromString } = await import('node:v8');
  const { runInNewContext } = await import('node:vm');
  setFlagsFromString('--expose-gc');
  for (let i = 0; i < 3; i++) {
    (runInNewContext('gc') as () => void)();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await synchronize();
}

async function holdsStill(step: (i: number) => Promise<void> | void): Promise<void> {
  for (let i = 0; i < 20; i++) await step(i);
  await collect();
  const before = memory();
  let most = 0;
  for (let i = 0; i < STEPS; i++) {
    await step(i);
    most = Math.max(most, memory().reserved);
  }
  await collect();
  const after = memory();
  const said = (m: MemoryReport): string =>
    m.holders.map((h) => `${h.buffers} × ${h.label}: ${h.bytes}`).join(', ');
  assert.ok(
    after.used <= before.used && after.buffers <= before.buffers,
    `${before.used} bytes (${said(before)}) became ${after.used} (${said(after)})`,
  );
  // Until a collection, losses of earlier steps may be held; not more than that.
  assert.ok(most <= before.reserved + 64 * 2 ** 20, `${before.reserved} bytes reserved became ${most}`);
}

test('lenet5 by jit', { skip }, async () => {
  const model = PROGRAMS.lenet5.build();
  const optimizer = new optim.Adam(model.parameters(), { lr: 1e-3 });
  const step = jit((x: Tensor, y: Tensor) => {
    const loss = crossEntropy(model.forward(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  const pictures = new Float32Array(64 * 784).map((_, i) => Math.sin(i));
  const labels = Int32Array.from({ length: 64 }, (_, i) => i % 10);
  const x = tensor(pictures, { shape: [64, 1, 28, 28] });
  const y = tensor(labels, { dtype: i32 });
  await holdsStill(async (i) => {
    const loss = step(x.write(pictures), y.write(labels));
    // Most losses are never looked at.
    if (i % 100 === 0) assert.ok(Number.isFinite(await loss.item()));
  });
});

test('a loop without jit', { skip }, async () => {
  const weights = [randn([6, 16], { requiresGrad: true }), randn([16, 3], { requiresGrad: true })] as const;
  const x = randn([8, 6]);
  const y = x.argmax(1).minimum(2);
  await holdsStill(async (i) => {
    const loss = crossEntropy(relu(x.matmul(weights[0])).matmul(weights[1]), y);
    loss.backward();
    noGrad(() => {
      for (const w of weights) {
        w.assign(w.sub(w.grad!.mul(0.01)));
        w.grad = undefined;
      }
    });
    loss.realize();
    if (i % 100 === 0) await loss.item();
  });
});
