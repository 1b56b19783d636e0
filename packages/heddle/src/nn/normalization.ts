/** Normalization as layers. Each keeps the shape. */
import {
  aBoolean,
  integerFrom,
  listOf,
  type Rules,
  requireArgument,
  requireOptions,
} from '../core/arguments.js';
import { ArgumentError, ShapeError } from '../core/errors.js';
import { formatShape, type Shape } from '../core/shape.js';
import { requireTensor } from '../tensor/checks.js';
import { tensor } from '../tensor/create.js';
import {
  BATCH_NORM,
  batchNorm,
  groupNorm,
  instanceNorm,
  layerNorm,
  NORM,
  RMS_NORM,
  rmsNorm,
} from '../tensor/functional-normalization.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';
import { constantParameter, requireSize } from './parameter.js';

/** Options of the layers `GroupNorm` and `InstanceNorm2d`. */
export interface GroupNormOptions {
  /** Added to the variance (default 1e-5). */
  readonly eps?: number;
  /** Whether there are a factor and an offset per channel to train (default true, of `InstanceNorm` false). */
  readonly affine?: boolean;
}

/** Options of the layers `BatchNorm1d` and `BatchNorm2d`. */
export interface BatchNormLayerOptions extends GroupNormOptions {
  /** The batch's fraction of the running statistics (default 0.1). */
  readonly momentum?: number;
  /**
   * Train with the statistics of the batches of all processes that train together, see `heddle/distributed` (default false:
   * of each process's own).
   */
  readonly synchronized?: boolean;
}

/** Options of the layer `LayerNorm`. */
export interface LayerNormOptions {
  /** Added to the variance (default 1e-5). */
  readonly eps?: number;
  /** Whether there are a factor and an offset per element to train (default true). */
  readonly elementwiseAffine?: boolean;
  /** Whether there is an offset, if there is a factor (default true). */
  readonly bias?: boolean;
}

/** Options of the layer `RMSNorm`. */
export interface RMSNormOptions {
  /** Added to the mean square (default: the dtype's epsilon, 2⁻²³ for f32). */
  readonly eps?: number;
  /** Whether there is a factor per element to train (default true). */
  readonly elementwiseAffine?: boolean;
}

const GROUP: Rules<GroupNormOptions> = { eps: NORM.eps, affine: aBoolean };
const BATCH: Rules<BatchNormLayerOptions> = {
  ...GROUP,
  momentum: BATCH_NORM.momentum,
  synchronized: BATCH_NORM.synchronized,
};
const LAYER: Rules<LayerNormOptions> = { eps: NORM.eps, elementwiseAffine: aBoolean, bias: aBoolean };
const RMS: Rules<RMSNormOptions> = { eps: RMS_NORM.eps, elementwiseAffine: aBoolean };

/** The base of layers that normalize channels: a factor and an offset for each. */
export abstract class ChannelNorm extends Module {
  /** (channels): the factor; undefined with `affine: false`. */
  readonly weight: Tensor<Shape, 'f32'> | undefined;
  /** (channels): the offset; undefined with `affine: false`. */
  readonly bias: Tensor<Shape, 'f32'> | undefined;
  /** Added to the variance. */
  readonly eps: number;

  constructor(name: string, channels: number, { eps = 1e-5, affine = true }: GroupNormOptions) {
    super();
    requireSize(name, 'features', channels);
    this.eps = eps;
    this.weight = affine ? constantParameter([channels], 1) : undefined;
    this.bias = affine ? constantParameter([channels], 0) : undefined;
  }
}

/** What layers take that normalize inputs of certain numbers of dimensions. */
function requireDimensions(layer: string, x: Tensor, dimensions: readonly number[], layout: string): void {
  requireTensor(layer, 'x', x);
  if (!dimensions.includes(x.ndim))
    throw new ShapeError(`[${layer}] x is ${formatShape(x.shape)}, must be ${layout}.`);
}

/** Normalizes each channel over the batch and the positions; by running statistics in evaluation. */
export abstract class BatchNorm extends ChannelNorm {
  /** (features): used in evaluation, updated in training. */
  readonly runningMean: Tensor<Shape, 'f32'>;
  /** (features), unbiased: used in evaluation, updated in training. */
  readonly runningVar: Tensor<Shape, 'f32'>;
  /** The batch's fraction of the running statistics. */
  readonly momentum: number;
  /** Whether training uses the statistics of all processes that train together. */
  synchronized: boolean;

  constructor(name: string, features: number, options: BatchNormLayerOptions) {
    requireOptions(name, options, BATCH);
    super(name, features, options);
    this.momentum = options.momentum ?? 0.1;
    this.synchronized = options.synchronized ?? false;
    this.runningMean = tensor(new Float32Array(features), { shape: [features] });
    this.runningVar = tensor(new Float32Array(features).fill(1), { shape: [features] });
  }

  /** @internal */
  protected normalize<T extends Tensor>(x: T): T {
    const { runningMean, runningVar, weight, bias, training, momentum, eps, synchronized } = this;
    const options = { weight, bias, training, momentum, eps, synchronized };
    return batchNorm(x, runningMean, runningVar, options);
  }
}

/** Batch normalization of (N, features) or (N, features, L); by running statistics in evaluation. */
export class BatchNorm1d extends BatchNorm {
  /** @throws ArgumentError */
  constructor(features: number, options: BatchNormLayerOptions = {}) {
    super('BatchNorm1d', features, options);
  }

