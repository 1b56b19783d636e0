/** `heddle train --processes 2`: one training by several processes, killed, interrupted and resumed. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { endOf, freePort, LIMIT, printed, type RunningRank, startNode } from '../distributed/processes.js';

const MAIN = fileURLToPath(new URL('../../bundle/main.js', import.meta.url));

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'heddle-train-ranks-'));
});
after(() => rm(folder, { recursive: true }));

const train = (...args: readonly string[]): RunningRank =>
  startNode([MAIN, 'train', '--device', 'cpu', '--no-progress', ...args], {}, { cwd: folder });

interface Line {
  readonly loss: number;
  readonly test: { readonly loss: number };
}
async function figures(run: string): Promise<Line[]> {
  const text = await readFile(join(folder, run, 'metrics.jsonl'), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
}

/** In the order in which they were started. */
async function childrenOf(pid: number): Promise<number[]> {
  const { stdout } = await promisify(execFile)('ps', ['-o', 'pid=', '--ppid', String(pid)]);
  return stdout.trim().split(/\s+/).map(Number);
}

const QUADRANTS = ['quadrants', '--epochs', '3'];
const LONG = ['quadrants', '--epochs', '3000'];

test('two processes train as one', LIMIT, async () => {
  for (const [run, ...args] of [['one'], ['two', '--processes', '2']]) {
    const { code, err } = await train(...QUADRANTS, '--out', run!, ...args).ended;
    assert.deepEqual([code, err], [0, '']);
  }
  const [one, two] = [await figures('one'), await figures('two')];
  assert.deepEqual([one.length, two.length], [3, 3]);
  for (const [i, { loss, test }] of one.entries()) {
    assert.ok(Math.abs(loss - two[i]!.loss) < 1e-5 * loss, `${loss}, ${two[i]!.loss}`);
    assert.ok(Math.abs(test.loss - two[i]!.test.loss) < 1e-5 * test.loss);
  }
  const of = async (run: string): Promise<string[]> => (await readdir(join(folder, run))).toSorted();
  assert.deepEqual(await of('two'), await of('one'));
});

test('processes that another starter has started train together', LIMIT, async () => {
  const port = await freePort();
  /** As srun numbers them. */
  const environment = (rank: number): NodeJS.ProcessEnv => ({
    ...{ SLURM_PROCID: String(rank), SLURM_LOCALID: String(rank), SLURM_NODEID: '0', SLURM_STEP_ID: '0' },
    ...{ SLURM_STEP_NUM_TASKS: '2', SLURM_STEP_TASKS_PER_NODE: '2', SLURM_STEP_NODELIST: 'n1' },
    ...{ SLURM_JOB_ID: String(process.pid), MASTER_PORT: String(port) },
  });
  const ends = await endOf(
    [0, 1].map((rank) =>
      startNode(
        [MAIN, 'train', '--device', 'cpu', '--no-progress', ...QUADRANTS, '--out', 'started'],
        environment(rank),
        { cwd: folder },
      ),
    ),
  );
  for (const { code, err } of ends) assert.deepEqual([code, err], [0, '']);
  assert.match(ends[0]!.out, /2, each with its part of every batch/);
  assert.equal(ends[1]!.out, '');
  assert.equal((await figures('started')).length, 3);
});

test('a process is killed, and the training resumed', LIMIT, async () => {
  const run = train(...LONG, '--out', 'killed', '--processes', '2');
  await printed(run, /epoch 2\/3000/);
  const [, second] = await childrenOf(run.child.pid!);
  const at = performance.now();
  process.kill(second!, 'SIGKILL');
  const { code, err } = await run.ended;
  const seconds = (performance.now() - at) / 1000;
  assert.ok(seconds < 10, `${seconds} s`);
  assert.equal(code, 137);
  assert.equal(
    err,
    `heddle: rank 1 (pid ${second}) was killed by SIGKILL. The other ranks have been ended.\n`,
  );
  const before = (await figures('killed')).length;
  assert.ok(before >= 1);
  const again = train('--resume', 'killed', '--processes', '2');
  await printed(again, /resumed.*at epoch/);
  await printed(again, /epoch \d+\/3000/);
  again.child.kill('SIGINT');
  const end = await again.ended;
  assert.equal(end.code, 130, end.err);
  assert.equal(end.err, 'Ctrl-C: stopping after this step and saving. Once more to stop at once.\n');
  assert.match(end.out, /Stopped by Ctrl-C; the training so far is saved/);
  assert.ok((await figures('killed')).length > before - 1);
});

test('what does not go together is said', LIMIT, async () => {
  for (const [args, expected] of [
    [['cnn', '--gpus', '2', '--processes', '3'], /--gpus is 2, but --processes is 3: give one of them/],
    [['cnn', '--gpus', '2'], /--gpus is 2, but --device is cpu: use --processes on other devices/],
    [['cnn', '--gpus', '0'], /argument '0' is invalid/],
  ] as const) {
    const { code, err } = await train(...args).ended;
    assert.equal(code, 2, err);
    assert.match(err, expected);
  }
});
