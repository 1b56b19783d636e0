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
  const wrong = labels.findIndex((label) => label < 0 || label >= classes);
  if (wrong >= 0)
    throw new DataError(
      `label ${labels[wrong]} of ${example(wrong)} is outside the classes: expected 0 to ${classes - 1}. ` +
        'Check the labels, or the number of classes.',
    );
}