  /** @param x (N, features) or (N, features, L) · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    requireDimensions('BatchNorm1d', x, [2, 3], '(N,C) or (N,C,L)');
    return this.normalize(x);
  }
}

/**
 * Batch normalization of (N, features, H, W); by running statistics in evaluation.
 * @example
 * ```ts
 * import { nn, randn } from 'heddle';
 *
 * const layer = new nn.BatchNorm2d(16);
 * console.log(layer.forward(randn([8, 16, 7, 7])).shape); // → [ 8, 16, 7, 7 ]
 * layer.eval(); // from now on by the running statistics
 * ```
 */
export class BatchNorm2d extends BatchNorm {
  /** @throws ArgumentError */
  constructor(features: number, options: BatchNormLayerOptions = {}) {
    super('BatchNorm2d', features, options);
  }

  /** @param x (N, features, H, W) · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    requireDimensions('BatchNorm2d', x, [4], '(N,C,H,W)');
    return this.normalize(x);
  }
}

/** Normalizes groups of channels of each example. */
export class GroupNorm extends ChannelNorm {
  /** How many groups the channels are in. */
  readonly groups: number;

  /** @param groups divides `channels` · @throws ArgumentError */
  constructor(groups: number, channels: number, options: GroupNormOptions = {}) {
    requireOptions('GroupNorm', options, GROUP);
    super('GroupNorm', channels, options);
    requireSize('GroupNorm', 'groups', groups);
    if (channels % groups !== 0)
      throw new ArgumentError(`[GroupNorm] ${groups} groups do not divide ${channels} channels.`);
    this.groups = groups;
  }

  /** @param x (N, channels, …) · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    const { weight, bias, eps } = this;
    return groupNorm(x, this.groups, { weight, bias, eps });
  }
}

/** Normalizes each channel of each example of (N, features, L). */
export class InstanceNorm1d extends ChannelNorm {
  /** @throws ArgumentError */
  constructor(features: number, options: GroupNormOptions = {}) {
    requireOptions('InstanceNorm1d', options, GROUP);
    super('InstanceNorm1d', features, { affine: false, ...options });
  }

  /** @param x (N, features, L) · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    requireDimensions('InstanceNorm1d', x, [3], '(N,C,L)');
    return instanceNorm(x, { weight: this.weight, bias: this.bias, eps: this.eps });
  }
}

/** Normalizes each channel of each example of (N, features, H, W). */
export class InstanceNorm2d extends ChannelNorm {
  /** @throws ArgumentError */
  constructor(features: number, options: GroupNormOptions = {}) {
    requireOptions('InstanceNorm2d', options, GROUP);
    super('InstanceNorm2d', features, { affine: false, ...options });
  }

  /** @param x (N, features, H, W) · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    requireDimensions('InstanceNorm2d', x, [4], '(N,C,H,W)');
    return instanceNorm(x, { weight: this.weight, bias: this.bias, eps: this.eps });
  }
}

const NORMALIZED = listOf(integerFrom(1));

function shapeOf(layer: string, normalizedShape: number | Shape): Shape {
  const shape = typeof normalizedShape === 'number' ? [normalizedShape] : normalizedShape;
  requireArgument(layer, 'normalizedShape', shape, NORMALIZED);
  return [...shape];
}

/**
 * Normalizes over the last dimensions.
 * @example
 * ```ts
 * import { nn, randn } from 'heddle';
 *
 * console.log(new nn.LayerNorm(64).forward(randn([2, 10, 64])).shape); // → [ 2, 10, 64 ]
 * ```
 */
export class LayerNorm extends Module {
  /** The sizes of the last dimensions. */
  readonly normalizedShape: Shape;
  /** (normalizedShape): the factor; undefined with `elementwiseAffine: false`. */
  readonly weight: Tensor<Shape, 'f32'> | undefined;
  /** (normalizedShape): the offset; undefined with `elementwiseAffine: false` or `bias: false`. */
  readonly bias: Tensor<Shape, 'f32'> | undefined;
  /** Added to the variance. */
  readonly eps: number;

  /** @param normalizedShape a number is one dimension · @throws ArgumentError */
  constructor(normalizedShape: number | Shape, options: LayerNormOptions = {}) {
    super();
    requireOptions('LayerNorm', options, LAYER);
    const { eps = 1e-5, elementwiseAffine = true, bias = true } = options;
    this.normalizedShape = shapeOf('LayerNorm', normalizedShape);
    this.eps = eps;
    this.weight = elementwiseAffine ? constantParameter(this.normalizedShape, 1) : undefined;
    this.bias = elementwiseAffine && bias ? constantParameter(this.normalizedShape, 0) : undefined;
  }

  /** @param x (…, normalizedShape) · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    const { weight, bias, eps } = this;
    return layerNorm(x, this.normalizedShape, { weight, bias, eps });
  }
}

/** Divides by the root of the mean square over the last dimensions. */
export class RMSNorm extends Module {
  /** The sizes of the last dimensions. */
  readonly normalizedShape: Shape;
  /** (normalizedShape): the factor; undefined with `elementwiseAffine: false`. */
  readonly weight: Tensor<Shape, 'f32'> | undefined;
  /** Added to the mean square; undefined for the epsilon of the input's dtype. */
  readonly eps: number | undefined;

  /** @param normalizedShape a number is one dimension · @throws ArgumentError */
  constructor(normalizedShape: number | Shape, options: RMSNormOptions = {}) {
    super();
    requireOptions('RMSNorm', options, RMS);
    this.normalizedShape = shapeOf('RMSNorm', normalizedShape);
    this.eps = options.eps;
    this.weight =
      (options.elementwiseAffine ?? true) ? constantParameter(this.normalizedShape, 1) : undefined;
  }

  /** @param x (…, normalizedShape) · @returns the same shape */
  forward<T extends Tensor>(x: T): T {
    const { weight, eps } = this;
    return rmsNorm(x, this.normalizedShape, { weight, ...(eps !== undefined && { eps }) });
  }
}
