/** What kernels say to people: a table beside the compiled code, which only writes numbers. */
import type { Location } from '../core/errors.js';
import type { ValueType } from '../kernel/ir/types.js';

/** What a failed assertion or a print says, by the number that the kernel leaves in memory: 1 for the first. */
export interface Message {
  readonly kind: 'assert' | 'print';
  readonly kernel: string;
  readonly text: string;
  readonly at: Location | undefined;
  /** Types of the values printed, one per lane. */
  readonly values: readonly ValueType[];
}
