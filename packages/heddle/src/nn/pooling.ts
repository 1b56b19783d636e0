/** Pooling layers. */
import { integerFrom, requireArgument, requireOptions } from '../core/arguments.js';
import { type Pair, pair } from '../tensor/functional-convolutions.js';
import {
  AVG_POOL1D,
  AVG_POOL2D,
  type AvgPool1dOptions,
  type AvgPool2dOptions,
  adaptiveAvgPool1d,
  adaptiveAvgPool2d,
  adaptiveMaxPool1d,
  adaptiveMaxPool2d,
  avgPool1d,
  avgPool2d,
  MAX_POOL1D,
  MAX_POOL2D,
  type MaxPool1dOptions,
  type MaxPool2dOptions,
  maxPool1d,
  maxPool2d,
} from '../tensor/functional-pooling.js';
import type { Pooled } from '../tensor/shape-types.js';
import type { DTypeOf, ShapeOf, Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';

/** The largest element of each window: (N, C, L) → (N, C, outL). */
export class MaxPool1d extends Module {
  /** The window's size. */
  readonly kernel: number;
  /** As given to the constructor. */
  readonly options: MaxPool1dOptions;

  constructor(kernel: number, options: MaxPool1dOptions = {}) {
    super();
    requireArgument('MaxPool1d', 'kernel', kernel, integerFrom(1));
    requireOptions('MaxPool1d', options, MAX_POOL1D);
    this.kernel = kernel;
    this.options = options;
  }

  /** @param x (N, C, L) · @returns (N, C, outL), see `maxPool1d` */
  forward(x: Tensor): Tensor {
    return maxPool1d(x, this.kernel, this.options);
  }
}

/** The largest element of each window: (N, C, H, W) → (N, C, outH, outW). */
export class MaxPool2d extends Module {
  /** The window's size. */
  readonly kernel: Pair;
  /** As given to the constructor. */
  readonly options: MaxPool2dOptions;

  constructor(kernel: Pair, options: MaxPool2dOptions = {}) {
    super();
    pair('MaxPool2d', 'kernel', kernel, 1);
    requireOptions('MaxPool2d', options, MAX_POOL2D);
    this.kernel = kernel;
    this.options = options;
  }

  /** @param x (N, C, H, W) · @returns (N, C, outH, outW), see `maxPool2d` */
  forward<T extends Tensor>(x: T): Tensor<Pooled<ShapeOf<T>>, DTypeOf<T>> {
    return maxPool2d(x, this.kernel, this.options);
  }
}

/** The mean of each window: (N, C, L) → (N, C, outL). */
export class AvgPool1d extends Module {
  /** The window's size. */
  readonly kernel: number;
  /** As given to the constructor. */
  readonly options: AvgPool1dOptions;

  constructor(kernel: number, options: AvgPool1dOptions = {}) {
    super();
    requireArgument('AvgPool1d', 'kernel', kernel, integerFrom(1));
    requireOptions('AvgPool1d', options, AVG_POOL1D);
    this.kernel = kernel;
    this.options = options;
  }

  /** @param x (N, C, L) · @returns (N, C, outL), see `avgPool1d` */
  forward(x: Tensor): Tensor {
    return avgPool1d(x, this.kernel, this.options);
  }
}

/** The mean of each window: (N, C, H, W) → (N, C, outH, outW). */
export class AvgPool2d extends Module {
  /** The window's size. */
  readonly kernel: Pair;
  /** As given to the constructor. */
  readonly options: AvgPool2dOptions;

  constructor(kernel: Pair, options: AvgPool2dOptions = {}) {
    super();
    pair('AvgPool2d', 'kernel', kernel, 1);
    requireOptions('AvgPool2d', options, AVG_POOL2D);
    this.kernel = kernel;
    this.options = options;
  }

  /** @param x (N, C, H, W) · @returns (N, C, outH, outW), see `avgPool2d` */
  forward<T extends Tensor>(x: T): Tensor<Pooled<ShapeOf<T>>, DTypeOf<T>> {
    return avgPool2d(x, this.kernel, this.options);
  }
}

/** The largest elements of as many windows as asked for: (N, C, L) → (N, C, outputSize). With 1, of each channel: global pooling. */
export class AdaptiveMaxPool1d extends Module {
  /** Of the result. */
  readonly outputSize: number;

  constructor(outputSize: number) {
    super();
    requireArgument('AdaptiveMaxPool1d', 'outputSize', outputSize, integerFrom(1));
    this.outputSize = outputSize;
  }

  /** @param x (N, C, L) · @returns (N, C, outputSize), see `adaptiveMaxPool1d` */
  forward(x: Tensor): Tensor {
    return adaptiveMaxPool1d(x, this.outputSize);
  }
}

/** The largest elements of as many windows as asked for: (N, C, H, W) → (N, C, outH, outW). With 1, of each channel: global pooling. */
export class AdaptiveMaxPool2d extends Module {
  /** Of the result. */
  readonly outputSize: Pair;

  constructor(outputSize: Pair) {
    super();
    pair('AdaptiveMaxPool2d', 'outputSize', outputSize, 1);
    this.outputSize = outputSize;
  }

  /** @param x (N, C, H, W) · @returns (N, C, outH, outW), see `adaptiveMaxPool2d` */
  forward(x: Tensor): Tensor {
    return adaptiveMaxPool2d(x, this.outputSize);
  }
}

/** The means of as many windows as asked for: (N, C, L) → (N, C, outputSize). With 1, of each channel: global pooling. */
export class AdaptiveAvgPool1d extends Module {
  /** Of the result. */
  readonly outputSize: number;

  constructor(outputSize: number) {
    super();
    requireArgument('AdaptiveAvgPool1d', 'outputSize', outputSize, integerFrom(1));
    this.outputSize = outputSize;
  }

  /** @param x (N, C, L) · @returns (N, C, outputSize), see `adaptiveAvgPool1d` */
  forward(x: Tensor): Tensor {
    return adaptiveAvgPool1d(x, this.outputSize);
  }
}

/** The means of as many windows as asked for: (N, C, H, W) → (N, C, outH, outW). With 1, of each channel: global pooling. */
export class AdaptiveAvgPool2d extends Module {
  /** Of the result. */
  readonly outputSize: Pair;

  constructor(outputSize: Pair) {
    super();
    pair('AdaptiveAvgPool2d', 'outputSize', outputSize, 1);
    this.outputSize = outputSize;
  }

  /** @param x (N, C, H, W) · @returns (N, C, outH, outW), see `adaptiveAvgPool2d` */
  forward(x: Tensor): Tensor {
    return adaptiveAvgPool2d(x, this.outputSize);
  }
}
