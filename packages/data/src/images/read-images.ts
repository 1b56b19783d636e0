/** Single images. */
import { ArgumentError, type Shape, type Tensor, tensor } from 'heddle';
import {
  aString,
  listOf,
  type Rule,
  requireArgument,
  requireOptions,
} from 'heddle/internal/core/arguments.js';
import { CONCURRENCY, decodeImage, type ImageSource, imageFacts } from './decode.js';
import { formatFor, IMAGE_RULES, type ImageOptions } from './image-format.js';
import { inParallel } from './in-parallel.js';
import { byteTables, writePlanes } from './planes.js';

const aSource: Rule = {
  must: 'a path or the bytes of a file',
  holds: (v) => aString.holds(v) || v instanceof Uint8Array,
};

/** Images as the numbers of a network's inputs, on the host. */
export interface ImageValues {
  /** (N, channels, height, width). */
  readonly shape: Shape;
  /** Row by row. */
  readonly values: Float32Array;
}

/**
 * Images as inputs of a network, f32 (N, channels, height, width): `model.forward(await readImages(['cat.jpg'], train.format))`.
 * @param images paths of files, or their bytes
 * @param options how they become inputs; the `format` of an `ImageFolder` for what its images become
 * @throws DataError naming the first file that cannot be decoded; ArgumentError
 */
export async function readImages(
  images: readonly ImageSource[],
  options: ImageOptions = {},
): Promise<Tensor<Shape, 'f32'>> {
  const { values, shape } = await valuesOf('readImages', images, options);
  return tensor(values, { shape });
}

/**
 * What `readImages` gives, as an array on the host: no device is opened for it.
 * @throws DataError naming the first file that cannot be decoded; ArgumentError
 */
export const readImageValues = (
  images: readonly ImageSource[],
  options: ImageOptions = {},
): Promise<ImageValues> => valuesOf('readImageValues', images, options);

async function valuesOf(
  op: string,
  images: readonly ImageSource[],
  options: ImageOptions,
): Promise<ImageValues> {
  requireArgument(op, 'images', images, listOf(aSource));
  requireOptions(op, options, IMAGE_RULES);
  const [first] = images;
  if (first === undefined) throw new ArgumentError(`[${op}] images is empty, must have an image.`);
  const format = await formatFor(options, () => imageFacts(first, options.maxPixels));
  const shape = [images.length, format.channels, ...format.size];
  const values = new Float32Array(shape.reduce((a, b) => a * b));
  const features = values.length / images.length;
  const tables = byteTables(format.normalize, format.channels);
  await inParallel(images.length, CONCURRENCY, async (i) =>
    writePlanes(await decodeImage(images[i]!, format), tables, values, i * features),
  );
  return { shape, values };
}
