/** Recurrent networks: one layer in one direction. */
import { type CellName, recurrent } from '../ops/recurrent/op.js';
import { forProduct } from './autocast.js';
import { zeros } from './create.js';
import { linear } from './functional-layers.js';
import { type AnyTensor, Tensor } from './tensor.js';

/** The parameters of a layer in one direction. */
export interface RecurrentWeights {
  /** (gates·H, I) */
  readonly weightIh: AnyTensor;
  /** (gates·H, H) */
  readonly weightHh: AnyTensor;
  /** (gates·H) */
  readonly biasIh?: AnyTensor | undefined;
  /** (gates·H) */
  readonly biasHh?: AnyTensor | undefined;
}

/** The results of a layer. */
export interface RecurrentOutput {
  /** (T, N, H): h after each step. */
  readonly output: Tensor;
  /** (N, H) each: the states after the last step, h, and of an LSTM c. */
  readonly last: readonly Tensor[];
}

/**
 * All steps of a layer. In mixed precision its sources are of 16 bits, and so are its states; a step is computed in f32.
 * @param x (T, N, I), T ≥ 1
 * @param first (N, H) each: the states before the first step
 * @param isReversed from the last step to the first
 */
export function recurrentLayer(
  cell: CellName,
  x: Tensor,
  { weightIh, weightHh, biasIh, biasHh }: RecurrentWeights,
  first: readonly Tensor[],
  isReversed = false,
): RecurrentOutput {
  const inOrder = isReversed ? x.flip(0) : x;
  const [h0, c0 = h0] = first.map((state) => state.node);
  const size = weightHh.shape[1]!;
  const input = linear(inOrder, weightIh, biasIh);
  const bias = biasHh ?? zeros([weightHh.shape[0]!], { dtype: x.dtype });
  const sources = [input.node, weightHh.transpose().node, bias.node, h0!, c0!].map(forProduct);
  const y = new Tensor(recurrent(cell, ...sources));
  const h = y.at(':', ':', `0:${size}`);
  return {
    output: isReversed ? h.flip(0) : h,
    last: first.map((_, i) => y.at(-1, ':', `${i * size}:${(i + 1) * size}`)),
  };
}
