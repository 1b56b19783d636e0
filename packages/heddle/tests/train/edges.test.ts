/** Training where something is unusual: gradients from before, NaN at the end of an epoch, an end in the middle of one. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { ArgumentError, NumericError } from '../../src/core/errors.js';
import { ArrayDataset, Loader, WeightedRandomSampler } from '../../src/data/index.js';
import { bce, bf16, f16, jit, mse, nn, optim, rand, sigmoid, type Tensor, tensor } from '../../src/index.js';
import {
  type Callback,
  checkpoint,
  type EpochReport,
  earlyStopping,
  evaluate,
  type FitOptions,
  fit,
  loadWeights,
} from '../../src/train/index.js';

const folder = await mkdtemp(join(tmpdir(), 'heddle-train-edges-'));
after(() => rm(folder, { recursive: true }));

const list = async (t: Tensor): Promise<number[]> => Array.from(await t.data(), Number);

/** `n` examples, input and label their number. */
const counted = (n: number): ArrayDataset =>
  new ArrayDataset({
    inputs: Float32Array.from({ length: n }, (_, i) => i),
    inputShape: [1],
    labels: Int32Array.from({ length: n }, (_, i) => i),
    classes: n,
  });

/** One weight; what it returns is its own business. */
class One extends nn.Module {
  w: Tensor;
  readonly #compute: (w: Tensor, x: Tensor) => Tensor;
  constructor(w: number, compute: (w: Tensor, x: Tensor) => Tensor) {
    super();
    this.w = tensor([w], { requiresGrad: true });
    this.#compute = compute;
  }
  forward(x: Tensor): Tensor {
    return this.#compute(this.w, x);
  }
}

const sum = (outputs: Tensor): Tensor => outputs.sum();

const options = (model: nn.Module, more: Partial<FitOptions> = {}): FitOptions => ({
  train: new Loader(counted(8), { batchSize: 2 }),
  optimizer: new optim.SGD(model.parameters(), { lr: 1 }),
  loss: sum,
  epochs: 1,
  resident: false,
  ...more,
});

test('a gradient from before the trace is refused, and forgotten by fit', async () => {
  const w = tensor([0], { requiresGrad: true });
  const optimizer = new optim.SGD([w], { lr: 1 });
  w.mul(100).sum().backward();
  const step = jit((x: Tensor) => {
    const loss = w.mul(x).sum();
    loss.backward();
    optimizer.step();
    return loss;
  });
  assert.throws(() => step(tensor([1])), /has a gradient from before.*optimizer\.zeroGrad\(\)/);
  optimizer.zeroGrad();
  for (let i = 0; i < 3; i++) step(tensor([1]));
  assert.deepEqual(await list(w), [-3]);
  const model = new One(0, (w, x) => w.add(x.mul(0)).mean());
  model.w.mul(100).sum().backward();
  await fit(model, options(model));
  assert.deepEqual(await list(model.w), [-4]);
});

test('a trace that fails leaves no gradients of its own behind', async () => {
  const [v, w] = [tensor([1], { requiresGrad: true }), tensor([2], { requiresGrad: true })];
  const failing = jit((x: Tensor) => {
    v.add(w.mul(x)).sum().backward();
    throw new Error('as it happens');
  });
  assert.throws(() => failing(tensor([3])), /as it happens/);
  assert.deepEqual([v.grad, w.grad], [undefined, undefined]);
  const leaving = jit((x: Tensor) => {
    v.add(w.mul(x)).sum().backward();
  });
  assert.throws(() => leaving(tensor([3])), /gave gradients to 2 parameters that no optimizer/);
  assert.deepEqual([v.grad, w.grad], [undefined, undefined]);
  v.sum().backward();
  assert.deepEqual(await list(v.grad!), [1]);
});

test('bce of saturated probabilities has the gradients of PyTorch', async () => {
  const of = async (p: Tensor, t: number[]): Promise<number[]> => {
    bce(p, tensor(t)).backward();
    return list(p.grad!);
  };
  const logits = tensor([20, -120], { requiresGrad: true });
  bce(sigmoid(logits), tensor([1, 0])).backward();
  assert.deepEqual((await list(logits.grad!)).map(Math.abs), [0, 0]);
  const p = tensor([1, 0, 1, 0, 0.5], { requiresGrad: true });
  // torch.nn.functional.binary_cross_entropy
  assert.deepEqual(
    (await of(p, [1, 0, 0, 1, 1])).map((v) => Number(v.toPrecision(6))),
    [0, 0, 2e11, -2e11, -0.4],
  );
});

