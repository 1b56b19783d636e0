/** Images of pixels within pictures. */
import sharp from 'sharp';

/** An image of bytes, row by row. */
export interface Raster {
  /** Pixels of a row. */
  readonly width: number;
  /** How many rows there are. */
  readonly height: number;
  /** Grey, or red, green and blue. */
  readonly channels: 1 | 3;
  /** height × width × channels bytes, the colours of a pixel side by side. */
  readonly pixels: Uint8Array;
}

/** Images are stored with at least so many pixels a side, so that no program blurs them when it draws them larger. */
const SMALLEST = 96;

/** A PNG in a URL, each pixel a square of as many pixels as it takes. */
export async function dataUrl({ width, height, channels, pixels }: Raster): Promise<string> {
  const scale = Math.max(1, Math.ceil(SMALLEST / Math.max(width, height)));
  const png = await sharp(pixels, { raw: { width, height, channels } })
    .resize(width * scale, height * scale, { kernel: 'nearest' })
    .png({ compressionLevel: 9, palette: channels === 1 })
    .toBuffer();
  return `data:image/png;base64,${png.toString('base64')}`;
}

/** An image as a PNG. */
export const pngOf = ({ width, height, channels, pixels }: Raster): Promise<Buffer> =>
  sharp(pixels, { raw: { width, height, channels } }).png().toBuffer();

/** An image of which each pixel is a square of `scale` × `scale`. */
export function magnified({ width, height, channels, pixels }: Raster, scale: number): Raster {
  const out = new Uint8Array(pixels.length * scale * scale);
  for (let y = 0; y < height * scale; y++)
    for (let x = 0; x < width * scale; x++) {
      const from = (Math.floor(y / scale) * width + Math.floor(x / scale)) * channels;
      out.set(pixels.subarray(from, from + channels), (y * width * scale + x) * channels);
    }
  return { width: width * scale, height: height * scale, channels, pixels: out };
}

/**
 * Values as an image, from the least (black) to the largest (white) of all of them.
 * @param values channels × height × width, as tensors have them: 1 channel or 3
 */
export function rasterOf(values: ArrayLike<number>, channels: 1 | 3, height: number, width: number): Raster {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let i = 0; i < values.length; i++) {
    if (values[i]! < low) low = values[i]!;
    if (values[i]! > high) high = values[i]!;
  }
  const scale = high > low ? 255 / (high - low) : 0;
  const pixels = new Uint8Array(values.length);
  const plane = height * width;
  for (let c = 0; c < channels; c++)
    for (let i = 0; i < plane; i++)
      pixels[i * channels + c] = Math.round((values[c * plane + i]! - low) * scale);
  return { width, height, channels, pixels };
}

/** Magma of matplotlib (S. van der Walt and N. Smith, 2015) from its third sixteenth on: dark violet to light yellow. */
const WARMTH: readonly (readonly [number, number, number])[] = [
  ...([
    [59, 15, 112],
    [100, 26, 128],
    [140, 41, 129],
    [183, 55, 121],
    [222, 73, 104],
  ] as const),
  ...([
    [247, 112, 92],
    [254, 159, 109],
    [254, 207, 146],
    [252, 253, 191],
  ] as const),
];
/** What is left of the image where the heat is largest. */
const LEFT = 0.25;

/** The colour of a heat of 0 to 1. */
function warmth(heat: number): readonly [number, number, number] {
  const at = heat * (WARMTH.length - 1);
  const i = Math.min(WARMTH.length - 2, Math.floor(at));
  const [from, to] = [WARMTH[i]!, WARMTH[i + 1]!];
  return from.map((c, k) => c + (at - i) * (to[k]! - c)) as unknown as [number, number, number];
}

/** Bilinear, as PyTorch's interpolate with alignCorners: false. */
export function enlarged(
  map: ArrayLike<number>,
  [height, width]: readonly [number, number],
  [toHeight, toWidth]: readonly [number, number],
): Float32Array {
  const along = (from: number, to: number): { low: number; high: number; share: number }[] =>
    Array.from({ length: to }, (_, i) => {
      const at = Math.max(0, ((i + 0.5) * from) / to - 0.5);
      const low = Math.min(from - 1, Math.floor(at));
      return { low, high: Math.min(from - 1, low + 1), share: at - low };
    });
  const [rows, columns] = [along(height, toHeight), along(width, toWidth)];
  return Float32Array.from({ length: toHeight * toWidth }, (_, i) => {
    const [row, column] = [rows[Math.floor(i / toWidth)]!, columns[i % toWidth]!];
    const at = (y: number): number => {
      const left = map[y * width + column.low]!;
      return left + column.share * (map[y * width + column.high]! - left);
    };
    const top = at(row.low);
    return top + row.share * (at(row.high) - top);
  });
}

/** Heat over an image: none where it is 0; the more there is, the less is seen of the image. */
export function heated({ width, height, channels, pixels }: Raster, heat: ArrayLike<number>): Raster {
  const out = new Uint8Array(width * height * 3);
  for (let i = 0; i < width * height; i++) {
    const h = Math.min(1, Math.max(0, heat[i]!));
    const color = warmth(h);
    const cover = (1 - LEFT) * Math.min(1, 2 * h);
    for (let c = 0; c < 3; c++) {
      const pixel = pixels[i * channels + (channels === 1 ? 0 : c)]!;
      out[3 * i + c] = Math.round(pixel + cover * (color[c]! - pixel));
    }
  }
  return { width, height, channels: 3, pixels: out };
}
