import type { BatchSlot } from './fill.js';

/** The arrays are reused for the next batch; copy them if you need to keep them. */
export interface Batch {
  /** f32, `size` × `sizeOf(dataset.inputShape)`, normalized. */
  readonly inputs: Float32Array;
  /** `size` labels. */
  readonly labels: Int32Array;
  /** Examples in this batch: the loader's `batchSize`, or fewer in the last one. */
  readonly size: number;
  /** 0 for the first batch of the epoch. */
  readonly index: number;
}

/** Batches side by side; `index` is that of the first. Inputs may be bytes, which the device makes numbers of. */
export interface BatchSpan extends Omit<Batch, 'inputs'> {
  readonly inputs: Float32Array | Uint8Array;
}

/** What is in the first `size` rows of a slot. */
export function spanOf(index: number, size: number, { inputs, labels }: BatchSlot): BatchSpan {
  const features = inputs.length / labels.length;
  return { index, size, inputs: inputs.subarray(0, size * features), labels: labels.subarray(0, size) };
}
