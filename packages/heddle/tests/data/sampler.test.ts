import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { PhiloxStream } from '../../src/core/philox.js';
import { Loader, type Sampler, StratifiedSampler, WeightedRandomSampler } from '../../src/data/index.js';
import { property } from '../property.js';
import { drawing } from './drawing-dataset.js';

const ascending = (a: number, b: number): number => a - b;
const seeds = fc.nat();
const weights = fc.array(fc.double({ min: 0, max: 1e6, noNaN: true }), { minLength: 1, maxLength: 40 });

property(
  'weighted: examples of weight 0 never come, and none comes twice without replacement',
  [weights, fc.integer({ min: 1, max: 60 }), fc.boolean(), seeds],
  (given, numSamples, replacement, seed) => {
    const possible = given.filter((weight) => weight > 0).length;
    const make = (): Sampler => new WeightedRandomSampler(given, numSamples, { replacement });
    if (possible < (replacement ? 1 : numSamples)) {
      assert.throws(make, /weights are above 0, must be at least/);
      return;
    }
    const order = make().order(new PhiloxStream(seed), 0);
    assert.equal(order.length, numSamples);
    for (const example of order) assert(given[example]! > 0);
    if (!replacement) assert.equal(new Set(order).size, numSamples);
    assert.deepEqual(make().order(new PhiloxStream(seed), 0), order);
  },
  { found: [[[0, 5e-324], 1, false, 0]] },
);

test('weighted: examples come as often as their weights say', () => {
  const given = [1, 0, 3, 6];
  const DRAWS = 10_000;
  const drawn = new WeightedRandomSampler(given, DRAWS).order(new PhiloxStream(1));
  // Without replacement, the first of an epoch has the same probabilities.
  const once = new WeightedRandomSampler(given, 1, { replacement: false });
  const first = Array.from({ length: DRAWS }, (_, epoch) => once.order(new PhiloxStream(1, epoch))[0]!);
  for (const examples of [drawn, first])
    given.forEach((weight, example) => {
      const share = examples.filter((found) => found === example).length / examples.length;
      // Four standard deviations.
      assert(Math.abs(share - weight / 10) <= 4 * Math.sqrt(0.25 / DRAWS), `${example}: ${share}`);
    });
});

property(
  'stratified: each example comes once, and among the first n is each class’s share of n',
  [fc.array(fc.nat(6), { maxLength: 60 }), seeds],
  (labels, seed) => {
    const order = new StratifiedSampler(labels).order(new PhiloxStream(seed));
    assert.deepEqual([...order].sort(ascending), [...labels.keys()]);
    for (const label of new Set(labels)) {
      const share = labels.filter((l) => l === label).length / labels.length;
      let found = 0;
      order.forEach((example, i) => {
        if (labels[example] === label) found++;
        assert(Math.abs(found - share * (i + 1)) < 1, `${found} of ${i + 1} are of class ${label}`);
      });
    }
  },
  { runs: 300 },
);

test('stratified: which examples a class gives is drawn, each as often', () => {
  const sampler = new StratifiedSampler([0, 0, 0, 1]);
  const counts = [0, 0, 0, 0];
  for (let epoch = 0; epoch < 3000; epoch++) counts[sampler.order(new PhiloxStream(2, epoch))[0]!]!++;
  assert.equal(counts[3], 0);
  for (const count of counts.slice(0, 3)) assert(Math.abs(count - 1000) < 100, `${counts}`);
});

const samplers: fc.Arbitrary<(length: number) => Sampler> = fc.constantFrom(
  (length) => new StratifiedSampler(Array.from({ length }, (_, i) => (i * i) % 3)),
  (length) =>
    new WeightedRandomSampler(
      Float32Array.from({ length }, (_, i) => 1 + i),
      2 * length,
    ),
  (length) =>
    new WeightedRandomSampler(
      Float32Array.from({ length }, (_, i) => 1 + i),
      Math.ceil(length / 2),
      {
        replacement: false,
      },
    ),
  (length) => ({ length: 3, order: (random) => Uint32Array.from([0, 1, 2], () => random.below(length)) }),
);

/** What each row of each batch is: the example, and the number drawn for it. */
async function rowsOf(loader: Loader): Promise<number[][]> {
  const rows: number[][] = [];
  for await (const { inputs, labels, size } of loader) {
    assert(size <= loader.batchSize && labels.length === size);
    rows.push([...inputs]);
  }
  return rows;
}

property(
  'a loader gives what its sampler chose, again for the same seed, and the same when resumed in the middle',
  [samplers, fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 9 }), fc.boolean(), seeds, fc.nat(3)],
  async (sampler, length, batchSize, dropLast, seed, epoch) => {
    const make = (more = {}): Loader => {
      const options = { batchSize, dropLast, seed, sampler: sampler(length), ...more };
      const loader = new Loader(drawing(length), options);
      loader.epoch = epoch;
      return loader;
    };
    const loader = make();
    const rows = await rowsOf(loader);
    const examples = rows.flatMap((row) => row.filter((_, i) => i % 2 === 0));
    assert.deepEqual(examples, [...loader.order(epoch).subarray(0, loader.examples)]);
    assert.deepEqual([rows.length, examples.length], [loader.length, loader.examples]);
    assert.deepEqual(await rowsOf(make({ prefetch: 3 })), rows);
    for (let batch = 0; batch <= loader.length; batch++) {
      const resumed = make();
      resumed.batch = batch;
      assert.deepEqual(await rowsOf(resumed), rows.slice(batch));
    }
  },
);

property(
  'the same batches for any number of workers, whatever the sampler',
  [samplers, fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 6 }), seeds],
  async (sampler, workers, prefetch, seed) => {
    const options = { batchSize: 4, seed, sampler: sampler(20) };
    const here = await rowsOf(new Loader(drawing(20), options));
    assert.deepEqual(await rowsOf(new Loader(drawing(20), { ...options, workers, prefetch })), here);
  },
  { runs: 4 },
);

test('a sampler that does not fit its data set is refused', async () => {
  const bad: [Sampler, RegExp][] = [
    [new StratifiedSampler([0, 1, 0, 1]), /the sampler gives example 3, the data set has 3/],
    [{ length: 2, order: () => new Uint32Array(3) }, /must give a Uint32Array of 2 indices/],
    [{ length: 2, order: () => [0, 1] as never }, /must give a Uint32Array of 2 indices/],
  ];
  for (const [sampler, message] of bad)
    await assert.rejects(rowsOf(new Loader(drawing(3), { batchSize: 1, sampler })), {
      code: 'HEDDLE_ARGUMENT',
      message,
    });
  const sampler = new StratifiedSampler([0, 1, 0]);
  assert.throws(() => new Loader(drawing(3), { batchSize: 1, sampler, shuffle: true }), /leave shuffle out/);
});
