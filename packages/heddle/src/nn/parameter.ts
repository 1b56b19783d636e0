/** How layers make their parameters. */
import { integerFrom, requireArgument } from '../core/arguments.js';
import { type Shape, sizeOf } from '../core/shape.js';
import { requireIndexable } from '../tensor/checks.js';
import { tensor } from '../tensor/create.js';
import { defaultGenerator } from '../tensor/random.js';
import type { GivenShape } from '../tensor/shape-types.js';
import type { Tensor } from '../tensor/tensor.js';

/** f32, drawn as PyTorch's Linear and Conv2d draw theirs: from U(−1/√fanIn, 1/√fanIn). */
export function uniformParameter<const S extends Shape>(
  shape: S,
  fanIn: number,
): Tensor<GivenShape<S>, 'f32'> {
  requireIndexable(shape);
  const bound = 1 / Math.sqrt(fanIn);
  const values = defaultGenerator().host.fill(
    new Float32Array(sizeOf(shape)),
    (stream) => bound * (2 * stream.uniform() - 1),
  );
  return tensor(values, { shape, requiresGrad: true });
}

/** f32, `value` everywhere. */
export function constantParameter(shape: Shape, value: number): Tensor<Shape, 'f32'> {
  requireIndexable(shape);
  return tensor(new Float32Array(sizeOf(shape)).fill(value), { shape, requiresGrad: true });
}

export function requireSize(layer: string, name: string, size: number): void {
  requireArgument(layer, name, size, integerFrom(1, 2 ** 31 - 1));
}
