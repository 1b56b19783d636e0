/**
 * The accuracy of LeNet-5 and a small residual network in floating point and in 8 bits: trained on images of 28 × 28, calibrated
 * by each method with 512 training images, and tested on the whole test set.
 * Usage: node scripts/quantization-accuracy.mjs [--data fashion-mnist] [--epochs 8] [--weights <folder>] [lenet5 | resnet …]
 * With --weights, networks trained before are loaded from there.
 */
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import {
  accuracy,
  crossEntropy,
  fit,
  Loader,
  loadImages,
  loadWeights,
  manualSeed,
  nn,
  optim,
  relu,
  saveWeights,
  tensor,
} from 'heddle';
import { prepareQat, quantizationReport, quantize } from 'heddle/quantization';
import { LeNet5 } from 'heddle/train';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    data: { type: 'string', default: 'fashion-mnist' },
    epochs: { type: 'string', default: '8' },
    weights: { type: 'string' },
    qat: { type: 'boolean', default: false },
  },
});

/** Two 3×3 convolutions, added to what they got. */
class Block extends nn.Module {
  constructor(from, to, stride) {
    super();
    this.conv1 = new nn.Conv2d(from, to, 3, { stride, padding: 1, bias: false });
    this.bn1 = new nn.BatchNorm2d(to);
    this.conv2 = new nn.Conv2d(to, to, 3, { padding: 1, bias: false });
    this.bn2 = new nn.BatchNorm2d(to);
    this.shortcut = stride > 1 ? new nn.Conv2d(from, to, 1, { stride, bias: false }) : undefined;
    this.bn3 = stride > 1 ? new nn.BatchNorm2d(to) : undefined;
  }
  forward(x) {
    const inner = this.bn2.forward(this.conv2.forward(relu(this.bn1.forward(this.conv1.forward(x)))));
    return relu(inner.add(this.shortcut ? this.bn3.forward(this.shortcut.forward(x)) : x));
  }
}

/** ResNet-8: a block in each of three stages of 16, 32 and 64 channels (K. He et al., 2016, section 4.2, with n = 1). */
const resnet8 = () =>
  new nn.Sequential(
    new nn.Conv2d(1, 16, 3, { padding: 1, bias: false }),
    new nn.BatchNorm2d(16),
    new nn.ReLU(),
    new Block(16, 16, 1),
    new Block(16, 32, 2),
    new Block(32, 64, 2),
    new nn.AdaptiveAvgPool2d(1),
    new nn.Flatten(),
    new nn.Linear(64, 10),
  );
const NETWORKS = { lenet5: () => new LeNet5(), resnet8 };

const images = await loadImages(values.data, { normalize: { mean: 0.286, std: 0.353 } });
const batchesOf = async (set, size, count) => {
  const batches = [];
  for await (const batch of new Loader(set, { batchSize: size })) {
    if (batches.length === count) break;
    const { inputs, labels } = batch;
    batches.push({
      inputs: tensor(Float32Array.from(inputs), { shape: [labels.length, ...set.inputShape] }),
      labels: tensor(Int32Array.from(labels)),
    });
  }
  return batches;
};
const calibration = await batchesOf(images.train, 128, 4);
const test = await batchesOf(images.test, 500, 20);

const fitted = (model, epochs, lr) =>
  fit(model, {
    train: new Loader(images.train, { batchSize: 64, shuffle: true, seed: 0 }),
    validation: new Loader(images.test, { batchSize: 500 }),
    optimizer: new optim.Adam(model.parameters(), { lr }),
    schedule: optim.schedules.cosine(),
    loss: crossEntropy,
    metrics: { accuracy: accuracy },
    epochs,
    callbacks: [{ onEpochEnd: (report) => console.error(JSON.stringify(report)) }],
  });

for (const name of positionals.length > 0 ? positionals : Object.keys(NETWORKS)) {
  manualSeed(0);
  const model = NETWORKS[name]();
  const file = values.weights && join(values.weights, `${name}.safetensors`);
  if (file && existsSync(file)) await loadWeights(model, file);
  else {
    await fitted(model, Number(values.epochs), 2e-3);
    if (file) {
      mkdirSync(values.weights, { recursive: true });
      await saveWeights(model, file);
    }
  }
  for (const method of ['minmax', 'percentile', 'entropy']) {
    const quantized = await quantize(model, calibration, { method });
    const report = await quantizationReport(model, quantized, test);
    console.log(`\n${name}, ${method}\n${report}`);
  }
  if (values.qat) {
    const qat = prepareQat(model);
    await fitted(qat, 1, 2e-4);
    const report = await quantizationReport(model, await qat.quantize(calibration[0].inputs), test);
    console.log(`\n${name}, after an epoch of quantization-aware training\n${report}`);
  }
}
