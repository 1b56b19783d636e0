/** Saved engines, loaded. */
import { aString, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import { currentDevice } from '../engine/storage.js';
import { openDevice } from '../runtime/registry.js';
import { Engine } from './engine.js';
import { readEngine } from './engine-file.js';

/** Options of `loadEngine`. */
export interface LoadEngineOptions {
  /** The name of the device to run on (default: the current one). */
  readonly device?: string;
}

const OPTIONS: Rules<LoadEngineOptions> = { device: aString };

/**
 * The engine that `engine.save` wrote. The same build of Heddle and the same kind of device are needed; kernels whose code is for another
 * processor (a CPU with other instructions or another number of threads) are compiled again, which is said on stderr. A file holds
 * code: load only files that you trust as you would a program.
 * @throws FileError for a file that is missing, damaged, of another build or for another kind of device; DeviceError without such a
 *   device; OutOfMemoryError
 */
export async function loadEngine(path: string, options: LoadEngineOptions = {}): Promise<Engine> {
  requireArgument('loadEngine', 'path', path, aString);
  requireOptions('loadEngine', options, OPTIONS);
  const device = options.device === undefined ? currentDevice() : openDevice(options.device);
  return new Engine(await readEngine(path, device));
}
