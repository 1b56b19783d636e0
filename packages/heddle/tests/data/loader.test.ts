import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import fc from 'fast-check';
import type { BatchSlot } from '../../src/data/fill.js';
import { ArrayDataset, type Dataset, Loader, type LoaderOptions } from '../../src/data/index.js';
import { NEW_SLOTS, type Slots } from '../../src/data/slots.js';
import { property } from '../property.js';
import { counting } from './counting-dataset.js';
import { decoding } from './decoding-dataset.js';
import { drawing } from './drawing-dataset.js';
import { failing } from './failing-dataset.js';
import { opened } from './opened-dataset.js';

/** `length` examples; example i has input (i, i) and label i % 10. */
const numbered = (length: number): ArrayDataset =>
  new ArrayDataset({
    inputs: Float32Array.from({ length: 2 * length }, (_, i) => Math.floor(i / 2)),
    inputShape: [2],
    labels: Int32Array.from({ length }, (_, i) => i % 10),
    classes: 10,
  });

/** The examples of an epoch in the order they came. */
async function visited(loader: Loader): Promise<number[]> {
  const indices: number[] = [];
  let index = loader.batch;
  for await (const batch of loader) {
    assert.equal(batch.index, index++);
    assert.equal(batch.inputs.length, 2 * batch.size);
    assert.equal(batch.labels.length, batch.size);
    for (let row = 0; row < batch.size; row++) {
      const example = batch.inputs[2 * row]!;
      assert.equal(batch.inputs[2 * row + 1], example);
      assert.equal(batch.labels[row], example % 10);
      indices.push(example);
    }
  }
  assert.equal(index, loader.length);
  return indices;
}

const ascending = (a: number, b: number): number => a - b;

property(
  'every example comes once per epoch, in batches of the asked size',
  [fc.nat(60), fc.integer({ min: 1, max: 20 }), fc.boolean(), fc.boolean(), fc.nat()],
  async (length, batchSize, shuffle, dropLast, seed) => {
    const loader = new Loader(numbered(length), { batchSize, shuffle, dropLast, seed });
    const kept = dropLast ? length - (length % batchSize) : length;
    const indices = await visited(loader);
    assert.equal(indices.length, kept);
    assert.equal(new Set(indices).size, kept);
    if (!shuffle) assert.deepEqual(indices, [...loader.order(0).subarray(0, kept)]);
    if (!dropLast) assert.deepEqual(indices.toSorted(ascending), [...numbered(length).labels.keys()]);
  },
);

test('the order is fixed by seed and epoch, and differs between them', async () => {
  const make = (seed: number): Loader => new Loader(numbered(50), { batchSize: 8, shuffle: true, seed });
  const loader = make(1);
  const epochs = [await visited(loader), await visited(loader)];
  const again = make(1);
  assert.deepEqual([await visited(again), await visited(again)], epochs);
  assert.notDeepEqual(epochs[0], epochs[1]);
  assert.notDeepEqual(await visited(make(2)), epochs[0]);
  const resumed = make(1);
  resumed.epoch = 1;
  for (const workers of [0, 2]) {
    const within = new Loader(numbered(50), { batchSize: 8, shuffle: true, seed: 1, workers });
    within.epoch = 1;
    within.batch = 5;
    assert.deepEqual(await visited(within), epochs[1]!.slice(40));
    within.epoch = 1;
    assert.deepEqual(await visited(within), epochs[1]);
  }
  resumed.batch = 8;
  assert.throws(() => [...resumed.batches()], /batch is 8, must be an integer from 0 to 7/);
  resumed.batch = 0;
  resumed.epoch = 1;
  assert.deepEqual(await visited(resumed), epochs[1]);
});

test('the shuffle is even: every place is as likely for every example', () => {
  const loader = new Loader(numbered(4), { batchSize: 1, shuffle: true });
  const counts = Array.from({ length: 4 }, () => [0, 0, 0, 0]);
  for (let epoch = 0; epoch < 4000; epoch++) {
    loader.order(epoch).forEach((example, place) => {
      counts[place]![example]!++;
    });
  }
  for (const count of counts.flat()) assert(Math.abs(count - 1000) < 150, `${counts}`);
});

test('workers give the same batches as this thread', async () => {
  for (const options of [{ workers: 2 }, { workers: 1, prefetch: 50 }] satisfies Partial<LoaderOptions>[]) {
    const base = { batchSize: 7, shuffle: true, seed: 5 };
    const here = new Loader(numbered(64), base);
    const there = new Loader(numbered(64), { ...base, ...options });
    for (let epoch = 0; epoch < 2; epoch++) assert.deepEqual(await visited(there), await visited(here));
  }
});

