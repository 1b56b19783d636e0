/**
 * Training from the host against training from the memory of the GPU: a step of each, and how busy the host keeps the
 * device. Usage: node bench/host-feed.mjs [steps, default 2000]
 */
import { performance } from 'node:perf_hooks';
import { ArrayDataset, crossEntropy, device, fit, Loader, manualSeed, synchronize } from 'heddle';
import { optimizerOf, PROGRAMS } from 'heddle/internal/train/programs.js';

const steps = Number(process.argv[2] ?? 2000);
const ROUNDS = 3;

/** Random bytes, of as many examples as the epoch of a training has. */
function examples(count) {
  let state = 1;
  const inputs = Uint8Array.from({ length: count * 784 }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  });
  const labels = Uint8Array.from({ length: count }, (_, i) => i % 10);
  return new ArrayDataset({ inputs, inputShape: [1, 28, 28], labels, classes: 10 });
}

/** µs of a step, without the first epoch, in which programs are compiled. */
async function stepOf(name, batchSize, options, workers) {
  manualSeed(0);
  const program = PROGRAMS[name];
  const model = program.build();
  const train = new Loader(examples(Math.min(60_000, steps * batchSize)), {
    batchSize,
    shuffle: true,
    workers,
  });
  const marks = [];
  const onEpochEnd = async () => {
    await synchronize();
    marks.push(performance.now());
  };
  await fit(model, {
    train,
    optimizer: optimizerOf(program.recipe, model.parameters()),
    loss: crossEntropy,
    epochs: 3,
    callbacks: [{ onEpochEnd }],
    ...options,
  });
  return (1000 * (marks.at(-1) - marks[0])) / (2 * train.length);
}

console.log(device().description);
for (const name of ['lenet5', 'cnn'])
  for (const batchSize of [64, 256, 1024]) {
    const best = { resident: Infinity, host: Infinity, workers: Infinity };
    for (let round = 0; round < ROUNDS; round++) {
      best.resident = Math.min(best.resident, await stepOf(name, batchSize, { resident: true }));
      best.host = Math.min(best.host, await stepOf(name, batchSize, { resident: false }));
      best.workers = Math.min(best.workers, await stepOf(name, batchSize, { resident: false }, 4));
    }
    const busy = (us) => `${us.toFixed(1)} µs (${((100 * best.resident) / us).toFixed(0)} % busy)`;
    console.log(
      `${name} ${batchSize}: resident ${best.resident.toFixed(1)} µs, from the host ${busy(best.host)}, by 4 workers ${busy(best.workers)}`,
    );
  }
