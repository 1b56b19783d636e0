/** Parts of images, mirrored images. Sources: torchvision.transforms.v2, whose names, arguments and defaults these have. */
import {
  aBoolean,
  integerFrom,
  listOf,
  oneOf,
  type Rule,
  type Rules,
  requireArgument,
  requireOptions,
  within,
} from '../core/arguments.js';
import { ShapeError } from '../core/errors.js';
import { aFill, aSize, type Fill, sizeOfBoth } from './arguments.js';
import type { Pixels } from './pixels.js';
import { perChannel } from './placing.js';
import { type Transform, transform } from './transform.js';

/** Options of `randomCrop`. */
export interface RandomCropOptions {
  /** Pixels added on each side before: of all, [left and right, top and bottom], or [left, top, right, bottom]. Default 0. */
  readonly padding?: number | readonly number[];
  /** Whether images that are too small get as much more as they lack, on both sides (default false). */
  readonly padIfNeeded?: boolean;
  /** What a constant padding holds: a number, or one for each channel (default 0). */
  readonly fill?: Fill;
  /**
   * What the added pixels are: `fill` (default), those of the nearest edge, or the image mirrored, with the pixels of its
   * edge once (reflect) or twice (symmetric).
   */
  readonly paddingMode?: 'constant' | 'edge' | 'reflect' | 'symmetric';
}

const aPadding: Rule = {
  must: 'an integer ≥ 0, or an array of 2 or 4',
  holds: (v) =>
    integerFrom(0).holds(v) || (listOf(integerFrom(0)).holds(v) && [2, 4].includes((v as unknown[]).length)),
};

const RANDOM_CROP: Rules<RandomCropOptions> = {
  padding: aPadding,
  padIfNeeded: aBoolean,
  fill: aFill,
  paddingMode: oneOf('constant', 'edge', 'reflect', 'symmetric'),
};

/** Before the first and after the last pixel of an axis. */
type Sides = readonly [before: number, after: number];

function sidesOf(padding: number | readonly number[]): readonly [rows: Sides, columns: Sides] {
  const [left, top, right, bottom] =
    typeof padding === 'number'
      ? [padding, padding, padding, padding]
      : ([...padding, ...padding] as [number, number, number, number]);
  return [
    [top, bottom],
    [left, right],
  ];
}

/** Where a place of a padded axis is in the image; outside of it stays outside. */
function unpadded<P extends Pixels<P>>(
  place: P,
  size: number,
  mode: NonNullable<RandomCropOptions['paddingMode']>,
): P {
  const last = size - 1;
  if (mode === 'constant') return place;
  if (mode === 'edge') return place.maximum(0).minimum(last);
  // Mirrored at −½ and size − ½, or at the centres of the outer pixels.
  const edge = mode === 'symmetric' ? 0.5 : 0;
  const folded = place.add(edge).abs().sub(edge);
  return folded
    .sub(last + edge)
    .abs()
    .mul(-1)
    .add(last + edge);
}

/**
 * A part of each image, at a random place.
 * @param size of the part: [height, width], or both
 * @throws ShapeError for images that are smaller
 */
export function randomCrop(
  size: number | readonly [height: number, width: number],
  options: RandomCropOptions = {},
): Transform {
  const op = 'randomCrop';
  requireArgument(op, 'size', size, aSize);
  requireOptions(op, options, RANDOM_CROP);
  const { padding = 0, padIfNeeded = false, fill = 0, paddingMode = 'constant' } = options;
  const part = sizeOfBoth(size);
  const around = sidesOf(padding);
  return transform(op, {
    apply: (image, random) => {
      const [rows, columns] = [image.height, image.width].map((from, axis) => {
        const to = part[axis]!;
        const [before, after] = around[axis]!;
        const more = padIfNeeded ? Math.max(0, to - from - before - after) : 0;
        const room = from + before + after + 2 * more - to;
        if (room < 0)
          throw new ShapeError(
            `[${op}] the part is ${part.join('×')}, larger than the images of ${image.height}×${image.width} with their padding. Pass { padIfNeeded: true }?`,
          );
        if (paddingMode !== 'constant') requireMirrorable(paddingMode, from, Math.max(before, after) + more);
        const start = random
          .uniform()
          .mul(room + 1)
          .floor()
          .sub(before + more);
        const places = (axis === 0 ? image.rows(to) : image.columns(to)).add(start);
        return unpadded(places, from, paddingMode);
      }) as [typeof image, typeof image];
      const outside = perChannel(op, 'fill', image, fill);
      return image.atRows(rows, outside).atColumns(columns, outside);
    },
  });
}

function requireMirrorable(mode: string, size: number, padding: number): void {
  const most = mode === 'edge' ? Number.POSITIVE_INFINITY : mode === 'reflect' ? size - 1 : size;
  if (padding > most)
    throw new ShapeError(
      `[randomCrop] a padding of ${padding} by paddingMode '${mode}' must be at most ${most} for images of that size.`,
    );
}

/**
 * The middle of each image; where it is smaller, zeros around it.
 * @param size of the part: [height, width], or both
 */
export function centerCrop(size: number | readonly [height: number, width: number]): Transform {
  requireArgument('centerCrop', 'size', size, aSize);
  const [height, width] = sizeOfBoth(size);
  return transform('centerCrop', {
    apply: (image) =>
      image
        .atRows(image.rows(height).add(centered(image.height, height)))
        .atColumns(image.columns(width).add(centered(image.width, width))),
  });
}

/** Where the middle part begins. Halves go to the even number, as in torchvision; a padding is smaller before. */
function centered(from: number, to: number): number {
  if (to > from) return -Math.floor((to - from) / 2);
  const half = (from - to) / 2;
  return half % 1 === 0 ? half : 2 * Math.round(half / 2);
}

/** Options of the transforms that are done with a probability. */
export interface ChanceOptions {
  /** The probability of each image (default 0.5). */
  readonly p?: number;
}

export const CHANCE: Rules<ChanceOptions> = { p: within(0, 1) };

/** Each image mirrored, left to right, with a probability. */
export function randomHorizontalFlip(options: ChanceOptions = {}): Transform {
  requireOptions('randomHorizontalFlip', options, CHANCE);
  const { p = 0.5 } = options;
  return transform('randomHorizontalFlip', {
    apply: (image, random) =>
      image.atColumns(mirrored(image.columns(image.width), image.width, random.uniform().lt(p))),
  });
}

/** Each image turned upside down, as a mirror does, with a probability. */
export function randomVerticalFlip(options: ChanceOptions = {}): Transform {
  requireOptions('randomVerticalFlip', options, CHANCE);
  const { p = 0.5 } = options;
  return transform('randomVerticalFlip', {
    apply: (image, random) =>
      image.atRows(mirrored(image.rows(image.height), image.height, random.uniform().lt(p))),
  });
}

/** Places counted from the other end where the condition holds. */
const mirrored = <P extends Pixels<P>>(places: P, size: number, condition: P): P =>
  places.mul(condition.where(-1, 1)).add(condition.where(size - 1, 0));
