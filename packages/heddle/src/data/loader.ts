/** Mini-batches of a dataset, in an order fixed by a seed and the number of the epoch. */
import {
  aBoolean,
  integerFrom,
  oneOf,
  type Rules,
  requireArgument,
  required,
  requireOptions,
  shown,
} from '../core/arguments.js';
import { ArgumentError } from '../core/errors.js';
import { PhiloxStream } from '../core/philox.js';
import { sizeOf } from '../core/shape.js';
import { tensor } from '../tensor/create.js';
import { type MemoryKind, reclaim } from '../tensor/modes.js';
import { type Batch, type BatchSpan, spanOf } from './batch.js';
import type { Batched } from './batched.js';
import { Crew, requireWorkers } from './crew.js';
import { type Dataset, requireDataset, requireWritten } from './dataset.js';
import { EpochRandom } from './epoch-random.js';
import type { BatchJob, BatchSlot } from './fill.js';
import { type BatchMaker, prefetch, ThisThread } from './prefetch.js';
import { aSampler, RandomSampler, type Sampler, SequentialSampler } from './sampler.js';
import { type BatchRows, orderOfShard, rowsOf, type Shard, WHOLE } from './shard.js';
import { NEW_SLOTS, type SlotSize, type Slots } from './slots.js';
import { DataStream } from './stream.js';
import { examplesAt, type TensorBatch, TensorDataset } from './tensor-dataset.js';

/** How a `Loader` goes through its data set. */
export interface LoaderOptions {
  /** Examples of a batch. */
  readonly batchSize: number;
  /** A new order every epoch. Default: false, the order of the dataset. */
  readonly shuffle?: boolean;
  /** Chooses the examples of an epoch and their order, instead of `shuffle`. */
  readonly sampler?: Sampler;
  /**
   * What the order and the examples' random numbers are drawn from: an integer from 0 to 2^53 − 1. Default: 0.
   */
  readonly seed?: number;
  /** Leave out the last batch if it is not full. Default: false. */
  readonly dropLast?: boolean;
  /**
   * Threads that prepare batches ahead. They are started for the first epoch, and stay for those that follow: each opens the
   * data set once. Default: 0, batches are made when they are asked for, which is the faster way where making one is cheap
   * (64 MNIST images).
   */
  readonly workers?: number;
  /**
   * Batches prepared ahead of the one in use: that many and one are in memory, and no more. Default: 2 per worker. Without
   * workers (default 0) it is of use where `batchInto` is async, as this many more batches are then under way at a time.
   */
  readonly prefetch?: number;
  /**
   * What becomes of an example for which `batchInto` throws. 'throw' (default): the error ends the iteration. 'skip': the
   * next example of the epoch's order that can be read takes its place (after the last, the first), so that batches have
   * the size and the order that they would have, and `skipped` tells of it.
   */
  readonly onError?: 'throw' | 'skip';
}

const RULES: Rules<LoaderOptions> = {
  batchSize: required(integerFrom(1)),
  shuffle: aBoolean,
  sampler: aSampler,
  seed: integerFrom(0),
  dropLast: aBoolean,
  workers: integerFrom(0),
  prefetch: integerFrom(0),
  onError: oneOf('throw', 'skip'),
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
  readonly batch: BatchSpan | TensorBatch;
  readonly written?: void | Promise<void>;
}

/** How a training takes batches. */
export interface SpanOptions {
  /** How many batches, one or more, are made side by side from this one on, at most. */
  readonly together: (batch: number) => number;
  /** What `together` says at most. */
  readonly most: number;
  /** Inputs as `Dataset.bytes` gives them. */
  readonly bytes: boolean;
  /** Where batches are made. Default: in memory that is new in every epoch. */
  readonly slots?: Slots;
  /** Is told how long it took to make so many batches. */
  readonly made?: (batches: number, milliseconds: number) => void;
}

const ONE_BY_ONE: SpanOptions = { together: () => 1, most: 1, bytes: false };

/** Ends the workers of loaders that have been garbage-collected. */
const abandoned = new FinalizationRegistry<Crew>((crew) => void crew.end());

