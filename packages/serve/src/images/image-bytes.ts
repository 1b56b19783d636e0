/** Images in requests: what they may be, and the input of a network that they become. */
import { DataError } from 'heddle';
import { readImageValues } from 'heddle-data';
import { invalid, ServiceError } from '../errors.js';
import type { ImageInput } from '../protocol/model-spec.js';

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
  if (bytes.length === 0) throw invalid('the body is empty, must be an image.');
  if (!Object.values(FORMATS).some((begins) => begins(bytes)))
    throw new ServiceError(
      'unsupported-media',
      `the body is no image that is read here. Expected ${Object.keys(FORMATS).join(', ')}.`,
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
