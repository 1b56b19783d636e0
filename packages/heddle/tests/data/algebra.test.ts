import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { sizeOf } from '../../src/core/shape.js';
import {
  ArrayDataset,
  ConcatDataset,
  type Dataset,
  EpochRandom,
  type ExampleMap,
  filterExamples,
  kFold,
  Loader,
  mapExamples,
  randomSplit,
  Subset,
} from '../../src/data/index.js';
import { property } from '../property.js';
import { decoding } from './decoding-dataset.js';
import { drawing } from './drawing-dataset.js';
import { MODULE, widened } from './widened.js';

/** The examples `indices` of a data set in epoch 5: inputs and labels. */
async function read(dataset: Dataset, indices: readonly number[]): Promise<number[][]> {
  const size = sizeOf(dataset.inputShape);
  const inputs = new Float32Array(indices.length * size);
  const labels = new Int32Array(indices.length);
  await dataset.batchInto(indices, inputs, labels, new EpochRandom(1, 5));
  return indices.map((_, row) => [...inputs.subarray(row * size, (row + 1) * size), labels[row]!]);
}

const all = (dataset: Dataset): Promise<number[][]> => read(dataset, [...Array(dataset.length).keys()]);

const length = fc.integer({ min: 1, max: 25 });
const some = fc.array(fc.nat(1000), { maxLength: 30 });

property(
  'a subset of a subset, and a subset of a map, are the examples themselves',
  [length, some, some],
  async (n, a, b) => {
    const whole = drawing(n);
    const indices = a.map((i) => i % n);
    const inner = new Subset(whole, indices);
    assert.deepEqual(await all(inner), await read(whole, indices));
    if (inner.length === 0) return;
    const outer = new Subset(
      inner,
      b.map((i) => i % inner.length),
    );
    assert.deepEqual(await all(outer), await read(inner, [...outer.indices]));
    // An example has the random numbers that it has in the whole.
    const mapped = mapExamples(whole, widened, { inputShape: [3] });
    const mappedPart = mapExamples(inner, widened, { inputShape: [3] });
    const first = ([example, number, , label]: number[]): unknown => [example, number, label];
    assert.deepEqual((await all(mappedPart)).map(first), (await all(new Subset(mapped, indices))).map(first));
  },
);

property('what is cut and joined again is the whole', [length, fc.nat(25)], async (n, cut) => {
  const indices = [...Array(n).keys()];
  const whole = new ArrayDataset({
    inputs: Float32Array.from(indices),
    inputShape: [1],
    labels: Int32Array.from(indices, (i) => i % 3),
    classes: 3,
  });
  const parts = [whole.slice(0, Math.min(cut, n)), new Subset(whole, indices.slice(cut))];
  const joined = new ConcatDataset(parts);
  assert.deepEqual(await all(joined), await all(whole));
  const mixed = indices.map((i) => (7 * i + cut) % n);
  assert.deepEqual(await read(joined, mixed), await read(whole, mixed));
});

const plus =
  (by: number): ExampleMap =>
  (input) => {
    for (let i = 0; i < input.length; i++) input[i]! += by;
  };
const times: ExampleMap = async (input, { label }) => input.map((v) => v * label);

property(
  'map after map is the map of both, and filter keeps what it says',
  [length, fc.integer({ min: 1, max: 5 })],
  async (n, by) => {
    const twice = mapExamples(mapExamples(drawing(n), plus(by)), times);
    const once = mapExamples(drawing(n), async (input, example) => {
      plus(by)(input, example);
      return times(input, example);
    });
    assert.deepEqual(await all(twice), await all(once));
    const keep = (input: Float32Array): boolean => input[0]! % by === 0;
    const kept = [...Array(n).keys()].filter((i) => i % by === 0);
    assert.deepEqual(await all(await filterExamples(drawing(n), keep)), await read(drawing(n), kept));
  },
);

