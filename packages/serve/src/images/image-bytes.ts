/** Images in requests: what they may be, and the input of a network that they become. */
import { DataError } from 'heddle';
import { readImageValues } from 'heddle-data';
import { invalid, ServiceError } from '../errors.js';
import type { GivenTensor } from '../protocol/infer-request.js';
import { formatSpec, type ImageInput, type ModelSpec } from '../protocol/model-spec.js';

/** How the files of the formats begin that are decoded: no others reach a decoder. */
const FORMATS: Readonly<Record<string, (bytes: Uint8Array) => boolean>> = {
  JPEG: (b) => b[0] === 0xff && b[1] === 0xd8 && b[2] === 0xff,
  PNG: (b) => b[0] === 0x89 && b[1] === 0x50 && b[2] === 0x4e && b[3] === 0x47,
  WebP: (b) =>
    Buffer.from(b.subarray(0, 4)).toString() === 'RIFF' &&
    Buffer.from(b.subarray(8, 12)).toString() === 'WEBP',
};

/**
 * An image as the input of a network, (1, C, H, W).
 * @param maxPixels an image of more is refused before it is decoded
 * @throws ServiceError
 */
export async function decodeImageInput(
  bytes: Uint8Array,
  { size, channels, resize, normalize }: ImageInput,
  maxPixels: number,
): Promise<Float32Array> {
  if (bytes.length === 0) throw invalid('the image is empty, it must be a file.');
  if (!Object.values(FORMATS).some((begins) => begins(bytes)))
    throw new ServiceError(
      'unsupported-media',
      `this is no image that is read here. Expected ${Object.keys(FORMATS).join(', ')}.`,
    );
  try {
    return (await readImageValues([bytes], { size, channels, resize, normalize, maxPixels })).values;
  } catch (error) {
    if (!(error instanceof DataError)) throw error;
    throw new ServiceError(
      /more than maxPixels/.test(error.message) ? 'too-large' : 'invalid',
      error.message,
    );
  }
}

/** Images that were decoded, one after the other, as the input of a model. */
export const imagesTensor = (
  { inputs }: ModelSpec,
  { channels, size }: ImageInput,
  values: Float32Array,
): GivenTensor => ({
  ...{ name: inputs[0]!.name, datatype: 'FP32' },
  shape: [values.length / (channels * size[0] * size[1]), channels, ...size],
  bytes: () => new Uint8Array(values.buffer, values.byteOffset, values.byteLength),
  strings: () => [],
});

/** Whether a request gives files of images, as BYTES, to a model that knows how they become its input. */
export const givesImages = (given: readonly GivenTensor[], { image }: ModelSpec): boolean =>
  image !== undefined && given.length === 1 && given[0]!.datatype === 'BYTES';

/**
 * The input that the files of images stand for.
 * @param given as `givesImages` says @throws ServiceError
 */
export async function decodedImages(
  [given]: readonly GivenTensor[],
  spec: ModelSpec,
  { maxBatchSize, maxImagePixels }: { readonly maxBatchSize: number; readonly maxImagePixels: number },
): Promise<readonly GivenTensor[]> {
  const { name, shape, strings } = given!;
  if (name !== spec.inputs[0]!.name) return [given!];
  const [count = 0, ...others] = shape;
  if (others.some((size) => size !== 1) || !(count >= 1 && count <= maxBatchSize))
    throw invalid(
      `the input '${name}' of BYTES has the shape ${formatSpec(shape)}, must be [n] with n from 1 to ${maxBatchSize}: a file of an image each.`,
    );
  const files = strings();
  if (files.length !== count)
    throw invalid(`the input '${name}' has ${files.length} elements, its shape asks for ${count}.`);
  const image = spec.image!;
  const values: Float32Array[] = [];
  for (const file of files) values.push(await decodeImageInput(file, image, maxImagePixels));
  const size = values[0]!.length;
  const all = new Float32Array(count * size);
  values.forEach((own, i) => {
    all.set(own, i * size);
  });
  return [imagesTensor(spec, image, all)];
}
