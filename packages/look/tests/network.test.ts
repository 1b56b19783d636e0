/** What networks have learned, and what they do with images, as numbers and as pictures. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import {
  type ArrayDataset,
  conv2d,
  crossEntropy,
  fit,
  Loader,
  linear,
  loadImages,
  manualSeed,
  nn,
  optim,
  randn,
  type Tensor,
  tensor,
  useDevice,
} from 'heddle';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { LeNet5 } from 'heddle/train';
import sharp from 'sharp';
import {
  confusionMatrixSvg,
  confusionOf,
  embeddingSvg,
  featureMapsSvg,
  filtersSvg,
  gradCam,
  gradCamPng,
  gradCamSvg,
  gradientsOf,
  histogram,
  histogramsSvg,
  mistakesSvg,
  type Predictions,
  pca,
  predictions,
  toPng,
  worstMistakes,
} from '../src/index.js';

useDevice('cpu');
after(closeDevices);

/** The images of a picture, as grey values or colours. */
async function imagesOf(
  svg: string,
): Promise<{ width: number; channels: number; at: (x: number, y: number) => number[] }[]> {
  return Promise.all(
    [...svg.matchAll(/<image href="data:image\/png;base64,([^"]+)"/g)].map(async ([, base64]) => {
      const png = sharp(Buffer.from(base64!, 'base64'));
      const { data, info } = await png.removeAlpha().raw().toBuffer({ resolveWithObject: true });
      const { width, channels } = info;
      return {
        width,
        channels,
        at: (x, y) => [...data.subarray((y * width + x) * channels, (y * width + x + 1) * channels)],
      };
    }),
  );
}

/** Two maps, x and −x; class 0 counts the first twice, class 1 the second. */
class Known extends nn.Module {
  readonly maps = new nn.Conv2d(1, 2, 1, { bias: false });
  readonly head = new nn.Linear(2, 2, { bias: false });

  constructor() {
    super();
    this.maps.weight.assign(tensor([[[[1]]], [[[-1]]]]));
    this.head.weight.assign(
      tensor([
        [2, 0],
        [0, 1],
      ]),
    );
  }

  forward(x: Tensor): Tensor {
    return this.head.forward(this.maps.forward(x).mean([2, 3]));
  }
}

test('Grad-CAM of a network whose maps are known', async () => {
  const model = new Known();
  const image = tensor([
    [
      [1, 0],
      [0, 0.5],
    ],
  ]);
  const [found, ...others] = await gradCam(model, image);
  assert.deepEqual(
    [[...found!.map], found!.target, found!.layer, others.length],
    [[1, 0, 0, 0.5], 0, 'maps', 0],
  );
  // Logits 2 · mean and −mean, of a mean of 3/8
  assert(Math.abs(found!.probability - 1 / (1 + Math.exp(-9 / 8))) < 1e-6);
  const [second] = await gradCam(model, image, { targets: [1] });
  assert.deepEqual([...second!.map], [0, 0, 0, 0]);
  assert(model.training && model.parameters().every(({ grad }) => grad === undefined));

  const svg = await gradCamSvg(model, image, { classes: ['more', 'less'] });
  assert.match(svg, />more<\/text>/);
  const [plain, heat] = await imagesOf(svg);
  const pixel = (x: number, y: number): [number, number] => [x * (plain!.width - 1), y * (plain!.width - 1)];
  // Where there is no evidence the image is as it was; where all is, a quarter of its white is left over light yellow.
  assert.deepEqual([plain!.at(...pixel(0, 0))[0], plain!.at(...pixel(1, 0))[0]], [255, 0]);
  assert.deepEqual(heat!.at(...pixel(1, 0)), [0, 0, 0]);
  assert.deepEqual(
    heat!.at(...pixel(0, 0)),
    [252, 253, 191].map((c) => Math.round(255 + 0.75 * (c - 255))),
  );
  await assert.rejects(
    gradCam(model, image, { layer: 'map' }),
    /unknown layer 'map'\. Did you mean 'maps'\? Layers: maps, head\./,
  );
  await assert.rejects(gradCam(model, image, { layer: 'head' }), /'head' gives \(1,2\), expected maps/);
  await assert.rejects(
    gradCam(model, image, { targets: [2] }),
    /targets is \[2\], must be a class from 0 to 1 for each of 1 images/,
  );
  await assert.rejects(gradCam(new nn.Flatten(), image), /the model calls no Conv2d/);
  await assert.rejects(gradCam(model, tensor([1, 2])), /the image is \(2\), must be \(C,H,W\)/);
});