/**
 * Batches of a data set, epoch by epoch.
 * @example
 * ```ts
 * import { Loader, randn, TensorDataset } from 'heddle';
 *
 * const loader = new Loader(new TensorDataset(randn([100, 3]), randn([100, 1])), { batchSize: 32, shuffle: true });
 * for await (const { size } of loader) console.log(size); // → 32
 * console.log(loader.batches); // → 4
 * ```
 */
export class Loader<D extends AnyDataset = Dataset> implements AsyncIterable<BatchOf<D>> {
  /** Where the examples are from. */
  readonly dataset: D;
  /** Examples of a batch, of all shards together; the last one of an epoch may have fewer. */
  readonly batchSize: number;
  /** Whether each epoch has an order of its own. */
  readonly shuffle: boolean;
  /** Chooses the examples of an epoch and their order. */
  readonly sampler: Sampler;
  /** What the order and the examples' random numbers are drawn from. */
  readonly seed: number;
  /** The epoch that the next iteration runs. Set it to resume. */
  epoch = 0;
  /** The batch that the next iteration begins with, and 0 again after that. Set it to resume within an epoch. */
  batch = 0;
  readonly #options: LoaderOptions;
  #shard: Shard = WHOLE;
  readonly #dropLast: boolean;
  readonly #workers: number;
  readonly #prefetch: number;
  readonly #onError: 'throw' | 'skip';
  readonly #skipped = new Map<number, string>();
  #crew: Crew | undefined;
  /** Of the epoch to come, if it has been made ahead. */
  #nextOrder: { readonly epoch: number; readonly order: Uint32Array } | undefined;

  /** @throws ArgumentError if an option is outside its range, or the dataset cannot be used with workers */
  constructor(dataset: D, options: LoaderOptions) {
    if ((dataset as unknown) instanceof DataStream)
      throw new ArgumentError(
        '[Loader] a DataStream has no length and no shapes. Make a data set of it: await collectExamples(stream, …), which ' +
          'keeps its examples, or new StreamDataset(stream, …), which does not.',
      );
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
    if (options.sampler && shuffle)
      throw new ArgumentError('[Loader] shuffle and sampler both choose the order: leave shuffle out.');
    this.dataset = dataset;
    this.#options = options;
    this.batchSize = batchSize;
    this.seed = seed;
    this.sampler = options.sampler ?? new (shuffle ? RandomSampler : SequentialSampler)(dataset.length);
    this.shuffle = this.sampler instanceof RandomSampler;
    this.#onError = options.onError ?? 'throw';
    this.#dropLast = dropLast;
    this.#workers = workers;
    this.#prefetch = ahead;
  }

  /** Batches per epoch. */
  get length(): number {
    const full = this.sampler.length / this.batchSize;
    return this.#dropLast ? Math.floor(full) : Math.ceil(full);
  }

  /** Examples per epoch. */
  get examples(): number {
    const { length } = this.sampler;
    return this.#dropLast ? length - (length % this.batchSize) : length;
  }

