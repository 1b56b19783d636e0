// LeNet-5 on handwritten digits, by as many processes as it is started with:
//   npx heddle launch -n 2 --device cpu --restarts 3 examples/distributed/train.ts
// If a rank fails, all begin again, and go on from the last checkpoint. STEPS=20 stops after 20 steps, for a quick look;
// FOLDER names the folder of checkpoints (default: none are written).
import { accuracy, crossEntropy, fit, Loader, loadImages, manualSeed, nn, optim } from 'heddle';
import * as distributed from 'heddle/distributed';

await distributed.init();
manualSeed(0);
const steps = Number(process.env.STEPS ?? Number.POSITIVE_INFINITY);
const folder = process.env.FOLDER;
const { train, test } = await loadImages('mnist');
const model = new nn.Sequential(
  ...[new nn.Conv2d(1, 6, 5, { padding: 2 }), new nn.ReLU(), new nn.MaxPool2d(2)],
  ...[new nn.Conv2d(6, 16, 5), new nn.ReLU(), new nn.MaxPool2d(2), new nn.Flatten()],
  ...[new nn.Linear(400, 120), new nn.ReLU(), new nn.Linear(120, 84), new nn.ReLU(), new nn.Linear(84, 10)],
);

await fit(model, {
  train: new Loader(train, { batchSize: 64, shuffle: true }),
  validation: new Loader(steps < 100 ? test.slice(0, 1000) : test, { batchSize: 500 }),
  optimizer: new optim.Adam(model.parameters(), { lr: 0.001 }),
  loss: crossEntropy,
  metrics: { accuracy },
  epochs: 3,
  ...(folder && { folder, checkpointEvery: { epochs: 1, steps: 100 }, resume: true }),
  callbacks: [
    steps < Number.POSITIVE_INFINITY ? { onStep: ({ step }) => (step >= steps ? 'stop' : undefined) } : {},
    {
      onEpochEnd({ epoch, loss, validation, examplesPerSecond }) {
        if (distributed.rank() > 0) return;
        const correct = (100 * validation!.metrics.accuracy!).toFixed(2);
        const speed = Math.round(examplesPerSecond);
        console.log(
          `epoch ${epoch + 1}: loss ${loss.toFixed(4)}, test accuracy ${correct} %, ${speed} images/s`,
        );
      },
    },
  ],
});
await distributed.close();
