/** Averages of the weights in `fit`: what is validated and kept, and how a training with them goes on. */
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { NumericError } from '../../src/core/errors.js';
import {
  type Callback,
  crossEntropy,
  data,
  type FitOptions,
  fit,
  Loader,
  loadWeights,
  manualSeed,
  nn,
  optim,
} from '../../src/index.js';

const place = await mkdtemp(join(tmpdir(), 'heddle-averages-'));
after(() => rm(place, { recursive: true }));

const { train: examples, test: held } = data.quadrantPoints({ trainLength: 100, testLength: 30 });

function training(): { readonly model: nn.Sequential; readonly options: FitOptions } {
  manualSeed(3);
  const model = new nn.Sequential(
    new nn.Linear(2, 6),
    new nn.Dropout({ p: 0.1 }),
    new nn.ReLU(),
    new nn.Linear(6, 2),
  );
  const train = new Loader(examples, { batchSize: 10, shuffle: true });
  const validation = new Loader(held, { batchSize: 30 });
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.05 });
  return { model, options: { train, validation, optimizer, loss: crossEntropy, epochs: 3 } };
}

const values = async (model: nn.Module): Promise<number[]> =>
  (await Promise.all(model.parameters().map((p) => p.data()))).flatMap((v) => Array.from(v, Number));

for (const resident of [false, true])
  test(`the averages are those of every step's weights; resident ${resident}`, async () => {
    const decay = 0.9;
    const plain = training();
    let expected: number[] | undefined;
    const atEpochs: number[][] = [];
    const average: Callback = {
      onStep: async () => {
        const now = await values(plain.model);
        expected = expected?.map((a, i) => a + (1 - decay) * (now[i]! - a)) ?? now;
      },
      onEpochEnd: () => void atEpochs.push(expected!),
    };
    await fit(plain.model, { ...plain.options, resident: false, callbacks: [average] });
    const { model, options } = training();
    const seen: number[][] = [];
    const watch: Callback = { onEpochEnd: async () => void seen.push(await values(model)) };
    const folder = join(place, `best-${resident}`);
    const { epochs } = await fit(model, { ...options, resident, ema: { decay }, callbacks: [watch], folder });
    const near = (a: readonly number[], b: readonly number[]): void =>
      a.forEach((v, i) => void assert.ok(Math.abs(v - b[i]!) < 1e-5, `${v}, ${b[i]}`));
    near(await values(model), atEpochs[2]!);
    for (const i of [0, 1, 2]) near(seen[i]!, atEpochs[i]!);
    const losses = epochs.map(({ validation }) => validation!.loss);
    const other = training().model;
    await loadWeights(other, join(folder, 'best.safetensors'));
    assert.deepEqual(await values(other), seen[losses.indexOf(Math.min(...losses))]);
  });

test('resumed, cut short in an epoch, it goes on as if it had not been', async () => {
  const whole = training();
  const { epochs } = await fit(whole.model, { ...whole.options, ema: {} });
  const stop = new AbortController();
  const onStep: Callback['onStep'] = ({ epoch, step }) => void (epoch === 1 && step === 4 && stop.abort());
  const folder = join(place, 'cut');
  const cut = training();
  const before = { ...cut.options, ema: {}, folder, resident: false, signal: stop.signal };
  await fit(cut.model, { ...before, callbacks: [{ onStep }] });
  const resumed = training();
  const history = await fit(resumed.model, { ...resumed.options, ema: {}, folder, resume: true });
  assert.deepEqual(
    history.epochs.map(({ loss, validation }) => [loss, validation!.loss]),
    epochs.map(({ loss, validation }) => [loss, validation!.loss]),
  );
  assert.deepEqual(await values(resumed.model), await values(whole.model));
  const without = training();
  await assert.rejects(fit(without.model, { ...without.options, folder, resume: true }), /has a part 'ema'/);
});

test('a training that fails leaves the last good weights, not the averages', async () => {
  const failed = async (more: Partial<FitOptions>): Promise<number[]> => {
    const { model, options } = training();
    const optimizer = new optim.SGD(model.parameters(), { lr: 1e30 });
    await assert.rejects(fit(model, { ...options, optimizer, ...more }), NumericError);
    return values(model);
  };
  assert.deepEqual(await failed({ ema: {} }), await failed({}));
  const { model, options } = training();
  await assert.rejects(fit(model, { ...options, ema: { decay: 2 } }), /decay is 2, must be/);
});
