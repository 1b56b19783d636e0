/** What a model is made of, without computing anything. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { engineStats, i32, jit, nn, ones, type Shape, type Tensor, zeros } from '../../src/index.js';
import { LeNet5 } from '../../src/train/index.js';

test('the layers of LeNet-5 in the order of their calls, with exact figures', () => {
  const model = new LeNet5();
  model.relu.eval();
  const before = engineStats();
  const summary = model.summary([1, 28, 28], { batchSize: 2 });
  const figures = summary.layers.map((l) => [l.name, ...l.outputs![0]!.shape, l.parameters, l.flops / 2]);
  assert.deepEqual(figures, [
    ['', 2, 10, 61706, 833040],
    ['conv1', 2, 6, 28, 28, 156, 2 * 25 * 6 * 28 * 28],
    ['relu', 2, 6, 28, 28, 0, 0],
    ['pool', 2, 6, 14, 14, 0, 0],
    ['conv2', 2, 16, 10, 10, 2416, 2 * 6 * 25 * 16 * 10 * 10],
    ['relu', 2, 16, 10, 10, 0, 0],
    ['pool', 2, 16, 5, 5, 0, 0],
    ['fc1', 2, 120, 48120, 2 * 400 * 120],
    ['relu', 2, 120, 0, 0],
    ['fc2', 2, 84, 10164, 2 * 120 * 84],
    ['relu', 2, 84, 0, 0],
    ['fc3', 2, 10, 850, 2 * 84 * 10],
  ]);
  const { parameterBytes, inputBytes, bufferBytes, activationBytes } = summary;
  const floats = 2 * (2 * 4704 + 1176 + 2 * 1600 + 400 + 2 * 120 + 2 * 84 + 10);
  assert.deepEqual(
    [parameterBytes, inputBytes, bufferBytes, activationBytes],
    [4 * 61706, 8 * 784, 0, 4 * floats],
  );
  assert.deepEqual([model.training, model.relu.training, model.pool.training], [true, false, true]);
  assert.deepEqual(engineStats(), before);
});

/** Two inputs, a layer that is used twice, one that is not, one that counts its calls, and one that is frozen. */
class Mixed extends nn.Module {
  readonly words = new nn.Embedding(100, 6);
  readonly norm = new nn.BatchNorm1d(6);
  readonly heads = new nn.ModuleList([new nn.Linear(6, 6), new nn.Linear(6, 3)]);
  readonly calls = zeros([]);
  forward(
    tokens: Tensor<Shape, 'i32'>,
    { shift }: { readonly shift: Tensor },
  ): { readonly y: Tensor; readonly z: Tensor } {
    this.calls.assign(this.calls.add(1));
    const first = this.heads.at(0)!;
    const x = this.norm.forward(this.words.forward(tokens).mean(1).add(shift));
    return { y: first.forward(first.forward(x)), z: x.flatten() };
  }
}

test('several inputs and outputs, layers used twice or never, frozen parameters, buffers', async () => {
  const model = new Mixed();
  model.words.weight.requiresGrad = false;
  const summary = model.summary([zeros([4, 9], { dtype: i32 }), { shift: ones([4, 6]) }]);
  const [whole, ...layers] = summary.layers;
  assert.deepEqual(
    whole!.outputs!.map(({ shape }) => shape),
    [[4, 6], [24]],
  );
  assert.deepEqual(
    layers.map((l) => [l.name, l.outputs !== undefined, l.reused, l.parameters, l.trainable, l.flops]),
    [
      ['words', true, false, 600, 0, 0],
      ['norm', true, false, 12, 12, 0],
      ['heads.0', true, false, 42, 42, 2 * 4 * 36],
      ['heads.0', true, true, 42, 42, 2 * 4 * 36],
      ['heads.1', false, false, 21, 21, 0],
    ],
  );
  assert.deepEqual([summary.parameters, summary.trainable, summary.flops], [675, 75, 576]);
  assert.deepEqual([summary.parameterBytes, summary.bufferBytes], [4 * 675, 4 * (12 + 1)]);
  assert.equal(summary.activationBytes, 4 * (4 * 9 * 6 + 3 * 24));
  assert.equal(await model.calls.item(), 0);
  model.words.weight.requiresGrad = true;
  assert.equal(model.summary([zeros([4, 9], { dtype: i32 }), { shift: ones([4, 6]) }]).trainable, 675);
});

test('the table', () => {
  const model = new nn.Sequential(new nn.Linear(1000, 999), new nn.ReLU());
  assert.equal(
    inspect(model.summary([1000])),
    [
      'layer        output   parameters   FLOPs  activations',
      '───────────  ───────  ──────────  ──────  ───────────',
      'Sequential   (1,999)     999,999  2.00 M     7.80 KiB',
      '  0: Linear  (1,999)     999,999  2.00 M     3.90 KiB',
      '  1: ReLU    (1,999)           –       –     3.90 KiB',
      '',
      'parameters   999,999: 999,999 to train, 0 frozen',
      'FLOPs        2.00 M forward: products, convolutions and recurrent layers, 2 for a multiply-add',
      'memory       parameters 3.81 MiB, buffers –, inputs 3.91 KiB, activations 7.80 KiB',
    ].join('\n'),
  );
});

test('recurrent layers and attention are counted: (T, N, F) with a batch of its own', () => {
  const { flops, layers } = new nn.LSTM(10, 20).summary(zeros([7, 3, 10]));
  assert.equal(flops, 2 * 21 * (10 + 20) * 80);
  assert.deepEqual(
    layers[0]!.outputs!.map(({ shape }) => shape),
    [
      [7, 3, 20],
      [1, 3, 20],
      [1, 3, 20],
    ],
  );
  // Three projections and one of the result; scores, and their sums of values.
  const attention = new nn.MultiheadAttention(8, 2, { batchFirst: true }).summary([5, 8]);
  assert.equal(attention.flops, 2 * (4 * 5 * 8 * 8 + 2 * 5 * 5 * 8));
});

test('misuse is named, and leaves the model as it was', () => {
  const model = new nn.Sequential(new nn.Dropout(), new nn.Linear(3, 2));
  assert.throws(
    () => model.summary('3' as never),
    /\[summary\] input is '3', must be a shape such as \[1, 28, 28\]/,
  );
  assert.throws(() => model.summary([[3], 2.5 as never]), /\[summary\] input 1 is 2\.5/);
  assert.throws(() => model.summary([3], { batch: 2 } as never), /unknown option 'batch'/);
  assert.throws(() => model.summary([4]), /\(1,4\)/);
  assert.ok(model.training && !Object.hasOwn(model, 'forward'));
  assert.throws(() => jit(() => void model.summary([3]))(), /cannot be called within a jitted function/);
  assert.throws(() => new nn.ModuleList([model]).summary([3]), /is a list and has no forward/);
});
