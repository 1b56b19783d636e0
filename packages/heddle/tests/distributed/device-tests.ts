/** Tests of ranks that exchange tensors, the same on the CPU and on GPUs. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { PhiloxStream } from '../../src/core/philox.js';
import { findLibraries } from '../../src/runtime/cuda/driver/find.js';
import { countDevices } from '../../src/runtime/registry.js';
import { cudaReason } from '../cases/case-runner.js';
import {
  endOf,
  freePort,
  LIMIT,
  MOST_MS,
  printed,
  type RankEnd,
  type RunningRank,
  ranksEnvironment,
  startNode,
} from './processes.js';

/** Where ranks compute. */
export type RankDevice = 'cpu' | 'cuda';

const PROGRAM = fileURLToPath(new URL('./rank-device.js', import.meta.url));

/** Why two ranks cannot have a GPU each here, or false. */
export function noTwoGpus(): string | false {
  const reason = cudaReason();
  if (reason !== undefined) return `not run: ${reason}`;
  const gpus = countDevices('cuda');
  if (gpus < 2) return `not run: two ranks need two GPUs, there is ${gpus}`;
  return findLibraries('nccl', ['nccl'])[0] ? false : 'not run: NCCL is not installed';
}

/** What ranks on a device have in their environment. GPUs are theirs by their local ranks. */
export const environmentOf = (device: RankDevice): NodeJS.ProcessEnv => ({
  HEDDLE_DEVICE: device,
  ...(device === 'cpu' && { HEDDLE_THREADS: '1' }),
  // The same kernels on all ranks and every time.
  ...(device === 'cuda' && { HEDDLE_TUNE: 'off' }),
});

async function begin(device: RankDevice, ranks: number, ...args: readonly string[]): Promise<RunningRank[]> {
  const port = await freePort();
  return Array.from({ length: ranks }, (_, rank) =>
    startNode([PROGRAM, ...args], { ...ranksEnvironment(rank, ranks, port), ...environmentOf(device) }),
  );
}

export async function outputs(
  device: RankDevice,
  ranks: number,
  ...args: readonly string[]
): Promise<string[]> {
  const ends = await endOf(await begin(device, ranks, ...args));
  for (const { code, signal, out, err } of ends) {
    assert.equal(code, 0, `${signal} ${out} ${err}`);
    assert.match(out, /closed\n$/);
  }
  return ends.map(({ out }) => out);
}

/** All that ranks have said of why they end. */
const told = (ends: readonly RankEnd[]): string[] =>
  ends.flatMap(({ err }) => err.split('\n').filter((line) => line !== ''));

const DIFFERENT = [
  [
    'operations',
    [
      { kind: 'allReduce', count: 128 },
      { kind: 'broadcast', count: 64 },
    ],
    /rank 0 reduces 128 f32 \(sum\), rank 1 broadcasts 64 f32 of rank 1 in call \d+ of 2 ranks\. All ranks/,
  ],
  [
    'lengths',
    [
      { kind: 'allReduce', count: 5_000_000 },
      { kind: 'allReduce', count: 16 },
    ],
    /rank 0 reduces 5000000 f32 \(sum\), rank 1 reduces 16 f32 \(sum\)/,
  ],
  [
    'dtypes',
    [
      { kind: 'allReduce', count: 64, dtype: 'i32' },
      { kind: 'allReduce', count: 64 },
    ],
    /rank 0 reduces 64 i32 \(sum\), rank 1 reduces 64 f32 \(sum\)/,
  ],
] as const;

export function deviceTests(device: RankDevice, skip: string | false): void {
  const options = { ...LIMIT, skip };

  describe(`${device}: collectives of two ranks`, { skip }, () => {
    for (const scenario of ['suite', 'captured'])
      test(`${scenario}: every dtype, size and operation, with the same bits on both`, options, async () => {
        const said = (await outputs(device, 2, scenario)).map(
          (out) => /\d+ calls are right, digest [0-9a-f]{64}/.exec(out)?.[0] ?? out,
        );
        assert.match(said[0]!, /^\d+ calls/);
        assert.equal(said[1], said[0]);
      });

    test('each rank has the device of its local rank', options, async () => {
      const names = (await outputs(device, 2, 'groups')).map((out) => /on (\S+)/.exec(out)![1]);
      assert.deepEqual(names, device === 'cuda' ? ['cuda', 'cuda:1'] : ['cpu', 'cpu']);
    });

    test('gradients are averaged in several exchanges of one program', options, async () => {
      await outputs(device, 2, 'buckets');
    });

    test('sums of copies have the bits of an all-reduce of two, on both', options, async () => {
      const said = (await outputs(device, 2, 'copies')).map(
        (out) => /copies are right, digest \w+|do not copy from each other/.exec(out)?.[0] ?? out,
      );
      assert.match(said[0]!, /are right|do not copy/);
      assert.equal(said[1], said[0]);
    });

    test(
      'rows of embeddings are exchanged in place of their gradients, with the same bits on both',
      options,
      async () => {
        const said = (await outputs(device, 2, 'rows')).map(
          (out) => /rows are right, digest \w+/.exec(out)?.[0] ?? out,
        );
        assert.match(said[0]!, /^rows are right/);
        assert.equal(said[1], said[0]);
      },
    );

    test(
      'steps of a sharded optimizer have the bits of those that all ranks make, on both',
      options,
      async () => {
        const said = (await outputs(device, 2, 'sharded')).map(
          (out) => /sharded steps are right, digest \w+/.exec(out)?.[0] ?? out,
        );
        assert.match(said[0]!, /^sharded steps are right/);
        assert.equal(said[1], said[0]);
      },
    );

    test('a rank that is late is waited for', options, async () => {
      await outputs(device, 2, 'slow');
    });

    for (const [what, calls, message] of DIFFERENT)
      test(`ranks with different ${what} learn what both do`, options, async () => {
        const at = performance.now();
        const ends = await endOf(await begin(device, 2, 'different', JSON.stringify(calls)));
        assert.ok(performance.now() - at < MOST_MS, 'no rank had to be killed');
        for (const { code, out } of ends) {
          assert.ok(code !== 0 && code !== null, out);
          assert.doesNotMatch(out, /nothing was noticed/);
        }
        const lines = told(ends).filter((line) => message.test(line));
        assert.ok(lines.length > 0, told(ends).join('\n'));
        // On GPUs one rank says it for all of the host.
        if (device === 'cuda') assert.equal(told(ends).length, 1, told(ends).join('\n'));
      });
  });

  describe(`${device}: a rank that is gone while gradients are exchanged`, { skip }, () => {
    const random = new PhiloxStream(Number(process.env.KILL_SEED ?? 7));
    for (const lost of [0, 1])
      for (const signal of ['SIGKILL', 'SIGSTOP'] as const)
        test(`rank ${lost} gets ${signal} at a random moment`, options, async () => {
          const ranks = await begin(device, 2, 'endless');
          await Promise.all(ranks.map((rank) => printed(rank, 'trains')));
          await wait(random.below(500));
          const at = performance.now();
          ranks[lost]!.child.kill(signal);
          const end = await ranks[1 - lost]!.ended;
          const seconds = (performance.now() - at) / 1000;
          ranks[lost]!.child.kill('SIGKILL');
          await ranks[lost]!.ended;
          assert.ok(seconds < 10, `${seconds} s`);
          assert.equal(end.code, 3, end.err);
          const lines = told([end]);
          assert.equal(lines.length, 1, end.err);
          assert.match(lines[0]!, new RegExp(`^heddle: rank ${lost} \\(pid \\d+ on .*\\) is gone: `));
        });
  });
}
