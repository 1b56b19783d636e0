/** Stands in for long rows in shared memory (schedule/lower/kept-pieces.ts) in a browser: it reads them again. */
import { InternalError } from '../../core/errors.js';
import type { ElementReads } from '../lower/kept-pieces.js';

export const inputsOf = (): readonly never[] => [];

export const readsOf = (): ElementReads => ({ tensors: 1, bytes: 1, isUniform: false });

export const carriedOf = (): undefined => undefined;

export const sharedRowsOf = carriedOf;

class NoPieces {
  constructor() {
    throw new InternalError('Browsers have no kernel that keeps rows in shared memory.');
  }
}

/** Results have memory of their own. */
class NoReads {
  readonly scope = {};
  locate(): void {}
  load(): void {}
  areFirst(): boolean {
    return false;
  }
}

export { NoPieces as KeptPieces, NoReads as LineReads };
