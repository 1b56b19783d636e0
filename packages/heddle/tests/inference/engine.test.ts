/** Engines against the models they are compiled from. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ArgumentError,
  DTypeError,
  i32,
  inference,
  manualSeed,
  nn,
  noGrad,
  randn,
  relu,
  ShapeError,
  setPrecision,
  type Tensor,
  tensor,
} from '../../src/index.js';
import { LeNet5 } from '../../src/train/programs.js';

const { compile } = inference;

setPrecision({ matmul: 'f32', conv: 'f32' });

/** A residual block: two convolutions with batch norms whose statistics and factors are not 1 and 0. */
class Block extends nn.Module {
  conv1 = new nn.Conv2d(3, 8, 3, { padding: 1, bias: true });
  bn1 = new nn.BatchNorm2d(8);
  conv2 = new nn.Conv2d(8, 3, 3, { padding: 1, bias: false });
  bn2 = new nn.BatchNorm2d(3);
  forward(x: Tensor): Tensor {
    const inner = relu(this.bn1.forward(this.conv1.forward(x)));
    return relu(this.bn2.forward(this.conv2.forward(inner)).add(x));
  }
}

function block(): Block {
  manualSeed(1);
  const model = new Block();
  noGrad(() => {
    for (const bn of [model.bn1, model.bn2]) {
      bn.weight!.assign(randn(bn.weight!.shape).mul(0.3).add(1));
      bn.bias!.assign(randn(bn.bias!.shape));
      bn.runningMean!.assign(randn(bn.bias!.shape));
      bn.runningVar!.assign(randn(bn.bias!.shape).abs().add(0.5));
    }
  });
  return model;
}

async function requireClose(got: ArrayLike<number>, expected: Tensor, bound = 1e-4): Promise<void> {
  const want = await expected.data();
  assert.equal(got.length, want.length);
  for (let i = 0; i < want.length; i++)
    assert.ok(
      Math.abs(got[i]! - want[i]!) <= bound * (1 + Math.abs(want[i]!)),
      `${i}: ${got[i]} not ${want[i]}`,
    );
}

test('an engine gives what the model gives in evaluation mode, and leaves the model as it is', async () => {
  const model = block();
  model.bn1.eval();
  using engine = await compile(model, { shapes: [[3, 6, 7]], batchSizes: [2] });
  assert.equal(model.training, true);
  assert.equal(model.bn1.training, false);
  assert.equal(model.bn2.training, true);
  model.eval();
  const x = randn([2, 3, 6, 7]);
  const [y] = await engine.run(x);
  assert.deepEqual(y!.shape, [2, 3, 6, 7]);
  await requireClose(await (y as Tensor).data(), model.forward(x));
});

test('batches are padded to the next size and split by the largest', async () => {
  manualSeed(2);
  const model = new LeNet5().eval();
  using engine = await compile(model, { shapes: [[1, 28, 28]], batchSizes: [4, 1] });
  assert.deepEqual(engine.batchSizes, [1, 4]);
  for (const batch of [1, 2, 4, 5, 11]) {
    const x = randn([batch, 1, 28, 28]);
    const expected = model.forward(x);
    const [array] = await engine.runArrays([await x.data()], batch);
    await requireClose(array as Float32Array, expected);
    const [y] = await engine.run(x);
    assert.deepEqual(y!.shape, [batch, 10]);
    await requireClose(await (y as Tensor).data(), expected);
  }
});

test('calls that overlap do not disturb each other', async () => {
  manualSeed(3);
  const model = new nn.Sequential(new nn.Linear(4, 3), new nn.Tanh()).eval();
  using engine = await compile(model, { shapes: [[4]], batchSizes: [2] });
  const inputs = Array.from({ length: 8 }, (_, i) => randn([1 + (i % 3), 4]));
  const arrays = await Promise.all(inputs.map((x) => x.data()));
  const runs = inputs.map((x, i) =>
    i % 2 === 0
      ? engine.run(x).then(([y]) => (y as Tensor).data())
      : engine.runArrays([arrays[i]!], x.shape[0]!).then(([y]) => y as Float32Array),
  );
  for (const [i, got] of (await Promise.all(runs)).entries())
    await requireClose(got, model.forward(inputs[i]!));
});

class Two extends nn.Module {
  table = new nn.Embedding(5, 4);
  forward(
    words: Tensor<[number, number], 'i32'>,
    x: Tensor,
  ): { sum: Tensor; words: Tensor<[number, number], 'i32'> } {
    return { sum: this.table.forward(words).sum(1).add(x), words };
  }
}

