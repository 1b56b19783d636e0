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

/** The batch in the first `size` rows of buffers for a full one. */
export function makeBatch(index: number, size: number, inputs: Float32Array, labels: Int32Array): Batch {
  const features = inputs.length / labels.length;
  return { index, size, inputs: inputs.subarray(0, size * features), labels: labels.subarray(0, size) };
}
