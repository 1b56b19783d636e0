/** Layers that behave differently in training and evaluation. */
import { aBoolean, type Rules, requireOptions } from '../core/arguments.js';
import { tensor } from '../tensor/create.js';
import { BATCH_NORM, batchNorm2d, DROPOUT, dropout } from '../tensor/functional-layers.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';
import { constantParameter, requireSize } from './parameter.js';

/** Options of the layer `Dropout`. */
export interface DropoutLayerOptions {
  /** The probability that an element becomes 0: 0 to 1, default 0.5. */
  readonly p?: number;
}

const DROPOUT_LAYER: Rules<DropoutLayerOptions> = { p: DROPOUT.p };

/** In training, clears each element with probability p and divides the others by 1 − p. */
export class Dropout extends Module {
  /** The probability that an element becomes 0. */
  readonly p: number;

  constructor(options: DropoutLayerOptions = {}) {
    super();
    requireOptions('Dropout', options, DROPOUT_LAYER);
    this.p = options.p ?? 0.5;
  }

  /** @param x floats, any shape · @returns the same shape */
  forward(x: Tensor): Tensor {
    return dropout(x, { p: this.p, training: this.training });
  }
}

/** Options of the layer `BatchNorm2d`. */
export interface BatchNorm2dOptions {
  /** The batch's fraction of the running statistics (default 0.1). */
  readonly momentum?: number;
  /** Added to the variance (default 1e-5). */
  readonly eps?: number;
  /** Whether there are a factor and an offset to train (default true). */
  readonly affine?: boolean;
}

const RULES: Rules<BatchNorm2dOptions> = {
  momentum: BATCH_NORM.momentum,
  eps: BATCH_NORM.eps,
  affine: aBoolean,
};

/** Normalises each channel of (N, features, H, W); by running statistics in evaluation. */
export class BatchNorm2d extends Module {
  /** (features): the factor; undefined with `affine: false`. */
  readonly weight: Tensor<'f32'> | undefined;
  /** (features): the offset; undefined with `affine: false`. */
  readonly bias: Tensor<'f32'> | undefined;
  /** (features): used in evaluation, updated in training. */
  readonly runningMean: Tensor<'f32'>;
  /** (features), unbiased: used in evaluation, updated in training. */
  readonly runningVar: Tensor<'f32'>;
  /** The batch's fraction of the running statistics. */
  readonly momentum: number;
  /** Added to the variance. */
  readonly eps: number;

  /** @throws ArgumentError */
  constructor(features: number, options: BatchNorm2dOptions = {}) {
    super();
    requireOptions('BatchNorm2d', options, RULES);
    requireSize('BatchNorm2d', 'features', features);
    const { momentum = 0.1, eps = 1e-5, affine = true } = options;
    const shape = [features];
    this.momentum = momentum;
    this.eps = eps;
    this.weight = affine ? constantParameter(shape, 1) : undefined;
    this.bias = affine ? constantParameter(shape, 0) : undefined;
    this.runningMean = tensor(new Float32Array(features), { shape });
    this.runningVar = tensor(new Float32Array(features).fill(1), { shape });
  }

  /** @param x (N, features, H, W) · @returns the same shape */
  forward(x: Tensor): Tensor {
    const { weight, bias, training, momentum, eps } = this;
    return batchNorm2d(x, this.runningMean, this.runningVar, { weight, bias, training, momentum, eps });
  }
}
