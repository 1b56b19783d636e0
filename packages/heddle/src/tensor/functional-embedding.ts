/** Rows of a table by their numbers. Source: PyTorch's torch.nn.functional.embedding. */

import { above, integerFrom, type Rules, requireArgument, requireOptions } from '../core/arguments.js';
import { type DTypeName, i32 } from '../core/dtype.js';
import { DTypeError } from '../core/errors.js';
import type { Shape } from '../core/shape.js';
import * as b from '../graph/build.js';
import { indexSelect } from '../ops/index-add/op.js';
import { type AnyTensor, requireFloat, requireIndexable, requireRank, requireTensor } from './checks.js';
import { ones, tensor } from './create.js';
import { noGrad } from './modes.js';
import { Tensor, widely } from './tensor.js';

/** Options of `embedding`. */
export interface EmbeddingOptions {
  /** The row that gets no gradient: a negative one counts from the back. Default: none. */
  readonly paddingIndex?: number | undefined;
  /** Rows that are looked up and have a larger norm are first scaled to it, in `weight` itself. Default: none are. */
  readonly maxNorm?: number | undefined;
  /** The p of that norm, (Σ |x|^p)^(1/p); default 2. */
  readonly normType?: number | undefined;
}

/** @internal */
export const EMBEDDING: Rules<EmbeddingOptions> = {
  paddingIndex: integerFrom(Number.MIN_SAFE_INTEGER),
  maxNorm: above(0),
  normType: above(0),
};

/** @internal The row counted from the front. @throws ArgumentError */
export function paddingRow(op: string, index: number, rows: number): number {
  requireArgument(op, 'paddingIndex', index, integerFrom(-rows, rows - 1));
  return index < 0 ? index + rows : index;
}

/** Scale the rows of `weight` that `flat` names to the norm `most`, where theirs is larger. */
function limitNorms(weight: AnyTensor, flat: AnyTensor, most: number, ord: number): void {
  noGrad(() => {
    const named = b.scatterAdd(ones(flat.shape).node, flat.node, 0, weight.shape[0]!);
    const isNamed = new Tensor(named).gt(0).unsqueeze(1);
    const limited = widely((w) => {
      const norms = w.norm(1, { ord, keepdim: true });
      // 1e-7 as in PyTorch: the scaled row is not longer than `most`, rounding included.
      return isNamed.and(norms.gt(most)).where(w.mul(norms.add(1e-7).reciprocal().mul(most)), w);
    }, weight);
    weight.assign(limited);
  });
}

/**
 * The row of `weight` that each index names. The gradient adds up the rows' gradients, always in the same order.
 * @example
 * ```ts
 * import { embedding, randn, tensor } from 'heddle';
 *
 * const table = randn([1000, 64]);
 * console.log(embedding(tensor(Int32Array.of(7, 7, 3)), table).shape); // → [ 3, 64 ]
 * ```
 * @param indices i32, any shape (…), each 0 … rows−1; others give a row of NaN
 * @param weight floats (rows, features)
 * @returns (…, features)
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function embedding<D extends DTypeName>(
  indices: AnyTensor,
  weight: Tensor<Shape, D>,
  options: EmbeddingOptions = {},
): Tensor<Shape, D> {
  requireTensor('embedding', 'indices', indices);
  if (indices.dtype !== i32)
    throw new DTypeError(
      `[embedding] indices must be i32, got ${indices.dtype.name}. Convert them with .cast(i32).`,
    );
  requireRank('embedding', 'weight', weight, 2, '(rows, features)');
  requireFloat('embedding', 'weight', weight);
  requireOptions('embedding', options, EMBEDDING);
  const { paddingIndex, maxNorm, normType = 2 } = options;
  const [rows, features] = weight.shape as [number, number];
  const flat = indices.reshape([indices.size]);
  if (maxNorm !== undefined) limitNorms(weight, flat, maxNorm, normType);
  const picked = new Tensor<Shape, D>(indexSelect(weight.node, flat.node, 0, 'nan'));
  const trained =
    paddingIndex === undefined
      ? picked
      : flat
          .unsqueeze(1)
          .eq(paddingRow('embedding', paddingIndex, rows))
          .where(picked.detach(), picked);
  return trained.reshape([...indices.shape, features]);
}

/**
 * Positions as vectors of sines and cosines of falling frequencies, to be added to embeddings: column 2i is
 * sin(p / 10000^(2i / features)), the next one its cosine (Vaswani and others, 2017).
 * @returns f32 (length, features)
 * @throws ArgumentError
 */
export function sinusoidalPositions(length: number, features: number): Tensor<Shape, 'f32'> {
  requireArgument('sinusoidalPositions', 'length', length, integerFrom(0, 2 ** 31 - 1));
  requireArgument('sinusoidalPositions', 'features', features, integerFrom(1, 2 ** 31 - 1));
  requireIndexable([length, features]);
  const values = Float32Array.from({ length: length * features }, (_, at) => {
    const column = at % features;
    const angle = Math.floor(at / features) / 10000 ** ((column - (column % 2)) / features);
    return column % 2 === 0 ? Math.sin(angle) : Math.cos(angle);
  });
  return tensor(values, { shape: [length, features] });
}
