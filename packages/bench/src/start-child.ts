/**
 * A process of `heddle bench start`, which begins as `heddle train` does, with the GPU: trains one step, and says where the time went.
 */
import type { PhaseTimes } from 'heddle/internal/core/phases.js';
import { wakeGpu } from 'heddle/internal/runtime/cuda/driver/wake.js';

/** Milliseconds from the start of the process to its first step. */
export interface StartReport {
  /** Until all modules were there. */
  readonly imports: number;
  /** For the device, the model and the data. */
  readonly build: number;
  /** For the first step and the value of its loss, and for the second. */
  readonly first: number;
  readonly second: number;
  readonly phases: PhaseTimes;
  readonly launches: number;
  readonly device: { readonly name: string; readonly description: string };
}

process.once('disconnect', () => process.exit());
// On a terminal, Ctrl-C reaches this process, too; the parent ends it.
process.on('SIGINT', () => {});

wakeGpu();
const [{ TRAIN_CASES }, { currentDevice }, { phaseTimes }] = await Promise.all([
  import('./device-cases.js'),
  import('heddle/internal/engine/storage.js'),
  import('heddle/internal/core/phases.js'),
]);
// From the start of the process on.
const imports = performance.now();
const steps = TRAIN_CASES.find(({ id }) => id === process.argv[2])!.prepare();
const { name, description } = currentDevice();
const built = performance.now();
await steps.next().item();
const phases = phaseTimes();
const stepped = performance.now();
await steps.next().item();
const report: StartReport = {
  ...{ imports, build: built - imports, first: stepped - built, second: performance.now() - stepped },
  ...{ phases, launches: steps.launches, device: { name, description } },
};
process.send!(report);
process.disconnect();
