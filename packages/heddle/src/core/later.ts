/** Work that nobody waits for, such as writing to the cache folder: done while the program has nothing else to do. */
import { atExit } from '#platform/process.js';

/** After the first steps of a training, whose time people look at. */
const DELAY_MS = 500;

const waiting: (() => void)[] = [];
let isTimed = false;

/** Do this in a while, or when the process ends. */
export function later(work: () => void): void {
  waiting.push(work);
  if (isTimed) return;
  isTimed = true;
  atExit(doNow);
  const timer: unknown = setTimeout(doNow, DELAY_MS);
  // It keeps no process alive, where there is one.
  (timer as { unref?(): void }).unref?.();
}

/** Do all that has been put off. */
export function doNow(): void {
  isTimed = false;
  for (const work of waiting.splice(0)) work();
}
