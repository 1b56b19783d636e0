/** How layers make their parameters. */
import { integerFrom, requireArgument } from '../core/arguments.js';
import { type Shape, sizeOf } from '../core/shape.js';
import { requireIndexable } from '../tensor/checks.js';
import { storedZeros, tensor } from '../tensor/create.js';
import { drawnTensor, type ScaledDraws, WORDS_OF } from '../tensor/initial-values.js';
import { defaultGenerator } from '../tensor/random.js';
import type { GivenShape } from '../tensor/shape-types.js';
import type { Tensor } from '../tensor/tensor.js';

let drawn = true;

/**
 * Make layers whose drawn parameters are going to be overwritten: they are 0. The generator moves on as if they were drawn,
 * which takes most of the time to make a large layer.
 */
export function withoutDraws<T>(make: () => T): T {
  const before = drawn;
  drawn = false;
  try {
    return make();
  } finally {
    drawn = before;
  }
}

/** f32, with values from the host's generator. */
export function drawnParameter<const S extends Shape>(
  shape: S,
  draws: ScaledDraws,
): Tensor<GivenShape<S>, 'f32'> {
  const { host } = defaultGenerator();
  if (drawn) return drawnTensor(shape, host, draws);
  host.position += WORDS_OF[draws.distribution] * sizeOf(shape);
  return storedZeros(shape, { requiresGrad: true });
}

/** f32, drawn as PyTorch's Linear and Conv2d draw theirs: from U(−1/√fanIn, 1/√fanIn). */
export function uniformParameter<const S extends Shape>(
  shape: S,
  fanIn: number,
): Tensor<GivenShape<S>, 'f32'> {
  return boundedParameter(shape, 1 / Math.sqrt(fanIn));
}

/** f32, drawn from U(−bound, bound). */
export function boundedParameter<const S extends Shape>(
  shape: S,
  bound: number,
): Tensor<GivenShape<S>, 'f32'> {
  return drawnParameter(shape, { distribution: 'uniform', offset: -bound, scale: 2 * bound });
}

/** f32, `value` everywhere. */
export function constantParameter<const S extends Shape>(
  shape: S,
  value: number,
): Tensor<GivenShape<S>, 'f32'> {
  requireIndexable(shape);
  return tensor(new Float32Array(sizeOf(shape)).fill(value), { shape, requiresGrad: true });
}

export function requireSize(layer: string, name: string, size: number): void {
  requireArgument(layer, name, size, integerFrom(1, 2 ** 31 - 1));
}
