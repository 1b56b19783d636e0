/** ConvolutionLayer layers, in one to three dimensions. */
import { aBoolean, type Rules, requireOptions } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { type Shape, sizeOf } from '../core/shape.js';
import {
  CONV1D,
  CONV2D,
  CONV3D,
  type Conv1dOptions,
  type Conv2dOptions,
  type Conv3dOptions,
  conv1d,
  conv2d,
  conv3d,
  type Pair,
  pair,
  type Triple,
  triple,
} from '../tensor/functional-convolutions.js';
import {
  CONV_TRANSPOSE1D,
  CONV_TRANSPOSE2D,
  CONV_TRANSPOSE3D,
  type ConvTranspose1dOptions,
  type ConvTranspose2dOptions,
  type ConvTranspose3dOptions,
  convTranspose1d,
  convTranspose2d,
  convTranspose3d,
} from '../tensor/functional-transposed-convolutions.js';
import type { Convolved } from '../tensor/shape-types.js';
import { type DTypeOf, type ShapeOf, Tensor } from '../tensor/tensor.js';
import type { Conv2dInput } from './layer-types.js';
import { Module } from './module.js';
import { requireSize, uniformParameter } from './parameter.js';

/** Options of the layer `Conv1d`. */
export interface Conv1dLayerOptions extends Conv1dOptions {
  /** Whether there is a bias; default true. */
  readonly bias?: boolean;
}

/** Options of the layer `Conv2d`. */
export interface Conv2dLayerOptions extends Conv2dOptions {
  /** Whether there is a bias; default true. */
  readonly bias?: boolean;
}

/** Options of the layer `Conv3d`. */
export interface Conv3dLayerOptions extends Conv3dOptions {
  /** Whether there is a bias; default true. */
  readonly bias?: boolean;
}

/** Options of the layer `ConvTranspose1d`. */
export interface ConvTranspose1dLayerOptions extends ConvTranspose1dOptions {
  /** Whether there is a bias; default true. */
  readonly bias?: boolean;
}

/** Options of the layer `ConvTranspose2d`. */
export interface ConvTranspose2dLayerOptions extends ConvTranspose2dOptions {
  /** Whether there is a bias; default true. */
  readonly bias?: boolean;
}

/** Options of the layer `ConvTranspose3d`. */
export interface ConvTranspose3dLayerOptions extends ConvTranspose3dOptions {
  /** Whether there is a bias; default true. */
  readonly bias?: boolean;
}

const RULES = {
  Conv1d: { ...CONV1D, bias: aBoolean } satisfies Rules<Conv1dLayerOptions>,
  Conv2d: { ...CONV2D, bias: aBoolean } satisfies Rules<Conv2dLayerOptions>,
  Conv3d: { ...CONV3D, bias: aBoolean } satisfies Rules<Conv3dLayerOptions>,
  ConvTranspose1d: { ...CONV_TRANSPOSE1D, bias: aBoolean } satisfies Rules<ConvTranspose1dLayerOptions>,
  ConvTranspose2d: { ...CONV_TRANSPOSE2D, bias: aBoolean } satisfies Rules<ConvTranspose2dLayerOptions>,
  ConvTranspose3d: { ...CONV_TRANSPOSE3D, bias: aBoolean } satisfies Rules<ConvTranspose3dLayerOptions>,
};

/** The options as they were given, without those that the layer itself heeds. */
function functionOptions<O extends { readonly bias?: boolean }>(
  name: keyof typeof RULES,
  options: O,
): Omit<O, 'bias'> {
  requireOptions(name, options, RULES[name] as unknown as Rules<O>);
  const { bias: _, ...rest } = options;
  return rest;
}

/**
 * The base of convolution layers: weights (out, in/groups, …kernel), of transposed ones (in, out/groups, …kernel), and a
 * bias for each output channel. Both are drawn from U(±1/√n), n = the weight's size divided by its first dimension.
 */
export abstract class ConvolutionLayer extends Module {
  /** (outChannels, inChannels/groups, …kernel); of transposed convolutions (inChannels, outChannels/groups, …kernel). */
  readonly weight: Tensor<Shape, 'f32'>;
  /** (outChannels); undefined with `bias: false`. */
  readonly bias: Tensor<Shape, 'f32'> | undefined;

  /** @throws ArgumentError if a size is not an integer ≥ 1, or the groups do not divide the channels */
  constructor(
    name: string,
    channels: readonly [inChannels: number, outChannels: number],
    kernel: Shape,
    { groups = 1, bias = true }: { readonly groups?: number; readonly bias?: boolean },
    isTransposed: boolean,
  ) {
    super();
    const [inChannels, outChannels] = channels;
    requireSize(name, 'inChannels', inChannels);
    requireSize(name, 'outChannels', outChannels);
    if (inChannels % groups !== 0 || outChannels % groups !== 0)
      throw new ArgumentError(
        `[${name}] groups is ${groups}, must divide both inChannels ${inChannels} and outChannels ${outChannels}.`,
      );
    const [rows, columns] = isTransposed ? channels : [outChannels, inChannels];
    const fanIn = (columns / groups) * sizeOf(kernel);
    this.weight = uniformParameter([rows, columns / groups, ...kernel], fanIn);
    this.bias = bias ? uniformParameter([outChannels], fanIn) : undefined;
  }
}

/** Cross-correlation of signals plus bias: (N, inChannels, L) → (N, outChannels, outL). */
export class Conv1d extends ConvolutionLayer {
  /** As given to the constructor. */
  readonly options: Conv1dOptions;

