/** How layers make their parameters. */
import { ArgumentError } from '../core/errors.js';
import { type Shape, sizeOf } from '../core/shape.js';
import { tensor } from '../tensor/create.js';
import { defaultGenerator } from '../tensor/random.js';
import type { Tensor } from '../tensor/tensor.js';

/** f32, drawn as PyTorch's Linear and Conv2d draw theirs: from U(−1/√fanIn, 1/√fanIn). */
export function uniformParameter<S extends Shape>(shape: S, fanIn: number): Tensor<S> {
  const stream = defaultGenerator().host;
  const bound = 1 / Math.sqrt(fanIn);
  const values = Float32Array.from({ length: sizeOf(shape) }, () => bound * (2 * stream.uniform() - 1));
  return tensor(values, { shape, requiresGrad: true }) as Tensor<S>;
}

/** f32, `value` everywhere. */
export function constantParameter<S extends Shape>(shape: S, value: number): Tensor<S> {
  return tensor(new Float32Array(sizeOf(shape)).fill(value), { shape, requiresGrad: true }) as Tensor<S>;
}

export function requireSize(layer: string, name: string, size: number): void {
  if (!Number.isInteger(size) || size < 1)
    throw new ArgumentError(`[${layer}] ${name} is ${size}, must be a whole number ≥ 1.`);
}
