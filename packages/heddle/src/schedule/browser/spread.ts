/** Stands in for schedule/lower/spread.ts in a browser, where no group has windows to store (schedule/browser/gpu-passes.ts). */
import { InternalError } from '../../core/errors.js';

export function spreadWindows(): never {
  throw new InternalError('Browsers have no kernel that stores windows.');
}
