/** Models whose examples are computed by themselves are compiled for batches; others are refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ArgumentError,
  arange,
  cat,
  f32,
  inference,
  manualSeed,
  nn,
  ones,
  type Tensor,
} from '../../src/index.js';

const { compile } = inference;

/** A module of a function. */
class Of extends nn.Module {
  readonly #compute: (x: Tensor) => Tensor;
  constructor(compute: (x: Tensor) => Tensor) {
    super();
    this.#compute = compute;
  }
  forward(x: Tensor): Tensor {
    return this.#compute(x);
  }
}

const compiled = (compute: (x: Tensor) => Tensor, shape: readonly number[] = [6, 4]) =>
  compile(new Of(compute), { shapes: [shape], batchSizes: [1, 3] });

const SEPARATE: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  'a softmax of each': (x) => x.softmax(2),
  'heads joined with the batch, and parted again': (x) => {
    const n = x.shape[0]!;
    const heads = x
      .reshape([n, 6, 2, 2])
      .permute([0, 2, 1, 3])
      .reshape([2 * n, 6, 2]);
    const scores = heads
      .matmul(heads.permute([0, 2, 1]))
      .softmax(2)
      .matmul(heads);
    return scores.reshape([n, 2, 6, 2]).permute([0, 2, 1, 3]).reshape([n, 6, 4]);
  },
  'the batch moved to the end': (x) => x.permute([1, 2, 0]).sum(0).permute([1, 0]),
  'positions within an example': (x) => x.add(arange(6, { dtype: f32 }).reshape([6, 1])),
  'a weight for each position': (x) => x.mul(ones([1, 6, 4])),
  'the order of its elements': (x) => x.sort(1).values.cumsum(2),
  'halves put together': (x) => cat(x.chunk(2, 2), 1),
};

for (const [name, compute] of Object.entries(SEPARATE))
  test(`compiled for batches: ${name}`, async () => {
    manualSeed(1);
    (await compiled(compute)).dispose();
  });

test('compiled for batches: recurrent layers, attention, convolutions', async () => {
  manualSeed(1);
  const gru = new nn.GRU(4, 5, { batchFirst: true });
  (await compiled((x) => gru.forward(x)[0])).dispose();
  const block = new nn.TransformerEncoderLayer(4, 2, { dropout: 0, batchFirst: true });
  (await compiled((x) => block.forward(x))).dispose();
  const pooled = new nn.Sequential(
    ...[new nn.Conv2d(3, 4, 3, { padding: 1 }), new nn.BatchNorm2d(4), new nn.ReLU()],
    ...[new nn.ConvTranspose2d(4, 4, 2, { stride: 2 }), new nn.GroupNorm(2, 4)],
    ...[new nn.Upsample({ scaleFactor: 2, mode: 'bilinear' }), new nn.AdaptiveAvgPool2d(1), new nn.Flatten()],
  );
  (await compile(pooled, { shapes: [[3, 8, 8]], batchSizes: [2] })).dispose();
});

const MIXED: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  'the mean of the batch': (x) => x.sub(x.mean(0)),
  'a softmax over the batch': (x) => x.softmax(0),
  'the examples in reverse': (x) => x.at('::-1'),
  'the place in the batch': (x) => x.add(arange(x.shape[0]!, { dtype: f32 }).reshape([-1, 1, 1])),
  'products between examples': (x) => x.flatten(1).matmul(x.flatten(1).permute([1, 0])),
  'the batch in another dimension': (x) => x.permute([1, 0, 2]).reshape([x.shape[0]!, 6, 4]),
  'sums along the batch': (x) => x.cumsum(0),
};

for (const [name, compute] of Object.entries(MIXED))
  test(`refused: ${name}`, async () => {
    await assert.rejects(compiled(compute), (error: Error) => {
      assert.ok(error instanceof ArgumentError);
      assert.match(error.message, /^\[compile\] output0 of an example depends on the other examples/);
      return true;
    });
  });

test('refused: attention over the batch, of a layer that has time first', async () => {
  manualSeed(1);
  const layer = new nn.TransformerEncoderLayer(4, 2, { dropout: 0 });
  await assert.rejects(compile(layer, { shapes: [[6, 4]], batchSizes: [3] }), /from the attention on/);
});

test('compiled for one example alone nothing is refused', async () => {
  const engine = await compile(new Of((x) => x.sub(x.mean(0))), { shapes: [[2]] });
  const [y] = await engine.runArrays([Float32Array.of(1, 2, 3, 4)], 2);
  assert.deepEqual([...y!], [0, 0, 0, 0]);
  engine.dispose();
});
