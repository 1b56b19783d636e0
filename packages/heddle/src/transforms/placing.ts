/** Pixels taken from other places of an image. */
import { ArgumentError, ShapeError } from '../core/errors.js';
import type { Fill, Interpolation } from './arguments.js';
import type { Pixels } from './pixels.js';

/** Of as many channels as the image has. @throws ArgumentError */
export function perChannel<P extends Pixels<P>>(
  op: string,
  name: string,
  image: P,
  values: number | readonly number[],
): P | number {
  if (typeof values === 'number') return values;
  if (values.length !== image.channels && image.channels !== 1 && values.length !== 1)
    throw new ArgumentError(
      `[${op}] ${name} has ${values.length} numbers, the images have ${image.channels} channels.`,
    );
  return image.each(values);
}

/** How the pixel of each place is taken. */
export interface Sampling {
  readonly interpolation: Interpolation;
  readonly fill: Fill;
}

/** The image at places between its pixels, (y, x), whose centres are integers. */
export function sampled<P extends Pixels<P>>(
  op: string,
  image: P,
  [y, x]: readonly [P, P],
  { interpolation, fill }: Sampling,
): P {
  const outside = perChannel(op, 'fill', image, fill);
  if (interpolation === 'nearest') return image.at(y.round(), x.round(), outside);
  const [top, left] = [y.floor(), x.floor()];
  const [down, right] = [y.sub(top), x.sub(left)];
  const [up, leftwards] = [down.mul(-1).add(1), right.mul(-1).add(1)];
  const pixel = (i: number, j: number): P => image.at(top.add(i), left.add(j), outside);
  const above = pixel(0, 0).mul(leftwards).add(pixel(0, 1).mul(right));
  const below = pixel(1, 0).mul(leftwards).add(pixel(1, 1).mul(right));
  return above.mul(up).add(below.mul(down));
}

/** @throws ShapeError unless the images have 1 or 3 channels */
export function requireColors<P extends Pixels<P>>(op: string, { channels }: P): void {
  if (channels !== 1 && channels !== 3)
    throw new ShapeError(`[${op}] the images have ${channels} channels, must be grey (1) or RGB (3).`);
}
