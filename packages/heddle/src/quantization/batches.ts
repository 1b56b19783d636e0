/** The examples that a quantization is calibrated and judged by. */
import { type Rule, requireArgument, shown } from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { Tensor } from '../tensor/tensor.js';

/** Inputs of the model, alone or with the labels of the examples (N), i32. */
export type QuantizationBatch = Tensor | { readonly inputs: Tensor; readonly labels?: Tensor | undefined };

/** Batches, one after the other: a list, a generator or a stream. */
export type QuantizationBatches = Iterable<QuantizationBatch> | AsyncIterable<QuantizationBatch>;

/** Inputs and labels of a batch. */
export interface LabeledBatch {
  readonly inputs: Tensor;
  readonly labels: Tensor | undefined;
}

/** @internal Something to iterate over. A tensor is so too, and would be taken apart. */
export const anIterable: Rule = {
  must: 'a list of tensors or of { inputs, labels }, or generate them',
  holds: (v) =>
    typeof v === 'object' &&
    v !== null &&
    !(v instanceof Tensor) &&
    (Symbol.iterator in v || Symbol.asyncIterator in v),
};

/** @throws ArgumentError for what is no batch, and where there is none */
export async function batchesOf(op: string, batches: QuantizationBatches): Promise<LabeledBatch[]> {
  requireArgument(op, 'batches', batches, anIterable);
  const list: LabeledBatch[] = [];
  for await (const batch of batches) {
    const { inputs, labels } = batch instanceof Tensor ? { inputs: batch, labels: undefined } : (batch ?? {});
    if (!(inputs instanceof Tensor) || !(labels === undefined || labels instanceof Tensor))
      throw new ArgumentError(
        `[${op}] batch ${list.length} is ${shown(batch)}, must be a tensor, or { inputs, labels } of tensors.`,
      );
    list.push({ inputs, labels });
  }
  if (list.length === 0) throw new ArgumentError(`[${op}] batches is empty: give at least one.`);
  return list;
}
