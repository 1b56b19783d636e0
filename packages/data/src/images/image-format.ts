/** How images become inputs: their size, channels and numbers. */
import type { Normalization } from 'heddle/data';
import { integerFrom, oneOf, type Rules } from 'heddle/internal/core/arguments.js';
import { aNormalization } from 'heddle/internal/data/normalization.js';

/** How an image of another shape is made to fit. */
export type ResizeMode = 'squash' | 'crop' | 'pad';

/** How images become inputs. */
export interface ImageOptions {
  /**
   * Pixels of a side of a square, or [height, width]. Default: the shorter side of the first image, and at most 64.
   */
  readonly size?: number | readonly [height: number, width: number];
  /**
   * How an image of another shape is made to fit: `crop` covers the size and cuts off what is over at both ends, `squash`
   * changes the proportions, `pad` adds black. Default: crop.
   */
  readonly resize?: ResizeMode;
  /** 1 for shades of grey, 3 for red, green and blue. Default: those of the first image. */
  readonly channels?: 1 | 3;
  /** Bytes are divided by 255, then by these. Default: mean 0, std 1. */
  readonly normalize?: Normalization;
  /** Images of more pixels are refused before they are decoded. Default: 2^28. */
  readonly maxPixels?: number;
  /**
   * What makes an image a damaged one, each of these and those before it: `none`, `truncated` pixels, any `error` of the
   * decoder, or any `warning` of it. Default: warning.
   */
  readonly failOn?: 'none' | 'truncated' | 'error' | 'warning';
}

/** `ImageOptions` with everything decided. It survives structured cloning and JSON. */
export interface ImageFormat extends Required<Omit<ImageOptions, 'size'>> {
  /** Pixels. */
  readonly size: readonly [height: number, width: number];
}

const aSide = integerFrom(1, 2 ** 14);

export const IMAGE_RULES: Rules<ImageOptions> = {
  size: {
    must: 'an integer ≥ 1, or [height, width]',
    holds: (v) => aSide.holds(v) || (Array.isArray(v) && v.length === 2 && v.every(aSide.holds)),
  },
  resize: oneOf('squash', 'crop', 'pad'),
  channels: { must: '1 or 3', holds: (v) => v === 1 || v === 3 },
  normalize: aNormalization,
  maxPixels: integerFrom(1),
  failOn: oneOf('none', 'truncated', 'error', 'warning'),
};

/** Images get no larger than this unless it is asked for. */
const USUAL_SIDE = 64;

/** What is said of the first image. */
export interface ImageFacts {
  readonly width: number;
  readonly height: number;
  readonly channels: 1 | 3;
}

/** The options, and for what they leave open what suits the first image. */
export async function formatFor(
  options: ImageOptions,
  first: () => Promise<ImageFacts>,
): Promise<ImageFormat> {
  const { size, resize = 'crop', normalize = { mean: 0, std: 1 } } = options;
  const { maxPixels = 2 ** 28, failOn = 'warning' } = options;
  const facts = size === undefined || options.channels === undefined ? await first() : undefined;
  const side = size ?? Math.min(facts!.width, facts!.height, USUAL_SIDE);
  return {
    size: typeof side === 'number' ? [side, side] : side,
    channels: options.channels ?? facts!.channels,
    ...{ resize, normalize, maxPixels, failOn },
  };
}