  /**
   * The same batches, of which each of `count` ranks takes its part: of n examples those from ⌊rank · n / count⌋ on. The
   * order is that of the whole loader, whatever the number of ranks. `batchSize`, `length` and `examples` count all ranks
   * together, `size` of a batch the rows of this one. Where the last batch of an epoch has fewer examples than there are
   * ranks, one that gets none has a row of another's.
   * @example
   * ```ts
   * import { Loader, randn, TensorDataset } from 'heddle';
   *
   * const loader = new Loader(new TensorDataset(randn([100, 3]), randn([100, 1])), { batchSize: 32 });
   * for (const { size } of loader.shard(1, 2).batches()) console.log(size); // → 16
   * ```
   * @param rank from 0 to count − 1
   * @throws ArgumentError for a rank that does not exist, or fewer examples in a batch than ranks
   */
  shard(rank: number, count: number): Loader<D> {
    requireArgument('shard', 'count', count, integerFrom(1, this.batchSize));
    requireArgument('shard', 'rank', rank, integerFrom(0, count - 1));
    const part = new Loader(this.dataset, this.#options);
    part.#shard = { rank, count };
    part.epoch = this.epoch;
    part.batch = this.batch;
    return part;
  }

  /** @internal The rows that this shard has of batches. */
  get rows(): BatchRows {
    return rowsOf(this.#shard, this.batchSize, this.examples);
  }

  /** @internal The examples of an epoch that this shard has, batch after batch. */
  ownOrder(epoch: number): Uint32Array {
    const next = this.#nextOrder;
    this.#nextOrder = undefined;
    if (next && next.epoch === epoch) return next.order;
    return orderOfShard(this.#shard, this.order(epoch), this.batchSize, this.examples);
  }

  /** @internal Draw the order of an epoch in advance. The user's own sampler is asked only when its epoch begins. */
  makeOrder(epoch: number): void {
    if (this.#options.sampler) return;
    const order = this.ownOrder(epoch);
    this.#nextOrder = { epoch, order: this.#workers > 0 ? shared(order) : order };
  }

  /** With `onError: 'skip'`, the examples that could not be read so far, by their index, and why. */
  get skipped(): ReadonlyMap<number, string> {
    return this.#skipped;
  }

  /** The examples of an epoch, in order: without a sampler, each index of the dataset once. */
  order(epoch: number): Uint32Array {
    requireArgument('order', 'epoch', epoch, integerFrom(0));
    const order = this.sampler.order(new PhiloxStream(this.seed, epoch), epoch);
    requireOrder(order, this.sampler.length, this.dataset.length);
    return order;
  }

  /**
   * The batches of an epoch, made on this thread, at once.
   * @throws ArgumentError for a data set that makes them asynchronously: write `for await (const batch of loader)`
   */
  *batches(epoch: number = this.epoch++): Generator<BatchOf<D>, void, undefined> {
    requireArgument('batches', 'epoch', epoch, integerFrom(0));
    if (this.#onError === 'skip')
      throw new ArgumentError(
        "[batches] onError: 'skip' is for batches that are awaited: write for await (const batch of loader).",
      );
    const first = this.#begin();
    for (const { batch, written } of this.#made(epoch, first)) {
      requireWritten(written);
      yield batch as BatchOf<D>;
    }
  }

  *#made(epoch: number, first: number): Generator<MadeBatch> {
    const dataset: AnyDataset = this.dataset;
    const order = this.ownOrder(epoch);
    const jobs = this.#jobs(first);
    const examplesOf = ({ from, size }: BatchJob): Uint32Array => order.subarray(from, from + size);
    if (dataset instanceof TensorDataset) {
      for (const job of jobs) {
        const rows = tensor(Int32Array.from(examplesOf(job)));
        yield { batch: { ...examplesAt(dataset, rows), size: job.size, index: job.index } };
      }
      return;
    }
    const [slot] = NEW_SLOTS.take(1, this.#slotSize(dataset), ArrayBuffer) as [BatchSlot];
    const random = new EpochRandom(this.seed, epoch);
    for (const job of jobs) {
      const written = dataset.batchInto(examplesOf(job), slot.inputs as Float32Array, slot.labels, random);
      yield { batch: spanOf(job.index, job.size, slot), written };
    }
  }

  /** The batches of the next epoch, made ahead by workers if there are any. */
  async *[Symbol.asyncIterator](): AsyncGenerator<BatchOf<D>, void, undefined> {
    if (!((this.dataset as AnyDataset) instanceof TensorDataset)) {
      yield* this.spans() as AsyncGenerator<BatchOf<D>>;
      return;
    }
    for (const { batch } of this.#made(this.epoch++, this.#begin())) {
      // A loop over batches may await nothing else: memory of earlier ones is given back here.
      await reclaim();
      yield batch as BatchOf<D>;
    }
  }

  /** @internal The batches of the next epoch, several of them side by side where that is asked for. */
  async *spans(options: SpanOptions = ONE_BY_ONE): AsyncGenerator<BatchSpan, void, undefined> {
    const epoch = this.epoch++;
    const { together, made, slots = NEW_SLOTS } = options;
    const jobs = this.#jobs(this.#begin(), together);
    const most = Math.min(this.#prefetch + 1, this.length);
    yield* prefetch(this.#maker(epoch, options, most), {
      ...{ jobs, most },
      free: (slot) => slots.free(slot),
      told: ({ skipped, milliseconds }, { size }) => {
        for (const [example, reason] of skipped) this.#skipped.set(example, reason);
        made?.(Math.ceil(size / this.rows.full), milliseconds);
      },
    });
  }

  /** End the workers. An iteration after that starts others. */
  dispose(): void {
    if (!this.#crew) return;
    abandoned.unregister(this);
    void this.#crew.end();
    this.#crew = undefined;
  }

  /** What makes batches: workers if there are any, else this thread. */
  #maker(epoch: number, options: SpanOptions, most: number): BatchMaker {
    const dataset = this.dataset as Dataset;
    const { slots = NEW_SLOTS } = options;
    const { seed } = this;
    const onError = this.#onError;
    const order = this.ownOrder(epoch);
    const slotsIn = (memory: MemoryKind): readonly BatchSlot[] =>
      slots.take(most + slots.spare, this.#slotSize(dataset, options), memory);
    if (this.#workers === 0)
      return new ThisThread(
        { dataset, order, random: new EpochRandom(seed, epoch), onError },
        slotsIn(ArrayBuffer),
      );
    const crew = this.#freeCrew(dataset, Math.min(this.#workers, most));
    crew.begin({ seed, epoch, order: shared(order), onError }, slotsIn(SharedArrayBuffer));
    return crew;
  }

  /** The workers of the epoch before, unless they are at work: an iteration within another one has its own. */
  #freeCrew(dataset: Dataset, count: number): Crew {
    requireWorkers();
    if (this.#crew?.isReady) return this.#crew;
    const crew = new Crew(count, dataset.remote!());
    if (!this.#crew?.isBusy) {
      this.dispose();
      this.#crew = crew;
      abandoned.register(this, crew, this);
    }
    return crew;
  }

  /** Room for the largest batch there is, or for several. */
  #slotSize({ inputShape }: Dataset, { most, bytes } = ONE_BY_ONE): SlotSize {
    const examples = Math.min(most * this.rows.full, this.sampler.length);
    return { examples, features: sizeOf(inputShape), bytes };
  }

  /** The batch that an iteration begins with; the next one begins with the first. */
  #begin(): number {
    const { batch } = this;
    requireArgument('Loader', 'batch', batch, integerFrom(0, this.length));
    this.batch = 0;
    return batch;
  }

  /** The batches of an epoch from `first` on, each with those that are made together with it. */
  *#jobs(first: number, together = ONE_BY_ONE.together): Generator<BatchJob, undefined> {
    const full = Math.floor(this.examples / this.batchSize);
    const { rows } = this;
    let batches: number;
    for (let index = first; index < this.length; index += batches) {
      // The last one, if it is smaller, comes alone.
      batches = index < full ? Math.min(together(index), full - index) : 1;
      yield { index, from: index * rows.full, size: index < full ? batches * rows.full : rows.rest };
    }
  }
}

/** An order that threads read together. */
function shared(order: Uint32Array): Uint32Array {
  if (order.buffer instanceof SharedArrayBuffer) return order;
  const copy = new Uint32Array(new SharedArrayBuffer(order.byteLength));
  copy.set(order);
  return copy;
}

/** @throws ArgumentError unless a sampler has chosen so many examples of a data set of `examples` */
function requireOrder(order: unknown, length: number, examples: number): void {
  if (!(order instanceof Uint32Array && order.length === length))
    throw new ArgumentError(
      `[Loader] the sampler gives ${shown(order)} for an epoch, must give a Uint32Array of ${length} indices.`,
    );
  for (let place = 0; place < length; place++)
    if (order[place]! >= examples)
      throw new ArgumentError(
        `[Loader] the sampler gives example ${order[place]}, the data set has ${examples}. Was it made for another data set?`,
      );
}
