/** Mini-batches of a dataset, in an order fixed by a seed and the number of the epoch. */
import {
  aBoolean,
  integerFrom,
  isThenable,
  type Rules,
  requireArgument,
  required,
  requireOptions,
} from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { PhiloxStream } from '../core/philox.js';
import { sizeOf } from '../core/shape.js';
import { tensor } from '../tensor/create.js';
import { reclaim } from '../tensor/modes.js';
import { type Batch, makeBatch } from './batch.js';
import type { Batched } from './batched.js';
import { type Dataset, requireDataset, requireWritten } from './dataset.js';
import { EpochRandom } from './epoch-random.js';
import { prefetch } from './prefetch.js';
import { examplesAt, type TensorBatch, TensorDataset } from './tensor-dataset.js';

/** How a `Loader` goes through its data set. */
export interface LoaderOptions {
  /** Examples of a batch. */
  readonly batchSize: number;
  /** A new order every epoch. Default: false, the order of the dataset. */
  readonly shuffle?: boolean;
  /** Integer from 0 to 2^53 − 1. Default: 0. */
  readonly seed?: number;
  /** Leave out the last batch if it is not full. Default: false. */
  readonly dropLast?: boolean;
  /**
   * Threads that prepare batches ahead. Default: 0, batches are made when they are asked for, which is the faster way
   * where making one is cheap (64 MNIST images).
   */
  readonly workers?: number;
  /** Batches prepared ahead of the one in use, with workers. Default: 2 per worker. */
  readonly prefetch?: number;
}

const RULES: Rules<LoaderOptions> = {
  batchSize: required(integerFrom(1)),
  shuffle: aBoolean,
  seed: integerFrom(0),
  dropLast: aBoolean,
  workers: integerFrom(0),
  prefetch: integerFrom(0),
};

/** What a loader goes through. */
export type AnyDataset = Dataset | TensorDataset;

/** The batches of a data set: of a `TensorDataset` they have its structure. */
export type BatchOf<D extends AnyDataset> =
  D extends TensorDataset<infer Inputs, infer Targets> ? TensorBatch<Inputs, Targets> : Batch;

/** A loader whose batches have such targets. */
export type LoaderOf<Targets> =
  | Loader<Dataset>
  | (Targets extends Batched ? Loader<TensorDataset<Batched, Targets>> : never);

/** A batch, and a promise of its values where they are not there yet. */
interface MadeBatch {
  readonly batch: Batch | TensorBatch;
  readonly written?: void | Promise<void>;
}

/** Batches of a data set, epoch by epoch. */
export class Loader<D extends AnyDataset = Dataset> implements AsyncIterable<BatchOf<D>> {
  /** Where the examples are from. */
  readonly dataset: D;
  /** Examples of a batch; the last one of an epoch may have fewer. */
  readonly batchSize: number;
  /** Whether each epoch has an order of its own. */
  readonly shuffle: boolean;
  /** What the order of the epochs is drawn from. */
  readonly seed: number;
  /** The epoch that the next iteration runs. Set it to resume. */
  epoch = 0;
  /** The batch that the next iteration begins with, and 0 again after that. Set it to resume within an epoch. */
  batch = 0;
  readonly #dropLast: boolean;
  readonly #workers: number;
  readonly #prefetch: number;

  /** @throws ArgumentError if an option is outside its range, or the dataset cannot be used with workers */
  constructor(dataset: D, options: LoaderOptions) {
    if (!(dataset instanceof TensorDataset)) requireDataset('Loader', 'dataset', dataset);
    requireOptions('Loader', options, RULES);
    const { batchSize, shuffle = false, seed = 0, dropLast = false, workers = 0 } = options;
    const ahead = options.prefetch ?? 2 * workers;
    requireArgument('Loader', 'prefetch', ahead, integerFrom(workers > 0 ? 1 : 0));
    if (workers > 0 && (dataset instanceof TensorDataset || !dataset.remote)) {
      throw new ArgumentError(
        `[Loader] workers is ${workers}, but this dataset cannot be opened on another thread. Give it a remote() ` +
          'method, or use workers: 0.',
      );
    }
    this.dataset = dataset;
    this.batchSize = batchSize;
    this.shuffle = shuffle;
    this.seed = seed;
    this.#dropLast = dropLast;
    this.#workers = workers;
    this.#prefetch = ahead;
  }

