/** Images of another size. Sources: torchvision.transforms.v2, whose names, arguments and defaults these have. */
import { aBoolean, oneOf, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import { spanned } from './affine.js';
import { aSize, aSpan, type ResizeInterpolation, sizeOfBoth } from './arguments.js';
import type { Draws, Pixels } from './pixels.js';
import { type Transform, transform } from './transform.js';

/** Options of `resize`. */
export interface ResizeOptions {
  /**
   * How pixels between others are made (default 'bilinear'). What 'bicubic' makes may be a little below the darkest pixel or
   * above the brightest, and is not cut off.
   */
  readonly interpolation?: ResizeInterpolation;
  /**
   * Whether the pixels of images that become smaller are means of all that a new one covers (default), or of the nearest
   * four ('bilinear') or sixteen ('bicubic'). 'nearest' takes no mean.
   */
  readonly antialias?: boolean;
}

/** Options of `randomResizedCrop`. */
export interface RandomResizedCropOptions extends ResizeOptions {
  /** The area of the part, as a share of the image: the smallest and the largest (default [0.08, 1]). */
  readonly scale?: readonly [low: number, high: number];
  /** Its width divided by its height: the smallest and the largest (default [3/4, 4/3]). */
  readonly ratio?: readonly [low: number, high: number];
}

const RESIZE: Rules<ResizeOptions> = {
  interpolation: oneOf('nearest', 'bilinear', 'bicubic'),
  antialias: aBoolean,
};

/** [low, high], both above 0. */
const aRatio = { ...aSpan(0), holds: (v: unknown) => aSpan(0).holds(v) && (v as number[])[0]! > 0 };

const RESIZED_CROP: Rules<RandomResizedCropOptions> = { ...RESIZE, scale: aSpan(0, 1), ratio: aRatio };

/** A part of an image, in pixels. */
export interface ImagePart<P> {
  readonly top: P;
  readonly left: P;
  readonly height: P;
  readonly width: P;
}

/** A part of an image, in another size. */
export function resized<P extends Pixels<P>>(
  image: P,
  { top, left, height, width }: ImagePart<P>,
  [toHeight, toWidth]: readonly [number, number],
  { interpolation = 'bilinear', antialias = true }: ResizeOptions,
): P {
  if (interpolation === 'nearest') {
    const at = (places: P, to: number, from: P, start: P): P =>
      places.mul(from.div(to)).floor().minimum(from.sub(1)).add(start);
    return image.at(
      at(image.rows(toHeight), toHeight, height, top),
      at(image.columns(toWidth), toWidth, width, left),
    );
  }
  const weights = (to: number, size: number, start: P, from: P): P => {
    const step = from.div(to);
    const middle = image.rows(to).add(0.5).mul(step).add(start);
    const pixel = image.columns(size);
    if (interpolation === 'bicubic' && !antialias) return nearestFour(pixel, middle, start, from);
    const reach = antialias ? step.maximum(1) : image.number(1);
    const distance = pixel.add(0.5).sub(middle).abs().div(reach);
    const share = interpolation === 'bicubic' ? cubic(distance, -0.5) : distance.mul(-1).add(1).maximum(0);
    const within = start.le(pixel).and(pixel.lt(start.add(from)));
    const kept = within.where(share, 0);
    return kept.div(kept.rowSums());
  };
  return image.resample(
    weights(toHeight, image.height, top, height),
    weights(toWidth, image.width, left, width),
  );
}

/**
 * The weight of pixels at a distance: R. Keys, Cubic convolution interpolation (1981).
 * @param a the slope at 1: −0.5 in Pillow and for PyTorch's means, −0.75 for PyTorch's sixteen pixels
 */
function cubic<P extends Pixels<P>>(distance: P, a: number): P {
  const d = distance.minimum(2);
  const near = d
    .mul(a + 2)
    .sub(a + 3)
    .mul(d)
    .mul(d)
    .add(1);
  const far = d.sub(5).mul(d).add(8).mul(d).sub(4).mul(a);
  return d.le(1).where(near, far);
}

/** Cubic weights of the four pixels around `middle`; those outside of the part are its outermost ones. */
function nearestFour<P extends Pixels<P>>(pixel: P, middle: P, start: P, from: P): P {
  const place = middle.sub(0.5);
  const before = place.floor();
  const last = start.add(from).sub(1);
  const [first, ...rest] = [-1, 0, 1, 2].map((offset): P => {
    const at = before.add(offset);
    const inPart = at.minimum(last).maximum(start);
    return pixel.eq(inPart).where(cubic(place.sub(at).abs(), -0.75), 0);
  });
  return rest.reduce((sum, weight) => sum.add(weight), first!);
}

/**
 * Images in another size.
 * @param size [height, width], or that of the shorter side: the other one keeps their ratio
 */
export function resize(
  size: number | readonly [height: number, width: number],
  options: ResizeOptions = {},
): Transform {
  requireArgument('resize', 'size', size, aSize);
  requireOptions('resize', options, RESIZE);
  return transform('resize', {
    apply: (image) => {
      const { height, width } = image;
      const zero = image.number(0);
      const whole = { top: zero, left: zero, height: image.number(height), width: image.number(width) };
      const shorter = Math.min(height, width);
      const to =
        typeof size === 'number'
          ? ([Math.trunc((size * height) / shorter), Math.trunc((size * width) / shorter)] as const)
          : size;
      return to[0] === height && to[1] === width ? image : resized(image, whole, to, options);
    },
  });
}

/** How often a part is drawn until one fits into the image. */
const ATTEMPTS = 10;

/** The first of the values whose condition holds, else the other one. */
export const firstOf = <P extends Pixels<P>>(
  conditions: readonly P[],
  values: readonly P[],
  otherwise: P,
): P => conditions.reduceRight((rest, condition, i) => condition.where(values[i]!, rest), otherwise);

/** The height and width of parts of an area and a ratio that are drawn. @param ratio width / height */
export function drawnSizes<P extends Pixels<P>>(
  image: P,
  random: Draws<P>,
  scale: readonly [number, number],
  ratio: readonly [number, number],
): readonly (readonly [height: P, width: P])[] {
  const logs = [Math.log(ratio[0]), Math.log(ratio[1])] as const;
  const uniforms = random.uniforms(2 * ATTEMPTS);
  return Array.from({ length: ATTEMPTS }, (_, i) => {
    const area = spanned(uniforms[2 * i]!, scale).mul(image.height * image.width);
    const root = spanned(uniforms[2 * i + 1]!, logs)
      .mul(0.5)
      .exp();
    return [area.sqrt().div(root).round(), area.sqrt().mul(root).round()];
  });
}

/**
 * A part of each image of random size, ratio and place, in one size: C. Szegedy et al., Going deeper with convolutions (2015).
 * @param size of the result: [height, width], or both
 */
export function randomResizedCrop(
  size: number | readonly [height: number, width: number],
  options: RandomResizedCropOptions = {},
): Transform {
  const op = 'randomResizedCrop';
  requireArgument(op, 'size', size, aSize);
  requireOptions(op, options, RESIZED_CROP);
  const { scale = [0.08, 1], ratio = [3 / 4, 4 / 3], ...resizing } = options;
  return transform(op, {
    apply: (image, random) =>
      resized(image, drawnPart(image, random, scale, ratio), sizeOfBoth(size), resizing),
  });
}

function drawnPart<P extends Pixels<P>>(
  image: P,
  random: Draws<P>,
  scale: readonly [number, number],
  ratio: readonly [number, number],
): ImagePart<P> {
  const sizes = drawnSizes(image, random, scale, ratio);
  const fits = sizes.map(([h, w]) => {
    const isSome = image.number(0).lt(h).and(image.number(0).lt(w));
    return isSome.and(h.le(image.height)).and(w.le(image.width));
  });
  // Where none fits: the largest in the middle.
  const own = image.width / image.height;
  const [h, w] =
    own < ratio[0]
      ? [Math.round(image.width / ratio[0]), image.width]
      : own > ratio[1]
        ? [image.height, Math.round(image.height * ratio[1])]
        : [image.height, image.width];
  const height = firstOf(
    fits,
    sizes.map(([height]) => height),
    image.number(h),
  );
  const width = firstOf(
    fits,
    sizes.map(([, width]) => width),
    image.number(w),
  );
  const place = (room: P, middle: number): P =>
    firstOf(
      fits,
      fits.map(() => room),
      image.number(middle),
    );
  const top = random
    .uniform()
    .mul(height.mul(-1).add(image.height + 1))
    .floor();
  const left = random
    .uniform()
    .mul(width.mul(-1).add(image.width + 1))
    .floor();
  return {
    height,
    width,
    top: place(top, Math.floor((image.height - h) / 2)),
    left: place(left, Math.floor((image.width - w) / 2)),
  };
}
