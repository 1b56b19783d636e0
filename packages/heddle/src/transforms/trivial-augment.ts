/**
 * One of fourteen changes, drawn for each image: S. Müller and F. Hutter, TrivialAugment: tuning-free yet state-of-the-art data
 * augmentation (2021). Source: torchvision.transforms.v2.
 */
import { integerFrom, type Rules, requireOptions } from '../core/arguments.js';
import { affinePlaces } from './affine.js';
import { aFill, type Fill, INTERPOLATION, type Interpolation } from './arguments.js';
import { blended, brightened, contrasted, saturated } from './color.js';
import type { Pixels } from './pixels.js';
import { requireColors, sampled } from './placing.js';
import { type Transform, transform } from './transform.js';

/** The image against a blurred one: below 1 blurred, above 1 sharpened. The outer pixels stay. */
export function sharpened<P extends Pixels<P>>(image: P, factor: P): P {
  const { height, width } = image;
  if (height <= 2 || width <= 2) return image;
  const [y, x] = [image.rows(height), image.columns(width)];
  const column = image
    .atRows(y.add(-1))
    .add(image)
    .add(image.atRows(y.add(1)));
  const box = column
    .atColumns(x.add(-1))
    .add(column)
    .add(column.atColumns(x.add(1)));
  const blurred = box.add(image.mul(4)).div(13);
  const isInner = inside(y, height).and(inside(x, width));
  return isInner.where(blended(image, blurred, factor), image);
}

const inside = <P extends Pixels<P>>(places: P, size: number): P =>
  places
    .sub((size - 1) / 2)
    .abs()
    .lt((size - 1) / 2);

const bytesOf = <P extends Pixels<P>>(image: P): P => image.mul(255).round().maximum(0).minimum(255);

/** So many bits of each byte. */
export function posterized<P extends Pixels<P>>(image: P, bits: P): P {
  const step = bits.mul(-1).add(8).mul(Math.LN2).exp().round();
  return bytesOf(image).div(step).floor().mul(step).div(255);
}

/** Numbers from the threshold on taken from 1. */
export const solarized = <P extends Pixels<P>>(image: P, threshold: P): P =>
  threshold.le(image).where(image.mul(-1).add(1), image);

/** Each channel from 0 to 1. */
export function autoContrasted<P extends Pixels<P>>(image: P): P {
  const [low, high] = [image.min(), image.max()];
  const isFlat = high.eq(low);
  const spread = image.sub(low).div(isFlat.where(1, high.sub(low)));
  return isFlat.where(image, spread).maximum(0).minimum(1);
}

/** Each channel's bytes so that all are about as frequent. */
export function equalized<P extends Pixels<P>>(image: P): P {
  const bytes = bytesOf(image);
  const counts = bytes.histogram(256);
  const places = image.columns(256);
  const last = counts.le(0).where(-1, places).max();
  const step = counts
    .at(0, last)
    .mul(-1)
    .add(image.height * image.width)
    .div(255)
    .floor();
  const before = counts.cumsum().atColumns(places.sub(1));
  const table = before.add(step.div(2).floor()).div(step.maximum(1)).floor().maximum(0).minimum(255);
  return step.eq(0).where(image, table.at(0, bytes).div(255));
}

/** Options of `trivialAugmentWide`. */
export interface TrivialAugmentWideOptions {
  /** How many strengths there are to draw from (default 31). */
  readonly numMagnitudeBins?: number;
  /** How pixels between others are made (default 'nearest'). */
  readonly interpolation?: Interpolation;
  /** What comes in from outside: a number, or one for each channel (default 0). */
  readonly fill?: Fill;
}

const TRIVIAL: Rules<TrivialAugmentWideOptions> = {
  numMagnitudeBins: integerFrom(2),
  interpolation: INTERPOLATION,
  fill: aFill,
};

/** The changes in torchvision's order; those of `MOVES` move pixels. */
const MOVES = { shearX: 1, shearY: 2, translateX: 3, translateY: 4, rotate: 5 } as const;
const COUNT = 14;

/**
 * One change drawn for each image, of random strength: none, sheared or moved along x or y, turned, other brightness, colours,
 * contrast or sharpness, fewer bits, bright parts inverted, full contrast, equal frequencies. For grey images and RGB, from 0 to 1.
 */
export function trivialAugmentWide(options: TrivialAugmentWideOptions = {}): Transform {
  const op = 'trivialAugmentWide';
  requireOptions(op, options, TRIVIAL);
  const { numMagnitudeBins = 31, interpolation = 'nearest', fill = 0 } = options;
  return transform(op, {
    apply: (image, random) => {
      requireColors(op, image);
      const [which, strength, sign] = random.uniforms(3) as [typeof image, typeof image, typeof image];
      const change = which.mul(COUNT).floor();
      const share = strength
        .mul(numMagnitudeBins)
        .floor()
        .div(numMagnitudeBins - 1);
      const signed = share.mul(sign.le(0.5).where(-1, 1));
      const factor = signed.mul(0.99).add(1);
      const places = (): readonly [typeof image, typeof image] => moved(image, change, signed);
      let varied = image.when(change.sub(3).abs().le(2), () =>
        sampled(op, image, places(), { interpolation, fill }),
      );
      const changes = [
        () => brightened(image, factor),
        () => saturated(image, factor),
        () => contrasted(image, factor),
        () => sharpened(image, factor),
        () => posterized(image, share.mul(-6).add(8).round()),
        () => solarized(image, share.mul(-1).add(1)),
        () => autoContrasted(image),
        () => equalized(image),
      ];
      changes.forEach((make, i) => {
        varied = varied.when(change.eq(COUNT - changes.length + i), make);
      });
      return varied;
    },
  });
}

/** Where pixels come from by the change of MOVES, of a strength from −1 to 1. */
function moved<P extends Pixels<P>>(image: P, change: P, strength: P): readonly [y: P, x: P] {
  const of = (move: keyof typeof MOVES, most: number): P =>
    change.eq(MOVES[move]).where(strength.mul(most), 0);
  const towardsZero = (value: P): P => value.lt(0).where(value.mul(-1).floor().mul(-1), value.floor());
  const zero = image.number(0);
  const [y, x] = affinePlaces(image, {
    angle: of('rotate', -135),
    translate: [towardsZero(of('translateX', 32)), towardsZero(of('translateY', 32))],
    scale: image.number(1),
    shear: [zero, zero],
  });
  // Shears leave the upper left corner where it is.
  const [row, column] = [image.rows(image.height).add(0.5), image.columns(image.width).add(0.5)];
  return [y.add(column.mul(of('shearY', 0.99))), x.add(row.mul(of('shearX', 0.99)))];
}
