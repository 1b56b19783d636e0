/** The training loop: learns, stops, reports, keeps what is good, and does not grow. */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { f64 } from '../../src/core/dtype.js';
import { ArgumentError, DataError, NumericError, ShapeError } from '../../src/core/errors.js';
import { ArrayDataset, type Dataset, Loader, quadrantPoints, separablePoints } from '../../src/data/index.js';
import { currentDevice } from '../../src/engine/storage.js';
import { readSafetensors } from '../../src/io/index.js';
import * as nn from '../../src/nn/index.js';
import { Adam, SGD, schedules } from '../../src/optim/index.js';
import { tensor, zeros } from '../../src/tensor/create.js';
import { relu } from '../../src/tensor/functional-activations.js';
import { crossEntropy } from '../../src/tensor/functional-losses.js';
import { manualSeed } from '../../src/tensor/random.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import {
  accuracy,
  binaryAccuracy,
  type Callback,
  checkpoint,
  earlyStopping,
  evaluate,
  type FitOptions,
  fit,
  loadWeights,
  PROGRAMS,
  programNamed,
  type StepReport,
  saveWeights,
  type TrainingProgram,
} from '../../src/train/index.js';
import { Bottleneck } from '../../src/train/resnet.js';
import { settledMemory, threadsReady } from '../settled-memory.js';

const folder = await mkdtemp(join(tmpdir(), 'heddle-train-'));
after(() => rm(folder, { recursive: true }));

/** Two clouds, one per class, that a linear layer separates. */
function clouds(length: number, seed = 0): ArrayDataset {
  return separablePoints({ trainLength: length, seed }).train;
}

const model = (seed = 0): nn.Sequential => {
  manualSeed(seed);
  return new nn.Sequential(new nn.Linear(2, 8), new nn.ReLU(), new nn.Linear(8, 2));
};

function options(of: nn.Module, more: Partial<FitOptions> = {}): FitOptions {
  return {
    train: new Loader(clouds(110), { batchSize: 20, shuffle: true }),
    validation: new Loader(clouds(50), { batchSize: 20 }),
    optimizer: new SGD(of.parameters(), { lr: 0.5 }),
    loss: crossEntropy,
    metrics: { accuracy },
    epochs: 3,
    // Steps are watched one by one here; see below for many in one launch.
    resident: false,
    ...more,
  };
}

const values = async (of: nn.Module): Promise<unknown[]> =>
  Promise.all(of.parameters().map((p) => p.array()));

test('learns, and reports every step and epoch', async () => {
  const net = model();
  const seen: string[] = [];
  const log: Callback = {
    onStart: ({ epochs, steps }) => void seen.push(`start ${epochs} ${steps}`),
    onStep: ({ epoch, step, steps, examples }) => void seen.push(`${epoch}: ${step}/${steps} ${examples}`),
    onEpochEnd: ({ epoch }) => void seen.push(`end ${epoch}`),
    onEnd: ({ ended }) => void seen.push(ended),
  };
  const history = await fit(net, options(net, { epochs: 30, callbacks: [log] }));
  assert.equal(history.ended, 'done');
  assert.equal(history.steps, 30 * 6);
  assert.deepEqual(seen.slice(0, 8), [
    'start 30 6',
    '0: 1/6 20',
    '0: 2/6 40',
    '0: 3/6 60',
    '0: 4/6 80',
    '0: 5/6 100',
    '0: 6/6 110',
    'end 0',
  ]);
  assert.equal(seen.at(-1), 'done');
  const [first, last] = [history.epochs[0]!, history.epochs.at(-1)!];
  assert.ok(last.loss < 0.5 * first.loss, `${first.loss} → ${last.loss}`);
  assert.ok(last.validation!.metrics.accuracy! >= 0.95);
  assert.equal(last.validation!.examples, 50);
  assert.ok(net.training);
});

