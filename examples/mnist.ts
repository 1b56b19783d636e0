// A convolutional network on handwritten digits: 98.5 % and more after 5 epochs.
// STEPS=20 stops after 20 steps, for a quick look.
import {
  accuracy,
  crossEntropy,
  fit,
  Loader,
  loadImages,
  manualSeed,
  nn,
  optim,
  relu,
  type Tensor,
} from 'heddle';

class Net extends nn.Module {
  conv1 = new nn.Conv2d(1, 16, 3);
  conv2 = new nn.Conv2d(16, 32, 3);
  pool = new nn.MaxPool2d(2);
  fc = new nn.Linear(4608, 10);

  forward(x: Tensor): Tensor {
    const features = relu(this.conv2.forward(relu(this.conv1.forward(x))));
    return this.fc.forward(this.pool.forward(features).flatten(1));
  }
}

manualSeed(0);
const steps = Number(process.env.STEPS ?? Number.POSITIVE_INFINITY);
const { train, test } = await loadImages('mnist');
const model = new Net();

await fit(model, {
  train: new Loader(train, { batchSize: 64, shuffle: true }),
  validation: new Loader(steps < 100 ? test.slice(0, 1000) : test, { batchSize: 500 }),
  optimizer: new optim.SGD(model.parameters(), { lr: 0.02, momentum: 0.9 }),
  schedule: optim.schedules.cosine(),
  loss: crossEntropy,
  metrics: { accuracy },
  epochs: 5,
  callbacks: [
    // A GPU starts many steps at once, unless somebody listens to each.
    steps < Number.POSITIVE_INFINITY ? { onStep: ({ step }) => (step >= steps ? 'stop' : undefined) } : {},
    {
      onEpochEnd: ({ epoch, loss, validation, examplesPerSecond }) =>
        console.log(
          `epoch ${epoch + 1}: loss ${loss.toFixed(4)}, test accuracy ` +
            `${(100 * (validation?.metrics.accuracy ?? 0)).toFixed(2)} %, ${Math.round(examplesPerSecond)} images/s`,
        ),
    },
  ],
});
