/** A data set that makes its batches asynchronously, as one that decodes images does; also on a worker thread. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Dataset } from '../../src/data/index.js';

/** Example i is (i, −i) of class i mod 3. What is written first is overwritten after a while. */
export const decoding = (damaged: readonly number[] = []): Dataset => ({
  length: 20,
  inputShape: [2],
  classes: 3,
  async batchInto(indices, inputs, labels) {
    inputs.fill(-1);
    await wait(indices[0]! % 4);
    for (let row = 0; row < indices.length; row++) {
      const index = indices[row]!;
      if (damaged.includes(index)) throw new Error(`picture ${index} is damaged`);
      inputs.set([index, -index], 2 * row);
      labels[row] = index % 3;
    }
  },
  remote: () => ({ module: import.meta.url, open: 'decoding', data: damaged }),
});
