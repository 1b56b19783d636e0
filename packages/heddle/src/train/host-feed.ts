/** Batches from the host, one by one. */
import type { Shape } from '../core/shape.js';
import type { Dataset, Loader } from '../data/index.js';
import { jit } from '../tensor/jit.js';
import type { Tensor } from '../tensor/tensor.js';
import type { BatchWork, Chunk, Feed } from './feed.js';
import { Inputs } from './inputs.js';

/** Each batch is written to the same memory on the device, then worked on. */
export class HostFeed implements Feed {
  readonly #loader: Loader<Dataset>;
  readonly #inputs: Inputs;
  readonly #full;
  readonly #rest;

  constructor(loader: Loader<Dataset>, work: BatchWork, tune: 'on' | 'frozen') {
    this.#loader = loader;
    this.#inputs = new Inputs(loader.dataset);
    const traced = (inputs: Tensor<Shape, 'f32'>, labels: Tensor<Shape, 'i32'>): void =>
      work(inputs, labels, labels.shape[0]!);
    this.#full = jit(traced, { tune });
    this.#rest = jit(traced, { tune: 'frozen' });
  }

  async *chunks(epoch: number, first: number): AsyncGenerator<Chunk> {
    this.#loader.epoch = epoch;
    this.#loader.batch = first;
    for await (const batch of this.#loader) {
      const run = (): void => {
        const { inputs, labels } = this.#inputs.write(batch);
        const work = batch.size === this.#loader.batchSize ? this.#full : this.#rest;
        work(inputs, labels);
      };
      yield { batches: 1, examples: batch.size, run };
    }
  }

  dispose(): void {
    this.#full.dispose();
    this.#rest.dispose();
    this.#inputs.dispose();
  }
}
