/** Images turned, moved, scaled and sheared. Sources: torchvision.transforms.v2, whose names, arguments and defaults these have. */
import {
  aBoolean,
  aFinite,
  listOf,
  type Rule,
  type Rules,
  requireArgument,
  requireOptions,
  shown,
} from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import {
  aFill,
  aRange,
  aSpan,
  type Degrees,
  type Fill,
  INTERPOLATION,
  type Interpolation,
  rangeOf,
} from './arguments.js';
import type { Draws, Pixels } from './pixels.js';
import { type Sampling, sampled } from './placing.js';
import { type Transform, transform } from './transform.js';

/** What an affine map does: degrees, pixels, a factor, degrees. */
export interface AffineMap<P> {
  /** Clockwise. */
  readonly angle: P;
  readonly translate: readonly [x: P, y: P];
  readonly scale: P;
  readonly shear: readonly [x: P, y: P];
}

/**
 * Where the pixels of the result are in the image, by the inverse of T·C·R·S·C⁻¹: move, and around a centre turn, shear and
 * scale.
 * @param center x and y in pixels from the upper left corner; default: the middle
 * @param size of the result, in whose middle that of the image is; default: the image's
 */
export function affinePlaces<P extends Pixels<P>>(
  image: P,
  { angle, translate, scale, shear }: AffineMap<P>,
  center?: readonly [x: number, y: number],
  [toHeight, toWidth]: Size = [image.height, image.width],
): readonly [y: P, x: P] {
  const { height, width } = image;
  const [turn, shearX, shearY] = [angle, ...shear].map((degrees) => degrees.mul(Math.PI / 180)) as [P, P, P];
  const cosY = shearY.cos();
  const tanX = shearX.sin().div(shearX.cos());
  // The map without its scale is [a b; c d], of determinant 1.
  const a = turn.sub(shearY).cos().div(cosY);
  const b = a.mul(tanX).add(turn.sin()).mul(-1);
  const c = turn.sub(shearY).sin().div(cosY);
  const d = turn.cos().sub(c.mul(tanX));
  const [cx, cy] = center ? [center[0] - width / 2, center[1] - height / 2] : [0, 0];
  // From the centre of the result, in pixels.
  const x = image
    .columns(toWidth)
    .add(0.5 - toWidth / 2 - cx)
    .sub(translate[0]);
  const y = image
    .rows(toHeight)
    .add(0.5 - toHeight / 2 - cy)
    .sub(translate[1]);
  const fromX = d.mul(x).sub(b.mul(y)).div(scale);
  const fromY = a.mul(y).sub(c.mul(x)).div(scale);
  return [fromY.add(cy + height / 2 - 0.5), fromX.add(cx + width / 2 - 0.5)];
}

/** What rotations and affine maps have in common. */
export interface PlacingOptions {
  /** How pixels between others are made (default 'nearest'). */
  readonly interpolation?: Interpolation;
  /** Around which place, [x, y] in pixels from the upper left corner. Default: the middle. */
  readonly center?: readonly [x: number, y: number];
  /** What comes in from outside: a number, or one for each channel (default 0). */
  readonly fill?: Fill;
}

/** Options of `randomRotation`. */
export interface RandomRotationOptions extends PlacingOptions {
  /**
   * Whether results are as large as the whole turned image needs (default false: as large as the image), so that images turned
   * by different angles have different sizes. On a device, where the images of a batch have one size, the angle must be fixed:
   * `randomRotation([30, 30], { expand: true })`. Not together with `center`.
   */
  readonly expand?: boolean;
}

/** Options of `randomAffine`. */
export interface RandomAffineOptions extends PlacingOptions {
  /** How far images are moved at most, as fractions of their width and of their height. Default: not at all. */
  readonly translate?: readonly [x: number, y: number];
  /** The smallest and the largest factor. Default: 1. */
  readonly scale?: readonly [low: number, high: number];
  /** Degrees along x: d for [−d, d], or [low, high]; along y too: [lowX, highX, lowY, highY]. Default: none. */
  readonly shear?: number | readonly number[];
}

const pair = (must: string, each: Rule): Rule => ({
  must,
  holds: (v) => listOf(each).holds(v) && (v as unknown[]).length === 2,
});

const PLACING: Rules<PlacingOptions> = {
  interpolation: INTERPOLATION,
  center: pair('[x, y], two finite numbers', aFinite),
  fill: aFill,
};

const ROTATION: Rules<RandomRotationOptions> = { ...PLACING, expand: aBoolean };

