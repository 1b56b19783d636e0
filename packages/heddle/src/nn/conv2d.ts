/** The 2-D convolution layer. */
import { aBoolean, type Rules, requireOptions } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { CONV2D, type Conv2dOptions, conv2d, type Pair, pair } from '../tensor/functional-layers.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';
import { requireSize, uniformParameter } from './parameter.js';

/** Options of the layer `Conv2d`. */
export interface Conv2dLayerOptions extends Conv2dOptions {
  /** Whether there is a bias; default true. */
  readonly bias?: boolean;
}

const RULES: Rules<Conv2dLayerOptions> = { ...CONV2D, bias: aBoolean };

/**
 * Cross-correlation plus bias: (N, inChannels, H, W) → (N, outChannels, outH, outW). Weight and bias are drawn from
 * U(±1/√fanIn), fanIn = inChannels/groups · kH · kW.
 */
export class Conv2d extends Module {
  /** (O, C/groups, kH, kW) */
  readonly weight: Tensor<'f32'>;
  /** (O); undefined with `bias: false`. */
  readonly bias: Tensor<'f32'> | undefined;
  /** As given to the constructor. */
  readonly options: Conv2dOptions;

  /** @throws ArgumentError if a size is not an integer ≥ 1, or the groups do not divide the channels */
  constructor(inChannels: number, outChannels: number, kernel: Pair, options: Conv2dLayerOptions = {}) {
    super();
    requireOptions('Conv2d', options, RULES);
    const { bias = true, ...rest } = options;
    const [height, width] = pair('Conv2d', 'kernel', kernel, 1);
    const groups = rest.groups ?? 1;
    requireSize('Conv2d', 'inChannels', inChannels);
    requireSize('Conv2d', 'outChannels', outChannels);
    if (inChannels % groups !== 0 || outChannels % groups !== 0)
      throw new ArgumentError(
        `[Conv2d] groups is ${groups}, must divide both inChannels ${inChannels} and outChannels ${outChannels}.`,
      );
    const fanIn = (inChannels / groups) * height * width;
    this.options = rest;
    this.weight = uniformParameter([outChannels, inChannels / groups, height, width], fanIn);
    this.bias = bias ? uniformParameter([outChannels], fanIn) : undefined;
  }

  /** @param x (N, C, H, W) · @returns (N, O, outH, outW), see `conv2d` */
  forward(x: Tensor): Tensor {
    return conv2d(x, this.weight, this.bias, this.options);
  }
}
