/** The 2-D convolution layer. */
import { ArgumentError } from '../core/errors.js';
import { type Conv2dOptions, conv2d, type Pair } from '../tensor/functional.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';
import { requireSize, uniformParameter } from './parameter.js';

type Four = readonly [number, number, number, number];

/**
 * Cross-correlation plus bias: (N, inChannels, H, W) → (N, outChannels, outH, outW). Weight and bias are drawn from
 * U(±1/√fanIn), fanIn = inChannels/groups · kH · kW.
 */
export class Conv2d extends Module {
  readonly weight: Tensor<Four>;
  readonly bias: Tensor<readonly [number]> | undefined;
  readonly options: Conv2dOptions;

  /** @throws ArgumentError if a size is not a whole number ≥ 1, or the groups do not divide the channels */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Pair,
    options: Conv2dOptions & { readonly bias?: boolean } = {},
  ) {
    super();
    const { bias = true, ...rest } = options;
    const [height, width] = typeof kernel === 'number' ? [kernel, kernel] : kernel;
    const groups = rest.groups ?? 1;
    requireSize('Conv2d', 'inChannels', inChannels);
    requireSize('Conv2d', 'outChannels', outChannels);
    requireSize('Conv2d', 'kernel', height);
    requireSize('Conv2d', 'kernel', width);
    requireSize('Conv2d', 'groups', groups);
    if (inChannels % groups !== 0 || outChannels % groups !== 0)
      throw new ArgumentError(
        `[Conv2d] groups is ${groups}, must divide both inChannels ${inChannels} and outChannels ${outChannels}.`,
      );
    const fanIn = (inChannels / groups) * height * width;
    this.options = rest;
    this.weight = uniformParameter([outChannels, inChannels / groups, height, width] as const, fanIn);
    this.bias = bias ? uniformParameter([outChannels] as const, fanIn) : undefined;
  }

  forward(x: Tensor): Tensor {
    return conv2d(x, this.weight, this.bias, this.options);
  }
}
