/** What `fit` trains besides classifiers: targets and inputs of any number, shape and dtype. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NumericError } from '../../src/core/errors.js';
import {
  ArrayDataset,
  crossEntropy,
  type data,
  evaluate,
  type FitOptions,
  f32,
  fit,
  i32,
  Loader,
  manualSeed,
  mse,
  nn,
  optim,
  rand,
  randn,
  randomSplit,
  type Shape,
  type Tensor,
  TensorDataset,
  tensor,
} from '../../src/index.js';
import { decoding } from '../data/decoding-dataset.js';

const close = (a: number, b: number, tolerance: number): void =>
  assert.ok(Math.abs(a - b) <= tolerance, `${a}, ${b}`);

test('regression: targets of floats, a validation split, a metric of one’s own', async () => {
  manualSeed(1);
  const x = randn([200, 3]);
  const y = x
    .matmul(
      tensor([
        [1, 0],
        [-2, 1],
        [0.5, 3],
      ]),
    )
    .add(tensor([4, -1]));
  const [train, validation] = randomSplit(new TensorDataset(x, y), [0.8, 0.2]);
  assert.deepEqual([train!.length, validation!.length], [160, 40]);
  const model = new nn.Linear(3, 2);
  const history = await fit(model, {
    train: new Loader(train!, { batchSize: 32, shuffle: true }),
    validation: new Loader(validation!, { batchSize: 16 }),
    optimizer: new optim.SGD(model.parameters(), { lr: 0.1 }),
    loss: mse,
    metrics: { mae: (outputs, targets) => outputs.sub(targets).abs().mean(1).sum() },
    epochs: 20,
  });
  const { loss, metrics } = history.epochs.at(-1)!.validation!;
  assert.ok(loss < 1e-4 && metrics.mae! < 0.01 && metrics.mae! > loss, `${loss} ${metrics.mae}`);
  const bias = (await model.bias!.array()) as number[];
  close(bias[0]!, 4, 0.02);
});

test('an autoencoder: the inputs are the targets', async () => {
  manualSeed(2);
  const x = rand([64, 1]).matmul(rand([1, 6]));
  const model = new nn.Sequential(new nn.Linear(6, 2), new nn.Linear(2, 6));
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.02 });
  const train = new Loader(new TensorDataset(x, x), { batchSize: 16, shuffle: true });
  const { epochs } = await fit(model, { train, optimizer, loss: mse, epochs: 60 });
  assert.ok(epochs.at(-1)!.loss < 0.01 * epochs[0]!.loss, `${epochs[0]!.loss} → ${epochs.at(-1)!.loss}`);
});

/** The next token of each, from the token and where the sequence begins. */
class Sequences extends nn.Module {
  readonly tokens = tensor(
    new Float32Array(5 * 8).map((_, i) => Math.sin(i)),
    { shape: [5, 8], requiresGrad: true },
  );
  readonly head = new nn.Linear(9, 5);
  forward({ tokens, start }: { readonly tokens: Tensor<Shape, 'i32'>; readonly start: Tensor }): {
    readonly logits: Tensor;
    readonly size: Tensor;
  } {
    const [n, length] = tokens.shape as [number, number];
    const looked = this.tokens.at(tokens);
    const x = looked.reshape([n, length, 8]).mul(1);
    const first = start.reshape([n, 1, 1]).expand([n, length, 1]);
    const logits = this.head.forward(
      x
        .reshape([n * length, 8])
        .pad([
          [0, 0],
          [0, 1],
        ])
        .add(
          first.reshape([n * length, 1]).pad([
            [0, 0],
            [8, 0],
          ]),
        ),
    );
    return { logits, size: logits.square().mean() };
  }
}

test('sequences: a record of inputs, a record of outputs, targets of integers in two dimensions', async () => {
  manualSeed(3);
  const start = Int32Array.from({ length: 40 }, (_, i) => i % 5);
  const at = (offset: number): Int32Array =>
    Int32Array.from({ length: 40 * 6 }, (_, i) => (start[Math.floor(i / 6)]! + (i % 6) + offset) % 5);
  const tokens = tensor(at(0), { shape: [40, 6], dtype: i32 });
  const next = tensor(at(1), { shape: [40, 6], dtype: i32 });
  const dataset = new TensorDataset({ tokens, start: tensor(start).cast(f32) }, next);
  const model = new Sequences();
  const loader = new Loader(dataset, { batchSize: 16, shuffle: true });
  for await (const { inputs, targets, size, index } of loader) {
    assert.deepEqual([inputs.tokens.shape, inputs.start.shape, targets.dtype], [[size, 6], [size], i32]);
    assert.equal(size, index < 2 ? 16 : 8);
  }
  const options = {
    train: loader,
    loss: ({ logits, size }, targets) => crossEntropy(logits, targets.reshape([-1])).add(size.mul(1e-4)),
    metrics: {
      right: ({ logits }, targets) =>
        logits
          .argmax(1)
          .eq(targets.reshape([-1]))
          .cast(f32)
          .reshape([-1, 6])
          .mean(1)
          .sum(),
    },
  } satisfies Pick<
    FitOptions<ReturnType<Sequences['forward']>, Tensor<Shape, 'i32'>>,
    'train' | 'loss' | 'metrics'
  >;
  await fit(model, { ...options, optimizer: new optim.Adam(model.parameters(), { lr: 0.05 }), epochs: 30 });
  const { train, ...judged } = options;
  const { metrics } = await evaluate(model, train, judged);
  assert.equal(metrics.right, 1);
});