test('a last step that spoils the weights is an error, and the weights are those from before', async () => {
  // √|w| has an infinite slope at 0, which the second step meets.
  const root = (w: Tensor, x: Tensor): Tensor => w.abs().sqrt().add(x.sum().mul(0));
  for (const [batchSize, epochs] of [
    [8, 5],
    [8, 2],
  ] as const) {
    const model = new One(4, root);
    const train = new Loader(counted(8), { batchSize });
    const optimizer = new optim.SGD(model.parameters(), { lr: 16 });
    await assert.rejects(fit(model, options(model, { train, optimizer, epochs })), (error: Error) => {
      assert.ok(error instanceof NumericError);
      assert.match(error.message, /'w' is not finite after the last step of epoch 2 .*those before epoch 2/);
      return true;
    });
    assert.deepEqual(await list(model.w), [0]);
  }
});

test('an epoch that the signal cuts short is in the history, and callbacks are not told', async () => {
  const model = new One(0, (w, x) => w.add(x.mul(0)));
  const controller = new AbortController();
  const told: EpochReport[] = [];
  const path = join(folder, 'best.safetensors');
  const callbacks: Callback[] = [
    earlyStopping({ patience: 3, monitor: 'size' }),
    checkpoint(model, path, { best: 'size' }),
    {
      onStep: ({ epoch, step }) => {
        if (epoch === 1 && step === 2) controller.abort();
      },
      onEpochEnd: (report) => {
        told.push(report);
      },
    },
  ];
  const history = await fit(
    model,
    options(model, {
      validation: new Loader(counted(4), { batchSize: 4 }),
      metrics: { size: (outputs) => outputs.abs().sum() },
      epochs: 5,
      signal: controller.signal,
      callbacks,
    }),
  );
  assert.equal(history.ended, 'aborted');
  assert.deepEqual(
    history.epochs.map(({ epoch, validation }) => [epoch, validation !== undefined]),
    [
      [0, true],
      [1, false],
    ],
  );
  assert.equal(told.length, 1);
});

test('a whole last epoch is told, though the signal came in it', async () => {
  const model = new One(0, (w, x) => w.add(x.mul(0)));
  const controller = new AbortController();
  const told: number[] = [];
  const callbacks: Callback[] = [
    {
      onStep: ({ epoch, step, steps }) => {
        if (epoch === 1 && step === steps) controller.abort();
      },
      onEpochEnd: ({ epoch }) => {
        told.push(epoch);
      },
    },
  ];
  const history = await fit(model, options(model, { epochs: 5, signal: controller.signal, callbacks }));
  assert.deepEqual([history.ended, told], ['aborted', [0, 1]]);
});

test('NaN is no best figure, and no end of improvement', async () => {
  const report = (loss: number): EpochReport => ({
    ...{
      epoch: 0,
      epochs: 9,
      loss,
      validation: undefined,
      seconds: 1,
      examplesPerSecond: 1,
      lr: 1,
      elapsed: 1,
    },
  });
  const model = new One(0, (w) => w);
  const path = join(folder, 'nan.safetensors');
  const best = checkpoint(model, path, { best: 'loss' });
  for (const loss of [5, 1, Number.NaN, 9]) {
    model.w.assign(tensor([loss]));
    await best.onEpochEnd!(report(loss));
  }
  const saved = new One(0, (w) => w);
  await loadWeights(saved, path);
  assert.deepEqual(await list(saved.w), [1]);
  const stopping = earlyStopping({ patience: 2 });
  const answers = [Number.NaN, 3, 2, 1, 1, 1].map((loss) => stopping.onEpochEnd!(report(loss)));
  assert.deepEqual(answers, [undefined, undefined, undefined, undefined, undefined, 'stop']);
  assert.throws(() => earlyStopping({ patience: 0 }), /patience is 0/);
});

test('a data set that makes its batches in its own way is asked for each of them', async () => {
  let made = 0;
  class Louder extends ArrayDataset {
    override batchInto(indices: ArrayLike<number>, inputs: Float32Array, labels: Int32Array): void {
      super.batchInto(indices, inputs, labels);
      made += indices.length;
      for (let i = 0; i < indices.length; i++) inputs[i] = 100;
    }
  }
  const { inputs, labels } = counted(4);
  const loud = new Louder({ inputs, inputShape: [1], labels, classes: 4 });
  assert.equal(loud.isPlain, false);
  const model = new One(0, (w, x) => w.mul(0).add(x));
  for (const resident of [false, true, undefined]) {
    const train = new Loader(loud, { batchSize: 2 });
    const { epochs } = await fit(
      model,
      options(model, { train, loss: (o) => o.mean(), resident, epochs: 2 }),
    );
    assert.deepEqual(
      epochs.map((e) => e.loss),
      [100, 100],
    );
  }
  assert.equal(made, 8 + 4 + 8, 'resident: true reads it once');
  const threaded = new Loader(loud, { batchSize: 2, workers: 1 });
  await assert.rejects(async () => {
    for await (const _ of threaded);
  }, /a Louder makes its batches in its own way.*workers: 0/);
});

