/** Layers that behave differently in training and evaluation. */
import { tensor } from '../tensor/create.js';
import { batchNorm2d, dropout } from '../tensor/functional.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';
import { constantParameter, requireSize } from './parameter.js';

/** In training, clears each element with probability p and divides the others by 1 − p. */
export class Dropout extends Module {
  readonly p: number;

  constructor(p = 0.5) {
    super();
    this.p = p;
  }

  forward(x: Tensor): Tensor {
    return dropout(x, this.p, this.training);
  }
}

type PerChannel = Tensor<readonly [number]>;

/** Normalises each channel of (N, features, H, W); by running statistics in evaluation. */
export class BatchNorm2d extends Module {
  readonly weight: PerChannel | undefined;
  readonly bias: PerChannel | undefined;
  readonly runningMean: PerChannel;
  readonly runningVar: PerChannel;
  readonly momentum: number;
  readonly eps: number;

  /** @param options momentum 0.1, eps 1e-5, affine: a factor and an offset to train (default true) */
  constructor(
    features: number,
    options: { readonly momentum?: number; readonly eps?: number; readonly affine?: boolean } = {},
  ) {
    super();
    requireSize('BatchNorm2d', 'features', features);
    const { momentum = 0.1, eps = 1e-5, affine = true } = options;
    const shape = [features] as const;
    this.momentum = momentum;
    this.eps = eps;
    this.weight = affine ? constantParameter(shape, 1) : undefined;
    this.bias = affine ? constantParameter(shape, 0) : undefined;
    this.runningMean = tensor(new Float32Array(features), { shape }) as PerChannel;
    this.runningVar = tensor(new Float32Array(features).fill(1), { shape }) as PerChannel;
  }

  forward(x: Tensor): Tensor {
    const { weight, bias, training, momentum, eps } = this;
    return batchNorm2d(x, this.runningMean, this.runningVar, { weight, bias, training, momentum, eps });
  }
}
