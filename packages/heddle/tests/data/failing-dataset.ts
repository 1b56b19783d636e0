/** A data set that cannot read some of its examples; its other end, on a worker thread, cannot always be opened. */
import type { Dataset } from '../../src/data/index.js';

/** Example i is (i, i); those of `damaged` throw. */
export const failing = (damaged: readonly number[], open = 'failing', length = 20): Dataset => ({
  length,
  inputShape: [2],
  classes: 10,
  batchInto(indices, inputs, labels) {
    for (let row = 0; row < indices.length; row++) {
      const index = indices[row]!;
      if (damaged.includes(index)) throw new Error(`picture ${index} is damaged`);
      inputs.fill(index, 2 * row, 2 * row + 2);
      labels[row] = index % 10;
    }
  },
  remote: () => ({ module: import.meta.url, open, data: damaged }),
});
