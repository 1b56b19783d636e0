/** Trainings by several real processes: they agree with each other, and with one process. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { endOf, freePort, LIMIT, printed, type RankEnd, type RunningRank, start } from './processes.js';
import type { Trained } from './rank-train.js';
import { agreed, distance, type Job, requireClose as requireWithin, TRAIN, Trainings } from './trainings.js';

const trainings = new Trainings('cpu');
const train = (worldSize: number, job: Job): Promise<Trained> => trainings.train(worldSize, job);
const begin = (worldSize: number, job: Job, file?: string): Promise<RunningRank[]> =>
  trainings.begin(worldSize, job, file);

/** 21 steps of Adam in f32 part trainings that differ in rounding only by less. */
const CLOSE = 2e-6;
const requireClose = (a: Trained, b: Trained, limit = CLOSE): void => requireWithin(a, b, limit);

test(
  '1, 2 and 4 ranks train the same, up to rounding, and any number the same bits every time',
  LIMIT,
  async () => {
    const alone = await train(1, {});
    assert.ok(alone.accuracy > 0.6);
    const two = await train(2, {});
    requireClose(two, alone);
    assert.equal((await trainings.trainAnew(2, {})).digest, two.digest);
    requireClose(await train(4, {}), alone);
  },
);

test('batches and epochs that ranks cannot divide evenly count every example once', LIMIT, async () => {
  // The last batch has one example, and batches of 5 are cut into 2 and 3, or 1, 2 and 2.
  const job: Job = { examples: 31, batchSize: 5 };
  const alone = await train(1, job);
  requireClose(await train(2, job), alone);
  requireClose(await train(3, { ...job, tensors: true }), await train(1, { ...job, tensors: true }));
});

test('with accumulation, clipping and averages', LIMIT, async () => {
  const job: Job = { accumulate: 3, clipGradNorm: 0.5, ema: 0.9 };
  requireClose(await train(2, job), await train(1, job));
});

test('gradients are exchanged once for each update', LIMIT, async () => {
  // 7 batches of an epoch in groups of 3: 3 updates.
  const job: Job = { epochs: 2 };
  const [each, grouped] = [await train(2, job), await train(2, { ...job, accumulate: 3 })];
  assert.equal(each.steps, 2 * 7);
  // What seven exchanges of an epoch take more than three: gradients, each tensor at an aligned place.
  const saved = (each.reduced - grouped.reduced) / (2 * (7 - 3));
  const gradients = 4 * each.weights.length;
  assert.ok(saved >= gradients && saved < gradients + 4 * 64, `${saved} bytes, gradients have ${gradients}`);
});

test('rows of embeddings are exchanged where all ranks have equal parts of every batch', LIMIT, async () => {
  const table = 4 * 601 * 4;
  for (const [examples, travels] of [
    [192, false],
    [193, true],
  ] as const) {
    const job: Job = { layers: 'embedding', examples, epochs: 2 };
    const two = await train(2, job);
    requireClose(two, await train(1, job));
    assert.equal(two.reduced > two.steps * table, travels, `${two.reduced} bytes in ${two.steps} steps`);
  }
});

test(
  'synchronized batch norms have the statistics of the whole batch; others are the same on all ranks',
  LIMIT,
  async () => {
    const job: Job = { layers: 'synchronized' };
    requireClose(await train(2, job), await train(1, job), 1e-5);
    await train(2, { layers: 'batchNorm' });
  },
);

test('ranks draw different masks of dropout, the same every time', LIMIT, async () => {
  const job: Job = { layers: 'dropout' };
  const two = await train(2, job);
  assert.equal((await trainings.trainAnew(2, job)).digest, two.digest);
  assert.ok(distance(two, await train(1, job)) > 1e-3);
});

test('a sharded optimizer gives the same bits', LIMIT, async () => {
  const [whole, sharded] = [await train(3, {}), await train(3, { shardOptimizer: true })];
  assert.equal(sharded.digest, whole.digest);
});

test('a checkpoint of two ranks is resumed by one, two or three', LIMIT, async () => {
  const whole = await train(2, { epochs: 4 });
  const first = join(trainings.folder, 'resumed');
  await train(2, { epochs: 2, folder: first, shardOptimizer: true });
  const [one, three] = [trainings.copy(first, 'one'), trainings.copy(first, 'three')];
  const goOn = (ranks: number, folder: string, shardOptimizer: boolean): Promise<Trained> =>
    trainings.trainAnew(ranks, { epochs: 4, folder, resume: true, shardOptimizer });
  assert.equal((await goOn(2, first, true)).digest, whole.digest);
  requireClose(await goOn(1, one, false), whole);
  requireClose(await goOn(3, three, true), whole);
});

test('what one rank wishes ends the training of all after the same step', LIMIT, async () => {
  const stopped = await train(3, { stop: { rank: 1, steps: 2 }, epochs: 50 });
  assert.equal(stopped.ended, 'stopped');
  assert.ok(stopped.steps < 40);
  const file = trainings.newFile();
  const ranks = await begin(2, { long: true }, file);
  await printed(ranks[0]!, 'step');
  ranks[1]!.child.kill('SIGTERM');
  const ends = await endOf(ranks);
  assert.equal(agreed(trainings.read(file, 2)).ended, 'aborted');
  assert.equal(ends[1]!.code, 143);
});

test('a loss that is not finite on one rank is met by all of them', LIMIT, async () => {
  const ends = await endOf(await begin(2, { nan: 40 }));
  for (const { code, err } of ends) assert.notEqual(code, 0, err);
  assert.match(
    ends.map(({ err }) => err).join(''),
    /NumericError.*the loss is not finite in step \d+ of epoch 1/,
  );
});

test('a folder that rank 0 cannot use is an error that names it, on all ranks', LIMIT, async () => {
  const path = join(trainings.folder, 'file');
  writeFileSync(path, '');
  const ends = await endOf(await begin(2, { folder: join(path, 'run') }));
  for (const { code } of ends) assert.notEqual(code, 0);
  assert.match(ends.map(({ err }) => err).join(''), /FileError/);
});

const mpirun = spawnSync('mpirun', ['--version']).status === 0;

test('by MPI as over TCP, to the bit', { ...LIMIT, skip: mpirun ? false : 'no mpirun' }, async () => {
  const job: Job = { layers: 'synchronized', shardOptimizer: true };
  const port = await freePort();
  const file = trainings.newFile();
  const args = [
    '--allow-run-as-root',
    '--oversubscribe',
    '-n',
    '2',
    process.execPath,
    TRAIN,
    JSON.stringify({ ...job, file }),
  ];
  const environment = { ...trainings.environment, MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(port) };
  const [{ code, err }] = (await endOf([start('mpirun', args, environment)])) as [RankEnd];
  assert.equal(code, 0, err);
  assert.equal(agreed(trainings.read(file, 2)).digest, (await train(2, job)).digest);
});
