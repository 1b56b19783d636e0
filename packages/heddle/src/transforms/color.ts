/** Colours. Sources: torchvision.transforms.v2 and its functional, whose names, arguments and defaults these have. */
import {
  above,
  aFinite,
  listOf,
  type Rule,
  type Rules,
  requireArgument,
  requireOptions,
  within,
} from '../core/arguments.js';
import { drawn } from './affine.js';
import { aSpan } from './arguments.js';
import { CHANCE } from './crop.js';
import type { Pixels } from './pixels.js';
import { perChannel, requireColors } from './placing.js';
import { type Transform, transform } from './transform.js';

const clamped = <P extends Pixels<P>>(image: P): P => image.maximum(0).minimum(1);

/** image·factor + other·(1 − factor), within 0 and 1. */
export const blended = <P extends Pixels<P>>(image: P, other: P, factor: P): P =>
  clamped(image.mul(factor).add(other.mul(factor.mul(-1).add(1))));

/** ITU-R BT.601. */
const LUMA = [0.2989, 0.587, 0.114] as const;

/** The grey of each pixel, (1, H, W). */
export const greyOf = <P extends Pixels<P>>(image: P): P =>
  image.channels === 1
    ? image
    : LUMA.map((share, i) => image.channel(i).mul(share)).reduce((sum, part) => sum.add(part));

export const brightened = <P extends Pixels<P>>(image: P, factor: P): P => clamped(image.mul(factor));

export const contrasted = <P extends Pixels<P>>(image: P, factor: P): P =>
  blended(image, greyOf(image).mean(), factor);

export const saturated = <P extends Pixels<P>>(image: P, factor: P): P =>
  image.channels === 1 ? image : blended(image, greyOf(image), factor);

/**
 * The hue turned by a part of the circle, −½ to ½: A. R. Smith, Color gamut transform pairs (1978). Of a hexcone, as
 * v − v·s·max(0, min(k, 4 − k, 1)), k = (n + 6·hue) mod 6, n = 5, 3, 1 for red, green and blue.
 */
export function hueTurned<P extends Pixels<P>>(image: P, turn: P): P {
  if (image.channels === 1) return image;
  const [r, g, b] = [0, 1, 2].map((i) => image.channel(i)) as [P, P, P];
  const most = r.maximum(g).maximum(b);
  const range = most.sub(r.minimum(g).minimum(b));
  const divisor = range.eq(0).where(1, range);
  const hue = most
    .eq(r)
    .where(
      g.sub(b).div(divisor),
      most.eq(g).where(b.sub(r).div(divisor).add(2), r.sub(g).div(divisor).add(4)),
    );
  const turned = hue.add(turn.mul(6)).add(12);
  const from = turned.add(image.each([5, 3, 1]));
  const k = from.sub(from.div(6).floor().mul(6));
  return most.sub(range.mul(k.minimum(k.mul(-1).add(4)).minimum(1).maximum(0)));
}

/** Options of `colorJitter`: f for factors from max(0, 1 − f) to 1 + f, or [low, high]; of hue h for turns from −h to h. */
export interface ColorJitterOptions {
  /** Of the numbers themselves. */
  readonly brightness?: number | readonly [low: number, high: number];
  /** Of their distance from the image's mean grey. */
  readonly contrast?: number | readonly [low: number, high: number];
  /** Of their distance from the pixel's grey. */
  readonly saturation?: number | readonly [low: number, high: number];
  /** The part of the circle by which the hue is turned, from −½ to ½. */
  readonly hue?: number | readonly [low: number, high: number];
}

const orSpan = (number: Rule, low: number, high?: number): Rule => ({
  must: `${number.must}, or ${aSpan(low, high).must}`,
  holds: (v) => number.holds(v) || aSpan(low, high).holds(v),
});
const aFactor = orSpan(
  { must: 'a finite number ≥ 0', holds: (v) => aFinite.holds(v) && (v as number) >= 0 },
  0,
);

const JITTER: Rules<ColorJitterOptions> = {
  brightness: aFactor,
  contrast: aFactor,
  saturation: aFactor,
  hue: orSpan(within(0, 0.5), -0.5, 0.5),
};

