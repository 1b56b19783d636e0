import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import fc from 'fast-check';
import { collectExamples, DataStream, Loader, StreamDataset } from '../../src/data/index.js';
import { f32, fit, mse, nn, optim } from '../../src/index.js';
import { property } from '../property.js';

async function listed<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

const ascending = (a: number, b: number): number => a - b;
const numbers = fc.array(fc.integer(), { maxLength: 40 });
const small = fc.integer({ min: 1, max: 12 });

property(
  'streams do what arrays do',
  [numbers, small, fc.nat(45), fc.boolean()],
  async (items, size, count, dropLast) => {
    const stream = new DataStream(items);
    const isKept = (n: number): boolean => n % 3 !== 0;
    assert.deepEqual(await listed(stream.filter(isKept)), items.filter(isKept));
    const later = async (n: number): Promise<number> => {
      await wait(0);
      return 2 * n;
    };
    const doubled = items.slice(0, 8).map((n) => 2 * n);
    assert.deepEqual(await listed(stream.take(8).map(later, { concurrency: size })), doubled);
    assert.deepEqual(await listed(stream.take(count)), items.slice(0, count));
    assert.deepEqual(await listed(stream.skip(count)), items.slice(count));
    assert.deepEqual(await listed(stream.take(count).concat(stream.skip(count))), items);
    const batches = await listed(stream.batch(size, { dropLast }));
    assert(batches.every(({ length }, i) => length === size || (i === batches.length - 1 && !dropLast)));
    const full = items.length - (items.length % size);
    assert.deepEqual(batches.flat(), dropLast ? items.slice(0, full) : items);
  },
);

property(
  'a shuffled stream has each item once, none too early, again for the same seed, another way each epoch',
  [fc.integer({ min: 0, max: 60 }), fc.integer({ min: 1, max: 70 }), fc.nat()],
  async (length, size, seed) => {
    const stream = new DataStream(() => Array(length).keys()).shuffle(size, { seed });
    const order = await listed(stream.epoch(1));
    assert.deepEqual(order.toSorted(ascending), [...Array(length).keys()]);
    order.forEach((item, place) => {
      assert(item < place + size);
    });
    assert.deepEqual(await listed(stream.epoch(1)), order);
    if (Math.min(length, size) > 20) assert.notDeepEqual(await listed(stream.epoch(2)), order);
  },
);

test('a stream reads no more than it is asked for, and closes its source when it is left', async () => {
  let read = 0;
  let isClosed = false;
  const source = async function* (): AsyncGenerator<number> {
    try {
      for (;;) yield read++;
    } finally {
      isClosed = true;
    }
  };
  let [underway, most] = [0, 0];
  const stream = new DataStream(source)
    .map(
      async (n) => {
        most = Math.max(most, ++underway);
        await wait(1);
        underway--;
        return n;
      },
      { concurrency: 3 },
    )
    .batch(2);
  for await (const batch of stream) if (batch[0] === 4) break;
  assert.deepEqual([most, underway, isClosed], [3, 0, true]);
  assert(read <= 9, `${read} were read`);
  const failing = new DataStream(Array(9).keys()).map((n) => (n === 5 ? assert.fail('item 5') : n), {
    concurrency: 2,
  });
  await assert.rejects(listed(failing), /item 5/);
});

test('a stream is collected into a data set; a loader and bad examples are told so', async () => {
  const stream = new DataStream([0, 1, 2]).map((n) => ({ input: [n, n / 2], label: n % 2 }));
  const dataset = await collectExamples(stream, { inputShape: [2], classes: 2 });
  assert.deepEqual([...dataset.inputs, ...dataset.labels], [0, 0, 1, 0.5, 2, 1, 0, 1, 0]);
  await assert.rejects(collectExamples(stream, { inputShape: [3], classes: 2 }), {
    code: 'HEDDLE_DATA',
    message: /example 0 has 2 values, must have 3 for inputs of shape \(3\)/,
  });
  await assert.rejects(collectExamples(stream, { inputShape: [2], classes: 1 }), /label 1 of example 1/);
  assert.throws(() => new Loader(stream as never, { batchSize: 1 }), {
    code: 'HEDDLE_ARGUMENT',
    message: /a DataStream has no length.*collectExamples\(stream, …\).*new StreamDataset\(stream, …\)/,
  });
});

test("a stream is a data set: each epoch reads it from the loader's position", async () => {
  const opened: number[] = [];
  const closed: number[] = [];
  const stream = new DataStream(async function* (epoch: number) {
    opened.push(epoch);
    try {
      for (let i = 0; ; i++) yield { input: [epoch, i], label: i % 3 };
    } finally {
      closed.push(epoch);
    }
  });
  const options = { length: 5, inputShape: [2], classes: 3 };
  const seen = async (loader: Loader): Promise<number[][]> => {
    const rows: number[][] = [];
    for await (const { inputs, labels } of loader) rows.push([...inputs, ...labels]);
    return rows;
  };
  for (const prefetch of [0, 3]) {
    const loader = new Loader(new StreamDataset(stream, options), { batchSize: 2, prefetch });
    assert.deepEqual(await seen(loader), [
      [0, 0, 0, 1, 0, 1],
      [0, 2, 0, 3, 2, 0],
      [0, 4, 1],
    ]);
    loader.batch = 2;
    assert.deepEqual(await seen(loader), [[1, 4, 1]]);
    assert.deepEqual(
      [opened.splice(0), closed.splice(0)],
      [
        [0, 1],
        [0, 1],
      ],
    );
  }
  const shuffled = new Loader(new StreamDataset(stream, options), { batchSize: 2, shuffle: true });
  await assert.rejects(seen(shuffled), /a stream gives its examples in their order/);
  const once = new StreamDataset(new DataStream([{ input: [1, 2], label: 0 }].values()), {
    ...options,
    length: 1,
  });
  const loader = new Loader(once, { batchSize: 1 });
  await seen(loader);
  await assert.rejects(
    seen(loader),
    /the stream of epoch 1 ended after 0 of 1 examples\. .*new DataStream\(\(\) => …\)/,
  );
});

test('fit trains on a stream', async () => {
  const stream = new DataStream(function* (epoch) {
    for (let i = 0; i < 64; i++) yield { input: [Math.sin(i + epoch), Math.cos(3 * i)], label: i % 2 };
  });
  const dataset = new StreamDataset(
    stream.map((e) => ({ ...e, input: [e.input[0]!, e.label] })),
    {
      ...{ length: 60, inputShape: [2], classes: 2 },
    },
  );
  const model = new nn.Sequential(new nn.Linear(2, 1), new nn.Flatten(0));
  const { epochs } = await fit(model, {
    train: new Loader(dataset, { batchSize: 8 }),
    optimizer: new optim.SGD(model.parameters(), { lr: 0.3 }),
    loss: (outputs, labels) => mse(outputs, labels.cast(f32)),
    epochs: 12,
  });
  assert.ok(epochs.at(-1)!.loss < 0.02, `${epochs.at(-1)!.loss}`);
});
