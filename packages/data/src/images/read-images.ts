/** Single images. */
import { ArgumentError, type Shape, type Tensor, tensor } from 'heddle';
import { aString, listOf, requireArgument, requireOptions } from 'heddle/internal/core/arguments.js';
import { CONCURRENCY, decodeImage, imageFacts } from './decode.js';
import { formatFor, IMAGE_RULES, type ImageOptions } from './image-format.js';
import { inParallel } from './in-parallel.js';
import { byteTables, writePlanes } from './planes.js';

/**
 * Images of files as inputs of a network, f32 (N, channels, height, width): `model.forward(await readImages(['cat.jpg'],
 * train.format))`.
 * @param options how they become inputs; the `format` of an `ImageFolder` for what its images become
 * @throws DataError naming the first file that cannot be decoded; ArgumentError
 */
export async function readImages(
  paths: readonly string[],
  options: ImageOptions = {},
): Promise<Tensor<Shape, 'f32'>> {
  requireArgument('readImages', 'paths', paths, listOf(aString));
  requireOptions('readImages', options, IMAGE_RULES);
  const [first] = paths;
  if (first === undefined) throw new ArgumentError('[readImages] paths is empty, must name an image.');
  const format = await formatFor(options, () => imageFacts(first, options.maxPixels));
  const shape = [paths.length, format.channels, ...format.size];
  const inputs = new Float32Array(shape.reduce((a, b) => a * b));
  const features = inputs.length / paths.length;
  const tables = byteTables(format.normalize, format.channels);
  await inParallel(paths.length, CONCURRENCY, async (i) =>
    writePlanes(await decodeImage(paths[i]!, format), tables, inputs, i * features),
  );
  return tensor(inputs, { shape });
}
