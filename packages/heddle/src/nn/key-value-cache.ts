/** The keys and values of the positions that a causal model has seen, so that the next one is computed alone. */

import { i32 } from '../core/dtype.js';
import type { Shape } from '../core/shape.js';
import { arange, zeros } from '../tensor/create.js';
import { noGrad } from '../tensor/modes.js';
import type { AnyTensor, Tensor } from '../tensor/tensor.js';
import { requireSize } from './parameter.js';

/** The keys and values that an attention layer attends to, with a cache. */
export interface CachedKeys {
  /** (N, heads, maxLength, E) */
  readonly keys: AnyTensor;
  /** (N, heads, maxLength, E) */
  readonly values: AnyTensor;
  /** bool (L, maxLength): the positions up to that of each query. */
  readonly mask: Tensor<Shape, 'bool'>;
  /** bool (1): whether the new positions fit in. */
  readonly fits: Tensor<Shape, 'bool'>;
}

/**
 * Keys and values of one layer of attention, in tensors of a fixed size: a jitted step updates them in place, and one
 * program serves all positions. `MultiheadAttention.cache()` makes it. It takes part in no gradients.
 */
export class KeyValueCache {
  /** (N, heads, maxLength, E): the keys so far, then zeros. */
  readonly keys: Tensor<Shape, 'f32'>;
  /** (N, heads, maxLength, E): the values so far, then zeros. */
  readonly values: Tensor<Shape, 'f32'>;
  /** i32 (1): how many positions there are so far. */
  readonly length: Tensor<Shape, 'i32'>;

  /** @throws ArgumentError if a size is not an integer ≥ 1 */
  constructor(batch: number, heads: number, maxLength: number, size: number) {
    for (const [name, value] of Object.entries({ batch, heads, maxLength, size }))
      requireSize('KeyValueCache', name, value);
    this.keys = zeros([batch, heads, maxLength, size]);
    this.values = zeros([batch, heads, maxLength, size]);
    this.length = zeros([1], { dtype: i32 });
  }

  /** @internal Take in the keys and values (N, heads, L, E) of the next L positions. */
  append(keys: AnyTensor, values: AnyTensor): CachedKeys {
    const [count, most] = [keys.shape[2]!, this.keys.shape[2]!];
    const start = this.length.detach();
    return noGrad(() => {
      const position = arange(most, { dtype: i32 });
      const source = position.sub(start);
      const isNew = source.ge(0).and(source.lt(count)).unsqueeze(1);
      const taken = (from: AnyTensor, to: AnyTensor): AnyTensor =>
        to.assign(isNew.where(from.detach().at(':', ':', source), to));
      this.length.assign(start.add(count));
      return {
        keys: taken(keys, this.keys),
        values: taken(values, this.values),
        mask: position.le(arange(count, { dtype: i32 }).unsqueeze(1).add(start)),
        fits: start.le(most - count),
      };
    });
  }

  /** Forget all positions: the next one is the first again. */
  reset(): void {
    this.length.write([0]);
  }
}