  /** Batches per epoch. */
  get length(): number {
    const full = this.dataset.length / this.batchSize;
    return this.#dropLast ? Math.floor(full) : Math.ceil(full);
  }

  /** Of the largest batch there is. */
  get #mostExamples(): number {
    return Math.min(this.batchSize, this.dataset.length);
  }

  /** The examples of an epoch, in order: each index of the dataset once. */
  order(epoch: number): Uint32Array {
    requireArgument('order', 'epoch', epoch, integerFrom(0));
    const order = new Uint32Array(this.dataset.length);
    for (let i = 0; i < order.length; i++) order[i] = i;
    if (!this.shuffle) return order;
    const random = new PhiloxStream(this.seed, epoch);
    for (let last = order.length - 1; last > 0; last--) {
      const other = random.below(last + 1);
      const swapped = order[last]!;
      order[last] = order[other]!;
      order[other] = swapped;
    }
    return order;
  }

  /**
   * The batches of an epoch, made on this thread, at once.
   * @throws ArgumentError for a data set that makes them asynchronously: write `for await (const batch of loader)`
   */
  *batches(epoch: number = this.epoch++): Generator<BatchOf<D>, void, undefined> {
    requireArgument('batches', 'epoch', epoch, integerFrom(0));
    const first = this.#begin();
    for (const { batch, written } of this.#made(epoch, first)) {
      requireWritten(written);
      yield batch as BatchOf<D>;
    }
  }

  *#made(epoch: number, first: number): Generator<MadeBatch> {
    const chunks = this.#chunks(epoch, first);
    const dataset: AnyDataset = this.dataset;
    if (dataset instanceof TensorDataset) {
      for (const [place, indices] of chunks.entries()) {
        const rows = tensor(Int32Array.from(indices));
        yield { batch: { ...examplesAt(dataset, rows), size: indices.length, index: first + place } };
      }
      return;
    }
    const most = this.#mostExamples;
    const inputs = new Float32Array(most * sizeOf(dataset.inputShape));
    const labels = new Int32Array(most);
    const random = new EpochRandom(this.seed, epoch);
    for (const [place, indices] of chunks.entries()) {
      const written = dataset.batchInto(indices, inputs, labels, random);
      yield { batch: makeBatch(first + place, indices.length, inputs, labels), written };
    }
  }

  /** The batches of the next epoch, made ahead by workers if there are any. */
  async *[Symbol.asyncIterator](): AsyncGenerator<BatchOf<D>, void, undefined> {
    const epoch = this.epoch++;
    const dataset: AnyDataset = this.dataset;
    const remote = this.#workers > 0 && !(dataset instanceof TensorDataset) ? dataset.remote?.() : undefined;
    const first = this.#begin();
    if (!remote || dataset instanceof TensorDataset) {
      for (const { batch, written } of this.#made(epoch, first)) {
        if (isThenable(written)) await written;
        // A loop over batches may await nothing else: memory of earlier ones is given back here.
        await reclaim();
        yield batch as BatchOf<D>;
      }
      return;
    }
    const made = prefetch({
      remote,
      seed: this.seed,
      epoch,
      workers: this.#workers,
      ahead: this.#prefetch,
      first,
      chunks: this.#chunks(epoch, first),
      batchSize: this.#mostExamples,
      features: sizeOf(dataset.inputShape),
    });
    yield* made as AsyncGenerator<BatchOf<D>, void, undefined>;
  }

  /** The batch that an iteration begins with; the next one begins with the first. */
  #begin(): number {
    const { batch } = this;
    requireArgument('Loader', 'batch', batch, integerFrom(0, this.length));
    this.batch = 0;
    return batch;
  }

  /** The examples of each batch from `first` on. */
  #chunks(epoch: number, first: number): Uint32Array[] {
    const order = this.order(epoch);
    return Array.from({ length: this.length - first }, (_, i) =>
      order.subarray((first + i) * this.batchSize, (first + i + 1) * this.batchSize),
    );
  }
}
