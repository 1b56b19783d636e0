/** The tensors that batches are written into. */

import { i32 } from '../core/dtype.js';
import type { Shape } from '../core/shape.js';
import type { Batch, Dataset } from '../data/index.js';
import { requireClasses } from '../data/labels.js';
import { tensor } from '../tensor/create.js';
import type { Tensor } from '../tensor/tensor.js';

/** A batch on the device: inputs (size, …inputShape), f32, and labels (size), i32. */
export interface DeviceBatch {
  readonly inputs: Tensor<Shape, 'f32'>;
  readonly labels: Tensor<Shape, 'i32'>;
}

/**
 * One pair of tensors per batch size, written in place: a jitted function sees the same memory step after step, and
 * is traced once for the full batches and once for the last one.
 */
export class Inputs {
  readonly #dataset: Dataset;
  readonly #held = new Map<number, DeviceBatch>();

  constructor(dataset: Dataset) {
    this.#dataset = dataset;
  }

  /** @throws DataError for a label that is not a class */
  write({ inputs, labels, size, index }: Batch): DeviceBatch {
    const { classes, inputShape } = this.#dataset;
    requireClasses(labels, classes, (place) => `example ${place} of batch ${index}`);
    const held = this.#held.get(size);
    if (held) {
      held.inputs.write(inputs);
      held.labels.write(labels);
      return held;
    }
    const made = {
      inputs: tensor(inputs.slice(), { shape: [size, ...inputShape] }),
      labels: tensor(labels.slice(), { shape: [size], dtype: i32 }),
    };
    this.#held.set(size, made);
    return made;
  }

  dispose(): void {
    for (const { inputs, labels } of this.#held.values()) {
      inputs.dispose();
      labels.dispose();
    }
    this.#held.clear();
  }
}