test('a callback may be an object of a class, with members of its own', async () => {
  class Count {
    steps = 0;
    onStep({ step }: StepReport): void {
      this.steps = step;
    }
  }
  const net = model();
  const count = new Count();
  const { steps } = await fit(net, options(net, { epochs: 1, callbacks: [count] }));
  assert.equal(count.steps, steps);
});

test('onStep hears of every step, also on a device that starts many at once; onProgress need not', async (t) => {
  // The name is what tells `fit` that a launch may be of many steps.
  const device = currentDevice();
  const { name } = device;
  Object.defineProperty(device, 'name', { value: 'cuda', configurable: true });
  t.after(() => Object.defineProperty(device, 'name', { value: name }));
  const train = new Loader(clouds(200), { batchSize: 20 });
  const steps: number[] = [];
  const progress: number[] = [];
  const run = async (callback: Callback): Promise<unknown[]> => {
    const net = model();
    await fit(net, options(net, { train, epochs: 1, resident: true, callbacks: [callback] }));
    return values(net);
  };
  const apart = await run({ onStep: ({ step }) => void steps.push(step) });
  const together = await run({ onProgress: ({ step }) => void progress.push(step) });
  assert.deepEqual(
    steps,
    Array.from({ length: 10 }, (_, i) => i + 1),
  );
  assert.deepEqual(progress, [10]);
  assert.deepEqual(apart, together);
});

test('the loss of a report is that of some steps before: nobody waits for it', async () => {
  const train = new Loader(clouds(110), { batchSize: 20 });
  const means = async (steps: number): Promise<number> => {
    const net = model();
    const data = clouds(110).slice(0, 20 * steps);
    const optimizer = new SGD(net.parameters(), { lr: 0.5 });
    return (
      await fit(net, options(net, { train: new Loader(data, { batchSize: 20 }), optimizer, epochs: 1 }))
    ).epochs[0]!.loss;
  };
  const seen: (number | undefined)[] = [];
  const net = model();
  const onStep = ({ loss }: StepReport): void => void seen.push(loss);
  await fit(net, options(net, { train, epochs: 1, readEvery: 1, callbacks: [{ onStep }] }));
  assert.deepEqual(seen, [undefined, undefined, ...(await Promise.all([1, 2, 3, 4].map(means)))]);
});

test('the same seed gives the same weights, bit by bit', async () => {
  const run = async (): Promise<unknown[]> => {
    const net = model(7);
    await fit(net, options(net));
    return values(net);
  };
  assert.deepEqual(await run(), await run());
});

test('the epoch’s loss is the mean over its examples, the last partial batch by its size', async () => {
  const net = model();
  const data = options(net, { epochs: 1, optimizer: new SGD(net.parameters(), { lr: 0 }) });
  const history = await fit(net, data);
  const whole = await evaluate(net, new Loader(clouds(110), { batchSize: 110 }), { loss: crossEntropy });
  assert.ok(Math.abs(history.epochs[0]!.loss - whole.loss) < 1e-5);
  const summed = await evaluate(net, new Loader(clouds(110), { batchSize: 20 }), {
    loss: (logits, labels) => crossEntropy(logits, labels, { reduction: 'sum' }),
    lossReduction: 'sum',
  });
  assert.ok(Math.abs(summed.loss - whole.loss) < 1e-5);
});

test('a signal ends training after the step under way', async () => {
  const net = model();
  const stop = new AbortController();
  const history = await fit(
    net,
    options(net, {
      epochs: 100,
      signal: stop.signal,
      callbacks: [{ onStep: ({ epoch, step }) => (epoch === 1 && step === 2 ? stop.abort() : undefined) }],
    }),
  );
  assert.equal(history.ended, 'aborted');
  assert.equal(history.steps, 8);
});

test('a callback can stop; early stopping waits for its patience', async () => {
  const net = model();
  const history = await fit(
    net,
    options(net, { epochs: 100, callbacks: [{ onStep: ({ step }) => (step === 4 ? 'stop' : undefined) }] }),
  );
  assert.equal(history.ended, 'stopped');
  assert.equal(history.steps, 4);
  const still = model();
  const frozen = await fit(
    still,
    options(still, {
      epochs: 50,
      optimizer: new SGD(still.parameters(), { lr: 0 }),
      callbacks: [earlyStopping({ patience: 3, monitor: 'accuracy' })],
    }),
  );
  assert.equal(frozen.epochs.length, 4);
});

