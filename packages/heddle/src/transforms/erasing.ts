/** Parts of images covered. */
import {
  integerFrom,
  type Rule,
  type Rules,
  requireArgument,
  requireOptions,
  within,
} from '../core/arguments.js';
import { aFill, aSpan, type Fill } from './arguments.js';
import type { Pixels } from './pixels.js';
import { perChannel } from './placing.js';
import { drawnSizes, firstOf, type ImagePart } from './resize.js';
import { type Transform, transform } from './transform.js';

/** Whether a pixel is in a part. */
export function inPart<P extends Pixels<P>>(image: P, { top, left, height, width }: ImagePart<P>): P {
  const [y, x] = [image.rows(image.height), image.columns(image.width)];
  const inRows = top.le(y).and(y.lt(top.add(height)));
  return inRows.and(left.le(x).and(x.lt(left.add(width))));
}

/** Options of `randomErasing`. */
export interface RandomErasingOptions {
  /** The probability of each image (default 0.5). */
  readonly p?: number;
  /** The area of the part, as a share of the image: the smallest and the largest (default [0.02, 0.33]). */
  readonly scale?: readonly [low: number, high: number];
  /** Its height divided by its width: the smallest and the largest (default [0.3, 3.3]). */
  readonly ratio?: readonly [low: number, high: number];
  /** What covers it: a number, or one for each channel (default 0), or normal random numbers. */
  readonly value?: Fill | 'random';
}

const aProbability = within(0, 1);
const aCover: Rule = { must: `${aFill.must}, or 'random'`, holds: (v) => v === 'random' || aFill.holds(v) };

const ERASING: Rules<RandomErasingOptions> = {
  p: aProbability,
  scale: aSpan(0, 1),
  ratio: { ...aSpan(0), holds: (v) => aSpan(0).holds(v) && (v as number[])[0]! > 0 },
  value: aCover,
};

/**
 * A random part of each image covered, with a probability: Z. Zhong et al., Random erasing data augmentation (2020).
 * Source: torchvision.transforms.v2.
 */
export function randomErasing(options: RandomErasingOptions = {}): Transform {
  const op = 'randomErasing';
  requireOptions(op, options, ERASING);
  const { p = 0.5, scale = [0.02, 0.33], ratio = [0.3, 3.3], value = 0 } = options;
  return transform(op, {
    apply: (image, random) => {
      const isErased = random.uniform().lt(p);
      // Its ratio is height / width.
      const sizes = drawnSizes(image, random, scale, ratio).map(([w, h]) => [h, w] as const);
      const fits = sizes.map(([h, w]) => h.lt(image.height).and(w.lt(image.width)));
      const zero = image.number(0);
      const height = firstOf(
        fits,
        sizes.map(([height]) => height),
        zero,
      );
      const width = firstOf(
        fits,
        sizes.map(([, width]) => width),
        zero,
      );
      const top = random
        .uniform()
        .mul(height.mul(-1).add(image.height + 1))
        .floor();
      const left = random
        .uniform()
        .mul(width.mul(-1).add(image.width + 1))
        .floor();
      const cover = value === 'random' ? random.normal(image) : perChannel(op, 'value', image, value);
      return image.when(isErased, () => inPart(image, { top, left, height, width }).where(cover, image));
    },
  });
}

/** Options of `cutout`. */
export interface CutoutOptions {
  /** How many squares, which may overlap (default 1). */
  readonly holes?: number;
  /** What covers them: a number, or one for each channel (default 0). */
  readonly value?: Fill;
}

const CUTOUT: Rules<CutoutOptions> = { holes: integerFrom(1), value: aFill };

/**
 * Squares of each image covered, their middles drawn from all pixels, so that they may reach beyond the image: T. DeVries and
 * G. Taylor, Improved regularization of convolutional neural networks with cutout (2017).
 * @param length of a side, in pixels
 */
export function cutout(length: number, options: CutoutOptions = {}): Transform {
  const op = 'cutout';
  requireArgument(op, 'length', length, integerFrom(1));
  requireOptions(op, options, CUTOUT);
  const { holes = 1, value = 0 } = options;
  return transform(op, {
    apply: (image, random) => {
      const cover = perChannel(op, 'value', image, value);
      const side = image.number(length);
      let cut = image;
      for (let hole = 0; hole < holes; hole++) {
        const begin = (size: number) =>
          random
            .uniform()
            .mul(size)
            .floor()
            .sub(Math.floor(length / 2));
        const part = { top: begin(image.height), left: begin(image.width), height: side, width: side };
        cut = inPart(image, part).where(cover, cut);
      }
      return cut;
    },
  });
}
