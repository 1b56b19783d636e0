/** Trainings in mixed precision: what is computed in 16 bits, steps that are left out, and how they go on. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { NumericError } from '../../src/core/errors.js';
import {
  accuracy,
  crossEntropy,
  evaluate,
  type FitOptions,
  fit,
  Loader,
  manualSeed,
  mse,
  nn,
  ones,
  optim,
  randn,
  type Tensor,
  TensorDataset,
} from '../../src/index.js';
import { readSafetensors } from '../../src/io/index.js';
import { LAST } from '../../src/train/run-checkpoints.js';

const place = await mkdtemp(join(tmpdir(), 'heddle-mixed-'));
after(() => rm(place, { recursive: true }));

/** Which of two numbers is larger. */
function parts() {
  manualSeed(5);
  const x = randn([60, 2]);
  const data = new TensorDataset(x, x.argmax(1));
  const model = new nn.Sequential(new nn.Linear(2, 8), new nn.Tanh(), new nn.Linear(8, 2));
  const train = new Loader(data, { batchSize: 16, shuffle: true });
  return { model, train, validation: new Loader(data, { batchSize: 25 }) };
}

test('bf16: outputs in 16 bits, losses and metrics in f32, in validation as in training', async () => {
  const { model, train, validation } = parts();
  const seen = new Set<string>();
  const judged = {
    loss: (logits: Tensor, labels: Tensor) => {
      const loss = crossEntropy(logits, labels as never);
      seen.add(`${logits.dtype.name} ${loss.dtype.name}`);
      return loss;
    },
    metrics: { accuracy, one: (logits: Tensor) => logits.softmax(1).sum() },
    autocast: 'bf16',
  } as const;
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.05 });
  const { epochs } = await fit(model, { ...judged, train, validation, optimizer, epochs: 8 });
  const last = epochs.at(-1)!.validation!;
  assert.ok(last.metrics.accuracy! >= 0.9, `${last.metrics.accuracy}`);
  assert.ok(Math.abs(last.metrics.one! - 1) < 1e-5, `${last.metrics.one}`);
  const { seconds: _, ...alone } = await evaluate(model, validation, judged);
  const { seconds: __, ...within } = last;
  assert.deepEqual(alone, within);
  assert.deepEqual([...seen], ['bf16 f32']);
});

for (const accumulate of [1, 2])
  test(`f16, updates of ${accumulate}: overflows are left out, a resumed training has the scale`, async () => {
    const run = (folder: string, more: Partial<FitOptions>): ReturnType<typeof fit> => {
      const { model, train } = parts();
      return fit(model, {
        train,
        // Its gradients exceed f16's range until the scale is a hundredth of what it is at first.
        loss: (logits, labels) => crossEntropy(logits, labels as never).mul(200),
        optimizer: new optim.SGD(model.parameters(), { lr: 2e-3, momentum: 0.9 }),
        autocast: 'f16',
        clipGradNorm: 100,
        accumulate,
        epochs: 10,
        folder: join(place, `${folder}-${accumulate}`),
        ...more,
      });
    };
    const scaleOf = async (folder: string): Promise<number> => {
      const { tensors } = await readSafetensors(join(place, `${folder}-${accumulate}`, LAST));
      return new Float32Array(tensors['scaler.factor']!.data.slice().buffer)[0]!;
    };
    const whole = await run('whole', {});
    const [first, last] = [whole.epochs[0]!.loss, whole.epochs.at(-1)!.loss];
    assert.ok(last < first / 2, `${first} → ${last}`);
    const stop = new AbortController();
    const onStep = ({ epoch, step }: { epoch: number; step: number }): void =>
      epoch === 6 && step === 3 ? stop.abort() : undefined;
    const cut = { signal: stop.signal, callbacks: [{ onStep }], checkpointEvery: { steps: 1 } };
    const { steps } = await run('cut', cut);
    assert.equal(steps, 27);
    const scale = await scaleOf('cut');
    assert.ok(scale < 65536 / 4 && scale === (await scaleOf('whole')), `${scale}`);
    const { epochs } = await run('cut', { resume: true });
    assert.deepEqual(
      epochs.map(({ loss }) => loss),
      whole.epochs.map(({ loss }) => loss),
    );
  });

test('f16: an output that overflows is named', async () => {
  const data = new TensorDataset(ones([4, 2]).mul(1000), ones([4, 1]));
  const model = new nn.Linear(2, 1);
  model.weight.assign(ones([1, 2]).mul(1000));
  await assert.rejects(
    fit(model, {
      train: new Loader(data, { batchSize: 4 }),
      optimizer: new optim.SGD(model.parameters()),
      loss: mse,
      autocast: 'f16',
      epochs: 1,
    }),
    (e) =>
      e instanceof NumericError &&
      /First not finite: the output of layer Linear\..*or autocast: 'bf16', which has the range of f32\.$/.test(
        e.message,
      ),
  );
});
