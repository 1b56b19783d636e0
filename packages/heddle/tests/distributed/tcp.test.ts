/** Collectives over TCP, by real processes. */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { DistributedError } from '../../src/core/errors.js';
import { Links } from '../../src/distributed/tcp/links.js';
import { openTcpTransport } from '../../src/distributed/tcp/transport.js';
import type { Rendezvous } from '../../src/distributed/transport.js';
import { property } from '../property.js';
import type { TestCall } from './rank-calls.js';
import { runRanks } from './rank-processes.js';
import { ALL_DTYPES, ALL_OPS } from './rank-values.js';

for (const ranks of [1, 2, 3, 4])
  test(`tcp: every collective, dtype, size and operation on ${ranks} rank(s), all with the same bits`, async () => {
    const { results, codes, output } = await runRanks('tcp', ranks, 'suite');
    assert.deepEqual(codes, new Array(ranks).fill(0), output);
    assert.match(String(results[0]), /^[0-9a-f]{64}$/);
    assert.equal(new Set(results).size, 1, 'the same on all ranks');
    if (ranks === 3) assert.deepEqual((await runRanks('tcp', 3, 'suite')).results, results, 'the same again');
  });

test('tcp: groups of some ranks exchange values', async () => {
  const list = [[0, 2], [1, 3], [1, 2, 3], [0, 1, 2, 3], [2]];
  const { results, output } = await runRanks('tcp', 4, 'groups', { argument: list });
  assert.deepEqual(results, [6, 9, 12, 9], output);
});

const DIFFERENT: readonly (readonly [string, readonly object[], RegExp])[] = [
  [
    'operations',
    [{ count: 128 }, { kind: 'broadcast', count: 64, root: 1 }],
    /rank 0 reduces 128 f32 \(sum\), rank 1 broadcasts 64 f32 of rank 1 in call 4 of 2 ranks\. All ranks/,
  ],
  ['lengths', [{ count: 5_000_000 }, { count: 3 }], /rank 0 reduces 5000000 f32 .*, rank 1 reduces 3 f32/],
  ['dtypes', [{ dtype: 'i32' }, { dtype: 'f32' }], /rank 0 reduces 100 i32 .*, rank 1 reduces 100 f32/],
  ['reductions', [{ op: 'min' }, { op: 'max' }], /rank 0 reduces 100 f32 \(min\), rank 1 .*\(max\)/],
  [
    'roots',
    [
      { kind: 'broadcast', root: 0 },
      { kind: 'broadcast', root: 1 },
    ],
    /of rank 0, rank 1 .* of rank 1/,
  ],
  ['calls of three', [{}, { kind: 'barrier' }, {}], /rank \d (reduces|waits at a barrier).*, rank \d/],
];
for (const [what, argument, message] of DIFFERENT)
  test(`tcp: ranks with different ${what} learn what both do`, async () => {
    const { results, output } = await runRanks('tcp', argument.length, 'different', { argument });
    for (const result of results as { first?: string; again?: boolean }[]) {
      assert.match(result.first ?? output, message);
      assert.match(result.first!, /DistributedError/);
      assert.equal(result.again, true, 'later calls fail, too');
    }
  });

test('tcp: a rank that is killed ends an all-reduce of 100 MB on the others, which name it', async () => {
  let killed = 0;
  const { results, codes } = await runRanks('tcp', 3, 'endless', {
    async during(processes, folder) {
      while (![0, 1, 2].every((r) => existsSync(join(folder, `begun-${r}`)))) await sleep(20);
      await sleep(700);
      processes[1]!.kill('SIGKILL');
      killed = performance.now();
    },
  });
  assert.ok(performance.now() - killed < 10_000);
  assert.equal(results[1], undefined);
  for (const r of [0, 2]) {
    assert.match(String(results[r]), /DistributedError: .*rank 1 is gone/);
    assert.equal(codes[r], 0);
  }
});

