/** Batches from the host: however many are written together, and as bytes or as numbers, a training gets the same. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ArrayDataset, type ArrayDatasetOptions, type Dataset, Loader } from '../../src/data/index.js';
import { f32, type Tensor, tensor } from '../../src/index.js';
import { runsOf } from '../../src/train/feed.js';
import { HostFeed } from '../../src/train/host-feed.js';

const EXAMPLES = 203;

/** Bytes in two channels of their own normalization, and the same as f32. */
function examples(kind: 'bytes' | 'numbers'): ArrayDataset {
  const inputs = Uint8Array.from({ length: EXAMPLES * 12 }, (_, i) => (i * 89) % 256);
  const options: ArrayDatasetOptions = {
    ...{ inputs, inputShape: [2, 3, 2], classes: 10 },
    labels: Uint8Array.from({ length: EXAMPLES }, (_, i) => i % 10),
    normalize: { mean: [0.3, 0.6], std: [0.2, 0.4] },
  };
  if (kind === 'bytes') return new ArrayDataset(options);
  const values = new Float32Array(inputs.length);
  const all = Uint32Array.from({ length: EXAMPLES }, (_, i) => i);
  new ArrayDataset(options).batchInto(all, values, new Int32Array(EXAMPLES));
  return new ArrayDataset({ ...options, inputs: values, normalize: { mean: 0, std: 1 } });
}

/** What two epochs leave in a state that depends on every input, label and size, and on their order. */
async function stateAfter(dataset: Dataset, most: number, workers = 0): Promise<[number[], number[]]> {
  const state = tensor(new Float32Array(12), { shape: [2, 3, 2] });
  const loader = new Loader(dataset, { batchSize: 8, shuffle: true, seed: 2, workers });
  const work = (inputs: unknown, labels: unknown, size: number): void => {
    const scale = (labels as Tensor).cast(f32).reshape([size, 1, 1, 1]);
    const own = (inputs as Tensor).mul(scale);
    state.assign(state.mul(0.75).add(own.sum(0)).add(size));
  };
  const feed = new HostFeed(loader, work, { tune: 'on', group: 1 }, most);
  const together: number[] = [];
  // Room as where something is logged every 10 batches.
  for (const epoch of [0, 1])
    for await (const chunk of feed.chunks(epoch, epoch, (batch) => 10 - (batch % 10))) {
      chunk.run();
      together.push(chunk.batches);
    }
  const values = Array.from(await state.data());
  feed.dispose();
  state.dispose();
  loader.dispose();
  return [values, together];
}

test('batches that are written together are worked on one after the other, bytes as numbers', async () => {
  const [expected, alone] = await stateAfter(examples('numbers'), 1);
  assert.equal(alone.length, 26 + 25);
  for (const [kind, most, workers] of [
    ['numbers', 4, 0],
    ['bytes', 1, 0],
    ['bytes', 16, 2],
  ] as const) {
    const [values, together] = await stateAfter(examples(kind), most, workers);
    assert.deepEqual(values, expected, `${kind}, ${most} together`);
    assert.equal(
      together.reduce((a, b) => a + b),
      alone.length,
    );
    assert.equal(
      together.some((batches) => batches > 1),
      most > 1,
    );
  }
});

test('a label outside the classes is named by its batch', async () => {
  class Wrong extends ArrayDataset {
    override batchInto(indices: ArrayLike<number>, inputs: Float32Array, labels: Int32Array): void {
      super.batchInto(indices, inputs, labels);
      if (indices[0] === 24) labels[5] = 10;
    }
  }
  const { inputs, inputShape, labels } = examples('numbers');
  const dataset = new Wrong({ inputs, inputShape, labels, classes: 10 });
  assert.equal(dataset.bytes, undefined);
  const feed = new HostFeed(new Loader(dataset, { batchSize: 8 }), () => {}, { tune: 'on', group: 1 }, 1);
  await assert.rejects(
    async () => {
      for await (const chunk of feed.chunks(0, 0, () => 8)) chunk.run();
    },
    { code: 'HEDDLE_DATA', message: /example 5 of batch 3/ },
  );
});

test('runs of batches follow each other, and end where groups do', () => {
  for (const [from, batches, group, length, expected] of [
    [0, 5, 1, 5, '5!'],
    [0, 7, 3, 7, '2 1! 2 1! 1!'],
    [1, 4, 3, 9, '1 1! 2'],
    [5, 4, 3, 9, '1! 2 1!'],
    [0, 4, 10, 4, '3 1!'],
    [0, 2, 10, 4, '2'],
  ] as const) {
    const runs = [...runsOf(from, batches, group, length)];
    assert.equal(runs.map(({ batches, closes }) => `${batches}${closes ? '!' : ''}`).join(' '), expected);
  }
});