test('fit goes on where the loader stands, evaluation leaves it alone', async () => {
  const loader = (): Loader => new Loader(counted(6), { batchSize: 1, shuffle: true, seed: 1 });
  // w ← (w + x) / 2, which tells the order of the examples.
  const trained = async (train: Loader, resident: boolean, epochs: readonly number[]): Promise<number> => {
    const model = new One(0, (w, x) => w.sub(x).square().mul(0.25));
    for (const count of epochs) await fit(model, options(model, { train, resident, epochs: count }));
    return model.w.item();
  };
  for (const resident of [false, true]) {
    const [one, two, again] = [loader(), loader(), loader()];
    const expected = await trained(one, resident, [3]);
    assert.equal(await trained(two, resident, [1, 1, 1]), expected);
    assert.deepEqual([one.epoch, two.epoch], [3, 3]);
    again.epoch = 1;
    assert.notEqual(await trained(again, resident, [3]), expected, 'another epoch is another order');
    one.epoch = 0;
    const model = new One(0, (w) => w);
    await evaluate(model, one, { loss: sum, resident });
    assert.equal(one.epoch, 0);
  }
  // An epoch of two batches, the second smaller, and more examples than the data set has.
  const drawn = (): Loader =>
    new Loader(counted(6), { batchSize: 7, sampler: new WeightedRandomSampler([1, 2, 3, 4, 5, 6], 10) });
  assert.equal(await trained(drawn(), true, [2]), await trained(drawn(), false, [2]));
});

test('a learning rate that a callback changes is the one that is used, reported and kept', async () => {
  const model = new One(0, (w, x) => w.add(x.mul(0)).mean());
  const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
  const train = new Loader(counted(2), { batchSize: 2 });
  const slower: Callback = {
    onEpochEnd: () => {
      optimizer.lr /= 10;
    },
  };
  const { epochs } = await fit(model, options(model, { train, optimizer, epochs: 3, callbacks: [slower] }));
  assert.deepEqual(
    epochs.map((e) => Number(e.lr.toPrecision(6))),
    [1, 0.1, 0.01],
  );
  assert.ok(Math.abs((await model.w.item()) + 1.11) < 1e-6);
  assert.ok(Math.abs(optimizer.lr - 0.001) < 1e-9);
});

test('evaluation puts each module back into its own mode', async () => {
  const model = new nn.Sequential(new nn.Linear(1, 2), new nn.Dropout());
  model.train();
  model.layers[1]!.eval();
  await evaluate(model, new Loader(counted(4), { batchSize: 2 }), { loss: sum });
  assert.deepEqual(
    [model.training, model.layers[0]!.training, model.layers[1]!.training],
    [true, true, false],
  );
});

test('uniform numbers of 16 bits are below 1', async () => {
  for (const dtype of [f16, bf16]) {
    const values = await list(rand([20_000], { dtype }));
    assert.ok(Math.max(...values) < 1 && Math.min(...values) === 0);
    assert.ok(Math.abs(values.reduce((a, b) => a + b, 0) / values.length - 0.5) < 0.01);
  }
});

test('optimizers: tensors that are no parameters, options that are undefined, a state that does not fit', async () => {
  const computed = tensor([1, 2], { requiresGrad: true }).mul(0.1);
  assert.throws(() => new optim.SGD([computed]), /is computed from others/);
  const w = tensor([0], { requiresGrad: true });
  const momentum = new optim.SGD([w], { lr: 1, momentum: 0.9, dampening: undefined } as never);
  for (let i = 0; i < 2; i++) {
    mse(w, tensor([1])).backward();
    momentum.step();
  }
  assert.ok(Number.isFinite(await w.item()));
  assert.throws(() => new optim.SGD([w], { momentum: 0.9, dampening: Number.NaN }), /dampening is NaN/);
  const before = await list(momentum.stateDict()['0.0.momentum']!);
  const bad = { ...momentum.stateDict(), '0.lr': tensor(-1), '0.0.momentum': tensor([7]) };
  await assert.rejects(momentum.loadStateDict(bad), ArgumentError);
  assert.deepEqual(await list(momentum.stateDict()['0.0.momentum']!), before);
});

test('mean losses of many small batches are exact to the last digit', async () => {
  const model = new One(0.1, (w, x) => w.add(x.mul(0)));
  const train = new Loader(counted(3000), { batchSize: 1 });
  const { loss } = await evaluate(model, train, { loss: sum, resident: false });
  const optimizer = new optim.SGD(model.parameters(), { lr: 0 });
  const { epochs } = await fit(model, options(model, { train, optimizer }));
  for (const mean of [loss, epochs[0]!.loss!]) assert.ok(Math.abs(mean - Math.fround(0.1)) < 1e-9, `${mean}`);
});
