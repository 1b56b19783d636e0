/** Creates a GPU's context while the program is still loading. */
import { fileExists } from '../../disk-cache.js';
import { loadLibrary, NativeMemory } from './native.js';

let begun = false;

/**
 * Begin to initialize the driver and to make the first GPU's context in another thread, where there is a GPU. Both take a good
 * part of a short run, and the device then finds them ready. The context stays until the process ends.
 * @param device that the program will use, as `useDevice` takes it: nothing is done for another than the first GPU. Default: HEDDLE_DEVICE,
 * and without it the fastest that is found
 */
export function wakeGpu(device = process.env.HEDDLE_DEVICE): void {
  if (device && !/^cuda(:0)?$/.test(device)) return;
  if (begun || !fileExists('/dev/nvidiactl')) return;
  begun = true;
  try {
    const driver = loadLibrary('libcuda.so.1');
    const init = driver.func('cuInit', 'int', ['unsigned int']);
    const retain = driver.func('cuDevicePrimaryCtxRetain', 'int', ['uint64_t', 'int']);
    const context = new NativeMemory(8);
    // What they say is said again when the device is opened, which waits in the driver until they end.
    init.async(0, (_: unknown, status: number) => {
      // The memory must live until then.
      if (status === 0) retain.async(context.address, 0, () => void context.address);
    });
  } catch {
    // No driver: the device says so.
  }
}
