/** One small training of each family: recurrent, attention, embedding. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { i32 } from '../../src/core/dtype.js';
import { PhiloxStream } from '../../src/core/philox.js';
import type { Shape } from '../../src/core/shape.js';
import * as nn from '../../src/nn/index.js';
import * as optim from '../../src/optim/index.js';
import { arange, tensor } from '../../src/tensor/create.js';
import { crossEntropy, mse } from '../../src/tensor/functional-losses.js';
import { jit } from '../../src/tensor/jit.js';
import { manualSeed } from '../../src/tensor/random.js';
import type { AnyTensor, Tensor } from '../../src/tensor/tensor.js';

const integers = (shape: readonly number[], value: (i: number) => number): Tensor<Shape, 'i32'> =>
  tensor(
    Int32Array.from({ length: shape.reduce((n, d) => n * d, 1) }, (_, i) => value(i)),
    { shape },
  );

test('an LSTM learns to add the two marked numbers of a sequence', async () => {
  manualSeed(1);
  const random = new PhiloxStream(5);
  const [steps, batch] = [12, 64];
  class Adder extends nn.Module {
    readonly lstm = new nn.LSTM(2, 24);
    readonly out = new nn.Linear(24, 1);
    forward(x: Tensor): Tensor {
      const [output] = this.lstm.forward(x);
      return this.out.forward(output.at(-1)).squeeze(1);
    }
  }
  /** (T, N, 2): numbers, and 1 where they are marked; (N): the sums of the marked ones. */
  const examples = (): [Tensor, Tensor] => {
    const x = new Float32Array(steps * batch * 2);
    const sums = new Float32Array(batch);
    for (let n = 0; n < batch; n++) {
      for (let t = 0; t < steps; t++) x[(t * batch + n) * 2] = random.uniform();
      for (const t of [random.below(steps / 2), steps / 2 + random.below(steps / 2)]) {
        x[(t * batch + n) * 2 + 1] = 1;
        sums[n] = sums[n]! + x[(t * batch + n) * 2]!;
      }
    }
    return [tensor(x, { shape: [steps, batch, 2] }), tensor(sums)];
  };
  const model = new Adder();
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.01 });
  const step = jit((x: Tensor, y: Tensor) => {
    const loss = mse(model.forward(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  for (let i = 0; i < 600; i++) step(...examples());
  const [x, y] = examples();
  const off = await model.forward(x).sub(y).abs().lt(0.2).cast(i32).sum().item();
  assert.ok(off >= 0.95 * batch, `${off} of ${batch} sums are right within 0.2`);
});

test('a causal transformer learns to repeat what it has read', async () => {
  manualSeed(2);
  const random = new PhiloxStream(7);
  const [letters, half, width, batch] = [6, 5, 24, 32];
  const length = 2 * half;
  class Copier extends nn.Module {
    readonly letters = new nn.Embedding(letters, width);
    readonly places = new nn.Embedding(length, width);
    readonly encoder = new nn.TransformerEncoder(
      () =>
        new nn.TransformerEncoderLayer(width, 4, {
          ...{ dimFeedforward: 48, dropout: 0, batchFirst: true, normFirst: true },
        }),
      2,
    );
    readonly out = new nn.Linear(width, letters);
    forward(text: AnyTensor): Tensor {
      const places = this.places.forward(arange(length - 1, { dtype: i32 }));
      const x = this.letters.forward(text).add(places);
      return this.out.forward(this.encoder.forward(x, { isCausal: true })).at(':', `${half - 1}:`);
    }
  }
  /** (N, 2·half): letters, then the same again. */
  const texts = (): Tensor<Shape, 'i32'> => {
    const said = Array.from({ length: batch * half }, () => random.below(letters));
    return integers([batch, length], (i) => said[Math.floor(i / length) * half + ((i % length) % half)]!);
  };
  const model = new Copier();
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.005 });
  const scored = (text: AnyTensor): [Tensor, AnyTensor] => [
    model.forward(text.at(':', `:${length - 1}`)).reshape([batch * half, letters]),
    text.at(':', `${half}:`).reshape([batch * half]),
  ];
  const step = jit((text: AnyTensor) => {
    const loss = crossEntropy(...scored(text));
    loss.backward();
    optimizer.step();
    return loss;
  });
  for (let i = 0; i < 300; i++) step(texts());
  const [scores, labels] = scored(texts());
  const right = await scores.argmax(1).eq(labels).cast(i32).sum().item();
  assert.ok(right >= 0.98 * batch * half, `${right} of ${batch * half} letters are right`);
});

test('embeddings learn which items belong together', async () => {
  manualSeed(3);
  const random = new PhiloxStream(9);
  const [items, groups, batch] = [60, 5, 128];
  const model = new nn.Sequential(new nn.Linear(8, 2));
  const table = new nn.Embedding(items, 8, { paddingIndex: 0 });
  const optimizer = new optim.Adam([...table.parameters(), ...model.parameters()], { lr: 0.05 });
  const together = (a: number, b: number): number => Number(a % groups === b % groups);
  const scores = (pairs: AnyTensor): Tensor => {
    const both = table.forward(pairs);
    return model.forward(both.at(':', 0).mul(both.at(':', 1)));
  };
  const step = jit((pairs: AnyTensor, labels: AnyTensor) => {
    const loss = crossEntropy(scores(pairs), labels);
    loss.backward();
    optimizer.step();
    return loss;
  });
  const draw = (count: number): [Tensor<Shape, 'i32'>, Tensor<Shape, 'i32'>] => {
    const pairs = Array.from({ length: count }, (_, i) => {
      const a = 1 + random.below(items - 1);
      let b = 1 + random.below(items - 1);
      while (together(a, b) !== i % 2) b = 1 + random.below(items - 1);
      return [a, b] as const;
    });
    return [integers([count, 2], (i) => pairs[i >> 1]![i % 2]!), integers([count], (i) => i % 2)];
  };
  for (let i = 0; i < 300; i++) step(...draw(batch));
  const [pairs, labels] = draw(500);
  const right = await scores(pairs).argmax(1).eq(labels).cast(i32).sum().item();
  assert.ok(right >= 0.95 * 500, `${right} of 500 pairs are right`);
  assert.deepEqual(
    await table.weight.at(0).array(1),
    new Array<number>(8).fill(0),
    'the padding row stays 0',
  );
});
