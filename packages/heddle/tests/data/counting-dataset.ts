/** A data set that counts, in shared memory, how many of its batches are under way, and whether anything goes on. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Dataset } from '../../src/data/index.js';

interface Counting {
  /** Batches under way, the most there were at a time, and steps of the work on them. */
  readonly counts: Int32Array;
  /** A batch is not done before so many were under way at a time. */
  readonly together: number;
}

export const counting = ({ counts, together }: Counting): Dataset => ({
  length: 20,
  inputShape: [1],
  classes: 1,
  async batchInto() {
    const now = Atomics.add(counts, 0, 1) + 1;
    for (let most = counts[1]!; most < now; most = counts[1]!) Atomics.compareExchange(counts, 1, most, now);
    for (let step = 0; step < 4 || (counts[1]! < together && step < 2000); step++) {
      await wait(1);
      Atomics.add(counts, 2, 1);
    }
    Atomics.sub(counts, 0, 1);
  },
  remote: () => ({ module: import.meta.url, open: 'counting', data: { counts, together } }),
});
