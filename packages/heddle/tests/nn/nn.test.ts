/** Modules: what they hold, how it is named, saved, loaded and drawn. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f64 } from '../../src/core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../../src/core/errors.js';
import * as nn from '../../src/nn/index.js';
import { withoutDraws } from '../../src/nn/parameter.js';
import { ones, tensor, zeros } from '../../src/tensor/create.js';
import { dropout2d, dropPath } from '../../src/tensor/functional-layers.js';
import { jit } from '../../src/tensor/jit.js';
import { noGrad } from '../../src/tensor/modes.js';
import { manualSeed, rand, randn } from '../../src/tensor/random.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { assertClose } from '../close.js';

class Block extends nn.Module {
  readonly conv = new nn.Conv2d(2, 4, 3, { padding: 1, bias: false });
  readonly norm = new nn.BatchNorm2d(4);
  readonly branches = [new nn.Linear(3, 2), new nn.Linear(3, 2)];
  readonly tied = this.branches[0]!;
  readonly scale = tensor([1], { requiresGrad: true });
  readonly title = 'block';

  forward(x: Tensor): Tensor {
    return this.norm.forward(this.conv.forward(x)).mul(this.scale);
  }
}

test('parameters and buffers are found in properties, modules and arrays, each once', () => {
  const block = new Block();
  assert.deepEqual(
    [...block.namedParameters()].map(([name]) => name),
    [
      'scale',
      'conv.weight',
      'norm.weight',
      'norm.bias',
      'branches.0.weight',
      'branches.0.bias',
      'branches.1.weight',
      'branches.1.bias',
    ],
  );
  assert.deepEqual(
    [...block.namedBuffers()].map(([name]) => name),
    ['norm.runningMean', 'norm.runningVar'],
  );
  assert.equal(Object.keys(block.stateDict()).length, 10);
  assert.equal(block.parameters().length, 8);
});

test('Sequential names its layers by position and runs them in order', async () => {
  const model = new nn.Sequential(new nn.Flatten(), new nn.Linear(4, 2), new nn.ReLU());
  assert.deepEqual(Object.keys(model.stateDict()), ['1.weight', '1.bias']);
  const y = model.forward(
    tensor([
      [
        [1, 2],
        [3, 4],
      ],
    ]),
  );
  assert.deepEqual(y.shape, [1, 2]);
  assert.ok(((await y.data()) as Float32Array).every((v) => v >= 0));
});

test('train and eval reach every module', () => {
  const model = new nn.Sequential(new nn.Dropout(), new nn.Sequential(new nn.BatchNorm2d(1)));
  model.eval();
  assert.ok([...model.namedModules()].every(([, m]) => !m.training));
  model.train();
  assert.ok([...model.namedModules()].every(([, m]) => m.training));
});

test('a state dict moves all values to another model, and stays its own', async () => {
  manualSeed(1);
  const [from, to] = [new Block(), new Block()];
  to.loadStateDict(from.stateDict());
  assert.deepEqual(await to.conv.weight.data(), await from.conv.weight.data());
  assert.ok(to.conv.weight.requiresGrad);
  assert.ok(!to.norm.runningMean.requiresGrad);
  const before = await from.conv.weight.data();
  noGrad(() => to.conv.weight.assign(to.conv.weight.mul(2)));
  assert.deepEqual(await from.conv.weight.data(), before);
  to.conv.weight.write(new Float32Array(to.conv.weight.size));
  assert.deepEqual(await from.conv.weight.data(), before);
});

test('loading says what is missing, unexpected, or of another shape or dtype, and then changes nothing', async () => {
  const model = new nn.Linear(3, 2);
  const before = await model.weight.data();
  const { weight, bias } = model.stateDict();
  assert.throws(
    () => model.loadStateDict({ weight: weight!, offset: bias! }),
    (e) => e instanceof ArgumentError && /Linear.*Missing: bias\. Unexpected: offset\./.test(e.message),
  );
  assert.throws(
    () => model.loadStateDict({ weight: zeros([2, 3]), bias: zeros([3]) }),
    (e) => e instanceof ShapeError && /bias differ: the model has \(2\), the state \(3\)/.test(e.message),
  );
  assert.throws(
    () => model.loadStateDict({ weight: zeros([2, 3], { dtype: f64 }), bias: zeros([2]) }),
    (e) => e instanceof DTypeError && /weight differ: the model has f32, the state f64/.test(e.message),
  );
  assert.deepEqual(await model.weight.data(), before);
  model.loadStateDict({ bias: tensor([5, 6]) }, { strict: false });
  assert.deepEqual(await model.bias!.array(), [5, 6]);
  assert.deepEqual(await model.weight.data(), before);
});

test('initial values: bounds, spread, and the same for the same seed', async () => {
  const make = (): nn.Linear => {
    manualSeed(11);
    return new nn.Linear(400, 300);
  };
  const values = (await make().weight.data()) as Float32Array;
  assert.deepEqual(await make().weight.data(), values);
  manualSeed(12);
  assert.notDeepEqual(await new nn.Linear(400, 300).weight.data(), values);
  const bound = 1 / Math.sqrt(400);
  assert.ok(values.every((v) => Math.abs(v) <= bound));
  const deviation = Math.sqrt(values.reduce((s, v) => s + v * v, 0) / values.length);
  assertClose([deviation], [bound / Math.sqrt(3)], 'deviation', { relative: 0.01 });
  const conv = new nn.Conv2d(4, 8, [3, 5], { groups: 2 });
  assert.deepEqual(conv.weight.shape, [8, 2, 3, 5]);
  assert.ok(((await conv.weight.data()) as Float32Array).every((v) => Math.abs(v) <= 1 / Math.sqrt(30)));
});

test('nn.init: deviations as the papers say', async () => {
  manualSeed(2);
  const t = zeros([300, 200], { requiresGrad: true });
  const deviation = async (of: Tensor): Promise<number> => {
    const v = (await of.data()) as Float32Array;
    const mean = v.reduce((s, x) => s + x, 0) / v.length;
    return Math.sqrt(v.reduce((s, x) => s + (x - mean) ** 2, 0) / v.length);
  };
  const { init } = nn;
  for (const [draw, expected] of [
    [() => init.xavierUniform(t), Math.sqrt(2 / 500)],
    [() => init.xavierNormal(t, { gain: 2 }), 2 * Math.sqrt(2 / 500)],
    [() => init.kaimingUniform(t), Math.sqrt(2 / 200)],
    [() => init.kaimingNormal(t, { mode: 'fanOut', nonlinearity: 'relu' }), Math.sqrt(2 / 300)],
    [() => init.normal(t, { mean: 3, std: 0.5 }), 0.5],
    [() => init.uniform(t, { low: -1, high: 1 }), 1 / Math.sqrt(3)],
  ] as const) {
    assert.equal(draw(), t);
    assertClose([await deviation(t)], [expected], String(draw), { relative: 0.02 });
  }
  assert.ok(t.requiresGrad);
  assert.equal(await init.ones(t).sum().item(), 60000);
  assert.equal(await init.zeros(t).sum().item(), 0);
  assert.throws(() => init.xavierUniform(zeros([3])), ShapeError);
});

test('BatchNorm2d normalises by the batch in training, by running statistics in evaluation', async () => {
  manualSeed(4);
  const norm = new nn.BatchNorm2d(3, { momentum: 1 });
  const x = randn([8, 3, 4, 4]).mul(3).add(5).realize();
  const y = norm.forward(x);
  assertClose((await y.mean([0, 2, 3]).data()) as Float32Array, [0, 0, 0], 'mean', { absolute: 1e-5 });
  norm.eval();
  const before = await norm.runningMean.data();
  const evaluated = norm.forward(x);
  assert.deepEqual(await norm.runningMean.data(), before);
  const ratio = (await evaluated.std([0, 2, 3], { correction: 1 }).data()) as Float32Array;
  assertClose(ratio, [1, 1, 1], 'deviation', { relative: 1e-4 });
});

test('BatchNorm2d and Dropout keep their state going inside jit', async () => {
  const norm = new nn.BatchNorm2d(2, { momentum: 0.5 });
  const model = new nn.Sequential(norm, new nn.Dropout({ p: 0.5 }));
  const run = jit((x: Tensor) => noGrad(() => model.forward(x)));
  const x = tensor([1, 1, 3, 3], { shape: [2, 2, 1, 1] });
  const first = await run(x).data();
  await run(x).data();
  assertClose((await norm.runningMean.data()) as Float32Array, [1.5, 1.5], 'running mean');
  const draws = await Promise.all(Array.from({ length: 8 }, () => run(x).data()));
  assert.ok(
    draws.some((d) => d.some((v, i) => v !== first[i])),
    'dropout drew the same mask every time',
  );
});

test('layers refuse sizes that are none', () => {
  assert.throws(
    () => new nn.Linear(0, 3),
    (e) => e instanceof ArgumentError && /inFeatures is 0/.test(e.message),
  );
  assert.throws(
    () => new nn.Conv2d(3, 4, 3, { groups: 2 }),
    (e) => e instanceof ArgumentError && /groups is 2.*3.*4/.test(e.message),
  );
  assert.throws(() => new nn.BatchNorm2d(1.5), ArgumentError);
});

test('every layer runs and keeps or changes the shape as it says', () => {
  const x = rand([2, 3, 8, 8]);
  const same = [
    new nn.ReLU(),
    new nn.LeakyReLU(),
    new nn.ELU(),
    new nn.GELU(),
    new nn.SiLU(),
    new nn.Sigmoid(),
    new nn.Softplus(),
    new nn.Tanh(),
    new nn.Softmax(1),
    new nn.LogSoftmax(1),
    new nn.Dropout(),
    new nn.BatchNorm2d(3),
  ];
  for (const layer of same) assert.deepEqual(layer.forward(x).shape, x.shape, layer.constructor.name);
  assert.deepEqual(new nn.MaxPool2d(2).forward(x).shape, [2, 3, 4, 4]);
  assert.deepEqual(new nn.AvgPool2d(3, { stride: 1, padding: 1 }).forward(x).shape, [2, 3, 8, 8]);
  assert.deepEqual(
    new nn.Conv2d(3, 5, 3, { stride: 2, padding: 1, dilation: 1 }).forward(x).shape,
    [2, 5, 4, 4],
  );
  assert.deepEqual(new nn.Flatten().forward(x).shape, [2, 192]);
});

test('zeroGrad forgets', () => {
  const layer = new nn.Linear(2, 1);
  layer
    .forward(rand([3, 2]))
    .sum()
    .backward();
  assert.ok(layer.parameters().every((p) => p.grad));
  layer.zeroGrad();
  assert.ok(layer.parameters().every((p) => p.grad === undefined));
});

test('convolutions of all kinds keep weights as PyTorch does', () => {
  const shapes = (layer: nn.ConvolutionLayer): unknown =>
    Object.fromEntries(Object.entries(layer.stateDict()).map(([name, { shape }]) => [name, shape]));
  assert.deepEqual(shapes(new nn.Conv1d(4, 6, 3, { groups: 2 })), { weight: [6, 2, 3], bias: [6] });
  assert.deepEqual(shapes(new nn.Conv3d(2, 3, [1, 2, 3])), { weight: [3, 2, 1, 2, 3], bias: [3] });
  assert.deepEqual(shapes(new nn.ConvTranspose1d(4, 6, 3, { groups: 2 })), { weight: [4, 3, 3], bias: [6] });
  assert.deepEqual(shapes(new nn.ConvTranspose2d(2, 3, [4, 5], { bias: false })), { weight: [2, 3, 4, 5] });
  assert.throws(() => new nn.ConvTranspose2d(4, 6, 3, { groups: 4 }), /groups is 4, must divide both/);
  assert.deepEqual(shapes(new nn.ConvTranspose3d(4, 6, [1, 2, 3])), { weight: [4, 6, 1, 2, 3], bias: [6] });
});

test('a padding named same takes a stride of 1, and is no padding of a transposed convolution', () => {
  const message = (text: string) => ({ name: 'ArgumentError', message: text });
  assert.throws(
    () => new nn.Conv2d(1, 1, 3, { padding: 'same', stride: 2 }).forward(rand([1, 1, 4, 4])),
    message("[conv2d] padding 'same' takes a stride of 1, got 2×2. Give the padding in numbers."),
  );
  assert.throws(
    () => new nn.Conv1d(1, 1, 3, { padding: 'full' as 'same' }),
    /padding is 'full', must be an integer ≥ 0, or 'same' or 'valid'/,
  );
  assert.throws(
    () => new nn.ConvTranspose1d(1, 1, 3, { padding: 'same' as unknown as number }),
    /padding is 'same', must be an integer ≥ 0/,
  );
});

test('Dropout2d drops channels and DropPath examples, and the mean stays', async () => {
  const x = ones([50, 40, 3, 3]);
  const perChannel = await dropout2d(x, { p: 0.25 }).mean([2, 3]).data();
  assert.ok(
    perChannel.every((v) => v === 0 || Math.abs(Number(v) - 4 / 3) < 1e-6),
    'whole channels',
  );
  const kept = perChannel.filter((v) => v !== 0).length / perChannel.length;
  assert.ok(Math.abs(kept - 0.75) < 0.05, `${kept} are kept`);
  const perExample = await dropPath(ones([2000, 2, 2]), { p: 0.5 })
    .mean([1, 2])
    .data();
  assert.ok(
    perExample.every((v) => v === 0 || v === 2),
    'whole examples',
  );
  assert.ok(Math.abs(perExample.filter((v) => v === 2).length / 2000 - 0.5) < 0.05);
  const layers = [new nn.Dropout2d({ p: 1 }), new nn.DropPath({ p: 1 })];
  for (const layer of layers) {
    assert.equal(await layer.forward(x).sum().item(), 0);
    assert.equal(layer.eval().forward(x), x);
  }
  assert.equal(new nn.DropPath().forward(x), x);
});

test('layers whose parameters are overwritten are 0, and those after them draw what they would have drawn', async () => {
  const made = async (make: <T>(layers: () => T) => T): Promise<readonly ArrayLike<number>[]> => {
    manualSeed(3);
    const [linear, embedding] = make(() => [new nn.Linear(5, 3), new nn.Embedding(3, 2)] as const);
    const after = new nn.Linear(2, 3);
    return Promise.all([linear.weight, embedding.weight, after.weight].map((p) => p.data()));
  };
  const drawn = await made((layers) => layers());
  const [linear, embedding, after] = await made(withoutDraws);
  assert.deepEqual([...Array.from(linear!), ...Array.from(embedding!)], new Array(21).fill(0));
  assert.deepEqual(after, drawn[2]);
  assert.ok(Array.from(drawn[0]!).every((v) => v !== 0));
});
