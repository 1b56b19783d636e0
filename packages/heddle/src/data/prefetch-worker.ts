/** A thread of the loader: opens the dataset, then makes the batches that it is told to. */
import { parentPort, workerData } from 'node:worker_threads';
import type { WorkerAnswer, WorkerJob, WorkerSetup } from './crew.js';
import { EpochRandom } from './epoch-random.js';
import { type EpochSource, fill } from './fill.js';
import { openRemote } from './remote.js';

const { remote, seed, epoch, order, onError, slots } = workerData as WorkerSetup;
const dataset = await openRemote(remote);
const source: EpochSource = { dataset, order, onError, random: new EpochRandom(seed, epoch) };

const answerTo = async (job: WorkerJob): Promise<WorkerAnswer> => {
  const { index } = job;
  try {
    return { index, skipped: await fill(source, job, slots[job.slot]!) };
  } catch (error) {
    return { index, error: error instanceof Error ? error : new Error(String(error)) };
  }
};

// A batch that is made asynchronously lets the next one begin.
parentPort!.on('message', async (job: WorkerJob) => parentPort!.postMessage(await answerTo(job)));
