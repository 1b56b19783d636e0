/** Stands in for schedule/passes/open-sums.ts in a browser, where no kernel sums the columns of what it stores. */
import { InternalError } from '../../core/errors.js';

export function openSums(): never {
  throw new InternalError('Browsers have no kernel that sums the columns of its result.');
}
