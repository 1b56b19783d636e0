/** The fully connected layer. */
import { linear } from '../tensor/functional.js';
import type { MatmulOptions, Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';
import { requireSize, uniformParameter } from './parameter.js';

export interface LinearOptions extends MatmulOptions {
  /** Whether there is a bias; default true. */
  readonly bias?: boolean;
}

/** x · weightᵀ + bias: (…, inFeatures) → (…, outFeatures). Both drawn from U(±1/√inFeatures). */
export class Linear extends Module {
  readonly weight: Tensor<readonly [number, number]>;
  readonly bias: Tensor<readonly [number]> | undefined;
  private readonly product: MatmulOptions;

  /** @throws ArgumentError if a size is not a whole number ≥ 1 */
  constructor(inFeatures: number, outFeatures: number, options: LinearOptions = {}) {
    super();
    requireSize('Linear', 'inFeatures', inFeatures);
    requireSize('Linear', 'outFeatures', outFeatures);
    this.weight = uniformParameter([outFeatures, inFeatures] as const, inFeatures);
    this.bias = (options.bias ?? true) ? uniformParameter([outFeatures] as const, inFeatures) : undefined;
    this.product = options;
  }

  forward(x: Tensor): Tensor {
    return linear(x, this.weight, this.bias, this.product);
  }
}
