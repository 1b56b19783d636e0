/** What labels must be, wherever they come from. */
import { DataError } from '../core/errors.js';

/**
 * @param example what the label of that place belongs to, for the message
 * @throws DataError for a label that is not a class
 */
export function requireClasses(
  labels: Int32Array | Uint8Array,
  classes: number,
  example: (place: number) => string = (place) => `example ${place}`,
): void {
  // By index: `findIndex` takes several times as long.
  for (let place = 0; place < labels.length; place++) {
    const label = labels[place]!;
    if (label >= 0 && label < classes) continue;
    throw new DataError(
      `label ${label} of ${example(place)} is outside the classes: expected 0 to ${classes - 1}. ` +
        'Check the labels, or the number of classes.',
    );
  }
}
