/** Streams: items that come one after the other, where there is no asking for the tenth. */
import {
  aBoolean,
  aFunction,
  anArrayLike,
  integerFrom,
  type Rule,
  type Rules,
  requireArgument,
  required,
  requireOptions,
} from '../core/arguments.js';
import { DataError } from '../core/errors.js';
import { PhiloxStream } from '../core/philox.js';
import { formatShape, requireShape, type Shape, sizeOf } from '../core/shape.js';
import { ArrayDataset } from './dataset.js';
import { aNormalization, type Normalization } from './normalization.js';

/** What a stream can be made of. */
export type StreamSource<T> = Iterable<T> | AsyncIterable<T>;

/** Options of `DataStream.map`. */
export interface StreamMapOptions {
  /** How many items an async function works on at a time, at most. They come in their order all the same. Default: 1. */
  readonly concurrency?: number;
}

/** Options of `DataStream.shuffle`. */
export interface StreamShuffleOptions {
  /** Default: 0. */
  readonly seed?: number;
}

/** Options of `DataStream.batch`. */
export interface StreamBatchOptions {
  /** Leave out the last batch if it is not full. Default: false. */
  readonly dropLast?: boolean;
}

const MAP: Rules<StreamMapOptions> = { concurrency: integerFrom(1) };
const SHUFFLE: Rules<StreamShuffleOptions> = { seed: integerFrom(0) };
const BATCH: Rules<StreamBatchOptions> = { dropLast: aBoolean };

const isIterable = (v: unknown): boolean =>
  typeof v === 'object' && v !== null && (Symbol.iterator in v || Symbol.asyncIterator in v);
const anExample: Rule = {
  must: 'an object such as { input: [0.5, 1], label: 0 }',
  holds: (v) => typeof v === 'object' && v !== null,
};
const anIterable: Rule = { must: 'an iterable', holds: isIterable };
const aSource: Rule = {
  must: 'an iterable, or a function of the epoch that returns one',
  holds: (v) => isIterable(v) || aFunction.holds(v),
};

/**
 * Items of any kind, read one after the other, as lines of a log or messages of a socket. Nothing is read before it is asked
 * for, so a consumer that is slow holds the source back, and a loop that is left closes it.
 * @example
 * const even = new DataStream([1, 2, 3, 4, 5]).map((n) => n * n).filter((n) => n % 2 === 0);
 * for await (const n of even) console.log(n);
 */
export class DataStream<T> implements AsyncIterable<T> {
  readonly #open: (epoch: number) => StreamSource<T>;

  /**
   * @param source an iterable, or a function of the epoch that returns one: a generator runs only once, a function makes a
   *   new one for each epoch
   * @throws ArgumentError
   */
  constructor(source: StreamSource<T> | ((epoch: number) => StreamSource<T>)) {
    requireArgument('DataStream', 'source', source, aSource);
    this.#open = typeof source === 'function' ? source : () => source;
  }

