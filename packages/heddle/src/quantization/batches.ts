/** The examples that a quantization is calibrated and judged by. */
import { shown } from '../core/arguments.js';
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

/** @throws ArgumentError for what is no batch, and where there is none */
export async function batchesOf(op: string, batches: QuantizationBatches): Promise<LabeledBatch[]> {
  const isIterable =
    typeof batches === 'object' &&
    batches !== null &&
    !(batches instanceof Tensor) &&
    (Symbol.iterator in batches || Symbol.asyncIterator in batches);
  if (!isIterable)
    throw new ArgumentError(
      `[${op}] batches is ${shown(batches)}, must be a list of tensors or of { inputs, labels }, or generate them.`,
    );
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
