/** Pooling layers. */
import { requireOptions } from '../core/arguments.js';
import {
  AVG_POOL2D,
  type AvgPool2dOptions,
  avgPool2d,
  MAX_POOL2D,
  type MaxPool2dOptions,
  maxPool2d,
  type Pair,
  pair,
} from '../tensor/functional-layers.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';

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
  forward(x: Tensor): Tensor {
    return maxPool2d(x, this.kernel, this.options);
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
  forward(x: Tensor): Tensor {
    return avgPool2d(x, this.kernel, this.options);
  }
}
