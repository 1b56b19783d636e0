/** The fully connected layer. */

import { aBoolean, type Rules, requireOptions } from '../core/arguments.js';
import type { Shape } from '../core/shape.js';
import { linear } from '../tensor/functional-layers.js';
import { MATMUL, type MatmulOptions, type Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';
import { requireSize, uniformParameter } from './parameter.js';

/** Options of the layer `Linear`. */
export interface LinearOptions extends MatmulOptions {
  /** Whether there is a bias; default true. */
  readonly bias?: boolean;
}

const RULES: Rules<LinearOptions> = { ...MATMUL, bias: aBoolean };

/** x · weightᵀ + bias: (…, inFeatures) → (…, outFeatures). Both drawn from U(±1/√inFeatures). */
export class Linear extends Module {
  /** (out, in) */
  readonly weight: Tensor<Shape, 'f32'>;
  /** (out); undefined with `bias: false`. */
  readonly bias: Tensor<Shape, 'f32'> | undefined;
  readonly #product: MatmulOptions;

  /** @throws ArgumentError if a size is not an integer ≥ 1 */
  constructor(inFeatures: number, outFeatures: number, options: LinearOptions = {}) {
    super();
    requireSize('Linear', 'inFeatures', inFeatures);
    requireSize('Linear', 'outFeatures', outFeatures);
    requireOptions('Linear', options, RULES);
    this.weight = uniformParameter([outFeatures, inFeatures], inFeatures);
    this.bias = (options.bias ?? true) ? uniformParameter([outFeatures], inFeatures) : undefined;
    this.#product = { precision: options.precision };
  }

  /** @param x (…, in) · @returns (…, out) */
  forward(x: Tensor): Tensor {
    return linear(x, this.weight, this.bias, this.#product);
  }
}
