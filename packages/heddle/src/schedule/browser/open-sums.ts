/** Stands in for schedule/passes/open-sums.ts in a browser, where no kernel sums the columns of what it stores. */
import { InternalError } from '../../core/errors.js';

export function openSums(): never {
  throw new InternalError('A kernel in a browser sums columns.');
}
