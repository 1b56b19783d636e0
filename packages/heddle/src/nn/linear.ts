/** The fully connected layer. */

import { aBoolean, type Rules, requireOptions } from '../core/arguments.js';
import { linear } from '../tensor/functional-layers.js';
import {
  type AnyTensor,
  type DTypeOf,
  MATMUL,
  type MatmulOptions,
  type ShapeOf,
  Tensor,
} from '../tensor/tensor.js';
import type { LinearInput, LinearShape } from './layer-types.js';
import { Module } from './module.js';
import { requireSize, uniformParameter } from './parameter.js';

/** Options of the layer `Linear`. */
export interface LinearOptions extends MatmulOptions {
  /** Whether there is a bias; default true. */
  readonly bias?: boolean;
}

const RULES: Rules<LinearOptions> = { ...MATMUL, bias: aBoolean };

/**
 * x · weightᵀ + bias: (…, inFeatures) → (…, outFeatures). Both drawn from U(±1/√inFeatures).
 * @example
 * ```ts
 * import { nn, randn } from 'heddle';
 *
 * const layer = new nn.Linear(784, 10);
 * console.log(layer.forward(randn([64, 784])).shape, layer.weight.shape); // → [ 64, 10 ] [ 10, 784 ]
 * ```
 */
export class Linear<In extends number = number, Out extends number = number> extends Module {
  /** (out, in) */
  readonly weight: Tensor<[Out, In], 'f32'>;
  /** (out); undefined with `bias: false`. */
  readonly bias: Tensor<[Out], 'f32'> | undefined;
  readonly #product: MatmulOptions;

  /** @throws ArgumentError if a size is not an integer ≥ 1 */
  constructor(inFeatures: In, outFeatures: Out, options: LinearOptions = {}) {
    super();
    requireSize('Linear', 'inFeatures', inFeatures);
    requireSize('Linear', 'outFeatures', outFeatures);
    requireOptions('Linear', options, RULES);
    this.weight = uniformParameter([outFeatures, inFeatures], inFeatures);
    this.bias = (options.bias ?? true) ? uniformParameter([outFeatures], inFeatures) : undefined;
    this.#product = { precision: options.precision };
  }

  /** @param x (…, in) · @returns (…, out) */
  forward<T extends Tensor>(x: LinearInput<T, In>): Tensor<LinearShape<ShapeOf<T>, Out>, DTypeOf<T>> {
    return new Tensor(linear(x as Tensor, this.weight as AnyTensor, this.bias, this.#product).node);
  }
}
