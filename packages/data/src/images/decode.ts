/** Images out of files, by sharp. */
import { stat } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { DataError } from 'heddle';
import sharp, { type Sharp } from 'sharp';
import type { ImageFacts, ImageFormat, ResizeMode } from './image-format.js';

/** What sharp decodes, by the endings of file names. */
export const IMAGE_ENDINGS = ['.jpg', '.jpeg', '.png', '.webp', '.gif', '.avif', '.tif', '.tiff'] as const;

// One thread for each image, and many images at a time: no image is decoded twice, so that nothing is worth keeping.
sharp.concurrency(1);
sharp.cache(false);

/** As many images as there are threads that decode: libuv's, four unless it is told otherwise. */
export const CONCURRENCY = Math.min(availableParallelism(), Number(process.env.UV_THREADPOOL_SIZE ?? 4));

const FITS: Readonly<Record<ResizeMode, 'fill' | 'cover' | 'contain'>> = {
  squash: 'fill',
  crop: 'cover',
  pad: 'contain',
};

/**
 * The pixels of an image in a format, turned as its EXIF orientation says: height × width × channels, row by row, of each
 * pixel its channels side by side. Transparency is dropped.
 * @throws DataError naming the file
 */
export async function decodeImage(path: string, format: ImageFormat): Promise<Uint8Array> {
  const { size, channels, resize, maxPixels, failOn } = format;
  const [height, width] = size;
  let image: Sharp = sharp(path, { failOn, limitInputPixels: maxPixels, autoOrient: true });
  image = image.resize({ width, height, fit: FITS[resize], background: 'black' }).removeAlpha();
  image = channels === 1 ? image.toColourspace('b-w') : image.toColourspace('srgb');
  const pixels = await image
    .raw({ depth: 'uchar' })
    .toBuffer()
    .catch(async (error: unknown) => {
      throw await explained(path, maxPixels, error as Error);
    });
  if (pixels.length !== height * width * channels)
    throw new DataError(
      `${path}: decoded into ${pixels.length} bytes, expected ${height} × ${width} × ${channels}. Save it as PNG or JPEG.`,
    );
  // Words of four bytes are read from it.
  if (pixels.byteOffset % 4 !== 0) return Uint8Array.from(pixels);
  return new Uint8Array(pixels.buffer, pixels.byteOffset, pixels.length);
}

/** Size and channels of an image, from its header. @throws DataError naming the file */
export async function imageFacts(path: string, maxPixels?: number): Promise<ImageFacts> {
  try {
    const { autoOrient, space } = await sharp(path, { limitInputPixels: false }).metadata();
    const isGrey = space === 'b-w' || space === 'grey16';
    return { ...autoOrient, channels: isGrey ? 1 : 3 };
  } catch (error) {
    throw await explained(path, maxPixels, error as Error);
  }
}

/** What is wrong with a file that sharp has refused, and what to do. */
async function explained(path: string, maxPixels: number | undefined, error: Error): Promise<DataError> {
  const say = (what: string): DataError => new DataError(`${path}: ${what}`, { cause: error });
  const file = await stat(path).catch((reason: NodeJS.ErrnoException) => reason);
  if (file instanceof Error)
    return say(
      file.code === 'ENOENT'
        ? 'no such file. Check the path; a link may lead nowhere.'
        : `cannot be read (${file.message}).`,
    );
  if (file.isDirectory()) return say('is a folder, expected an image.');
  if (file.size === 0) return say('is empty, expected an image. Fetch it again, or remove it.');
  const [reason] = error.message.split('\n');
  if (/exceeds pixel limit/.test(error.message)) {
    const { width, height } = await imageFacts(path).catch(() => ({ width: '?', height: '?' }));
    return say(
      `has ${width} × ${height} pixels, more than maxPixels, which is ${maxPixels}. Make it smaller, or raise maxPixels.`,
    );
  }
  if (/unsupported image format|missing or unsupported/i.test(error.message))
    return say(`is not an image that can be decoded (${reason}). Expected JPEG, PNG or WebP.`);
  return say(`is damaged or cannot be read (${reason}). Fetch it again, or remove it.`);
}
