/** Creates a GPU's context while the program is still loading. */
import { fileExists } from '../../disk-cache.js';
import { loadLibrary, NativeMemory } from './native.js';

let begun = false;

/**
 * Begin to make the first GPU's context in another thread, where there is a GPU. That takes a good part of a short run, and
 * the device then finds it ready. The context stays until the process ends.
 */
export function wakeGpu(): void {
  if (begun || !fileExists('/dev/nvidiactl')) return;
  begun = true;
  try {
    const driver = loadLibrary('libcuda.so.1');
    const retain = driver.func('cuDevicePrimaryCtxRetain', 'int', ['uint64_t', 'int']);
    const context = new NativeMemory(8);
    if (driver.func('cuInit', 'int', ['unsigned int'])(0) === 0)
      // What it says is said again when the device is opened. The memory must live until then.
      retain.async(context.address, 0, () => void context.address);
  } catch {
    // No driver: the device says so.
  }
}