test('a metric that is not there is an error, not silence', async () => {
  const net = model();
  const path = join(folder, 'misspelt.safetensors');
  await assert.rejects(
    fit(net, options(net, { callbacks: [checkpoint(net, path, { best: 'acuracy' })] })),
    /\[checkpoint\] there is no metric 'acuracy'\. Expected one of: loss, accuracy\./,
  );
  await assert.rejects(
    fit(
      net,
      options(net, {
        validation: undefined,
        callbacks: [earlyStopping({ patience: 3, monitor: 'accuracy' })],
      }),
    ),
    /\[earlyStopping\] 'accuracy' is a metric of validation data/,
  );
});

test('a schedule that gives no learning rate is refused before the first step', async () => {
  const net = model();
  await assert.rejects(
    fit(net, options(net, { schedule: schedules.custom((t, end) => (t / end > 0.5 ? Number.NaN : 1)) })),
    /\[fit\] the schedule gives NaN in step 11 of 18/,
  );
});

test('looking for what is not finite leaves a module its own forward', async () => {
  class Net extends nn.Module {
    layer = new nn.Linear(2, 2);
    forward = (x: Tensor): Tensor => this.layer.forward(x).mul(1e30).mul(1e30);
  }
  const net = new Net();
  const { forward } = net;
  await assert.rejects(fit(net, options(net)), NumericError);
  assert.equal(net.forward, forward);
});

test('the schedule moves the learning rate, and it is put back at the end', async () => {
  const net = model();
  const rates: number[] = [];
  const optimizer = new SGD(net.parameters(), { lr: 0.5 });
  await fit(
    net,
    options(net, {
      epochs: 1,
      optimizer,
      schedule: schedules.polynomial(),
      callbacks: [{ onStep: ({ lr }) => void rates.push(lr) }],
    }),
  );
  assert.deepEqual(
    rates.map((r) => Number(r.toFixed(4))),
    [0.5, 0.4167, 0.3333, 0.25, 0.1667, 0.0833],
  );
  assert.equal(optimizer.lr, 0.5);
});

/** Its output is its parameter. */
class Shift extends nn.Module {
  readonly p = tensor([1], { dtype: f64, requiresGrad: true });
  forward(): Tensor {
    return this.p;
  }
}

test('parameters of f64 move by learning rates of f64', async () => {
  for (const resident of [true, false]) {
    const net = new Shift();
    const train = new Loader(clouds(40), { batchSize: 10 });
    const optimizer = new SGD(net.parameters(), { lr: 0.1 });
    await fit(net, {
      ...{ train, optimizer, loss: (p) => p.sum(), epochs: 3, resident },
      schedule: schedules.polynomial(),
    });
    let expected = 1;
    for (let step = 0; step < 12; step++) expected -= 0.1 * (1 - step / 12);
    assert.ok(Math.abs((await net.p.item()) - expected) < 1e-15, `${await net.p.item()}, ${expected}`);
  }
});

test('a schedule that watches the loss changes the rates of later epochs', async () => {
  for (const resident of [true, false]) {
    const net = new Shift();
    const train = new Loader(clouds(40), { batchSize: 10 });
    const optimizer = new SGD(net.parameters(), { lr: 0.1 });
    // No loss is better than another by 1000: the rate is halved after each epoch but the first.
    const schedule = schedules.plateau({ patience: 0, factor: 0.5, threshold: 1000, thresholdMode: 'abs' });
    const loss = (p: Tensor): Tensor => p.sum();
    const { epochs } = await fit(net, { train, optimizer, loss, epochs: 4, resident, schedule });
    const rates = epochs.map(({ lr }) => lr);
    assert.deepEqual(rates, [0.1, 0.1, 0.05, 0.025]);
    const moved = 1 - (await net.p.item());
    assert.ok(Math.abs(moved - 4 * rates.reduce((sum, rate) => sum + rate, 0)) < 1e-15, `${moved}`);
  }
});