test('tcp: a rank that has failed leaves when the others know why, whatever they still send it', async () => {
  const [one, other] = [new Links(0, 2), new Links(1, 2)];
  const addresses = [await one.listen('127.0.0.1'), await other.listen('127.0.0.1')];
  await Promise.all([one.connect(addresses, 5000), other.connect(addresses, 5000)]);
  // More than the buffers of a connection hold: rank 0 does not read it.
  void other.send(0, new Uint8Array(100_000_000));
  await sleep(50);
  one.abort(new DistributedError('[distributed] a reason.'));
  let known: unknown;
  other.failed.catch((error) => {
    known = error;
  });
  await one.leave();
  assert.match(String(known), /DistributedError: .*rank 0 has failed: a reason\./);
  await other.leave();
});

test('tcp: a rank that is late is waited for', async () => {
  const { results } = await runRanks('tcp', 2, 'late', { argument: 2500 });
  assert.ok(Number(results[0]) > 2000, `waited ${results[0]} ms`);
});

test('tcp: ranks may end as soon as they have their results', async () => {
  for (let i = 0; i < 3; i++) {
    const { results, output } = await runRanks('tcp', 3, 'leaves');
    assert.deepEqual(results, ['done', 'done', 'done'], output);
  }
});

test('tcp: a call that a rank which has left should make fails', async () => {
  const { results } = await runRanks('tcp', 3, 'closes');
  assert.equal(results[1], 'left');
  for (const r of [0, 2]) assert.match(String(results[r]), /rank [012] has (left|failed: .*rank 1 has left)/);
});

/** Of rank 0 of 2, where rank 1 has left that address. */
const rendezvousWith = (address: object): Rendezvous => ({
  ...{ rank: 0, worldSize: 2 },
  set: async () => {},
  get: async () => JSON.stringify(address),
});

test('tcp: a rank that cannot be reached, or does not connect, is named', async () => {
  const server = createServer((socket) => socket.on('error', () => {}).resume()).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  const address = { machine: '', hosts: ['127.0.0.1'], port, token: '' };
  const fails = (pattern: RegExp) => (error: unknown) =>
    error instanceof DistributedError && pattern.test(error.message);
  await assert.rejects(
    openTcpTransport(rendezvousWith(address), { timeout: 1 }),
    fails(/rank 0 has no connection with rank 1 after 1 s/),
  );
  await new Promise((resolve) => server.close(resolve));
  await assert.rejects(
    openTcpTransport(rendezvousWith(address)),
    fails(/rank 0 cannot reach rank 1 on port \d+ \(127\.0\.0\.1: .*ECONNREFUSED/),
  );
  await assert.rejects(
    openTcpTransport(rendezvousWith(address), { host: '192.0.2.1' }),
    fails(/rank 0 cannot listen on 192\.0\.2\.1: .*EADDRNOTAVAIL/),
  );
});

/** Three ranks that make the calls they are sent, until `end`. */
interface RankPool {
  readonly processes: readonly ChildProcess[];
  end(): Promise<void>;
}
let pool: Promise<RankPool> | undefined;
after(async () => (await pool)?.end());

const startPool = (): Promise<RankPool> =>
  new Promise((resolve) => {
    const ended = runRanks('tcp', 3, 'calls', {
      limit: 600_000,
      during: async (processes) =>
        resolve({
          processes,
          async end() {
            for (const one of processes) one.send('end');
            await ended;
          },
        }),
    });
  });

property(
  'tcp: any call of any group gives each of its ranks the right bytes',
  [
    fc.record<TestCall>({
      kind: fc.constantFrom('allReduce', 'reduceScatter', 'broadcast', 'allGather', 'barrier'),
      dtype: fc.constantFrom(...ALL_DTYPES),
      op: fc.constantFrom(...ALL_OPS),
      count: fc.oneof(fc.nat(20), fc.nat(20_000)),
      root: fc.constant(0),
      inPlace: fc.boolean(),
      memory: fc.constantFrom('shared', 'own', 'odd'),
    }),
    fc.constantFrom([0], [1, 2], [0, 2], [0, 1], [0, 1, 2]),
    fc.nat(2),
  ],
  async (call, ranks, root) => {
    pool ??= startPool();
    const { processes } = await pool;
    const answers = processes.map((one) => once(one, 'message'));
    for (const one of processes) one.send({ ...call, ranks, root: root % ranks.length });
    for (const [failed] of await Promise.all(answers)) assert.equal(failed, null);
  },
);