const ADJUSTMENTS = {
  brightness: brightened,
  contrast: contrasted,
  saturation: saturated,
  hue: hueTurned,
} as const;

type Adjustment = keyof typeof ADJUSTMENTS;

/**
 * Brightness, contrast, saturation and hue of each image changed at random, in an order that is drawn for each image.
 * For grey images and RGB, from 0 to 1.
 */
export function colorJitter(options: ColorJitterOptions = {}): Transform {
  const op = 'colorJitter';
  requireOptions(op, options, JITTER);
  const spans = (Object.keys(ADJUSTMENTS) as Adjustment[]).flatMap((name) => {
    const value = options[name];
    if (value === undefined || value === 0) return [];
    const middle = name === 'hue' ? 0 : 1;
    const low = name === 'hue' ? Number.NEGATIVE_INFINITY : 0;
    const span =
      typeof value === 'number' ? ([Math.max(low, middle - value), middle + value] as const) : value;
    return [{ adjust: ADJUSTMENTS[name], span }];
  });
  const count = spans.length;
  return transform(op, {
    apply: (image, random) => {
      requireColors(op, image);
      const amounts = spans.map(({ span }) => drawn(random, span));
      // Which are left, as places in `spans`; one of them is drawn each time (R. Durstenfeld, 1964).
      const left = spans.map((_, i) => image.number(i));
      let varied = image;
      for (let most = count; most > 0; most--) {
        const last = left[most - 1]!;
        let chosen = last;
        if (most > 1) {
          const pick = random.uniform().mul(most).floor();
          left.slice(0, most - 1).forEach((place, i) => {
            chosen = pick.eq(i).where(place, chosen);
            left[i] = pick.eq(i).where(last, place);
          });
        }
        const before = varied;
        spans.forEach(({ adjust }, i) => {
          const isThis = chosen.eq(i);
          varied =
            count === 1
              ? adjust(before, amounts[i]!)
              : varied.when(isThis, () => adjust(before, amounts[i]!));
        });
      }
      return varied;
    },
  });
}

/** Options of `grayscale`. */
export interface GrayscaleOptions {
  /** How many equal channels the result has (default 1). */
  readonly numOutputChannels?: 1 | 3;
}

/** RGB images, from 0 to 1, as grey ones. */
export function grayscale(options: GrayscaleOptions = {}): Transform {
  requireOptions('grayscale', options, {
    numOutputChannels: { must: '1 or 3', holds: (v) => v === 1 || v === 3 },
  });
  const { numOutputChannels = 1 } = options;
  return transform('grayscale', {
    apply: (image) => {
      requireColors('grayscale', image);
      const grey = greyOf(image);
      return numOutputChannels === 1 ? grey : image.channelsOf([grey, grey, grey]);
    },
  });
}

/** Options of `randomGrayscale`. */
export interface RandomGrayscaleOptions {
  /** The probability of each image (default 0.1). */
  readonly p?: number;
}

/** Each RGB image without its colours, in as many channels, with a probability. */
export function randomGrayscale(options: RandomGrayscaleOptions = {}): Transform {
  requireOptions('randomGrayscale', options, CHANCE);
  const { p = 0.1 } = options;
  return transform('randomGrayscale', {
    apply: (image, random) => {
      requireColors('randomGrayscale', image);
      // Zero times the image, so that the grey has its channels.
      return image.when(random.uniform().lt(p), () => image.mul(0).add(greyOf(image)));
    },
  });
}

/**
 * (image − mean) / std, for each channel.
 * @param mean a number for each channel, or one for all
 * @param std as mean, each above 0
 */
export function normalize(mean: number | readonly number[], std: number | readonly number[]): Transform {
  const op = 'normalize';
  const oneOrEach = (each: Rule): Rule => ({
    must: `${each.must}, or an array of these`,
    holds: (v) => each.holds(v) || (listOf(each).holds(v) && (v as unknown[]).length > 0),
  });
  requireArgument(op, 'mean', mean, oneOrEach(aFinite));
  requireArgument(op, 'std', std, oneOrEach({ ...above(0), must: 'a finite number above 0' }));
  return transform(op, {
    apply: (image) => image.sub(perChannel(op, 'mean', image, mean)).div(perChannel(op, 'std', image, std)),
  });
}
