/** What `heddle look` is asked for, and what it hands to the report. */
import type { SavedRunOptions } from 'heddle/internal/cli/saved-run.js';
import type { PictureName } from './names.js';

/** Options of `heddle look`. */
export interface LookOptions extends SavedRunOptions {
  readonly only?: readonly string[];
  readonly out?: string;
  readonly layer?: string;
  readonly image?: string;
  readonly png?: boolean;
}

/** Pictures of one kind, drawn for the report; or why there are none. */
export interface Drawn {
  readonly name: PictureName;
  readonly svgs: readonly string[];
  readonly leftOut?: string;
}
