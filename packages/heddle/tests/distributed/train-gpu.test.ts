/** Trainings by two processes with a GPU each: they agree with each other after every step, and with one process. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { noTwoGpus } from './device-tests.js';
import { endOf, LIMIT } from './processes.js';
import { type Job, requireClose, Trainings } from './trainings.js';

/**
 * 21 steps of Adam in f32 part trainings that differ in rounding only by less: a GPU multiplies half a batch by another kernel
 * than a whole one, and its exponentials are not rounded correctly.
 */
const CLOSE = 1e-5;

describe('cuda: trainings of two ranks', { skip: noTwoGpus() }, () => {
  const trainings = new Trainings('cuda');

  test(
    'agree after each step, with one rank up to rounding, and have the same bits every time',
    LIMIT,
    async () => {
      const job: Job = { everyStep: true };
      const two = await trainings.train(2, job);
      assert.equal(two.digests.length, two.steps);
      requireClose(two, await trainings.train(1, job), CLOSE);
      assert.deepEqual((await trainings.trainAnew(2, job)).digests, two.digests);
    },
  );

  test('with parts of different sizes, accumulation, clipping and averages', LIMIT, async () => {
    for (const job of [
      { examples: 31, batchSize: 5 },
      { tensors: true },
      { accumulate: 3, clipGradNorm: 0.5, ema: 0.9 },
    ])
      requireClose(await trainings.train(2, job), await trainings.train(1, job), CLOSE);
  });

  test('synchronized batch norms have the statistics of the whole batch', LIMIT, async () => {
    const job: Job = { layers: 'synchronized' };
    requireClose(await trainings.train(2, job), await trainings.train(1, job), CLOSE);
  });

  test('a sharded optimizer gives the same bits, and its checkpoint is resumed by one', LIMIT, async () => {
    const whole = await trainings.train(2, { epochs: 4 });
    const folder = join(trainings.folder, 'resumed');
    await trainings.train(2, { epochs: 2, folder, shardOptimizer: true });
    const one = trainings.copy(folder, 'one');
    const more = { epochs: 4, resume: true };
    assert.equal(
      (await trainings.trainAnew(2, { ...more, folder, shardOptimizer: true })).digest,
      whole.digest,
    );
    requireClose(await trainings.trainAnew(1, { ...more, folder: one }), whole, CLOSE);
  });

  test('a loss that is not finite on one rank is met by both', LIMIT, async () => {
    const ends = await endOf(await trainings.begin(2, { nan: 40 }));
    for (const { code, err } of ends) assert.notEqual(code, 0, err);
    assert.match(
      ends.map(({ err }) => err).join(''),
      /NumericError.*the loss is not finite in step \d+ of epoch 1/,
    );
  });
});
