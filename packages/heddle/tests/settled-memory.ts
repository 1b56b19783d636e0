/** Memory in use once garbage has been collected, which V8 does when it likes. */
import { setTimeout as wait } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { memory } from '../src/index.js';
import { CpuDevice } from '../src/runtime/cpu/device.js';
import { openDevice } from '../src/runtime/registry.js';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Bytes in use: once as much is in use three times in a row. */
export async function settledMemory(): Promise<number> {
  let used = Number.NaN;
  for (let same = 0; same < 3; ) {
    collect();
    await wait(5);
    same = memory().used === used ? same + 1 : 0;
    used = memory().used;
  }
  return used;
}

/** The threads of a CPU device are up: programs that run before take memory for them later. */
export async function threadsReady(): Promise<void> {
  const device = openDevice();
  if (!(device instanceof CpuDevice)) return;
  device.workers.start();
  while (device.workers.threads > 1 && !device.workers.ready) await wait(1);
}
