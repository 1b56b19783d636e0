/** Streams as data sets: examples that can be had in their order only. */
import {
  instance,
  integerFrom,
  type Rules,
  requireArgument,
  required,
  requireOptions,
} from '../core/arguments.js';
import { ArgumentError, DataError } from '../core/errors.js';
import { requireShape, type Shape, sizeOf } from '../core/shape.js';
import { type Dataset, requireBatch } from './dataset.js';
import type { EpochRandom } from './epoch-random.js';
import { DataStream, requireExample, type StreamExample } from './stream.js';

/** Options of a `StreamDataset`. */
export interface StreamDatasetOptions {
  /** Examples of an epoch: the stream is asked for so many, and for no more. */
  readonly length: number;
  /** The shape of one example. */
  readonly inputShape: Shape;
  /** Labels are 0 to `classes` − 1. */
  readonly classes: number;
}

const RULES: Rules<StreamDatasetOptions> = {
  length: required(integerFrom(1, 2 ** 32 - 1)),
  inputShape: required({ must: 'a shape, a list of sizes as in [1, 28, 28]', holds: Array.isArray }),
  classes: required(integerFrom(1)),
};

/** The stream of an epoch, and how many of its examples have been read. */
interface Reading {
  readonly epoch: number;
  readonly items: AsyncIterator<StreamExample>;
  next: number;
}

/**
 * A stream as a data set, for `Loader` and `fit`, without keeping its examples. Each epoch reads the stream of its number
 * from the beginning; a training that is resumed within an epoch reads on past what it has seen. The order is the stream's:
 * shuffle it there, `stream.shuffle(1000)`, and not in the loader.
 * @example
 * ```ts
 * import { data, Loader } from 'heddle';
 *
 * const stream = new data.DataStream(function* () {
 *   for (let i = 0; ; i++) yield { input: [i], label: i % 2 };
 * });
 * const dataset = new data.StreamDataset(stream, { length: 100, inputShape: [1], classes: 2 });
 * for await (const { labels } of new Loader(dataset, { batchSize: 50 })) console.log(labels.length);
 * // → 50
 * // → 50
 * ```
 */
export class StreamDataset implements Dataset {
  /** Examples of an epoch. */
  readonly length: number;
  /** The shape of one example. */
  readonly inputShape: Shape;
  /** How many classes there are. */
  readonly classes: number;
  readonly #stream: DataStream<StreamExample>;
  #reading: Reading | undefined;
  /** Batches that were asked for earlier come first. */
  #last: Promise<void> = Promise.resolve();

  /** @throws ArgumentError */
  constructor(stream: DataStream<StreamExample>, options: StreamDatasetOptions) {
    requireArgument('StreamDataset', 'stream', stream, instance(DataStream, 'a DataStream'));
    requireOptions('StreamDataset', options, RULES);
    requireShape('StreamDataset', options.inputShape);
    this.length = options.length;
    this.inputShape = options.inputShape;
    this.classes = options.classes;
    this.#stream = stream;
  }

  /**
   * See `Dataset.batchInto`.
   * @throws ArgumentError for examples that do not follow each other
   * @throws DataError for an example that is not as it should be, or if the stream ends before the epoch does
   */
  batchInto(
    indices: ArrayLike<number>,
    inputs: Float32Array,
    labels: Int32Array,
    random?: EpochRandom,
  ): Promise<void> {
    requireBatch(indices, inputs, labels);
    const written = this.#last.then(() => this.#write(indices, inputs, labels, random?.epoch ?? 0));
    // Its failure is met where this batch is awaited.
    this.#last = written.catch(() => {});
    return written;
  }

  async #write(
    indices: ArrayLike<number>,
    inputs: Float32Array,
    labels: Int32Array,
    epoch: number,
  ): Promise<void> {
    const size = sizeOf(this.inputShape);
    for (let row = 0; row < indices.length; row++) {
      const index = indices[row]!;
      requireArgument('batchInto', 'example', index, integerFrom(0, this.length - 1));
      if (row > 0 && index !== indices[row - 1]! + 1)
        throw new ArgumentError(
          `[StreamDataset] example ${index} is asked for after example ${indices[row - 1]}: a stream gives its examples in their order. ` +
            'Leave shuffle and sampler out of the loader, and shuffle the stream: stream.shuffle(1000).',
        );
      const { input, label } = await this.#example(epoch, index);
      inputs.set(input, row * size);
      labels[row] = label;
    }
  }

  async #example(epoch: number, index: number): Promise<StreamExample> {
    if (this.#reading?.epoch !== epoch || this.#reading.next > index) await this.#begin(epoch);
    const reading = this.#reading!;
    for (;;) {
      const { value, done } = await reading.items.next();
      if (done)
        throw new DataError(
          `the stream of epoch ${epoch} ended after ${reading.next} of ${this.length} examples. Make length smaller; or, if ` +
            'the stream was read before, make it of a function that opens it again: new DataStream(() => …).',
        );
      const isWanted = reading.next++ === index;
      if (reading.next === this.length) await this.#end();
      if (!isWanted) continue;
      requireExample('StreamDataset', value, index, this.inputShape);
      return value;
    }
  }

  async #begin(epoch: number): Promise<void> {
    await this.#end();
    this.#reading = { epoch, items: this.#stream.epoch(epoch), next: 0 };
  }

  /** The source is closed, if it has more than was asked for. */
  async #end(): Promise<void> {
    const reading = this.#reading;
    this.#reading = undefined;
    await reading?.items.return?.();
  }
}
