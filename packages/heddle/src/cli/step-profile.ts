/** A profile of one training step, as it is printed, drawn and written. */
import type { Ceilings } from './ceilings.js';
import type { Circumstances, MeasuredDevice } from './figures.js';
import type { LaunchFigures } from './launch-figures.js';

export interface StepProfile extends Circumstances {
  readonly profile: string;
  readonly batchSize: number;
  readonly device: MeasuredDevice;
  /** Of the whole step, and the sum of its launches, timed separately; µs. */
  readonly us: number;
  readonly sumUs: number;
  readonly ceilings: Ceilings;
  readonly launches: readonly LaunchFigures[];
}
