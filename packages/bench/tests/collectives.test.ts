/** heddle bench collectives, on two ranks. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { collectivesReport, runCollectivesBench } from '../src/collectives.js';

test('collectives: each way and size has a time and a bandwidth', async () => {
  const results = await runCollectivesBench({ ranks: [2], only: ['tcp', 'mpi'], sizes: [1000, 200_000] });
  const of = (by: string) => results.figures.filter((figure) => figure.by === by);
  const ways = ['tcp', ...(results.skipped.length > 0 ? [] : ['mpi', 'MPI_Allreduce'])];
  assert.equal(results.figures.length, 2 * ways.length);
  for (const by of ways) {
    assert.deepEqual(
      of(by).map(({ bytes }) => bytes),
      [1000, 200_000],
    );
    for (const { median, min, bandwidth, bytes } of of(by)) {
      assert.ok(min > 0 && min <= median);
      assert.ok(Math.abs(bandwidth * median * 1e6 - bytes) < 0.01 * bytes, `${bandwidth} GB/s`);
    }
  }
  assert.match(collectivesReport(results), /^tcp +2 ranks +1 KB +[\d.]+ ms +[\d.]+ GB\/s\n/);
});

test('collectives: where there are not enough GPUs, this is said', async () => {
  const results = await runCollectivesBench({ ranks: [64], only: ['nccl'], sizes: [1000] });
  assert.deepEqual(results.figures, []);
  assert.match(collectivesReport(results), /^nccl of 64 ranks skipped: there (is 1 GPU|are \d+ GPUs)\n/);
});
