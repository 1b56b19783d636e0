/** A table of vectors, one for each number. */

import { requireOptions } from '../core/arguments.js';
import type { Shape } from '../core/shape.js';
import { EMBEDDING, type EmbeddingOptions, embedding, paddingRow } from '../tensor/functional-embedding.js';
import { writePart } from '../tensor/modes.js';
import type { AnyTensor, Tensor } from '../tensor/tensor.js';
import { Module } from './module.js';
import { drawnParameter, requireSize } from './parameter.js';

/**
 * The row of `weight` that each index names: (…) → (…, embeddingDim). Drawn from N(0, 1); the padding row is 0.
 * @example
 * ```ts
 * import { nn, tensor } from 'heddle';
 *
 * const layer = new nn.Embedding(1000, 64);
 * console.log(layer.forward(tensor(Int32Array.of(1, 2, 3))).shape); // → [ 3, 64 ]
 * ```
 */
export class Embedding extends Module {
  /** (numEmbeddings, embeddingDim) */
  readonly weight: Tensor<Shape, 'f32'>;
  /** The row that gets no gradient, counted from the front; undefined: all get one. */
  readonly paddingIndex: number | undefined;
  /** Rows that are looked up are scaled to this norm if theirs is larger; undefined: none are. */
  readonly maxNorm: number | undefined;
  /** The p of that norm. */
  readonly normType: number;

  /** @throws ArgumentError if a size is not an integer ≥ 1, or the padding is not a row */
  constructor(numEmbeddings: number, embeddingDim: number, options: EmbeddingOptions = {}) {
    super();
    requireSize('Embedding', 'numEmbeddings', numEmbeddings);
    requireSize('Embedding', 'embeddingDim', embeddingDim);
    requireOptions('Embedding', options, EMBEDDING);
    const { paddingIndex, maxNorm, normType = 2 } = options;
    this.paddingIndex =
      paddingIndex === undefined ? undefined : paddingRow('Embedding', paddingIndex, numEmbeddings);
    this.maxNorm = maxNorm;
    this.normType = normType;
    const shape = [numEmbeddings, embeddingDim];
    this.weight = drawnParameter(shape, { distribution: 'normal', offset: 0, scale: 1 });
    if (this.paddingIndex !== undefined)
      writePart(this.weight, new Float32Array(embeddingDim), this.paddingIndex * embeddingDim);
  }

  /** @param indices i32, any shape (…), each 0 … numEmbeddings−1 · @returns (…, embeddingDim) */
  forward(indices: AnyTensor): Tensor<Shape, 'f32'> {
    const { paddingIndex, maxNorm, normType } = this;
    return embedding(indices, this.weight, { paddingIndex, maxNorm, normType });
  }
}
