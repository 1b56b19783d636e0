/** Images varied at random are the images, moved and mirrored. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ArrayDataset,
  arange,
  crossEntropy,
  f32,
  fit,
  jit,
  Loader,
  manualSeed,
  nn,
  optim,
  type Tensor,
  transforms,
} from '../../src/index.js';
import { augmented } from '../../src/train/augment.js';

const [N, H, W] = [256, 4, 5];

/** Pixel (row, column) of every image is 10·row + column + 11, the second channel's is negative. */
const images = (): Tensor => {
  const image = arange(H, { dtype: f32 })
    .mul(10)
    .unsqueeze(1)
    .add(arange(W, { dtype: f32 }))
    .add(11);
  return image
    .unsqueeze(0)
    .mul(arange(2, { dtype: f32 }).mul(-2).add(1).reshape([2, 1, 1]))
    .expand([N, 2, H, W]);
};

test('images are moved by up to the shift in all directions, mirrored or not, zeros coming in', async () => {
  manualSeed(3);
  const vary = jit((x: Tensor) => augmented(x, { shift: 1, flip: true }));
  const seen = (await vary(images()).array()) as number[][][][];
  const kinds = new Map<string, number>();
  for (const [first, second] of seen as [number[][], number[][]][]) {
    assert.deepEqual(
      second,
      first.map((row) => row.map((v) => (v === 0 ? 0 : -v))),
    );
    // The pixel at (1, 2) is never moved out of the image, nor its neighbour to the right.
    const [down, right] = [
      first.findIndex((row) => row.includes(23)),
      first.find((row) => row.includes(23))!.indexOf(23),
    ];
    const mirrored = first[down]!.indexOf(24) < right;
    const [dy, dx] = [down - 1, right - (mirrored ? W - 1 - 2 : 2)];
    assert.ok(Math.abs(dy) <= 1 && Math.abs(dx) <= 1);
    const expected = first.map((row, y) =>
      row.map((_, x) => {
        const [fromY, fromX] = [y - dy, mirrored ? W - 1 - (x - dx) : x - dx];
        return fromY >= 0 && fromY < H && fromX >= 0 && fromX < W ? 10 * fromY + fromX + 11 : 0;
      }),
    );
    assert.deepEqual(first, expected);
    const kind = `${dy} ${dx} ${mirrored}`;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  assert.equal(kinds.size, 18, 'all that can come do');
  assert.notDeepEqual(await vary(images()).array(), seen, 'another call, other numbers');
});

test('without a setting images stay as they are', async () => {
  assert.deepEqual(await augmented(images(), {}).array(), await images().array());
});

test('fit trains on varied batches, and judges by those that are not', async () => {
  const dataset = new ArrayDataset({
    ...{
      inputs: new Float32Array(8).fill(1),
      inputShape: [1, 1, 2],
      labels: Int32Array.of(0, 1, 1, 0),
      classes: 2,
    },
  });
  const loader = () => new Loader(dataset, { batchSize: 2 });
  for (const resident of [false, true]) {
    const seen: string[] = [];
    const model = new nn.Sequential(new nn.Flatten(), new nn.Linear(2, 2));
    await fit(model, {
      ...{ train: loader(), validation: loader(), epochs: 1, resident },
      optimizer: new optim.SGD(model.parameters(), { lr: 0 }),
      augment: transforms.cutMix({ numClasses: 2 }),
      loss: (logits, targets) => {
        seen.push(`${targets.dtype.name} ${targets.shape}`);
        return crossEntropy(logits, targets);
      },
    });
    assert.deepEqual([...new Set(seen)], ['f32 2,2', 'i32 2']);
  }
});
