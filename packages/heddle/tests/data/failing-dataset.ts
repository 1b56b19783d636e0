/** A dataset whose other end, on a worker thread, throws at example 5, or cannot be opened at all. */
import type { Dataset } from '../../src/data/index.js';

export const failing = (open: string): Dataset => ({
  length: 20,
  inputShape: [2],
  classes: 10,
  batchInto: () => {},
  remote: () => ({ module: import.meta.url, open, data: undefined }),
});

export const openFailing = (): Dataset => ({
  ...failing(''),
  batchInto: (indices) => {
    for (let i = 0; i < indices.length; i++) {
      if (indices[i] === 5) throw new Error('picture 5 is damaged');
    }
  },
});
