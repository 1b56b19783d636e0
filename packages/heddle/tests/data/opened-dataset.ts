/** A data set that says on which thread it makes its batches, counts how often it is opened, and ends its thread if told. */
import { threadId } from 'node:worker_threads';
import type { Dataset } from '../../src/data/index.js';

interface Opened {
  /** Times it was opened on other threads; and if it is 1, the next batch ends the thread that makes it. */
  readonly counts: Int32Array;
}

/** Example i is (i, i); its label is the thread's number. */
export const opened = ({ counts }: Opened): Dataset => ({
  length: 12,
  inputShape: [2],
  classes: 1000,
  batchInto(indices, inputs, labels) {
    if (Atomics.exchange(counts, 1, 0) === 1) process.exit(3);
    for (let row = 0; row < indices.length; row++) {
      inputs.fill(indices[row]!, 2 * row, 2 * row + 2);
      labels[row] = threadId;
    }
  },
  remote: () => ({ module: import.meta.url, open: 'openCounted', data: { counts } }),
});

export function openCounted(data: Opened): Dataset {
  Atomics.add(data.counts, 0, 1);
  return opened(data);
}
