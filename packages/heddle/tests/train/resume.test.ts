/** Trainings that are interrupted and go on: what comes out is bit for bit what an uninterrupted one gives. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { ArgumentError, FileError } from '../../src/core/errors.js';
import { PhiloxStream } from '../../src/core/philox.js';
import { separablePoints, WeightedRandomSampler } from '../../src/data/index.js';
import {
  type Callback,
  crossEntropy,
  defaultGenerator,
  dropout,
  type FitOptions,
  fit,
  Loader,
  loadCheckpoint,
  loadWeights,
  manualSeed,
  nn,
  ones,
  optim,
  saveCheckpoint,
  saveWeights,
} from '../../src/index.js';
import { readSafetensors, writeSafetensors } from '../../src/io/index.js';
import { LAST } from '../../src/train/run-checkpoints.js';
import { PROGRAM, resultOf, train, trainKilled } from './killed-run.js';

const place = await mkdtemp(join(tmpdir(), 'heddle-resume-'));
after(() => rm(place, { recursive: true }));
const made = (name: string): string => {
  const path = join(place, name);
  mkdirSync(path);
  return path;
};

const KILLS = Number(process.env.KILLS ?? 3);

test(`killed ${KILLS} times: losses, rates and weights are those of a training that was not`, async () => {
  const random = new PhiloxStream(11);
  let kills = 0;
  for (let seed = 1; kills < KILLS; seed++) {
    const [whole, killed] = [made(`whole-${seed}`), made(`killed-${seed}`)];
    await train(whole, seed);
    kills += await trainKilled(killed, seed, random, KILLS - kills);
    assert.equal(resultOf(killed), resultOf(whole));
    const best = async (folder: string): Promise<Buffer> => readFile(join(folder, 'best.safetensors'));
    assert.deepEqual(await best(killed), await best(whole));
    assert.deepEqual(readdirSync(killed).toSorted(), [
      ...['best.safetensors', 'checkpoint.safetensors', 'result.json'],
    ]);
  }
});

test('Ctrl-C in a program of one’s own saves, says so and ends it, unless it listens itself', {
  skip: process.platform === 'win32' ? 'no signals there' : false,
}, async () => {
  const folder = made('interrupted');
  const child = spawn(process.execPath, [PROGRAM, folder, '1', '100000'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  while (!readdirSync(folder).includes(LAST)) await wait(20);
  child.kill('SIGINT');
  const [code] = (await once(child, 'close')) as [number | null];
  assert.equal(errors, 'Ctrl-C: stopping after this step and saving. Once more to stop at once.\n');
  assert.equal(code, 130);
  assert.equal(resultOf(folder), undefined);
  const before = process.exitCode;
  let isSent = false;
  const onStep: Callback['onStep'] = () => {
    if (!isSent) process.kill(process.pid, 'SIGHUP');
    isSent = true;
  };
  const own = new Promise((resolve) => process.once('SIGHUP', resolve));
  const { ended } = await train3(made('listening'), { epochs: 1, callbacks: [{ onStep }] });
  // A listener for signals alone does not keep the process waiting for one.
  const waiting = setInterval(() => undefined, 1000);
  await own;
  clearInterval(waiting);
  assert.deepEqual([ended, process.exitCode], ['done', before]);
});

/** A small training of three epochs. */
const train3 = (folder: string, more: Partial<FitOptions> = {}): ReturnType<typeof fit> => {
  manualSeed(0);
  const model = new nn.Linear(2, 2);
  return fit(model, {
    train: new Loader(separablePoints({ trainLength: 40 }).train, { batchSize: 10, shuffle: true }),
    optimizer: new optim.SGD(model.parameters(), { lr: 0.1 }),
    loss: crossEntropy,
    epochs: 3,
    folder,
    ...more,
  });
};

test('a signal in the middle of an epoch leaves a checkpoint there', async () => {
  const folder = made('signal');
  const stop = new AbortController();
  const callbacks: Callback[] = [
    { onStep: ({ epoch, step }) => (epoch === 1 && step === 2 ? stop.abort() : undefined) },
  ];
  const cut = await train3(folder, { signal: stop.signal, callbacks, resident: false });
  assert.deepEqual([cut.ended, cut.steps], ['aborted', 6]);
  const plans: unknown[] = [];
  const onStart: Callback['onStart'] = ({ epoch, step, reports }) =>
    void plans.push([epoch, step, reports.length]);
  const { epochs, steps, ended } = await train3(folder, { resume: true, callbacks: [{ onStart }] });
  assert.deepEqual([plans, steps, ended], [[[1, 2, 1]], 12, 'done']);
  const whole = await train3(made('signal-whole'));
  assert.deepEqual(
    epochs.map(({ loss }) => loss),
    whole.epochs.map(({ loss }) => loss),
  );
  const again = await train3(folder, { resume: true });
  assert.deepEqual(again.epochs, epochs);
  const longer = await train3(made('other'), { resume: folder, epochs: 4 });
  assert.deepEqual([longer.epochs.length, longer.steps], [4, 16]);
});

