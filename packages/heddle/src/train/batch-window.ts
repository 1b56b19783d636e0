/** Device memory for batches of one size, and the program that works on them. */
import { i32, u8 } from '../core/dtype.js';
import type { Shape } from '../core/shape.js';
import type { BatchSpan } from '../data/batch.js';
import { type Dataset, TensorDataset } from '../data/index.js';
import { requireClasses } from '../data/labels.js';
import { examplesAt } from '../data/tensor-dataset.js';
import { arange, storedZeros, tensor } from '../tensor/create.js';
import { type JitOptions, type Jitted, jit } from '../tensor/jit.js';
import { noGrad, writePart } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import { ByteValues } from './byte-values.js';
import type { BatchRun, BatchWork } from './feed.js';

/** What a window is for. */
interface WindowOptions {
  /** Examples of a batch. */
  readonly size: number;
  /** Batches that there is room for. */
  readonly batches: number;
  readonly work: BatchWork;
  readonly tune: JitOptions['tune'];
}

export class BatchWindow {
  readonly #size: number;
  readonly #batches: number;
  readonly #classes: number;
  /** f32, or the bytes that stand for it. */
  readonly #inputs: Tensor<Shape, 'f32'> | Tensor<Shape, 'u8'>;
  readonly #labels: Tensor<Shape, 'i32'>;
  readonly #values: ByteValues | undefined;
  /** How many examples are done. */
  readonly #done = tensor(0, { dtype: i32 });
  readonly #program: Jitted<[closes: boolean], void>;

  constructor({ inputShape, classes, bytes }: Dataset, { size, batches, work, tune = 'on' }: WindowOptions) {
    const examples = size * batches;
    const shape = [examples, ...inputShape];
    const inputs = bytes ? storedZeros(shape, { dtype: u8 }) : storedZeros(shape);
    const labels = storedZeros([examples], { dtype: i32 });
    const values = bytes && new ByteValues(bytes.tables);
    const window = new TensorDataset(inputs, labels);
    const next = (): Pick<TensorDataset<Tensor, Tensor>, 'inputs' | 'targets'> => {
      if (batches === 1) return window;
      const rows = arange(size, { dtype: i32 }).add(this.#done);
      this.#done.assign(this.#done.add(size));
      return examplesAt(window, rows);
    };
    const step = (closes: boolean): void => {
      const batch = noGrad(() => {
        const { inputs: own, targets } = next();
        return { inputs: values ? values.of(own as Tensor<Shape, 'u8'>) : own, targets };
      });
      work(batch.inputs, batch.targets, size, closes);
    };
    this.#size = size;
    this.#batches = batches;
    this.#classes = classes;
    this.#inputs = inputs;
    this.#labels = labels;
    this.#values = values;
    this.#program = jit(step, { tune });
  }

  /** Write batches to the device and start the work on them. @throws DataError for a label that is not a class */
  run({ inputs, labels, index }: BatchSpan, runs: readonly BatchRun[]): void {
    requireClasses(
      labels,
      this.#classes,
      (place) => `example ${place % this.#size} of batch ${index + Math.floor(place / this.#size)}`,
    );
    writePart(this.#inputs, inputs);
    writePart(this.#labels, labels);
    if (this.#batches > 1) this.#done.write([0]);
    for (const { batches, closes } of runs) this.#program.repeat(batches, closes);
  }

  dispose(): void {
    this.#program.dispose();
    this.#values?.dispose();
    for (const held of [this.#inputs, this.#labels, this.#done]) held.dispose();
  }
}
