/** A thread of a loader: opens the dataset once, then makes the batches that it is told to, epoch after epoch. */
import { parentPort, workerData } from 'node:worker_threads';
import type { WorkerAnswer, WorkerJob, WorkerMessage } from './crew.js';
import type { Dataset, RemoteDataset } from './dataset.js';
import { EpochRandom } from './epoch-random.js';
import { type BatchSlot, type EpochSource, fill } from './fill.js';
import { openRemote } from './remote.js';

const dataset: Dataset = await openRemote(workerData as RemoteDataset);
let source: EpochSource;
let slots: readonly BatchSlot[];

const answerTo = async (job: WorkerJob): Promise<WorkerAnswer> => {
  const { index } = job;
  try {
    return { index, report: await fill(source, job, slots[job.slot]!) };
  } catch (error) {
    return { index, error: error instanceof Error ? error : new Error(String(error)) };
  }
};

// A batch that is made asynchronously lets the next one begin.
parentPort!.on('message', async (message: WorkerMessage) => {
  if ('slot' in message) parentPort!.postMessage(await answerTo(message));
  else if ('slots' in message) slots = message.slots;
  else {
    const { seed, epoch, order, onError } = message;
    source = { dataset, order, onError, random: new EpochRandom(seed, epoch) };
  }
});