test('what cannot be resumed is refused, and says why', async () => {
  const folder = made('refused');
  await assert.rejects(
    train3(folder, { resume: folder }),
    (e) => e instanceof FileError && /no checkpoint to resume from/.test(e.message),
  );
  await assert.rejects(
    train3('x', { folder: undefined, resume: true }),
    /\[fit\] resume is true, but no folder is named/,
  );
  await train3(folder, { epochs: 1 });
  await assert.rejects(
    train3(folder),
    (e) =>
      e instanceof ArgumentError &&
      /has the checkpoint of another training\. Continue it with resume: true/.test(e.message),
  );
  const { train: other } = separablePoints({ trainLength: 50 });
  await assert.rejects(
    train3(folder, { resume: true, train: new Loader(other, { batchSize: 10, shuffle: true }) }),
    /\[fit\] the training in .* had other data: examples was 40, here it is 50/,
  );
  const sampled = (weight: number): Loader => {
    const weights = Array.from({ length: 40 }, (_, i) => (i < 20 ? weight : 1));
    const sampler = new WeightedRandomSampler(weights, 40);
    return new Loader(separablePoints({ trainLength: 40 }).train, { batchSize: 10, sampler });
  };
  const weighted = made('weighted');
  await train3(weighted, { epochs: 1, train: sampled(1) });
  await assert.rejects(train3(weighted, { resume: true, train: sampled(2) }), /other data: sampler was/);
  await assert.rejects(
    train3(folder, { checkpointEvery: { step: 3 } as never }),
    /\[fit, checkpointEvery\] unknown option 'step'/,
  );
});

test('a checkpoint of a loop of one’s own: parts by name, what else there is, and the generator', async () => {
  const path = join(place, 'own.safetensors');
  const model = new nn.Linear(2, 2);
  const optimizer = new optim.Adam(model.parameters());
  const draw = async (): Promise<unknown> => [
    await dropout(ones([50]), { p: 0.5 }).array(),
    [defaultGenerator().host.next(), defaultGenerator().host.next()],
  ];
  manualSeed(3);
  await draw();
  defaultGenerator().host.next();
  await saveCheckpoint(
    path,
    { model, optimizer },
    { epoch: 3, best: Number.NEGATIVE_INFINITY, losses: [0.1] },
  );
  const next = await draw();
  manualSeed(4);
  const state = await loadCheckpoint(path, { model, optimizer });
  assert.deepEqual(state, { epoch: 3, best: Number.NEGATIVE_INFINITY, losses: [0.1] });
  assert.deepEqual(await draw(), next);
  assert.equal(defaultGenerator().seed, 3);

  const file = async (metadata: Record<string, string>): Promise<string> => {
    const changed = join(place, 'changed.safetensors');
    const { tensors, metadata: before } = await readSafetensors(path);
    await writeSafetensors(changed, tensors, { ...before, ...metadata });
    return changed;
  };
  const load = async (from: string, parts = { model, optimizer } as Parameters<typeof loadCheckpoint>[1]) =>
    loadCheckpoint(from, parts);
  await assert.rejects(
    load(await file({ version: '2' })),
    /is a checkpoint of version 2, this program reads up to 1/,
  );
  await assert.rejects(load(await file({ state: '{"epoch":' })), /its state is not valid JSON/);
  await assert.rejects(load(path, { model }), /has a part 'optimizer'\. Expected: model/);
  await assert.rejects(load(path, { model: new nn.Linear(3, 2), optimizer }), /shapes of weight differ/);
  await assert.rejects(load(path, { model: 1 as never }), ArgumentError);
  const weights = join(place, 'weights.safetensors');
  await saveWeights(model, weights);
  await assert.rejects(
    load(weights),
    (e) => e instanceof FileError && /is not a checkpoint\. Read weights with loadWeights/.test(e.message),
  );
  const bytes = await readFile(path);
  for (const end of [0, 7, 100, bytes.length - 1]) {
    await writeFile(weights, bytes.subarray(0, end));
    await assert.rejects(load(weights), FileError);
  }
  await assert.rejects(loadWeights(model, path), /the names do not match/);
});
