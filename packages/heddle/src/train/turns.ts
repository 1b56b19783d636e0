/** Keeps the event loop alive while steps run one after another. */

import { turn } from '#platform/engine.js';

/** Longest time between two turns of the event loop, unless a single step takes longer. */
const LONGEST_MS = 8;

export class Turns {
  #last = performance.now();

  /** Give timers, signals and I/O a turn if it is time. */
  async next(): Promise<void> {
    if (performance.now() - this.#last < LONGEST_MS) return;
    await turn();
    this.#last = performance.now();
  }
}
