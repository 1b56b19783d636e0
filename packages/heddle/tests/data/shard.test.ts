import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ArgumentError, ArrayDataset, Loader, TensorDataset, tensor, useDevice } from '../../src/index.js';
import { property } from '../property.js';

useDevice('cpu');

const loaderOf = (examples: number, batchSize: number, dropLast: boolean): Loader<ArrayDataset> => {
  const inputs = Float32Array.from({ length: examples }, (_, i) => i);
  const labels = new Int32Array(examples);
  const dataset = new ArrayDataset({ inputs, labels, inputShape: [1], classes: 1 });
  return new Loader(dataset, { batchSize, dropLast, shuffle: true, seed: 3 });
};

/** The examples of each batch of an epoch. */
function batchesOf(loader: Loader<ArrayDataset>): number[][] {
  const batches: number[][] = [];
  for (const { inputs, size } of loader.batches(1)) {
    assert.equal(inputs.length, size);
    batches.push([...inputs]);
  }
  return batches;
}

test('the part of a smaller batch is no larger than that of a full one', () => {
  const loader = loaderOf(45, 12, false);
  const sizes = Array.from({ length: 7 }, (_, rank) => {
    const batches = batchesOf(loader.shard(rank, 7));
    return [batches[0]!.length, batches[3]!.length];
  });
  assert.deepEqual(sizes, [
    [2, 2],
    [2, 2],
    [2, 1],
    [2, 1],
    [2, 1],
    [1, 1],
    [1, 1],
  ]);
});

property(
  'the shards of a batch are its examples in their order, whatever the number of ranks',
  [
    fc.record({
      examples: fc.integer({ min: 1, max: 60 }),
      batchSize: fc.integer({ min: 1, max: 20 }),
      ranks: fc.integer({ min: 1, max: 8 }),
      dropLast: fc.boolean(),
    }),
  ],
  ({ examples, batchSize, ranks, dropLast }) => {
    fc.pre(ranks <= batchSize);
    const whole = loaderOf(examples, batchSize, dropLast);
    const shards = Array.from({ length: ranks }, (_, rank) => whole.shard(rank, ranks));
    const parts = shards.map(batchesOf);
    batchesOf(whole).forEach((batch, i) => {
      const counted = parts.map((part, rank) => {
        const { restCounts } = shards[rank]!.rows;
        return batch.length < batchSize && !restCounts ? [] : part[i]!;
      });
      assert.deepEqual(counted.flat(), batch);
      for (const part of parts)
        assert.ok(part[i]!.length > 0 && part[i]!.every((example) => batch.includes(example)));
      const sizes = counted.map(({ length }) => length);
      assert.ok(Math.max(...sizes) - Math.min(...sizes) <= 1);
    });
    for (const shard of shards) {
      assert.deepEqual(
        [shard.length, shard.examples, shard.batchSize],
        [whole.length, whole.examples, batchSize],
      );
    }
  },
);

test('a shard begins where the loader stands, and other kinds of data sets have shards as well', async () => {
  const loader = loaderOf(10, 4, false);
  loader.epoch = 2;
  assert.equal(loader.shard(0, 2).epoch, 2);
  const tensors = new Loader(new TensorDataset(tensor([[1], [2], [3], [4]]), tensor([1, 2, 3, 4])), {
    batchSize: 4,
  });
  const [batch] = [...tensors.shard(1, 2).batches()];
  assert.deepEqual(await batch!.targets.data(), Float32Array.of(3, 4));
});

test('a rank that does not exist, and more ranks than examples of a batch, are refused', () => {
  const loader = loaderOf(10, 4, false);
  assert.throws(() => loader.shard(2, 2), ArgumentError);
  assert.throws(() => loader.shard(0, 5), /count is 5, must be an integer from 1 to 4/);
});
