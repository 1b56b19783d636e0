/** Stands in for schedule/lower/strips.ts in a browser, where each reduction of columns is a kernel. */
import { InternalError } from '../../core/errors.js';

export const suitsStrips = (): boolean => false;

export function stripsBody(): never {
  throw new InternalError('Browsers have no kernel that keeps strips of columns.');
}
