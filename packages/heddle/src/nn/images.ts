/** Layers that resize and rearrange images. */
import { integerFrom, requireArgument, requireOptions } from '../core/arguments.js';
import { type Pair, pair } from '../tensor/functional-convolutions.js';
import {
  fold,
  type InterpolateOptions,
  interpolate,
  pixelShuffle,
  pixelUnshuffle,
  requireInterpolation,
  UNFOLD,
  type UnfoldOptions,
  unfold,
} from '../tensor/functional-images.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';

/** Another size: (N, C, L) or (N, C, H, W) → (N, C, …size), see `interpolate`. */
export class Upsample extends Module {
  /** As given to the constructor. */
  readonly options: InterpolateOptions;

  constructor(options: InterpolateOptions) {
    super();
    requireInterpolation('Upsample', options);
    this.options = options;
  }

  /** @param x (N, C, L) or (N, C, H, W), as the mode demands · @returns (N, C, …size) */
  forward(x: Tensor): Tensor {
    return interpolate(x, this.options);
  }
}

/** Channels to pixels: (…, C·r², H, W) → (…, C, r·H, r·W). */
export class PixelShuffle extends Module {
  /** r */
  readonly upscaleFactor: number;

  constructor(upscaleFactor: number) {
    super();
    requireArgument('PixelShuffle', 'upscaleFactor', upscaleFactor, integerFrom(1));
    this.upscaleFactor = upscaleFactor;
  }

  /** @param x (…, C·r², H, W) · @returns (…, C, r·H, r·W) */
  forward(x: Tensor): Tensor {
    return pixelShuffle(x, this.upscaleFactor);
  }
}

/** Pixels to channels: (…, C, r·H, r·W) → (…, C·r², H, W). */
export class PixelUnshuffle extends Module {
  /** r */
  readonly downscaleFactor: number;

  constructor(downscaleFactor: number) {
    super();
    requireArgument('PixelUnshuffle', 'downscaleFactor', downscaleFactor, integerFrom(1));
    this.downscaleFactor = downscaleFactor;
  }

  /** @param x (…, C, r·H, r·W) · @returns (…, C·r², H, W) */
  forward(x: Tensor): Tensor {
    return pixelUnshuffle(x, this.downscaleFactor);
  }
}

/** Each window as a column: (N, C, H, W) → (N, C·kH·kW, L). */
export class Unfold extends Module {
  /** The window's size. */
  readonly kernel: Pair;
  /** As given to the constructor. */
  readonly options: UnfoldOptions;

  constructor(kernel: Pair, options: UnfoldOptions = {}) {
    super();
    pair('Unfold', 'kernel', kernel, 1);
    requireOptions('Unfold', options, UNFOLD);
    this.kernel = kernel;
    this.options = options;
  }

  /** @param x (N, C, H, W) · @returns (N, C·kH·kW, L), see `unfold` */
  forward(x: Tensor): Tensor {
    return unfold(x, this.kernel, this.options);
  }
}

/** Columns as windows, summed where they overlap: (N, C·kH·kW, L) → (N, C, …outputSize). */
export class Fold extends Module {
  /** Height and width of the images. */
  readonly outputSize: Pair;
  /** The window's size. */
  readonly kernel: Pair;
  /** As given to the constructor. */
  readonly options: UnfoldOptions;

  constructor(outputSize: Pair, kernel: Pair, options: UnfoldOptions = {}) {
    super();
    pair('Fold', 'outputSize', outputSize, 1);
    pair('Fold', 'kernel', kernel, 1);
    requireOptions('Fold', options, UNFOLD);
    this.outputSize = outputSize;
    this.kernel = kernel;
    this.options = options;
  }

  /** @param x (N, C·kH·kW, L) · @returns (N, C, …outputSize), see `fold` */
  forward(x: Tensor): Tensor {
    return fold(x, this.outputSize, this.kernel, this.options);
  }
}
