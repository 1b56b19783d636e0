/** Stands in for schedule/lower/chain.ts in a browser, where each group is a launch. */
import { InternalError } from '../../core/errors.js';

export function chainBody(): never {
  throw new InternalError('Browsers have no kernel that takes rows through several groups.');
}