test("an example's random numbers depend on the seed, the epoch and the example alone", async () => {
  const drawn = async (seed: number, epoch: number, options: LoaderOptions): Promise<number[]> => {
    const loader = new Loader(drawing(30), { ...options, seed });
    loader.epoch = epoch;
    const numbers: number[] = [];
    for await (const { inputs, size } of loader)
      for (let row = 0; row < size; row++) numbers[inputs[2 * row]!] = inputs[2 * row + 1]!;
    return numbers;
  };
  const first = await drawn(3, 1, { batchSize: 4 });
  assert.equal(new Set(first).size, 30);
  assert.deepEqual(await drawn(3, 1, { batchSize: 7, shuffle: true }), first);
  for (const workers of [1, 3])
    assert.deepEqual(await drawn(3, 1, { batchSize: 5, shuffle: true, workers }), first);
  for (const [seed, epoch] of [
    [3, 2],
    [4, 1],
  ] as const)
    assert.equal(new Set([...first, ...(await drawn(seed, epoch, { batchSize: 4 }))]).size, 60);
});

test('batches are made in slots that are given, in turn, when they are free', async () => {
  const taken: BatchSlot[] = [];
  const copies = new Map<BatchSlot, () => void>();
  const pending = new Map<BatchSlot, Promise<void>>();
  const slots: Slots = {
    spare: 1,
    take: (count, size, memory) => {
      if (taken.length === 0) taken.push(...NEW_SLOTS.take(count, size, memory));
      return taken;
    },
    free: (slot) => pending.get(slot),
  };
  const loader = new Loader(numbered(12), { batchSize: 2, prefetch: 1 });
  for (let epoch = 0; epoch < 2; epoch++) {
    let index = 0;
    const options = { together: () => 1, most: 1, bytes: false, slots };
    for await (const span of loader.spans(options)) {
      assert.deepEqual([...span.inputs], [2 * index, 2 * index, 2 * index + 1, 2 * index + 1]);
      const slot = taken[index++ % 3]!;
      assert.equal(span.inputs.buffer, slot.inputs.buffer);
      // As if it was copied from until some time after the next batch has been asked for.
      pending.set(slot, new Promise((resolve) => copies.set(slot, resolve)));
      const before = [...slot.inputs];
      setTimeout(() => {
        assert.deepEqual([...slot.inputs], before);
        pending.delete(slot);
        copies.get(slot)!();
      }, 2);
    }
    assert.equal(index, 6);
    await wait(5);
  }
});

test("the order of the next epoch is made ahead, but a user's sampler is asked when the epoch begins", async () => {
  const asked: number[] = [];
  const sampler = {
    length: 4,
    order: (_: unknown, epoch: number) => {
      asked.push(epoch);
      return Uint32Array.from([3, 2, 1, 0]);
    },
  };
  const own = new Loader(numbered(4), { batchSize: 2, sampler });
  own.makeOrder(1);
  assert.deepEqual(asked, []);
  const loader = new Loader(numbered(40), { batchSize: 2, shuffle: true, seed: 3 });
  const expected = [loader.order(0), loader.order(1), loader.order(2)];
  for (const made of [0, 2, 2]) {
    loader.makeOrder(made);
    const { epoch } = loader;
    assert.deepEqual(await visited(loader), [...expected[epoch]!]);
  }
});

test('a loader with workers can be left early and used again', async () => {
  const loader = new Loader(numbered(100), { batchSize: 4, workers: 2 });
  for await (const batch of loader) if (batch.index === 2) break;
  assert.equal(loader.epoch, 1);
  assert.equal((await visited(loader)).length, 100);
});

test('workers stay from epoch to epoch, and are started again where one has ended', async () => {
  const counts = new Int32Array(new SharedArrayBuffer(8));
  const loader = new Loader(opened({ counts }), { batchSize: 2, shuffle: true, workers: 2 });
  const epoch = async (): Promise<number[]> => {
    const threads = new Set<number>();
    const seen: number[] = [];
    const expected = [...loader.order(loader.epoch)];
    for await (const { inputs, labels } of loader) {
      seen.push(inputs[0]!, inputs[2]!);
      for (const thread of labels) threads.add(thread);
    }
    assert.deepEqual(seen, expected);
    return [...threads].sort(ascending);
  };
  const first = await epoch();
  assert.deepEqual([await epoch(), await epoch(), counts[0]], [first, first, 2]);
  for await (const { index } of loader) {
    if (index > 0) continue;
    // The workers are at work for this loop: another one within it has its own.
    assert.notDeepEqual(await epoch(), first);
    assert.equal(counts[0], 4);
  }
  assert.deepEqual([await epoch(), counts[0]], [first, 4]);
  loader.dispose();
  assert.notDeepEqual(await epoch(), first);
  counts[1] = 1;
  await assert.rejects(epoch(), {
    code: 'HEDDLE_DATA',
    message: /worker of the loader failed: it exited with code 3/,
  });
  await epoch();
  assert.equal(counts[0], 8);
});

test('an error reaches the loop with the batch that it is of', async () => {
  for (const workers of [0, 1, 2]) {
    const seen: number[] = [];
    const loader = new Loader(failing([5, 7]), { batchSize: 2, workers });
    await assert.rejects(
      async () => {
        for await (const { index } of loader) seen.push(index);
      },
      { message: workers > 0 ? /worker.*picture 5 is damaged/ : /picture 5 is damaged/ },
    );
    assert.deepEqual(seen, [0, 1]);
  }
  const failsToOpen = new Loader(failing([], 'nothing'), { batchSize: 2, workers: 1 });
  await assert.rejects(drain(failsToOpen), { code: 'HEDDLE_DATA', message: /worker of the loader failed/ });
});

