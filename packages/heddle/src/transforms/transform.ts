/** Transforms as users have them. */
import { instance, integerFrom, listOf, type Rule, requireArgument, shaped } from '../core/arguments.js';
import { type DTypeName, f32 } from '../core/dtype.js';
import { ArgumentError } from '../core/errors.js';
import { PhiloxStream } from '../core/philox.js';
import { formatShape, type Shape, sizeOf } from '../core/shape.js';
import { requireFloat, requireRank } from '../tensor/checks.js';
import type { Tensor } from '../tensor/tensor.js';
import { DeviceDraws, DevicePixels } from './device-pixels.js';
import { HostDraws, HostPixels } from './host-pixels.js';
import type { Definition } from './pixels.js';

/** One image on the host. */
export interface HostImage {
  /** Channel by channel, row by row. Bytes stand for numbers from 0 to 1: byte / 255. */
  readonly data: Float32Array | Uint8Array;
  /** (C, H, W) */
  readonly shape: Shape;
}

/** Images varied, at random or not: a batch on a device, or one image on the host, by the same formulas. */
export interface Transform {
  /**
   * A batch, each image with random numbers of its own from the default generator (`manualSeed`). In a jitted function it
   * becomes part of the program.
   * @param images floats (N, C, H, W)
   * @returns (N, C′, H′, W′) of the same dtype
   * @throws ShapeError, DTypeError
   */
  <D extends DTypeName>(images: Tensor<Shape, D>): Tensor<Shape, D>;
  /**
   * One image on the host.
   * @param random its random numbers, such as `batchInto` of a data set gets: `random.of(index)`
   * @returns f32 (C′, H′, W′)
   * @throws ArgumentError, ShapeError
   */
  image(image: HostImage, random: PhiloxStream): HostImage & { readonly data: Float32Array };
}

const definitions = new WeakMap<object, Definition>();

/** @param name for messages */
export function transform(name: string, definition: Definition): Transform {
  const onDevice = <D extends DTypeName>(images: Tensor<Shape, D>): Tensor<Shape, D> => {
    requireRank(name, 'images', images, 4, '(N,C,H,W)');
    requireFloat(name, 'images', images);
    const draws = new DeviceDraws(images.shape[0]!);
    return definition.apply(new DevicePixels(images.cast(f32)), draws).values.cast(images.dtype);
  };
  const onHost: Transform['image'] = (image, random) => {
    requireImage(name, 'image', image);
    requireArgument(name, 'random', random, aStream);
    const { data, channels, height, width } = definition.apply(hostPixels(image), new HostDraws(random));
    return { data, shape: [channels, height, width] };
  };
  const made: Transform = Object.assign(onDevice, { image: onHost });
  definitions.set(made, definition);
  return made;
}

/** What a transform does, for tests of its formulas. */
export const definitionOf = (made: Transform): Definition => definitions.get(made)!;

const aStream = instance(PhiloxStream, 'a PhiloxStream, such as new data.EpochRandom(seed, epoch).of(index)');

const anImage: Rule = shaped('an image { data, shape }: a Float32Array or a Uint8Array, and [C, H, W]', {
  data: { must: 'an array', holds: (v) => v instanceof Float32Array || v instanceof Uint8Array },
  shape: { must: '[C, H, W]', holds: (v) => listOf(integerFrom(0)).holds(v) && (v as Shape).length === 3 },
});

/** @throws ArgumentError */
export function requireImage(op: string, name: string, image: HostImage): void {
  requireArgument(op, name, image, anImage);
  const { data, shape } = image;
  if (data.length !== sizeOf(shape))
    throw new ArgumentError(
      `[${op}] ${name} has ${data.length} values, its shape ${formatShape(shape)} takes ${sizeOf(shape)}.`,
    );
}

export function hostPixels({ data, shape }: HostImage): HostPixels {
  const [channels, height, width] = shape as readonly [number, number, number];
  const numbers = data instanceof Uint8Array ? Float32Array.from(data, (byte) => byte / 255) : data;
  return new HostPixels(numbers, [channels, height, width]);
}

/**
 * One transform after the other.
 * @example
 * const vary = transforms.compose([transforms.randomCrop(28, { padding: 2 }), transforms.randomHorizontalFlip()]);
 * const images = vary(rand([8, 1, 28, 28]));
 */
export function compose(transforms: readonly Transform[]): Transform {
  requireArgument('compose', 'transforms', transforms, {
    must: 'an array of transforms, such as [transforms.randomHorizontalFlip()]',
    holds: (v) => Array.isArray(v) && v.every((t) => definitions.has(t)),
  });
  const steps = transforms.map((t) => definitions.get(t)!);
  return transform('compose', {
    apply: (image, random) => steps.reduce((varied, step) => step.apply(varied, random), image),
  });
}