const AFFINE: Rules<RandomAffineOptions> = {
  ...PLACING,
  translate: pair('[x, y], two numbers from 0 to 1', {
    must: 'a number from 0 to 1',
    holds: (v) => typeof v === 'number' && v >= 0 && v <= 1,
  }),
  scale: { ...aSpan(0), holds: (v) => aSpan(0).holds(v) && (v as number[])[0]! > 0 },
  shear: {
    must: `${aRange.must}, or [lowX, highX, lowY, highY]`,
    holds: (v) =>
      aRange.holds(v) ||
      (listOf(aFinite).holds(v) &&
        (v as number[]).length === 4 &&
        aRange.holds((v as number[]).slice(0, 2)) &&
        aRange.holds((v as number[]).slice(2))),
  },
};

const samplingOf = ({ interpolation = 'nearest', fill = 0 }: PlacingOptions): Sampling => ({
  interpolation,
  fill,
});

/** A number from low up to high. */
export const drawn = <P extends Pixels<P>>(random: Draws<P>, span: readonly [number, number]): P =>
  spanned(random.uniform(), span);

/** A uniform number on [0, 1) as one from low up to high. */
export const spanned = <P extends Pixels<P>>(uniform: P, [low, high]: readonly [number, number]): P =>
  uniform.mul(high - low).add(low);

/**
 * Each image turned around its middle by a random angle.
 * @param degrees the largest angle d of [−d, d], or [low, high]; counter-clockwise
 * @throws ArgumentError for a batch whose images would differ in size, by `expand`
 */
export function randomRotation(degrees: Degrees, options: RandomRotationOptions = {}): Transform {
  const op = 'randomRotation';
  requireArgument(op, 'degrees', degrees, aRange);
  requireOptions(op, options, ROTATION);
  const { center, expand = false } = options;
  if (expand && center)
    throw new ArgumentError(
      `[${op}] center is ${shown(center)} and expand true: what is as large as the whole image is turned around its middle. Leave one out.`,
    );
  const sampling = samplingOf(options);
  const [low, high] = rangeOf(degrees);
  return transform(op, {
    apply: (image, random) => {
      const [zero, one] = [image.number(0), image.number(1)];
      const angle = drawn(random, [low, high]).mul(-1);
      const map = { angle, translate: [zero, zero], scale: one, shear: [zero, zero] } as const;
      const size = expand ? turnedSize(image, low === high ? -low : angle.known()) : undefined;
      return sampled(op, image, affinePlaces(image, map, center, size), sampling);
    },
  });
}

type Size = readonly [height: number, width: number];

/** What the corners of a turned image need. @throws ArgumentError for an angle that is not known */
function turnedSize<P extends Pixels<P>>({ height, width }: P, degrees: number | undefined): Size {
  if (degrees === undefined)
    throw new ArgumentError(
      '[randomRotation] expand gives each image a size of its own, and the images of a batch have one. Turn them one at a time, by image(…), or all by one angle, as in randomRotation([30, 30], { expand: true }).',
    );
  const [sin, cos] = [Math.sin((degrees * Math.PI) / 180), Math.cos((degrees * Math.PI) / 180)];
  // As torchvision rounds: in f32, and without what is less than a ten-thousandth of a pixel.
  const truncated = (place: number): number => Math.trunc(Math.fround(place) * 1e4) / 1e4;
  const needed = (size: number, other: number): number => {
    const half = (Math.abs(size * cos) + Math.abs(other * sin)) / 2;
    return Math.ceil(truncated(size / 2 + half)) - Math.floor(truncated(size / 2 - half));
  };
  return [needed(height, width), needed(width, height)];
}

/**
 * Each image turned, moved, scaled and sheared at random, around its middle.
 * @param degrees the largest angle d of [−d, d], or [low, high]; clockwise
 */
export function randomAffine(degrees: Degrees, options: RandomAffineOptions = {}): Transform {
  const op = 'randomAffine';
  requireArgument(op, 'degrees', degrees, aRange);
  requireOptions(op, options, AFFINE);
  const { translate = [0, 0], scale = [1, 1], shear = 0, center } = options;
  const [shearX, shearY] =
    typeof shear === 'number'
      ? [rangeOf(shear), [0, 0] as const]
      : [[shear[0]!, shear[1]!] as const, [shear[2] ?? 0, shear[3] ?? 0] as const];
  return transform(op, {
    apply: (image, random) => {
      const moved = (share: number, size: number) => drawn(random, rangeOf(share * size)).round();
      const map = {
        angle: drawn(random, rangeOf(degrees)),
        translate: [moved(translate[0], image.width), moved(translate[1], image.height)],
        scale: drawn(random, scale),
        shear: [drawn(random, shearX), drawn(random, shearY)],
      } as const;
      return sampled(op, image, affinePlaces(image, map, center), samplingOf(options));
    },
  });
}
