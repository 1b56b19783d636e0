/** Mixed precision: what is computed in which dtype, and losses that are scaled. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as H from '../../src/index.js';
import { autocast, bf16, f16, f32, nn, optim } from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

const network = (): nn.Sequential => {
  H.manualSeed(3);
  return new nn.Sequential(
    new nn.Conv2d(1, 4, 3),
    new nn.BatchNorm2d(4),
    new nn.ReLU(),
    new nn.Flatten(),
    new nn.Linear(64, 16),
    new nn.GELU(),
    new nn.LayerNorm(16),
    new nn.Linear(16, 3),
  );
};
const inputs = (): { x: H.Tensor; labels: H.Tensor<H.Shape, 'i32'> } => {
  const generator = new H.Generator(1);
  const x = H.randn([12, 1, 6, 6], { generator });
  // The class is told by the brightest of three rows.
  return { x, labels: x.reshape([12, 6, 6]).mean(2).at('...', '0:3').argmax(1) };
};

for (const device of DEVICES) {
  test(`${device}: products give 16 bits, losses f32, gradients the weights' dtype`, async () => {
    H.useDevice(device);
    const { x, labels } = inputs();
    for (const dtype of [bf16, f16] as const) {
      const model = network();
      const plain = H.crossEntropy(model.forward(x), labels);
      plain.backward();
      H.realize(plain, ...model.parameters().map((p) => p.grad!));
      const exact = await Promise.all(model.parameters().map((p) => p.grad!.data()));
      model.zeroGrad();
      const [logits, loss] = autocast(dtype, () => {
        const logits = model.forward(x);
        assert.equal(logits.dtype.name, dtype.name);
        assert.equal(logits.softmax(1).dtype, f32);
        assert.equal(logits.sum().dtype, f32);
        assert.equal(logits.relu().dtype.name, dtype.name);
        assert.equal(logits.add(H.ones([3])).dtype, f32);
        assert.equal(x.matmul(H.ones([6, 2])).dtype.name, dtype.name);
        assert.equal(H.einsum('bchw,wk->bk', [x, H.ones([6, 2])]).dtype.name, dtype.name);
        assert.equal(H.einsum('bk,k->b', [logits, H.ones([3])]).dtype.name, dtype.name);
        assert.equal(H.einsum('bk->k', [H.ones([2, 3])]).dtype, f32);
        assert.equal(H.cat([logits, H.ones([1, 3])]).dtype, f32);
        assert.equal(H.stack([logits, logits]).dtype.name, dtype.name);
        assert.throws(() => H.cat([logits, H.arange(3).unsqueeze(0)]), /dtypes differ/);
        return [logits, H.crossEntropy(logits, labels)] as const;
      });
      assert.equal(logits.add(1).dtype.name, dtype.name);
      assert.equal(loss.dtype, f32);
      loss.backward();
      H.realize(loss, ...model.parameters().map((p) => p.grad!));
      const tolerance = dtype === bf16 ? 3e-2 : 4e-3;
      // The bias before a batch norm has a gradient of rounding errors: all are compared with the largest.
      const largest = Math.max(...exact.flatMap((g) => [...g].map((v) => Math.abs(Number(v)))));
      assert.ok(Math.abs((await loss.item()) - (await plain.item())) < tolerance);
      for (const [i, p] of model.parameters().entries()) {
        assert.equal(p.grad!.dtype, f32);
        const off = [...(await p.grad!.data())].map((v, j) => Math.abs(Number(v) - Number(exact[i]![j])));
        assert.ok(Math.max(...off) <= tolerance * largest, `${dtype.name}, parameter ${i}`);
      }
    }
    assert.throws(() => H.ones([2], { dtype: bf16 }).add(H.ones([2])), /dtypes differ/);
  });

  test(`${device}: recurrent layers take and give 16 bits`, async () => {
    H.useDevice(device);
    const x = H.randn([2, 2, 3], { generator: new H.Generator(1) });
    const gradients = async (model: nn.GRU | nn.LSTM, output: H.Tensor): Promise<number[]> => {
      model.zeroGrad();
      output.square().sum().backward();
      return [...(await H.cat(model.parameters().map((p) => p.grad!.flatten())).data())];
    };
    for (const [model, dtype, tolerance] of [
      [new nn.GRU(3, 4), f16, 4e-3],
      [new nn.LSTM(3, 4), bf16, 3e-2],
    ] as const) {
      const exact = await gradients(model, model.forward(x)[0]);
      const mixed = autocast(dtype, () => model.forward(x)[0]);
      assert.equal(mixed.dtype.name, dtype.name);
      const off = (await gradients(model, mixed)).map((g, i) => Math.abs(g - exact[i]!));
      assert.ok(Math.max(...off) <= tolerance * Math.max(...exact.map(Math.abs)), dtype.name);
    }
  });

  test(`${device}: a network trains in f16 with a scaled loss, jitted`, async () => {
    H.useDevice(device);
    const { x, labels } = inputs();
    const model = network();
    const optimizer = new optim.Adam(model.parameters(), { lr: 0.02 });
    const scaler = new optim.GradScaler({ growthInterval: 4 });
    const step = H.jit((x: H.Tensor, labels: H.Tensor<H.Shape, 'i32'>) => {
      const loss = autocast(f16, () => H.crossEntropy(model.forward(x), labels));
      scaler.scale(loss).backward();
      scaler.unscale(optimizer);
      optim.clipGradNorm(model.parameters(), 5);
      scaler.step(optimizer);
      return loss;
    });
    const first = await step(x, labels).item();
    for (let i = 1; i < 16; i++) step(x, labels);
    const last = await step(x, labels).item();
    assert.ok(last < first / 3, `${first} → ${last}`);
    assert.equal(await scaler.factor.item(), 65536 * 2 ** 4);
    assert.equal(await scaler.goodSteps.item(), 1);
  });
}

test('an overflow leaves the parameters alone and halves the scale', async () => {
  const p = H.tensor([1, 2], { requiresGrad: true });
  const optimizer = new optim.SGD([p], { lr: 1, momentum: 0.9 });
  const scaler = new optim.GradScaler({ initScale: 1024, growthInterval: 2 });
  const round = async (slope: number): Promise<readonly [number[], number]> => {
    scaler.scale(p.mul(slope).sum()).backward();
    scaler.step(optimizer);
    return [Array.from(await p.data(), Number), Number(await scaler.factor.item())];
  };
  assert.deepEqual(await round(Number.NaN), [[1, 2], 512]);
  assert.deepEqual(await round(1e37), [[1, 2], 256]);
  assert.deepEqual(await round(0.5), [[0.5, 1.5], 256]);
  assert.deepEqual((await round(0.5))[1], 512);
  const other = new optim.GradScaler();
  other.loadStateDict(scaler.stateDict());
  assert.equal(await other.factor.item(), 512);
  assert.throws(() => scaler.step(optimizer), /there are no gradients/);
  assert.throws(() => scaler.step({} as never), /must be an optimizer/);
  assert.throws(
    () => other.loadStateDict({}),
    /this is not the state of a GradScaler\. Missing: factor, goodSteps/,
  );
  assert.throws(() => autocast(bf16, async () => 1), /takes a function that is not async/);
});