test('a resident data set trains to the same weights, bit by bit', async () => {
  const train = async (resident: boolean): Promise<unknown> => {
    const net = model();
    const { epochs } = await fit(net, options(net, { resident, schedule: schedules.polynomial() }));
    const results = epochs.map(({ loss, lr, validation }) => [
      loss,
      lr,
      validation!.loss,
      validation!.metrics,
    ]);
    return [results, await values(net)];
  };
  assert.deepEqual(await train(true), await train(false));
});

test('a resident data set: NaN is found in the middle of a launch of many steps', async () => {
  manualSeed(0);
  const net = new nn.Sequential(new nn.Linear(2, 4), new Fragile(), new nn.Linear(4, 2));
  const inputs = Float32Array.from({ length: 200 }, (_, i) => Math.sin(i));
  inputs.fill(1e3, 130, 140);
  const data = new ArrayDataset({ inputs, inputShape: [2], labels: new Int32Array(100), classes: 2 });
  const train = new Loader(data, { batchSize: 10 });
  const optimizer = new Adam(net.parameters());
  await assert.rejects(
    fit(net, options(net, { train, validation: undefined, optimizer, resident: true })),
    (e) =>
      e instanceof NumericError && /step 7 of epoch 1.*output of layer '1'.*before that step/.test(e.message),
  );
  assert.ok((await values(net)).flat(2).every((v) => Number.isFinite(v)));
});

test('the event loop gets its turns', async () => {
  const net = model();
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  const start = performance.now();
  await fit(net, options(net, { epochs: 40 }));
  clearInterval(timer);
  const most = (performance.now() - start) / 8;
  assert.ok(turns >= Math.min(5, most / 4), `${turns} turns of a timer`);
});

/** Becomes NaN where its input is above a limit. */
class Fragile extends nn.Module {
  forward(x: Tensor): Tensor {
    return x.gt(50).where(Number.NaN, relu(x));
  }
}

test('NaN in the loss: stops with the layer’s name, keeps the weights of before that step', async () => {
  manualSeed(0);
  const net = new nn.Sequential(new nn.Linear(2, 4), new Fragile(), new nn.Linear(4, 2));
  const inputs = Float32Array.from({ length: 200 }, (_, i) => Math.sin(i));
  inputs.fill(1e3, 130, 140);
  const data = new ArrayDataset({ inputs, inputShape: [2], labels: new Int32Array(100), classes: 2 });
  const good: unknown[][] = [];
  await assert.rejects(
    fit(
      net,
      options(net, {
        train: new Loader(data, { batchSize: 10 }),
        validation: undefined,
        optimizer: new Adam(net.parameters()),
        readEvery: 10,
        callbacks: [{ onStep: async () => void good.push(await values(net)) }],
      }),
    ),
    (e) => {
      assert.ok(e instanceof NumericError);
      assert.match(e.message, /step 7 of epoch 1.*output of layer '1' \(Fragile\).*before that step/);
      return true;
    },
  );
  assert.deepEqual(await values(net), good[5]);
});

test('running statistics keep their last good values too', async () => {
  const norm = new nn.BatchNorm2d(1);
  const net = new nn.Sequential(norm, new nn.Flatten(), new nn.Linear(4, 2));
  const inputs = Float32Array.from({ length: 80 }, (_, i) => Math.cos(i));
  inputs[66] = Number.NaN;
  const data = new ArrayDataset({ inputs, inputShape: [1, 2, 2], labels: new Int32Array(20), classes: 2 });
  const seen: number[] = [];
  await assert.rejects(
    fit(
      net,
      options(net, {
        train: new Loader(data, { batchSize: 4 }),
        validation: undefined,
        optimizer: new SGD(net.parameters()),
        callbacks: [{ onStep: async () => void seen.push(await norm.runningVar.item()) }],
      }),
    ),
    (e) => e instanceof NumericError && /step 5 of epoch 1.*batch's inputs/.test(e.message),
  );
  assert.notEqual(seen[3], seen[2]);
  assert.equal(await norm.runningVar.item(), seen[3]);
});

