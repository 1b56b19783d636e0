/** Images as they are, with captions. */
import type { PictureOptions } from './chart.js';
import type { Raster } from './raster.js';
import { tilesSvg } from './tiles.js';

/** An image of bytes, and what is written under it. */
export interface CaptionedImage {
  /** Row by row; of colours red, green and blue side by side. */
  readonly raster: Raster;
  /** Lines, the first one stronger. */
  readonly captions?: readonly string[];
}

/** Options of `imagesSvg`. */
export interface ImagesOptions extends PictureOptions {
  /** Above the images. */
  readonly title?: string;
  /** Under the title. */
  readonly subtitle?: string;
}

/**
 * Images side by side in rows, about 72 pixels each, with captions under them.
 * @returns the text of an SVG
 */
export const imagesSvg = (
  images: readonly CaptionedImage[],
  options: ImagesOptions = {},
): Promise<string> => {
  const { title = '', subtitle, ...drawing } = options;
  return tilesSvg({ title, subtitle }, images, { size: 72 }, drawing);
};
