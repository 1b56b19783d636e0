/** The fully connected layer. */
import { linear } from '../tensor/functional.js';
import type { Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';
import { requireSize, uniformParameter } from './parameter.js';

/** x · weightᵀ + bias: (…, inFeatures) → (…, outFeatures). Both drawn from U(±1/√inFeatures). */
export class Linear extends Module {
  readonly weight: Tensor<readonly [number, number]>;
  readonly bias: Tensor<readonly [number]> | undefined;

  /** @throws ArgumentError if a size is not a whole number ≥ 1 */
  constructor(inFeatures: number, outFeatures: number, options: { readonly bias?: boolean } = {}) {
    super();
    requireSize('Linear', 'inFeatures', inFeatures);
    requireSize('Linear', 'outFeatures', outFeatures);
    this.weight = uniformParameter([outFeatures, inFeatures] as const, inFeatures);
    this.bias = (options.bias ?? true) ? uniformParameter([outFeatures] as const, inFeatures) : undefined;
  }

  forward(x: Tensor): Tensor {
    return linear(x, this.weight, this.bias);
  }
}