test('a rate that is far too large: the model goes back to the weights of before the epoch', async () => {
  const net = model();
  const before = await values(net);
  await assert.rejects(
    fit(net, options(net, { optimizer: new SGD(net.parameters(), { lr: 1e38 }) })),
    (e) => e instanceof NumericError && /learning rate 1e\+38/.test(e.message),
  );
  const now = await values(net);
  assert.ok(now.flat(2).every((v) => Number.isFinite(v)));
  assert.equal(now.length, before.length);
});

test('a label that is no class is reported by its place', async () => {
  const net = model();
  const dataset: Dataset = {
    length: 40,
    inputShape: [2],
    classes: 2,
    batchInto: (indices, inputs, labels) => {
      inputs.fill(0.5);
      for (let i = 0; i < indices.length; i++) labels[i] = indices[i] === 25 ? 9 : 1;
    },
  };
  await assert.rejects(
    fit(net, options(net, { train: new Loader(dataset, { batchSize: 20 }) })),
    (e) => e instanceof DataError && /label 9 of example 5 of batch 1 is outside.*0 to 1/.test(e.message),
  );
});

test('bad arguments are refused before anything runs', async () => {
  const net = model();
  await assert.rejects(fit(net, options(net, { epochs: 0 })), ArgumentError);
  await assert.rejects(fit(net, options(net, { readEvery: 0 })), ArgumentError);
  await assert.rejects(
    fit(net, options(net, { train: new Loader(clouds(5), { batchSize: 10, dropLast: true }) })),
    ArgumentError,
  );
  assert.throws(() => programNamed('cmm'), /'cmm'.*perceptron, quadrants, mlp, lenet5, cnn/);
  assert.throws(() => accuracy(tensor([1]), tensor([1])), ShapeError);
  assert.throws(() => binaryAccuracy(tensor([[1, 2]]), tensor([1])), ShapeError);
});

test('weights are written whole after each epoch, and read back', async () => {
  const net = model();
  const path = join(folder, 'weights.safetensors');
  await fit(net, options(net, { callbacks: [checkpoint(net, path)] }));
  assert.deepEqual(await readdir(folder), ['weights.safetensors']);
  const stored = await readSafetensors(path);
  assert.deepEqual(Object.keys(stored.tensors).sort(), ['0.bias', '0.weight', '2.bias', '2.weight']);
  assert.equal(stored.metadata.epoch, '3');
  const other = model(1);
  await loadWeights(other, path);
  assert.deepEqual(await values(other), await values(net));
  await assert.rejects(loadWeights(new nn.Linear(2, 2), path), ArgumentError);
  await assert.rejects(
    saveWeights(net, join(folder, 'no', 'such', 'folder.safetensors')),
    /folder does not exist/,
  );
});

test('checkpoints of the best only', async () => {
  const net = model();
  const path = join(folder, 'best.safetensors');
  await fit(
    net,
    options(net, {
      optimizer: new SGD(net.parameters(), { lr: 0 }),
      callbacks: [checkpoint(net, path, { best: 'loss' })],
    }),
  );
  assert.equal((await readSafetensors(path)).metadata.epoch, '1');
});

test('a bottleneck narrows the channels, halves the image by its 3×3 convolution, and adds what it got', async () => {
  const block = new Bottleneck(64, 256, 2);
  assert.deepEqual(
    [block.conv1, block.conv2, block.conv3].map(({ weight }) => weight.shape),
    [
      [64, 64, 1, 1],
      [64, 64, 3, 3],
      [256, 64, 1, 1],
    ],
  );
  assert.deepEqual(block.downsample!.parameters().map(({ shape }) => shape)[0], [256, 64, 1, 1]);
  // Branches of 0 leave what is added.
  nn.init.zeros(block.bn3.weight!);
  block.eval();
  const x = tensor(
    Float32Array.from({ length: 64 * 64 }, (_, i) => Math.sin(i)),
    { shape: [1, 64, 8, 8] },
  );
  const [got, added] = [block.forward(x), block.downsample!.forward(x).relu()];
  assert.deepEqual(got.shape, [1, 256, 4, 4]);
  assert.deepEqual(await got.data(), await added.data());
});