  /** @throws ArgumentError if a size is not an integer ≥ 1, or the groups do not divide the channels */
  constructor(inChannels: number, outChannels: number, kernel: number, options: Conv1dLayerOptions = {}) {
    const own = functionOptions('Conv1d', options);
    super('Conv1d', [inChannels, outChannels], [kernelSize('Conv1d', kernel)], options, false);
    this.options = own;
  }

  /** @param x (N, C, L) · @returns (N, O, outL), see `conv1d` */
  forward(x: Tensor): Tensor {
    return conv1d(x, this.weight, this.bias, this.options);
  }
}

/**
 * Cross-correlation of images plus bias: (N, inChannels, H, W) → (N, outChannels, outH, outW). Depthwise: `groups: inChannels`.
 * @example
 * ```ts
 * import { nn, randn } from 'heddle';
 *
 * const layer = new nn.Conv2d(1, 6, 5, { padding: 2 });
 * console.log(layer.forward(randn([64, 1, 28, 28])).shape); // → [ 64, 6, 28, 28 ]
 * ```
 */
export class Conv2d<In extends number = number, Out extends number = number> extends ConvolutionLayer {
  /** As given to the constructor. */
  readonly options: Conv2dOptions;

  /** @throws ArgumentError if a size is not an integer ≥ 1, or the groups do not divide the channels */
  constructor(inChannels: In, outChannels: Out, kernel: Pair, options: Conv2dLayerOptions = {}) {
    const own = functionOptions('Conv2d', options);
    super('Conv2d', [inChannels, outChannels], pair('Conv2d', 'kernel', kernel, 1), options, false);
    this.options = own;
  }

  /** @param x (N, C, H, W) · @returns (N, O, outH, outW), see `conv2d` */
  forward<T extends Tensor>(x: Conv2dInput<T, In>): Tensor<Convolved<ShapeOf<T>, Out>, DTypeOf<T>> {
    return new Tensor(conv2d(x as Tensor, this.weight, this.bias, this.options).node);
  }
}

/** Cross-correlation of volumes plus bias: (N, inChannels, D, H, W) → (N, outChannels, outD, outH, outW). */
export class Conv3d extends ConvolutionLayer {
  /** As given to the constructor. */
  readonly options: Conv3dOptions;

  /** @throws ArgumentError if a size is not an integer ≥ 1, or the groups do not divide the channels */
  constructor(inChannels: number, outChannels: number, kernel: Triple, options: Conv3dLayerOptions = {}) {
    const own = functionOptions('Conv3d', options);
    super('Conv3d', [inChannels, outChannels], triple('Conv3d', 'kernel', kernel, 1), options, false);
    this.options = own;
  }

  /** @param x (N, C, D, H, W) · @returns (N, O, outD, outH, outW), see `conv3d` */
  forward(x: Tensor): Tensor {
    return conv3d(x, this.weight, this.bias, this.options);
  }
}

/** The adjoint of `Conv1d` plus bias: (N, inChannels, L) → (N, outChannels, outL). */
export class ConvTranspose1d extends ConvolutionLayer {
  /** As given to the constructor. */
  readonly options: ConvTranspose1dOptions;

  /** @throws ArgumentError if a size is not an integer ≥ 1, or the groups do not divide the channels */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: number,
    options: ConvTranspose1dLayerOptions = {},
  ) {
    const own = functionOptions('ConvTranspose1d', options);
    super(
      'ConvTranspose1d',
      [inChannels, outChannels],
      [kernelSize('ConvTranspose1d', kernel)],
      options,
      true,
    );
    this.options = own;
  }

  /** @param x (N, C, L) · @returns (N, O, outL), see `convTranspose1d` */
  forward(x: Tensor): Tensor {
    return convTranspose1d(x, this.weight, this.bias, this.options);
  }
}

/** The adjoint of `Conv2d` plus bias: (N, inChannels, H, W) → (N, outChannels, outH, outW). */
export class ConvTranspose2d extends ConvolutionLayer {
  /** As given to the constructor. */
  readonly options: ConvTranspose2dOptions;

  /** @throws ArgumentError if a size is not an integer ≥ 1, or the groups do not divide the channels */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Pair,
    options: ConvTranspose2dLayerOptions = {},
  ) {
    const own = functionOptions('ConvTranspose2d', options);
    super(
      'ConvTranspose2d',
      [inChannels, outChannels],
      pair('ConvTranspose2d', 'kernel', kernel, 1),
      options,
      true,
    );
    this.options = own;
  }

  /** @param x (N, C, H, W) · @returns (N, O, outH, outW), see `convTranspose2d` */
  forward(x: Tensor): Tensor {
    return convTranspose2d(x, this.weight, this.bias, this.options);
  }
}

/** The adjoint of `Conv3d` plus bias: (N, inChannels, D, H, W) → (N, outChannels, outD, outH, outW). */
export class ConvTranspose3d extends ConvolutionLayer {
  /** As given to the constructor. */
  readonly options: ConvTranspose3dOptions;

  /** @throws ArgumentError if a size is not an integer ≥ 1, or the groups do not divide the channels */
  constructor(
    inChannels: number,
    outChannels: number,
    kernel: Triple,
    options: ConvTranspose3dLayerOptions = {},
  ) {
    const own = functionOptions('ConvTranspose3d', options);
    super(
      'ConvTranspose3d',
      [inChannels, outChannels],
      triple('ConvTranspose3d', 'kernel', kernel, 1),
      options,
      true,
    );
    this.options = own;
  }

  /** @param x (N, C, D, H, W) · @returns (N, O, outD, outH, outW), see `convTranspose3d` */
  forward(x: Tensor): Tensor {
    return convTranspose3d(x, this.weight, this.bias, this.options);
  }
}

function kernelSize(name: string, kernel: number): number {
  requireSize(name, 'kernel', kernel);
  return kernel;
}
