/** A thread of the loader: opens the dataset, then makes one batch per message. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Dataset, RemoteDataset } from './dataset.js';
import { EpochRandom } from './epoch-random.js';
import type { WorkerJob, WorkerSetup } from './prefetch.js';

async function open({ module, open, data }: RemoteDataset): Promise<Dataset> {
  const exported = (await import(module)) as Record<string, (data: unknown) => Dataset | Promise<Dataset>>;
  return exported[open]!(data);
}

const { remote, seed, epoch, slots } = workerData as WorkerSetup;
const random = new EpochRandom(seed, epoch);
const dataset = await open(remote);
/** One batch after the other; a failure ends the thread. */
let made: Promise<void> = Promise.resolve();
parentPort!.on('message', ({ index, slot, indices }: WorkerJob) => {
  const { inputs, labels } = slots[slot]!;
  made = made.then(async () => {
    await dataset.batchInto(indices, inputs, labels, random);
    parentPort!.postMessage(index);
  });
});