test('parts, joins and maps are the same on other threads, and damaged files in them too', async () => {
  const mapped = mapExamples(drawing(20), widened, { inputShape: [3], module: MODULE });
  const arrays = new ArrayDataset({
    inputs: Float32Array.from({ length: 30 }, (_, i) => i / 8),
    inputShape: [3],
    labels: Int32Array.from({ length: 10 }, (_, i) => i % 10),
    classes: 10,
  });
  const joined = new ConcatDataset([new Subset(mapped, [9, 3, 3, 14]), arrays, mapped]);
  const rows = async (options: { workers?: number; prefetch?: number }): Promise<number[][]> => {
    const found: number[][] = [];
    const loader = new Loader(joined, { batchSize: 5, shuffle: true, ...options });
    for await (const { inputs, labels } of loader) found.push([...inputs, ...labels]);
    return found;
  };
  const here = await rows({});
  assert.deepEqual(await rows({ workers: 2 }), here);
  assert.deepEqual(await rows({ prefetch: 4 }), here);
  // The parts draw other numbers for their first examples.
  const drawn = (await all(new ConcatDataset([drawing(2), drawing(2)]))).map(([, number]) => number);
  assert.equal(new Set(drawn).size, 4);
  assert.equal(mapExamples(drawing(2), times).remote, undefined);
  const damaged = new Loader(new ConcatDataset([decoding([3]), decoding()]), {
    batchSize: 8,
    onError: 'skip',
  });
  for await (const { size } of damaged) assert.equal(size, 8);
  assert.deepEqual([...damaged.skipped], [[3, 'picture 3 is damaged']]);
});

const labelled = (labels: readonly number[]): ArrayDataset =>
  new ArrayDataset({
    inputs: Float32Array.from(labels.keys()),
    inputShape: [1],
    labels: Int32Array.from(labels),
    classes: 5,
  });
const ascending = (a: number, b: number): number => a - b;
const idsOf = ({ inputs }: ArrayDataset): number[] => [...(inputs as Float32Array)];

property(
  'splits and folds: nothing lost, nothing twice, each class by its share',
  [
    fc.array(fc.nat(4), { minLength: 2, maxLength: 60 }),
    fc.integer({ min: 2, max: 7 }),
    fc.boolean(),
    fc.nat(),
  ],
  (labels, count, stratified, seed) => {
    const dataset = labelled(labels);
    const options = { seed, ...(stratified && { stratify: dataset.labels }) };
    const shares = Array.from({ length: count }, (_, i) => (2 * (i + 1)) / (count * (count + 1)));
    const folds = Math.min(count, labels.length);
    const parts = randomSplit(dataset, shares, options);
    const held = [...kFold(dataset, folds, options)].map(({ train, validation }) => {
      assert.deepEqual([...idsOf(train), ...idsOf(validation)].sort(ascending), [...labels.keys()]);
      return validation;
    });
    for (const [of, share] of [
      [parts, (i: number) => shares[i]!],
      [held, () => 1 / folds],
    ] as const) {
      assert.deepEqual(of.flatMap(idsOf).sort(ascending), [...labels.keys()]);
      for (const [i, part] of of.entries())
        for (const label of stratified ? new Set(labels) : []) {
          const inAll = labels.filter((l) => l === label).length;
          const inPart = part.labels.filter((l) => l === label).length;
          assert(Math.abs(inPart - share(i) * inAll) <= 1, `${inPart} of ${inAll}, share ${share(i)}`);
        }
    }
    assert.deepEqual(
      [...kFold(dataset, folds, options)].map((fold) => idsOf(fold.validation)),
      held.map(idsOf),
    );
  },
);

test('what does not fit together is refused', async () => {
  const [two, three] = [drawing(4), mapExamples(drawing(4), widened, { inputShape: [3] })];
  assert.throws(() => new ConcatDataset([two, three]), {
    code: 'HEDDLE_DATA',
    message: /data set 1 has inputs of shape \(3\), data set 0 \(2\)/,
  });
  assert.throws(() => new Subset(two, [0, 4]), /index 1 is 4, must be an integer from 0 to 3/);
  assert.throws(() => randomSplit(two, [1], { stratify: [0] }), /stratify has 1 classes, the data set 4/);
  assert.throws(() => [...kFold(two, 5)], /folds is 5, must be an integer from 2 to 4/);
  assert.throws(
    () =>
      mapExamples(
        two,
        (
          () => () =>
            undefined
        )(),
        { module: MODULE },
      ),
    /has no name/,
  );
  for (const by of [() => [1], () => undefined])
    await assert.rejects(async () => all(mapExamples(two, by, { inputShape: [3] })), {
      code: 'HEDDLE_DATA',
      message: /the function returned (1 values|nothing), must return 3 for inputs of shape \(3\)/,
    });
});