test('an array of inputs is several arguments; what is not finite is named', async () => {
  class Product extends nn.Module {
    readonly scale = tensor([1], { requiresGrad: true });
    forward(a: Tensor, b: Tensor): readonly Tensor[] {
      return [a.mul(b).mul(this.scale), a];
    }
  }
  const a = tensor([1, 2, 3, 4]);
  const b = tensor([2, 2, 2, 2]);
  const loss = ([product]: readonly Tensor[], targets: Tensor): Tensor => mse(product!, targets);
  const run = async (inputs: readonly Tensor[], targets: Tensor): Promise<number> => {
    const model = new Product();
    await fit(model, {
      train: new Loader(new TensorDataset(inputs, targets), { batchSize: 2 }),
      optimizer: new optim.SGD(model.parameters(), { lr: 0.02 }),
      ...{ loss, epochs: 40 },
    });
    return model.scale.item();
  };
  close(await run([a, b], a.mul(6)), 3, 1e-3);
  await assert.rejects(
    run([a, tensor([2, 2, Number.NaN, 2])], a),
    /step 2 of epoch 1.*the batch's inputs\[1\]\..* Check the data\.$/,
  );
  await assert.rejects(
    run([a, b], tensor([2, 2, 2, Number.NaN])),
    /the batch's targets\..* Check the data\.$/,
  );
  const classifier = new nn.Linear(1, 2);
  await assert.rejects(
    fit(classifier, {
      train: new Loader(new TensorDataset(a.reshape([4, 1]), tensor(Int32Array.of(0, 1, 2, 1))), {
        batchSize: 2,
      }),
      optimizer: new optim.SGD(classifier.parameters(), { lr: 0.02 }),
      ...{ loss: crossEntropy, epochs: 1 },
    }),
    /the loss itself; all outputs are finite\..* is a label outside the classes\?$/,
  );
  assert.throws(
    () => new TensorDataset([a, tensor([1])], a),
    /inputs\[1\] has the shape \(1\), inputs\[0\] \(4\): the first size/,
  );
  assert.throws(() => new TensorDataset({ a, b: 3 as never }, a), /inputs\.b is 3, must be a tensor/);
});

test('accumulated gradients are those of one batch of all examples, the last group by its size', async () => {
  const x = tensor(
    Float32Array.from({ length: 44 }, (_, i) => Math.sin(i * i)),
    { shape: [22, 2] },
  );
  const dataset = new TensorDataset(x, x.sum(1, { keepdim: true }).add(1));
  const trained = async (batchSize: number, more: Partial<FitOptions>): Promise<number[]> => {
    manualSeed(5);
    const model = new nn.Linear(2, 1);
    await fit(model, {
      train: new Loader(dataset, { batchSize, shuffle: true }),
      optimizer: new optim.Adam(model.parameters(), { lr: 0.1 }),
      schedule: optim.schedules.cosine(),
      loss: mse,
      epochs: 5,
      ...more,
    });
    return [...(await model.weight.data()), ...(await model.bias!.data())];
  };
  for (const clipGradNorm of [undefined, 0.1]) {
    const whole = await trained(8, { clipGradNorm });
    const parts = await trained(2, { clipGradNorm, accumulate: 4 });
    whole.forEach((v, i) => {
      close(v, parts[i]!, 2e-5);
    });
  }
  assert.notDeepEqual(await trained(8, { clipGradNorm: 0.1 }), await trained(8, {}));
});

test('a random split has each example once', () => {
  const labels = Int32Array.from({ length: 50 }, (_, i) => i);
  const dataset = new ArrayDataset({
    inputs: Float32Array.from(labels),
    inputShape: [1],
    labels,
    classes: 50,
  });
  const parts = randomSplit(dataset, [0.5, 0.3, 0.2], { seed: 1 });
  assert.deepEqual(
    parts.map(({ length }) => length),
    [25, 15, 10],
  );
  assert.deepEqual(
    parts.flatMap((part) => [...part.labels]).toSorted((p, q) => p - q),
    [...labels],
  );
  for (const part of parts) assert.deepEqual([...part.inputs], [...part.labels]);
  assert.throws(() => randomSplit(dataset, [0.9, 0.2]), /add up to 1\.1/);
});

test('a data set that decodes asynchronously trains as one that is in memory', async () => {
  const asynchronous = decoding();
  const inputs = new Float32Array(40);
  const labels = new Int32Array(20);
  await asynchronous.batchInto(
    Array.from({ length: 20 }, (_, i) => i),
    inputs,
    labels,
  );
  const inMemory = new ArrayDataset({ inputs, inputShape: [2], labels, classes: 3 });
  const trained = (dataset: data.Dataset, lr = 0.01): Promise<readonly (number | undefined)[]> => {
    manualSeed(0);
    const model = new nn.Linear(2, 3);
    const loader = new Loader(dataset, { batchSize: 6, shuffle: true });
    const optimizer = new optim.SGD(model.parameters(), { lr });
    const fitted = fit(model, {
      train: loader,
      validation: loader,
      optimizer,
      loss: crossEntropy,
      epochs: 2,
    });
    return fitted.then(({ epochs }) => epochs.flatMap(({ loss, validation }) => [loss, validation?.loss]));
  };
  assert.deepEqual(await trained(asynchronous), await trained(inMemory));
  await assert.rejects(trained(asynchronous, 1e38), NumericError);
});
