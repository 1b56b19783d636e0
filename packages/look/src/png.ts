/** Pictures as PNG. */
import sharp from 'sharp';
import { darkened, PAPER } from './palette.js';

/** Options of `toPng`. */
export interface PngOptions {
  /** Pixels of the PNG for one of the picture; default 2. */
  readonly scale?: number;
  /** Which colours: those for light ground (default) or for dark. The ground is part of the PNG. */
  readonly scheme?: 'light' | 'dark';
}

/**
 * A picture of this package as PNG. Texts are set in the fonts of the machine.
 * @param svg what a function of this package has returned
 * @returns the bytes of the file
 * @example await writeFile('curves.png', await toPng(lineChart(…)));
 */
export async function toPng(svg: string, options: PngOptions = {}): Promise<Uint8Array> {
  const { scale = 2, scheme = 'light' } = options;
  const text = scheme === 'dark' ? darkened(svg) : svg;
  const png = await sharp(Buffer.from(text), { density: 72 * scale, limitInputPixels: false })
    .flatten({ background: PAPER[scheme] })
    .png({ compressionLevel: 9 })
    .toBuffer();
  return new Uint8Array(png);
}