test('examples that cannot be read are skipped when told so, and named', async () => {
  for (const make of [failing, (damaged: number[]) => decoding(damaged)])
    for (const more of [{}, { prefetch: 3 }, { workers: 2 }]) {
      const options = { batchSize: 6, seed: 3, shuffle: true, onError: 'skip', ...more } as const;
      const dataset = make([4, 9, 10]);
      const loader = new Loader(dataset, options);
      const seen: number[] = [];
      for await (const { inputs, size } of loader)
        for (let row = 0; row < size; row++) seen.push(inputs[2 * row]!);
      const order = [...loader.order(0)];
      const readable = [...order, ...order];
      const expected = order.map((_, place) =>
        readable.find((e, i) => i >= place && ![4, 9, 10].includes(e)),
      );
      assert.deepEqual(seen, expected);
      assert.deepEqual([...loader.skipped].sort(), [
        [10, 'picture 10 is damaged'],
        [4, 'picture 4 is damaged'],
        [9, 'picture 9 is damaged'],
      ]);
    }
  const all = new Loader(failing([0, 1, 2], 'failing', 3), { batchSize: 2, onError: 'skip' });
  await assert.rejects(drain(all), {
    code: 'HEDDLE_DATA',
    message: /none of the 3 examples of the epoch can be read\. Example 0: picture 0 is damaged/,
  });
  assert.throws(() => [...all.batches()], /onError: 'skip' is for batches that are awaited/);
});

test('no more batches are under way than the loader may prepare, on this thread and on others', async () => {
  for (const [options, most] of [
    [{ prefetch: 2 }, 3],
    [{ workers: 2, prefetch: 3 }, 4],
    [{ workers: 1 }, 3],
  ] as const) {
    const counts = new Int32Array(new SharedArrayBuffer(12));
    for await (const _ of new Loader(counting({ counts, together: most }), { batchSize: 1, ...options }));
    assert.equal(counts[1], most, JSON.stringify(options));
  }
});

test('a loop that is left, or fails, leaves nothing running', async () => {
  for (const options of [{ prefetch: 3 }, { workers: 2 }])
    for (const leave of [() => true, () => assert.fail('an error of the loop')]) {
      const counts = new Int32Array(new SharedArrayBuffer(12));
      const loader = new Loader(counting({ counts, together: 1 }), { batchSize: 1, ...options });
      await (async () => {
        for await (const batch of loader) if (batch.index === 2 && leave()) break;
      })().catch(({ message }: Error) => assert.equal(message, 'an error of the loop'));
      const ticks = Atomics.load(counts, 2);
      await wait(30);
      assert.equal(Atomics.load(counts, 2), ticks);
    }
});

async function drain(loader: Loader): Promise<void> {
  for await (const batch of loader) assert(batch.size > 0);
}

test('a batch size far above the number of examples takes no memory for it', async () => {
  for (const workers of [0, 1]) {
    const loader = new Loader(numbered(5), { batchSize: Number.MAX_SAFE_INTEGER, workers });
    assert.deepEqual(await visited(loader), [0, 1, 2, 3, 4]);
  }
});

test('options outside their range are refused', () => {
  const dataset = numbered(4);
  const bad: [LoaderOptions, RegExp][] = [
    [{ batchSize: 0 }, /batchSize is 0, must be an integer ≥ 1/],
    [{ batchSize: 1.5 }, /batchSize is 1.5/],
    [{ batchSize: 1, seed: -1 }, /seed is -1, must be an integer ≥ 0/],
    [{ batchSize: 1, workers: -1 }, /workers is -1/],
    [{ batchSize: 1, workers: 1, prefetch: 0 }, /prefetch is 0, must be an integer ≥ 1/],
  ];
  for (const [options, message] of bad) {
    assert.throws(() => new Loader(dataset, options), { code: 'HEDDLE_ARGUMENT', message });
  }
  const local: Dataset = { length: 1, inputShape: [1], classes: 1, batchInto: () => {} };
  assert.throws(() => new Loader(local, { batchSize: 1, workers: 1 }), /cannot be opened on another thread/);
});

test('batches that are made asynchronously are awaited, on this thread and on others', async () => {
  for (const workers of [0, 1, 3]) {
    const loader = new Loader(decoding(), { batchSize: 6, shuffle: true, workers });
    const seen: number[] = [];
    for await (const { inputs, labels, size } of loader) {
      assert.equal(labels.length, size);
      labels.forEach((label, i) => {
        assert.deepEqual([inputs[2 * i + 1], label], [-inputs[2 * i]!, inputs[2 * i]! % 3]);
        seen.push(inputs[2 * i]!);
      });
    }
    assert.deepEqual(seen, [...loader.order(0)]);
    const fails = new Loader(decoding([7]), { batchSize: 6, workers });
    await assert.rejects(async () => {
      for await (const _ of fails);
    }, /picture 7 is damaged/);
  }
  assert.throws(() => [...new Loader(decoding(), { batchSize: 6 }).batches()], /cannot be awaited here/);
});
