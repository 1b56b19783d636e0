/** Images out of files, by sharp. */
import { readFile, stat } from 'node:fs/promises';
import { DataError } from 'heddle';
import sharp, { type Sharp } from 'sharp';
import { mayBeTurned } from './exif.js';
import type { ImageFacts, ImageFormat, ResizeMode } from './image-format.js';

/** What sharp decodes, by the endings of file names. */
export const IMAGE_ENDINGS = ['.jpg', '.jpeg', '.png', '.webp', '.gif', '.avif', '.tif', '.tiff'] as const;

// One thread for each image, and many images at a time: no image is decoded twice, so that nothing is worth keeping.
sharp.concurrency(1);
sharp.cache(false);

/**
 * Images that are read and decoded at a time: twice as many as there are threads that do it, which are libuv's, four unless it
 * is told otherwise. So no thread waits for this one to take an image and begin with the next.
 */
export const CONCURRENCY = 2 * Number(process.env.UV_THREADPOOL_SIZE ?? 4);

/** An image: the path of its file, or the bytes of one. */
export type ImageSource = string | Uint8Array;

/** What messages call it. */
const nameOf = (source: ImageSource): string => (typeof source === 'string' ? source : 'the image');

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
export async function decodeImage(source: ImageSource, format: ImageFormat): Promise<Uint8Array> {
  const { size, channels, maxPixels } = format;
  const [height, width] = size;
  const pixels = await explaining(source, maxPixels, () => decode(source, format));
  if (pixels.length !== height * width * channels)
    throw new DataError(
      `${nameOf(source)}: decoded into ${pixels.length} bytes, expected ${height} × ${width} × ${channels}. Save it as PNG or JPEG.`,
    );
  // Words of four bytes are read from it.
  if (pixels.byteOffset % 4 !== 0) return Uint8Array.from(pixels);
  return new Uint8Array(pixels.buffer, pixels.byteOffset, pixels.length);
}

async function decode(
  source: ImageSource,
  { size, channels, resize, maxPixels, failOn }: ImageFormat,
): Promise<Buffer> {
  const file = typeof source === 'string' ? await fileOf(source) : source;
  const [height, width] = size;
  // sharp takes a sixth of the time of a small image to find that there is nothing to turn.
  const autoOrient = typeof file === 'string' || mayBeTurned(file);
  let image: Sharp = sharp(file, { failOn, limitInputPixels: maxPixels, autoOrient });
  image = image.resize({ width, height, fit: FITS[resize], background: 'black' }).removeAlpha();
  image = channels === 1 ? image.toColourspace('b-w') : image.toColourspace('srgb');
  return image.raw({ depth: 'uchar' }).toBuffer();
}

/** The bytes of a file; of one that is too large for that, its path: libvips reads it piece by piece. */
async function fileOf(path: string): Promise<Uint8Array | string> {
  try {
    return await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_FS_FILE_TOO_LARGE') return path;
    throw error;
  }
}

/** Size and channels of an image, from its header. @throws DataError naming the file */
export async function imageFacts(source: ImageSource, maxPixels?: number): Promise<ImageFacts> {
  const { autoOrient, space } = await explaining(source, maxPixels, () =>
    sharp(source, { limitInputPixels: false }).metadata(),
  );
  const isGrey = space === 'b-w' || space === 'grey16';
  return { ...autoOrient, channels: isGrey ? 1 : 3 };
}

/** What `read` gives of an image. @throws DataError saying what is wrong with it */
async function explaining<T>(
  source: ImageSource,
  maxPixels: number | undefined,
  read: () => Promise<T>,
): Promise<T> {
  while (alone) await alone;
  const reading = read();
  underWay.add(reading);
  try {
    return await reading;
  } catch (error) {
    throw await explained(source, maxPixels, await errorAlone(error as Error, read));
  } finally {
    underWay.delete(reading);
  }
}

const underWay = new Set<Promise<unknown>>();
/** The image that is read while no other is. */
let alone: Promise<Error> | undefined;

/** What sharp says where libvips has no text. */
const NO_TEXT = 'Warning treated as error due to failOn setting';

/**
 * The error of a file, from reading it again while no other is read: libvips has one buffer for the texts of all errors, and
 * whichever image ends first takes or clears them. Other threads share it as well, so that a text may need several attempts.
 */
async function errorAlone(first: Error, read: () => Promise<unknown>): Promise<Error> {
  while (alone) await alone;
  const again = async (): Promise<Error> => {
    await Promise.allSettled(underWay);
    let error = first;
    for (let attempt = 0; attempt < 10; attempt++) {
      error = await read().then(
        () => first,
        (reason: Error) => reason,
      );
      if (firstLine(error) !== NO_TEXT) break;
    }
    alone = undefined;
    return error;
  };
  alone = again();
  return alone;
}

const firstLine = ({ message }: Error): string => message.split('\n', 1)[0]!;

/** What is wrong with a file that sharp has refused, and what to do. */
async function explained(
  source: ImageSource,
  maxPixels: number | undefined,
  error: Error,
): Promise<DataError> {
  const say = (what: string): DataError => new DataError(`${nameOf(source)}: ${what}`, { cause: error });
  const file =
    typeof source === 'string'
      ? await stat(source).catch((reason: NodeJS.ErrnoException) => reason)
      : { size: source.length, isDirectory: () => false };
  if (file instanceof Error)
    return say(
      file.code === 'ENOENT'
        ? 'no such file. Check the path; a link may lead nowhere.'
        : `cannot be read (${file.message}).`,
    );
  if (file.isDirectory()) return say('is a folder, expected an image.');
  if (file.size === 0) return say('is empty, expected an image. Fetch it again, or remove it.');
  const reason = firstLine(error);
  if (/exceeds pixel limit/.test(reason)) {
    const { width, height } = await imageFacts(source).catch(() => ({ width: '?', height: '?' }));
    return say(
      `has ${width} × ${height} pixels, more than maxPixels, which is ${maxPixels}. Make it smaller, or raise maxPixels.`,
    );
  }
  if (/unsupported image format|missing or unsupported/i.test(reason))
    return say(`is not an image that can be decoded (${reason}). Expected JPEG, PNG or WebP.`);
  return say(`is damaged or cannot be read (${reason}). Fetch it again, or remove it.`);
}
