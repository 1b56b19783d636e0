/** Pictures as PNG. */
import { once } from 'heddle/internal/core/log.js';
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
 * A picture of this package as PNG. Texts are set in the fonts of the machine; where there are none, a warning on stderr says that
 * they are boxes.
 * @param svg what a function of this package has returned
 * @returns the bytes of the file
 * @example await writeFile('curves.png', await toPng(lineChart(…)));
 */
export async function toPng(svg: string, options: PngOptions = {}): Promise<Uint8Array> {
  const { scale = 2, scheme = 'light' } = options;
  const text = scheme === 'dark' ? darkened(svg) : svg;
  if (/<text\b/.test(svg) && !(await hasFonts()))
    once(
      'this machine has no fonts: in PNG files, texts are boxes (in SVG files they are not). Install some, such as the package fonts-dejavu-core of Debian.',
    );
  const png = await sharp(Buffer.from(text), { density: 72 * scale, limitInputPixels: false })
    .flatten({ background: PAPER[scheme] })
    .png({ compressionLevel: 9 })
    .toBuffer();
  return new Uint8Array(png);
}

let fonts: Promise<boolean> | undefined;

/** Whether letters differ: without fonts each is the same box. */
function hasFonts(): Promise<boolean> {
  const drawn = (letter: string): Promise<Buffer> =>
    sharp(
      Buffer.from(
        `<svg xmlns="http://www.w3.org/2000/svg" width="40" height="24"><text x="4" y="18" font-family="sans-serif">${letter}</text></svg>`,
      ),
    )
      .raw()
      .toBuffer();
  fonts ??= Promise.all([drawn('i'), drawn('W')]).then(([narrow, wide]) => !narrow.equals(wide));
  return fonts;
}
