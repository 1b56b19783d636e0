/** The first ten losses of lenet5 and cnn on MNIST against PyTorch's, from equal weights. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadImages } from '../../src/data/index.js';
import type { Module } from '../../src/nn/index.js';
import { Adam, SGD } from '../../src/optim/index.js';
import { tensor } from '../../src/tensor/create.js';
import { crossEntropy } from '../../src/tensor/functional-losses.js';
import { jit } from '../../src/tensor/jit.js';
import { noGrad } from '../../src/tensor/modes.js';
import { setPrecision } from '../../src/tensor/precision.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { PROGRAMS } from '../../src/train/programs.js';
import { assertClose } from '../close.js';
import {
  type Digest,
  digest,
  type GoldenTraining,
  goldenParameters,
  goldenTraining,
} from './golden.js';

// The golden numbers are of f32 throughout.
setPrecision({ matmul: 'f32', conv: 'f32' });

function startFrom(model: Module, run: GoldenTraining): Record<string, Tensor> {
  const values = Object.entries(goldenParameters(run));
  const parameters = model.parameters();
  assert.equal(parameters.length, values.length);
  const named = values.map(([name, { shape, data }], i) => {
    assert.deepEqual(parameters[i]!.shape, shape, name);
    parameters[i]!.write(data as Float32Array);
    return [name, parameters[i]!] as const;
  });
  return Object.fromEntries(named);
}

function assertDigest(actual: ArrayLike<number>, expected: Digest, message: string): void {
  const mine = digest(actual);
  const typical = expected.norm / Math.sqrt(actual.length);
  assertClose(mine.samples, expected.samples, `${message}: samples`, {
    relative: 1e-4,
    absolute: 1e-4 * typical,
  });
  assert.ok(Math.abs(mine.norm - expected.norm) <= 1e-4 * expected.norm, `${message}: norm`);
}

for (const run of goldenTraining()) {
  test(`${run.name}: logits, gradients, ten losses and the weights after them are PyTorch's`, async () => {
    const { train } = await loadImages('mnist', { normalize: { mean: 0, std: 1 } });
    const model = PROGRAMS[run.name].build();
    const parameters = startFrom(model, run);
    const optimizer =
      run.optimizer === 'Adam'
        ? new Adam(model.parameters(), run.options)
        : new SGD(model.parameters(), run.options);
    const { batchSize } = run;
    const pixels = new Float32Array(batchSize * 784);
    const classes = new Int32Array(batchSize);
    const batch = (t: number): [Tensor, Tensor] => {
      train.batchInto(
        Array.from({ length: batchSize }, (_, i) => t * batchSize + i),
        pixels,
        classes,
      );
      return [tensor(pixels.slice(), { shape: [batchSize, 1, 28, 28] }), tensor(classes.slice())];
    };

    const [x, y] = batch(0);
    const logits = model.forward(x);
    crossEntropy(logits, y).backward();
    assertClose((await logits.data()) as Float32Array, run.logits.data, 'logits', { relative: 1e-4 });
    for (const [name, parameter] of Object.entries(parameters)) {
      assertDigest(
        (await parameter.grad!.data()) as Float32Array,
        run.gradients[name]!,
        `gradient of ${name}`,
      );
      parameter.grad = undefined;
    }

    const step = jit((inputs: Tensor, labels: Tensor) => {
      const loss = crossEntropy(model.forward(inputs), labels);
      loss.backward();
      optimizer.step();
      return noGrad(() => loss.mul(1));
    });
    for (const [t, expected] of run.losses.entries()) {
      const loss = await step(...batch(t)).item();
      assert.ok(Math.abs(loss - expected) <= 1e-4 * expected, `loss ${t}: ${loss}, expected ${expected}`);
    }
    for (const [name, parameter] of Object.entries(parameters))
      assertDigest((await parameter.data()) as Float32Array, run.weights[name]!, `${name} after ten steps`);
  });
}
