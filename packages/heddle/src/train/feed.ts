/** How batches reach a model: from the host one by one, or from a data set that lives on the device. */
import { sizeOf } from '../core/shape.js';
import { ArrayDataset, type Dataset, type Loader } from '../data/index.js';
import { type JitOptions, jit } from '../tensor/jit.js';
import { device } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import { Inputs } from './inputs.js';
import { ResidentFeed } from './resident.js';

/** What is done with a batch: inputs (n, …inputShape), f32, and labels (n), i32. Traced, not run, for each n. */
export type BatchWork = (inputs: Tensor<'f32'>, labels: Tensor<'i32'>) => void;

/** How to work on batches. */
export interface FeedOptions {
  /** See `EvaluateOptions.resident`. */
  readonly resident?: boolean | undefined;
  /** How kernels are chosen for full batches; for the last one, which is smaller, nothing is timed. */
  readonly tune?: JitOptions['tune'];
}

/** Batches that are worked on together. */
export interface Chunk {
  readonly batches: number;
  readonly examples: number;
  /** Start the work on them. */
  run(): void;
}

export interface Feed {
  /** The batches of an epoch, in the loader's order. */
  chunks(epoch: number): AsyncIterable<Chunk>;
  /**
   * Compile what full batches need, or all, ahead of them. Absent: only the batches themselves show what that is.
   * @returns whether it is compiled; if not, it is compiling in the background
   */
  prepare?(what: 'full' | 'all'): boolean;
  dispose(): void;
}

/** A data set up to this size is kept in the memory of a GPU, in bytes. */
const RESIDENT_BYTES = 2 ** 30;

/**
 * Whether the batches of this data set are gathered on the device, unless it is said otherwise. Other kinds than arrays
 * may give an example another way each time they are asked.
 */
function staysOnDevice(dataset: Dataset): boolean {
  const bytes = 4 * dataset.length * (sizeOf(dataset.inputShape) + 2);
  const isFixed = dataset instanceof ArrayDataset && dataset.isPlain;
  return isFixed && device().name.startsWith('cuda') && bytes <= RESIDENT_BYTES;
}

export function feedOf(loader: Loader, work: BatchWork, options: FeedOptions = {}): Feed {
  const { resident = staysOnDevice(loader.dataset), tune = 'on' } = options;
  return resident ? new ResidentFeed(loader, work, tune) : new HostFeed(loader, work, tune);
}

/** Each batch is written to the same memory on the device, then worked on. */
class HostFeed implements Feed {
  readonly #loader: Loader;
  readonly #inputs: Inputs;
  readonly #full;
  readonly #rest;

  constructor(loader: Loader, work: BatchWork, tune: 'on' | 'frozen') {
    this.#loader = loader;
    this.#inputs = new Inputs(loader.dataset);
    this.#full = jit(work, { tune });
    this.#rest = jit(work, { tune: 'frozen' });
  }

  async *chunks(epoch: number): AsyncGenerator<Chunk> {
    this.#loader.epoch = epoch;
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
