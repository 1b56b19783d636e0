/** A data set whose examples vary at random, also on a worker thread: example i is (i, a number drawn for it). */
import type { Dataset } from '../../src/data/index.js';

export const drawing = (length: number): Dataset => ({
  length,
  inputShape: [2],
  classes: 10,
  batchInto(indices, inputs, labels, random) {
    for (let row = 0; row < indices.length; row++) {
      const index = indices[row]!;
      inputs.set([index, random!.of(index).uniform()], 2 * row);
      labels[row] = index % 10;
    }
  },
  remote: () => ({ module: import.meta.url, open: 'drawing', data: length }),
});