test('programs have the sizes that are known of them', () => {
  const count = (program: TrainingProgram): number =>
    program
      .build()
      .parameters()
      .reduce((n, p) => n + p.size, 0);
  assert.deepEqual(
    Object.values(PROGRAMS).map((p) => [p.name, count(p)]),
    [
      ['perceptron', 3],
      ['quadrants', 121],
      ['mlp', 101770],
      ['lenet5', 61706],
      ['cnn', 50890],
      ['resnet18', 11172810],
      ['vit', 204938],
      ['gpt', 3243520],
    ],
  );
});

test('networks of images are made for the images and classes that there are', () => {
  for (const name of ['mlp', 'lenet5', 'cnn', 'resnet18', 'vit'] as const) {
    const program: TrainingProgram = PROGRAMS[name];
    const inputShape = [3, 16, 16];
    const logits = program.build(undefined, { inputShape, classes: 7 }).forward(zeros([2, ...inputShape]));
    assert.deepEqual(logits.shape, [2, 7], name);
  }
  const build = (program: TrainingProgram, inputShape: number[]) => () =>
    program.build(undefined, { inputShape });
  assert.throws(build(PROGRAMS.lenet5, [1, 11, 28]), {
    name: 'ArgumentError',
    message: '[LeNet5] images are 11 × 28, must be at least 12 × 12. Choose a larger size.',
  });
  assert.throws(
    build(PROGRAMS.vit, [1, 28, 30]),
    /28 × 30, must be squares with sides that are multiples of 4\./,
  );
});

for (const name of ['perceptron', 'quadrants'] as const) {
  test(`${name} reaches its goal`, async () => {
    const program: TrainingProgram = PROGRAMS[name];
    manualSeed(0);
    const net = program.build();
    const data = name === 'perceptron' ? separablePoints() : quadrantPoints({ testLength: 1000 });
    const { epochs, batchSize, lr } = program.recipe;
    const optimizer =
      name === 'perceptron' ? new SGD(net.parameters(), { lr }) : new Adam(net.parameters(), { lr });
    const history = await fit(net, {
      train: new Loader(data.train, { batchSize, shuffle: true }),
      validation: new Loader(data.test, { batchSize: 1000 }),
      optimizer,
      loss: program.loss('mean'),
      metrics: { accuracy: program.metric },
      schedule: schedules.cosine(),
      epochs,
    });
    const reached = history.epochs.at(-1)!.validation!.metrics.accuracy!;
    assert.ok(reached >= (name === 'perceptron' ? 1 : 0.99), `${reached}`);
  });
}

test('no growth over 2,000 jitted steps and 200 evaluations without jit', async () => {
  await threadsReady();
  const net = model();
  const more = { train: new Loader(clouds(40), { batchSize: 20 }), validation: undefined, epochs: 10 };
  await fit(net, options(net, more));
  const before = await settledMemory();
  await fit(net, options(net, { ...more, epochs: 1000 }));
  const after = await settledMemory();
  assert.ok(after <= before, `${before} → ${after} bytes after 2,000 steps`);

  const x = tensor(new Float32Array(2 * 64).fill(0.5), { shape: [64, 2] });
  const look = async (): Promise<number> => net.forward(x).sum().item();
  for (let i = 0; i < 5; i++) await look();
  const start = await settledMemory();
  for (let i = 0; i < 200; i++) await look();
  const end = await settledMemory();
  assert.ok(end <= start, `${start} → ${end} bytes after 200 evaluations`);
});