test('an engine has the inputs of forward and the outputs of a record, by name', async () => {
  manualSeed(4);
  const model = new Two();
  using engine = await compile(model, {
    shapes: [[3], [4]],
    dtypes: [i32, (await import('../../src/index.js')).f32],
    inputNames: ['words', 'x'],
    batchSizes: [2],
  });
  assert.deepEqual(
    engine.inputs.map(({ name, dtype, shape }) => [name, dtype.name, shape]),
    [
      ['words', 'i32', [3]],
      ['x', 'f32', [4]],
    ],
  );
  assert.deepEqual(
    engine.outputs.map(({ name, dtype, shape }) => [name, dtype.name, shape]),
    [
      ['sum', 'f32', [4]],
      ['words', 'i32', [3]],
    ],
  );
  const words = Int32Array.of(0, 1, 2, 4, 4, 3);
  const x = randn([2, 4]);
  const [sum, same] = await engine.runArrays([words, await x.data()], 2);
  await requireClose(sum as Float32Array, model.forward(tensor(words, { shape: [2, 3] }), x).sum);
  assert.deepEqual(same, words);
});

for (const precision of ['tf32', 'bf16', 'f16'] as const)
  test(`${precision}: results are close to those of f32, and are f32`, async () => {
    const model = block().eval();
    using engine = await compile(model, { shapes: [[3, 6, 7]], precision });
    assert.equal(engine.outputs[0]!.dtype.name, 'f32');
    const x = randn([1, 3, 6, 7]);
    const [y] = await engine.runArrays([await x.data()], 1);
    await requireClose(y as Float32Array, model.forward(x), precision === 'bf16' ? 0.1 : 0.02);
  });

test('later training does not change an engine', async () => {
  manualSeed(5);
  const model = new nn.Linear(3, 2);
  using engine = await compile(model, { shapes: [[3]] });
  const x = randn([1, 3]);
  const before = Float32Array.from(await (model.forward(x) as Tensor).data());
  noGrad(() => model.weight.assign(model.weight.mul(2)));
  const [y] = await engine.runArrays([await x.data()], 1);
  await requireClose(y as Float32Array, tensor(before));
  assert.ok(Math.abs(before[0]! - (await (model.forward(x) as Tensor).data())[0]!) > 1e-3);
});

class Stateful extends nn.Module {
  seen = tensor([0]);
  forward(x: Tensor): Tensor {
    this.seen.assign(this.seen.add(1));
    return x;
  }
}

class Scalar extends nn.Module {
  forward(x: Tensor): Tensor {
    return x.sum();
  }
}

class Nothing extends nn.Module {
  forward(_: Tensor): number {
    return 1;
  }
}

test('what cannot be compiled or run is refused with the reason', async () => {
  const linear = new nn.Linear(3, 2);
  await assert.rejects(compile(new Stateful(), { shapes: [[1]] }), /assigns 1 of its tensors/);
  await assert.rejects(compile(new Scalar(), { shapes: [[1]] }), /output0 is \(\) for a batch of 1/);
  await assert.rejects(compile(new Nothing(), { shapes: [[1]] }), /output0 of the model is 1/);
  await assert.rejects(compile(linear, { shapes: [[4]] }), ShapeError);
  await assert.rejects(
    compile(linear, { shapes: [[3]], dtypes: [i32, i32] }),
    /dtypes has 2 entries for 1 inputs/,
  );
  await assert.rejects(compile(linear, { shapes: [] }), ArgumentError);
  await assert.rejects(compile(linear, { shapes: [[3]], batchSizes: [0] }), ArgumentError);
  const engine = await compile(linear, { shapes: [[3]] });
  await assert.rejects(
    engine.runArrays([new Float32Array(4)], 1),
    /input0 has 4 elements, a batch of 1 of \(3\) has 3/,
  );
  await assert.rejects(engine.runArrays([], 1), /0 inputs were given, the engine takes 1: input0/);
  await assert.rejects(engine.run(randn([1, 4])), /input0 is \(1,4\), must be \(1,3\)/);
  await assert.rejects(engine.run(tensor(Int32Array.of(1, 2, 3), { shape: [1, 3] }) as never), DTypeError);
  engine.dispose();
  await assert.rejects(engine.runArrays([new Float32Array(3)], 1), /disposed/);
});
