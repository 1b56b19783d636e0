/** Waiting for the device without stopping the process. */
import type { Driver } from './driver.js';

/**
 * A wait looks at its event all the time for so long, as training loops wait between their steps; then once a
 * millisecond, since a long wait need not take a core. It ends about 2 % late at most.
 */
const BUSY_MS = 50;

/** Resolves when a CUevent has happened; other work of the process goes on meanwhile. */
export async function happens(driver: Driver, event: number): Promise<void> {
  const started = performance.now();
  while (!driver.happened(event)) {
    if (performance.now() - started < BUSY_MS) await new Promise((resolve) => setImmediate(resolve));
    else await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