test('Grad-CAM of a model whose layers are no modules is that of one with layers', async () => {
  manualSeed(1);
  const layers = new nn.Sequential(
    ...[new nn.Conv2d(1, 3, 3), new nn.ReLU(), new nn.Conv2d(3, 4, 3), new nn.Tanh(), new nn.Flatten()],
    new nn.Linear(64, 5),
  );
  const [w1, b1, w2, b2, w3, b3] = layers.parameters() as [Tensor, Tensor, Tensor, Tensor, Tensor, Tensor];
  class Functions extends nn.Module {
    readonly weights = [w1, b1, w2, b2, w3, b3];
    protected override state(): Iterable<readonly [string, unknown]> {
      return this.weights.map((weight, i) => [`w${i}`, weight] as const);
    }
    forward(x: Tensor): Tensor {
      const maps = conv2d(conv2d(x, w1, b1).relu(), w2, b2).tanh();
      return linear(maps.flatten(1), w3, b3) as Tensor;
    }
  }
  const images = randn([2, 1, 8, 8]) as Tensor;
  const expected = await gradCam(layers, images, { targets: [3, 1] });
  const found = await gradCam(new Functions(), images, { targets: [3, 1] });
  assert.deepEqual(
    found.map(({ layer, target, width }) => [layer, target, width]),
    [
      ['w2', 3, 4],
      ['w2', 1, 4],
    ],
  );
  for (const [i, { map, probability }] of found.entries()) {
    assert(expected[i]!.map.some((v) => v > 0 && v < 1));
    map.forEach((v, at) => {
      assert(Math.abs(v - expected[i]!.map[at]!) < 1e-5, `${v} and ${expected[i]!.map[at]}`);
    });
    assert(Math.abs(probability - expected[i]!.probability) < 1e-6);
  }
});

test("PCA as numpy's SVD has it", async () => {
  type Golden = { rows: number[][]; explained: number[]; directions: number[][]; points: number[][] };
  const file = new URL('../../tests/golden/pca.json', import.meta.url);
  const cases = JSON.parse(readFileSync(file, 'utf8')) as Record<string, Golden>;
  for (const [name, { rows, ...golden }] of Object.entries(cases)) {
    const found = await pca(tensor(rows) as Tensor);
    for (const key of ['explained', 'directions', 'points'] as const) {
      const [a, b] = [found[key].flat(), golden[key].flat()] as [number[], number[]];
      assert.equal(a.length, b.length);
      for (const [i, v] of a.entries())
        assert(Math.abs(v - b[i]!) < 1e-7, `${name} ${key}: ${v} and ${b[i]}`);
    }
  }
  const same = await pca(
    tensor([
      [1, 2],
      [1, 2],
      [1, 2],
    ]) as Tensor,
  );
  assert.deepEqual(same.explained, [0, 0]);
  await assert.rejects(pca(tensor([[1, 2]]) as Tensor), /rows are \(1,2\)/);
});

const known: Predictions = {
  labels: Int32Array.of(0, 0, 1, 1, 2, 2),
  predicted: Int32Array.of(0, 1, 1, 1, 0, 2),
  probabilities: Float32Array.of(0.9, 0.6, 0.8, 0.7, 0.95, 0.5),
  losses: Float32Array.of(0.1, 1, 0.2, 0.4, 3, 0.7),
  classes: 3,
};

