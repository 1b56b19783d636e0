/** Trainings by several real processes: they agree with each other, and with one process. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import {
  endOf,
  freePort,
  printed,
  type RankEnd,
  type RunningRank,
  ranksEnvironment,
  start,
} from './processes.js';
import type { Trained, TrainingJob } from './rank-train.js';

const PROGRAM = fileURLToPath(new URL('./rank-train.js', import.meta.url));
/** For the machines of a test: a world of four on two busy cores takes its time. */
const LIMIT = { timeout: 60_000 };

const folders = mkdtempSync(join(tmpdir(), 'heddle-ranks-'));
/** What one of them has compiled the others find. */
const ONE_THREAD = { HEDDLE_DEVICE: 'cpu', HEDDLE_THREADS: '1', HEDDLE_CACHE: join(folders, 'cache') };
after(() => rmSync(folders, { recursive: true, force: true }));

/** A training without the file of its results. */
type Job = Omit<TrainingJob, 'file'>;

/** Where the ranks of a training write what they have in the end. */
const newFile = (): string => join(mkdtempSync(join(folders, 'trained-')), 'rank');

const read = (file: string, worldSize: number): Trained[] =>
  Array.from(
    { length: worldSize },
    (_, rank) => JSON.parse(readFileSync(`${file}.${rank}`, 'utf8')) as Trained,
  );

async function begin(worldSize: number, job: Job, file = newFile()): Promise<RunningRank[]> {
  const port = await freePort();
  return Array.from({ length: worldSize }, (_, rank) =>
    start(process.execPath, [PROGRAM, JSON.stringify({ ...job, file })], {
      ...ranksEnvironment(rank, worldSize, port),
      ...ONE_THREAD,
    }),
  );
}

/** What the ranks have, which is the same on all of them: that of rank 0. */
function agreed(ranks: readonly Trained[]): Trained {
  const [first] = ranks;
  for (const { rank: _, ...other } of ranks) {
    const { rank: __, ...mine } = first!;
    assert.deepEqual(other, mine);
  }
  return first!;
}

async function train(worldSize: number, job: Job): Promise<Trained> {
  const file = newFile();
  for (const { code, err } of await endOf(await begin(worldSize, job, file))) assert.equal(code, 0, err);
  return agreed(read(file, worldSize));
}

/** The largest difference of two trainings' weights, of which the largest is about 1. */
const distance = (a: Trained, b: Trained): number =>
  Math.max(...a.weights.map((v, i) => Math.abs(v - b.weights[i]!)));

/** 21 steps of Adam in f32 part trainings that differ in rounding only by less. */
const CLOSE = 2e-6;

function requireClose(a: Trained, b: Trained, limit = CLOSE): void {
  assert.equal(a.steps, b.steps);
  assert.ok(distance(a, b) < limit, `weights differ by ${distance(a, b)}`);
  a.losses.forEach((loss, i) => {
    assert.ok(Math.abs(loss - b.losses[i]!) < limit, `losses ${loss} and ${b.losses[i]}`);
  });
  assert.ok(Math.abs(a.validation - b.validation) < limit);
  assert.ok(Math.abs(a.accuracy - b.accuracy) < 1e-12);
}

test(
  '1, 2 and 4 ranks train the same, up to rounding, and any number the same bits every time',
  LIMIT,
  async () => {
    const alone = await train(1, {});
    assert.ok(alone.accuracy > 0.6);
    const two = await train(2, {});
    requireClose(two, alone);
    assert.equal((await train(2, {})).digest, two.digest);
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
  assert.equal((await train(2, job)).digest, two.digest);
  assert.ok(distance(two, await train(1, job)) > 1e-3);
});

test('a sharded optimizer gives the same bits', LIMIT, async () => {
  const [whole, sharded] = [await train(3, {}), await train(3, { shardOptimizer: true })];
  assert.equal(sharded.digest, whole.digest);
});

test('a checkpoint of two ranks is resumed by one, two or three', LIMIT, async () => {
  const whole = await train(2, { epochs: 4 });
  const first = join(folders, 'resumed');
  const copy = (name: string): string => {
    const folder = join(folders, name);
    assert.equal(spawnSync('cp', ['-r', first, folder]).status, 0);
    return folder;
  };
  await train(2, { epochs: 2, folder: first, shardOptimizer: true });
  const [one, three] = [copy('one'), copy('three')];
  const goOn = (ranks: number, folder: string, shardOptimizer: boolean): Promise<Trained> =>
    train(ranks, { epochs: 4, folder, resume: true, shardOptimizer });
  assert.equal((await goOn(2, first, true)).digest, whole.digest);
  requireClose(await goOn(1, one, false), whole);
  requireClose(await goOn(3, three, true), whole);
});

test('what one rank wishes ends the training of all after the same step', LIMIT, async () => {
  const stopped = await train(3, { stop: { rank: 1, steps: 2 }, epochs: 50 });
  assert.equal(stopped.ended, 'stopped');
  assert.ok(stopped.steps < 40);
  const file = newFile();
  const ranks = await begin(2, { long: true }, file);
  await printed(ranks[0]!, 'step');
  ranks[1]!.child.kill('SIGTERM');
  const ends = await endOf(ranks);
  assert.equal(agreed(read(file, 2)).ended, 'aborted');
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
  const path = join(folders, 'file');
  writeFileSync(path, '');
  const ends = await endOf(await begin(2, { folder: join(path, 'run') }));
  for (const { code } of ends) assert.notEqual(code, 0);
  assert.match(ends.map(({ err }) => err).join(''), /FileError/);
});

const mpirun = spawnSync('mpirun', ['--version']).status === 0;

test('by MPI as over TCP, to the bit', { ...LIMIT, skip: mpirun ? false : 'no mpirun' }, async () => {
  const job: Job = { layers: 'synchronized', shardOptimizer: true };
  const port = await freePort();
  const file = newFile();
  const args = [
    '--allow-run-as-root',
    '--oversubscribe',
    '-n',
    '2',
    process.execPath,
    PROGRAM,
    JSON.stringify({ ...job, file }),
  ];
  const environment = { ...ONE_THREAD, MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(port) };
  const [{ code, err }] = (await endOf([start('mpirun', args, environment)])) as [RankEnd];
  assert.equal(code, 0, err);
  assert.equal(agreed(read(file, 2)).digest, (await train(2, job)).digest);
});
