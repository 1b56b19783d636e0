/** Collectives by MPI, by the processes that mpirun starts. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { findMpi } from '../../src/distributed/mpi/find.js';
import { openMpiTransport } from '../../src/distributed/mpi/transport.js';
import { mpiMissing, runRanks } from './rank-processes.js';

const skip = mpiMissing ?? false;

for (const ranks of [1, 2, 3, 4])
  test(`mpi: every collective, dtype, size and operation on ${ranks} rank(s), all with the same bits`, {
    skip,
  }, async () => {
    const { results, codes, output } = await runRanks('mpi', ranks, 'suite');
    assert.deepEqual(codes, [0], output);
    assert.match(String(results[0]), /^[0-9a-f]{64}$/);
    assert.equal(new Set(results).size, 1, 'the same on all ranks');
    if (ranks === 3)
      assert.deepEqual((await runRanks('tcp', 3, 'suite')).results, results, 'the same by both transports');
  });

test('mpi: messages that are longer than MPI can count are sent in pieces', { skip }, async () => {
  const env = { TEST_LONGEST: '1000' };
  const { codes, output } = await runRanks('mpi', 2, 'suite', { env });
  assert.deepEqual(codes, [0], output);
});

test('mpi: groups of some ranks exchange values', { skip }, async () => {
  const list = [[0, 2], [1, 3], [1, 2, 3], [0, 1, 2, 3], [2]];
  const { results, output } = await runRanks('mpi', 4, 'groups', { argument: list });
  assert.deepEqual(results, [6, 9, 12, 9], output);
});

test('mpi: ranks that do different things learn what both do', { skip }, async () => {
  const argument = [{ count: 128 }, { kind: 'broadcast', count: 64, root: 1 }];
  const { results, output } = await runRanks('mpi', 2, 'different', { argument });
  for (const result of results as { first?: string }[])
    assert.match(
      result?.first ?? output,
      /DistributedError: .*rank 0 reduces 128 f32 \(sum\), rank 1 broadcasts 64 f32 of rank 1 in call 4/,
    );
});

test('mpi: ranks may end without taking leave', { skip }, async () => {
  const { results, codes, output } = await runRanks('mpi', 3, 'leaves');
  assert.deepEqual(results, ['done', 'done', 'done'], output);
  assert.deepEqual(codes, [0], output);
});

test('mpi: mpirun ends all ranks when one is killed', { skip }, async () => {
  let killed = 0;
  const { results, codes } = await runRanks('mpi', 3, 'endless', {
    async during(_, folder) {
      while (![0, 1, 2].every((r) => existsSync(join(folder, `begun-${r}`)))) await sleep(20);
      await sleep(500);
      process.kill(Number(readFileSync(join(folder, 'begun-1'), 'utf8')), 'SIGKILL');
      killed = performance.now();
    },
  });
  assert.ok(performance.now() - killed < 10_000);
  assert.deepEqual(results, [undefined, undefined, undefined]);
  assert.notEqual(codes[0], 0);
});

test('mpi: a process that no launcher has started is told how to start it', () => {
  assert.throws(() => openMpiTransport({}), /was not started by MPI: OMPI_COMM_WORLD_SIZE.*mpirun -n 2/s);
});

/** A machine with these files. */
function machine(
  files: readonly string[],
  env: Record<string, string>,
): { found: string[]; remove: () => void } {
  const root = mkdtempSync(join(tmpdir(), 'heddle-mpi-'));
  for (const file of files) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), '');
  }
  const placed = Object.fromEntries(Object.entries(env).map(([k, v]) => [k, v.replaceAll('ROOT', root)]));
  const found = findMpi({ env: placed, home: root, root }).map(
    ({ path, abi }) => `${abi} ${path.replace(`${root}/`, '')}`,
  );
  return { found, remove: () => rmSync(root, { recursive: true }) };
}

test('mpi: the library of the launcher comes first', () => {
  const files = [
    'usr/lib/x86_64-linux-gnu/libmpi.so.40',
    'usr/lib/x86_64-linux-gnu/libmpich.so.12',
    'usr/lib/x86_64-linux-gnu/libmpi.so.20',
    'opt/mpi/bin/mpirun',
    'opt/mpi/lib/libmpi.so.40.30.4',
  ];
  const open = machine(files, { OMPI_COMM_WORLD_SIZE: '2', PATH: 'ROOT/opt/mpi/bin' });
  assert.deepEqual(open.found, [
    'openmpi opt/mpi/lib/libmpi.so.40.30.4',
    'openmpi usr/lib/x86_64-linux-gnu/libmpi.so.40',
    'mpich usr/lib/x86_64-linux-gnu/libmpich.so.12',
  ]);
  open.remove();
  const mpich = machine(files, { PMI_SIZE: '2' });
  assert.deepEqual(mpich.found[0], 'mpich usr/lib/x86_64-linux-gnu/libmpich.so.12');
  mpich.remove();
});

test('mpi: HEDDLE_MPI must lead to a file', () => {
  process.env.HEDDLE_MPI = '/nowhere/libmpi.so.40';
  try {
    assert.throws(() => findMpi(), /HEDDLE_MPI=\/nowhere\/libmpi\.so\.40: there is no such file/);
  } finally {
    delete process.env.HEDDLE_MPI;
  }
});