  /** The items of an epoch: `shuffle` gives each another order. @param epoch from 0 */
  epoch(epoch: number): AsyncGenerator<T, void, undefined> {
    requireArgument('epoch', 'epoch', epoch, integerFrom(0));
    return opened(() => this.#open(epoch));
  }

  /** The items of epoch 0. */
  [Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    return this.epoch(0);
  }

  /** What a function makes of each item. It may be async. */
  map<U>(by: (item: T) => U | Promise<U>, options: StreamMapOptions = {}): DataStream<U> {
    requireArgument('map', 'by', by, aFunction);
    requireOptions('map', options, MAP);
    const { concurrency = 1 } = options;
    return new DataStream((epoch) => mapped(this.epoch(epoch), by, concurrency));
  }

  /** The items for which a function is true. It may be async. */
  filter(keep: (item: T) => boolean | Promise<boolean>): DataStream<T> {
    requireArgument('filter', 'keep', keep, aFunction);
    return new DataStream((epoch) => filtered(this.epoch(epoch), keep));
  }

  /**
   * The items in a random order, as far as a buffer allows: each is drawn from `size` that have been read. With a buffer as
   * large as the stream, every order is as likely. The order follows from the seed and the epoch.
   */
  shuffle(size: number, options: StreamShuffleOptions = {}): DataStream<T> {
    requireArgument('shuffle', 'size', size, integerFrom(1));
    requireOptions('shuffle', options, SHUFFLE);
    const { seed = 0 } = options;
    return new DataStream((epoch) => mixed(this.epoch(epoch), size, new PhiloxStream(seed, epoch)));
  }

  /** Arrays of `size` items; the last one may have fewer. */
  batch(size: number, options: StreamBatchOptions = {}): DataStream<T[]> {
    requireArgument('batch', 'size', size, integerFrom(1));
    requireOptions('batch', options, BATCH);
    const { dropLast = false } = options;
    return new DataStream((epoch) => batched(this.epoch(epoch), size, dropLast));
  }

  /** The first `count` items, or all if there are fewer. Nothing beyond them is read. */
  take(count: number): DataStream<T> {
    requireArgument('take', 'count', count, integerFrom(0));
    return new DataStream((epoch) => taken(this.epoch(epoch), count));
  }

  /** All items but the first `count`. */
  skip(count: number): DataStream<T> {
    requireArgument('skip', 'count', count, integerFrom(0));
    return new DataStream((epoch) => {
      let left = count;
      return filtered(this.epoch(epoch), () => left-- <= 0);
    });
  }

  /** These items, then those of another stream. */
  concat<U>(other: StreamSource<U>): DataStream<T | U> {
    requireArgument('concat', 'other', other, anIterable);
    const rest = other instanceof DataStream ? (other as DataStream<U>) : new DataStream(other);
    return new DataStream((epoch) => joined<T | U>([this.epoch(epoch), rest.epoch(epoch)]));
  }
}

async function* opened<T>(open: () => StreamSource<T>): AsyncGenerator<T, void, undefined> {
  yield* open();
}

async function* mapped<T, U>(
  items: AsyncIterable<T>,
  by: (item: T) => U | Promise<U>,
  concurrency: number,
): AsyncGenerator<U, void, undefined> {
  const underway: Promise<U>[] = [];
  try {
    for await (const item of items) {
      const made = (async () => by(item))();
      // A failure is met where the item is awaited.
      made.catch(() => {});
      underway.push(made);
      if (underway.length >= concurrency) yield await underway.shift()!;
    }
    while (underway.length > 0) yield await underway.shift()!;
  } finally {
    await Promise.allSettled(underway);
  }
}

async function* filtered<T>(
  items: AsyncIterable<T>,
  keep: (item: T) => boolean | Promise<boolean>,
): AsyncGenerator<T, void, undefined> {
  for await (const item of items) if (await keep(item)) yield item;
}

async function* mixed<T>(
  items: AsyncIterable<T>,
  size: number,
  random: PhiloxStream,
): AsyncGenerator<T, void, undefined> {
  const buffer: T[] = [];
  for await (const item of items) {
    if (buffer.length < size) {
      buffer.push(item);
      continue;
    }
    const drawn = random.below(size);
    yield buffer[drawn]!;
    buffer[drawn] = item;
  }
  while (buffer.length > 0) {
    const drawn = random.below(buffer.length);
    const item = buffer[drawn]!;
    buffer[drawn] = buffer.at(-1)!;
    buffer.pop();
    yield item;
  }
}

async function* batched<T>(
  items: AsyncIterable<T>,
  size: number,
  dropLast: boolean,
): AsyncGenerator<T[], void, undefined> {
  let batch: T[] = [];
  for await (const item of items) {
    batch.push(item);
    if (batch.length < size) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0 && !dropLast) yield batch;
}

async function* taken<T>(items: AsyncIterable<T>, count: number): AsyncGenerator<T, void, undefined> {
  let left = count;
  if (left === 0) return;
  for await (const item of items) {
    yield item;
    if (--left === 0) return;
  }
}

async function* joined<T>(parts: readonly AsyncIterable<T>[]): AsyncGenerator<T, void, undefined> {
  for (const part of parts) yield* part;
}

/** An example on its way into a data set. */
export interface StreamExample {
  /** Its values, row-major. */
  readonly input: ArrayLike<number>;
  /** Its class. */
  readonly label: number;
}

/** Options of `collectExamples`. */
export interface CollectOptions {
  /** The shape of one example. */
  readonly inputShape: Shape;
  /** Labels are 0 to `classes` − 1. */
  readonly classes: number;
  /** Default: mean 0, std 1. */
  readonly normalize?: Normalization;
}

const COLLECT: Rules<CollectOptions> = {
  inputShape: required({ must: 'a shape, a list of sizes as in [1, 28, 28]', holds: Array.isArray }),
  classes: required(integerFrom(1)),
  normalize: aNormalization,
};

/** @throws DataError for an input with another number of values; ArgumentError */
export function requireExample(op: string, example: StreamExample, index: number, inputShape: Shape): void {
  requireArgument(op, `example ${index}`, example, anExample);
  const { input, label } = example;
  requireArgument(op, `the input of example ${index}`, input, anArrayLike);
  requireArgument(op, `the label of example ${index}`, label, integerFrom(0));
  const size = sizeOf(inputShape);
  if (input.length !== size)
    throw new DataError(
      `example ${index} has ${input.length} values, must have ${size} for inputs of shape ${formatShape(inputShape)}.`,
    );
}

/**
 * A data set of the examples of a stream, which are read to the end and kept as f32, so that a loader
 * can shuffle them. Of more than there is memory for, make a `StreamDataset`.
 * @throws DataError for an input with another number of values, or a label that is not a class; ArgumentError
 */
export async function collectExamples(
  examples: StreamSource<StreamExample>,
  options: CollectOptions,
): Promise<ArrayDataset> {
  requireArgument('collectExamples', 'examples', examples, anIterable);
  requireOptions('collectExamples', options, COLLECT);
  const { inputShape } = options;
  requireShape('collectExamples', inputShape);
  const size = sizeOf(inputShape);
  const kept: StreamExample[] = [];
  for await (const example of examples) {
    requireExample('collectExamples', example, kept.length, inputShape);
    const { input, label } = example;
    kept.push({ input: Float32Array.from(input), label });
  }
  const inputs = new Float32Array(kept.length * size);
  for (const [i, { input }] of kept.entries()) inputs.set(input, i * size);
  return new ArrayDataset({ ...options, inputs, labels: Int32Array.from(kept, ({ label }) => label) });
}