test('a confusion matrix from predictions that are known', async () => {
  const counts = confusionOf(known);
  assert.deepEqual(counts, [
    [1, 1, 0],
    [0, 2, 0],
    [1, 0, 1],
  ]);
  assert.deepEqual(worstMistakes(known), [4, 1]);
  const svg = confusionMatrixSvg(counts, { classes: ['cat', 'dog', 'a bird of prey'] });
  assert.equal(svg.match(/" fill="#\w+" stroke="#ffffff"/g)!.length, 9);
  const texts = [...svg.matchAll(/<text [^>]*>([^<]*)<\/text>/g)].map(([, text]) => text);
  for (const text of ['taken for', 'is', 'cat', 'dog', 'a bird of prey', 'Confusion matrix'])
    assert(texts.includes(text), text);
  assert.deepEqual(texts.filter((text) => /^\d+$/.test(text!)).sort(), ['1', '1', '1', '1', '2']);
  assert.match(svg, /4 of 6 examples are right: 66\.67 %/);
  assert.match(confusionMatrixSvg(counts, { cells: 'rates' }), />50<\/text>/);
  await sharp(await toPng(svg)).metadata();
});

test('histograms count every finite value once', () => {
  const { counts, low, high, mean, std } = histogram([0, 1, 1, 4, Number.NaN, Number.POSITIVE_INFINITY], 4);
  assert.deepEqual([counts, low, high, mean, std], [[1, 2, 0, 1], 0, 4, 1.5, 1.5]);
  assert.deepEqual(histogram([2, 2], 2), { counts: [0, 2], low: 1, high: 3, mean: 2, std: 0 });
  assert.throws(() => histogram([Number.NaN]), /no finite value/);
});

let model: LeNet5;
let data: ArrayDataset;
before(async () => {
  manualSeed(0);
  const { train, test } = await loadImages('mnist');
  data = test.slice(0, 150);
  model = new LeNet5();
  await fit(model, {
    train: new Loader(train.slice(0, 640), { batchSize: 64, shuffle: true }),
    optimizer: new optim.Adam(model.parameters(), { lr: 2e-3 }),
    loss: crossEntropy,
    epochs: 2,
  });
});

const inputs = async (count: number): Promise<{ x: Tensor; labels: Int32Array }> => {
  const values = new Float32Array(count * 784);
  const labels = new Int32Array(count);
  data.batchInto(
    Array.from({ length: count }, (_, i) => i),
    values,
    labels,
  );
  return { x: tensor(values, { shape: [count, 1, 28, 28] }), labels };
};

test('a network that was trained on MNIST: predictions, mistakes, filters, feature maps', async () => {
  const found = await predictions(model, data, { batchSize: 64 });
  assert(found.labels.every((label, i) => label === data.labels[i]));
  const { x } = await inputs(3);
  const logits = (await model.eval().forward(x).array()) as number[][];
  for (const [i, row] of logits.entries()) {
    const parts = row.map(Math.exp);
    const share = Math.max(...parts) / parts.reduce((a, b) => a + b);
    assert.equal(found.predicted[i], row.indexOf(Math.max(...row)));
    assert(Math.abs(found.probabilities[i]! - share) < 1e-5);
  }
  model.train();
  const worst = worstMistakes(found, 1000);
  assert(
    worst.length > 0 && worst.every((i, k) => k === 0 || found.losses[worst[k - 1]!]! >= found.losses[i]!),
  );
  const svg = await mistakesSvg(data, found, { most: 4 });
  const [first, ...more] = await imagesOf(svg);
  assert.equal(more.length, 3);
  // The image of the worst, its bytes as they are in the set
  const pixels = data.inputs.subarray(worst[0]! * 784, (worst[0]! + 1) * 784);
  const scale = first!.width / 28;
  for (const i of [0, 100, 203, 400, 511]) {
    const grey = first!.at((i % 28) * scale, Math.floor(i / 28) * scale)[0]!;
    assert(Math.abs(grey - (255 * pixels[i]!) / Math.max(...pixels)) <= 1, `${grey} and ${pixels[i]}`);
  }
  assert.equal((await imagesOf(await filtersSvg(model.conv1))).length, 6);
  assert.match(
    await filtersSvg(model.conv2, { name: 'conv2' }),
    /the first 10 of 16 filters of 6 × 5 × 5, a row each/,
  );
  assert.match(await filtersSvg(new nn.Linear(12, 2), { inputShape: [3, 2, 2] }), /2 filters of 3 × 2 × 2/);
  await assert.rejects(filtersSvg(model.fc1), /the layer is a Linear, must be a Conv2d/);
  const maps = await featureMapsSvg(model, x.at(0) as Tensor, { layer: 'conv2', most: 5 });
  assert.equal((await imagesOf(maps)).length, 6);
  assert.match(maps, /the first 5 of 16 maps of 10 × 10/);
  await assert.rejects(
    featureMapsSvg(model, x.at(0) as Tensor, { layer: 'conv_2' }),
    /Did you mean 'conv2'\?/,
  );
  assert([...model.namedModules()].every(([, { training }]) => training));
});

test('weights, gradients and embeddings of the same network', async () => {
  const { x, labels } = await inputs(60);
  const loss = () => crossEntropy(model.forward(x), tensor(labels));
  loss().backward();
  const own = await model.fc3.weight.grad!.data();
  const gradients = await gradientsOf(model, loss);
  assert.deepEqual(
    [...gradients.keys()],
    [...model.namedParameters()].map(([name]) => name),
  );
  const [g] = [gradients.get('fc3.weight')!];
  assert(g.every((v, i) => Math.abs(v - own[i]!) < 1e-6) && g.some((v) => v !== 0));
  assert.deepEqual(await model.fc3.weight.grad!.data(), own);
  const svg = await histogramsSvg(model, { gradients });
  assert.equal(svg.match(/fill-opacity="0\.5"/g)!.length, 2 * 5);
  for (const name of ['conv1', 'conv2', 'fc1', 'fc2', 'fc3'])
    assert(svg.includes(`>∂ ${name}.weight</text>`), name);
  const embedding = await embeddingSvg(x.flatten(1), { labels, name: 'images' });
  assert.equal(embedding.match(/fill-opacity="0\.75"/g)!.length - new Set(labels).size, 60);
  assert.match(embedding, /60 × 784; two components explain \d\d\.\d % of the variance/);
  await sharp(await toPng(embedding)).metadata();
});

test('gradCamPng lays heat over an image, and leaves it alone where there is none', async () => {
  const values = Float32Array.from({ length: 28 * 28 }, (_, i) => (i % 28 < 14 ? 0 : 1));
  const map = Float32Array.of(0, 0, 0, 1);
  const png = await gradCamPng({ channels: 1, height: 28, width: 28, values }, { map, height: 2, width: 2 });
  const { data, info } = await sharp(png).raw().toBuffer({ resolveWithObject: true });
  assert.deepEqual([info.width, info.height, info.channels], [224, 224, 3]);
  const at = (x: number, y: number): number[] => [...data.subarray((y * 224 + x) * 3, (y * 224 + x) * 3 + 3)];
  assert.deepEqual(at(0, 0), [0, 0, 0]);
  assert.deepEqual(at(223, 0), [255, 255, 255]);
  // The hottest colour, with a quarter of the white image in it.
  assert.deepEqual(at(223, 223), [253, 254, 207]);
});
