/** Labelled examples, and the usual kind: arrays in memory. */
import {
  anArrayLike,
  integerFrom,
  isThenable,
  type Rule,
  type Rules,
  requireArgument,
  required,
  requireOptions,
  shaped,
  shown,
} from '../core/arguments.js';
import { ArgumentError, DataError } from '../core/errors.js';
import { formatShape, requireShape, type Shape, sizeOf } from '../core/shape.js';
import type { EpochRandom } from './epoch-random.js';
import { requireClasses } from './labels.js';
import { aNormalization, byteTable, type Normalization, normalizationOf } from './normalization.js';
import { REMOTE_DATASETS } from './remote-module.js';

/** Examples with labels: implement it to train on data of your own. */
export interface Dataset {
  /** Number of examples. */
  readonly length: number;
  /** Shape of one input, such as (1, 28, 28). */
  readonly inputShape: Shape;
  /** Labels are 0 to `classes` − 1. */
  readonly classes: number;
  /**
   * Write the examples `indices`, one after another, into `inputs` (f32, `indices.length` × `sizeOf(inputShape)`) and
   * `labels` (`indices.length`). Nothing is allocated. It may return a promise, as of images that are decoded: what it
   * writes is used when that is fulfilled. A promise that is rejected leaves nothing running that writes. A loader that
   * makes batches ahead asks for others meanwhile, with other arrays.
   * @param random where examples that vary at random get their numbers; a loader gives it, so that they are the same
   *   whatever the number of workers. Without it, an example is to be as it is.
   */
  batchInto(
    indices: ArrayLike<number>,
    inputs: Float32Array,
    labels: Int32Array,
    random?: EpochRandom,
  ): void | Promise<void>;
  /** The same examples with inputs as bytes, for a training that turns them into numbers on its device. */
  readonly bytes?: ByteInputs | undefined;
  /** The examples of these numbers as a data set. Without it, parts of the data set are `Subset`s. */
  select?(indices: ArrayLike<number>): Dataset;
  /** How to open the dataset on another thread. Without it, a loader cannot use workers. */
  remote?(): RemoteDataset;
}

/** Inputs as bytes, and what they stand for. */
export interface ByteInputs {
  /** What each byte becomes, f32: a table of 256 for each channel, which is the first size of an input, or one for all. */
  readonly tables: readonly Float32Array[];
  /** As `Dataset.batchInto`, with inputs as bytes (`indices.length` × `sizeOf(inputShape)`). */
  batchInto(
    indices: ArrayLike<number>,
    inputs: Uint8Array,
    labels: Int32Array,
    random?: EpochRandom,
  ): void | Promise<void>;
}

/** A function exported by a module that makes a dataset from `data`, which is sent to the thread by structured clone. */
export interface RemoteDataset {
  /** The URL of the module that has `open`. */
  readonly module: string;
  /** The name of an exported function that makes the dataset of `data`. */
  readonly open: string;
  /** What `open` is called with; it must survive structured cloning. */
  readonly data: unknown;
}

/** What an `ArrayDataset` is made of. */
export interface ArrayDatasetOptions {
  /** One input after another, row-major. Bytes stay bytes; they become f32 batch by batch. */
  readonly inputs: Float32Array | Uint8Array;
  /** The shape of one example. */
  readonly inputShape: Shape;
  /** One for each example: 0 … classes − 1. */
  readonly labels: Int32Array | Uint8Array;
  /** How many classes there are. */
  readonly classes: number;
  /** Default: mean 0, std 1. */
  readonly normalize?: Normalization;
}

const numbersOf = (...types: readonly (abstract new (...args: never[]) => unknown)[]): Rule => ({
  must: types.map((t) => `${t.name.startsWith('I') ? 'an' : 'a'} ${t.name}`).join(' or '),
  holds: (v) => types.some((t) => v instanceof t),
});

const FLOATS = numbersOf(Float32Array);
const INTEGERS = numbersOf(Int32Array);

const ARRAYS: Rules<ArrayDatasetOptions> = {
  inputs: required(numbersOf(Float32Array, Uint8Array)),
  inputShape: required({ must: 'a shape, a list of sizes as in [1, 28, 28]', holds: Array.isArray }),
  labels: required(numbersOf(Int32Array, Uint8Array)),
  classes: required(integerFrom(1)),
  normalize: aNormalization,
};

/** @internal */
export const aDataset: Rule = shaped(
  'a dataset such as an ArrayDataset, with length, inputShape, classes and batchInto',
  {
    length: integerFrom(0),
    inputShape: { must: 'a shape', holds: (v) => Array.isArray(v) && v.every(integerFrom(0).holds) },
    classes: integerFrom(1),
    batchInto: { must: 'a function', holds: (v) => typeof v === 'function' },
  },
);

/** @internal @throws ArgumentError */
export function requireDataset(op: string, name: string, dataset: unknown): asserts dataset is Dataset {
  requireArgument(op, name, dataset, aDataset);
}

/** @internal What `batchInto` is given. @throws ArgumentError */
export function requireBatch(indices: unknown, inputs: unknown, labels: unknown): void {
  requireArgument('batchInto', 'indices', indices, anArrayLike);
  requireArgument('batchInto', 'inputs', inputs, FLOATS);
  requireArgument('batchInto', 'labels', labels, INTEGERS);
}

/**
 * @internal The examples `indices` of a dataset, at once.
 * @throws ArgumentError if the dataset makes them asynchronously
 */
export function fillBatch(
  dataset: Dataset,
  indices: ArrayLike<number>,
  inputs: Float32Array,
  labels: Int32Array,
): void {
  requireWritten(dataset.batchInto(indices, inputs, labels));
}

/** @internal @throws ArgumentError for a batch that is not written yet: here nobody can wait for it */
export function requireWritten(batch: void | Promise<void>): void {
  if (!isThenable(batch)) return;
  // Its failure is not a second error.
  batch.then(undefined, () => {});
  throw new ArgumentError(
    '[Dataset] batchInto is async, and cannot be awaited here: loader.batches() and resident: true need batches at once. Write for await (const batch of loader), and leave resident out.',
  );
}

interface ChannelNormalization {
  readonly mean: number;
  readonly std: number;
  /** What each byte becomes. */
  readonly table: Float32Array;
}

/** A data set in typed arrays. */
export class ArrayDataset implements Dataset {
  /** How many examples there are. */
  readonly length: number;
  /** The shape of one example. */
  readonly inputShape: Shape;
  /** How many classes there are. */
  readonly classes: number;
  /** All examples, one after the other, before normalization. */
  readonly inputs: Float32Array | Uint8Array;
  /** One for each example. */
  readonly labels: Int32Array | Uint8Array;
  /** What is subtracted from the inputs, and what they are divided by. */
  readonly normalize: Normalization;
  readonly #features: number;
  /** Of each channel, or of all. */
  readonly #channels: readonly ChannelNormalization[];

  /**
   * @throws DataError if the counts of inputs and labels differ, or a label is outside the classes
   * @throws ArgumentError for arrays of other types, such as fractional labels
   */
  constructor(options: ArrayDatasetOptions) {
    requireOptions('ArrayDataset', options, ARRAYS);
    const { inputs, inputShape, labels, classes, normalize = { mean: 0, std: 1 } } = options;
    requireShape('ArrayDataset', inputShape);
    const features = sizeOf(inputShape);
    if (inputs.length !== features * labels.length) {
      throw new DataError(
        `${inputs.length} input values do not match ${labels.length} labels: expected ${labels.length} × ` +
          `${features} values for inputs of shape ${formatShape(inputShape)}.`,
      );
    }
    requireClasses(labels, classes);
    this.length = labels.length;
    this.inputShape = inputShape;
    this.classes = classes;
    this.inputs = inputs;
    this.labels = labels;
    this.normalize = normalize;
    this.#features = features;
    this.#channels = normalizationOf('ArrayDataset', normalize, inputShape).map((own) => ({
      ...own,
      table: byteTable(own),
    }));
  }

  /** See `Dataset.bytes`: where the inputs are bytes, unless a subclass makes something else of them. */
  get bytes(): ByteInputs | undefined {
    const { inputs } = this;
    if (!(inputs instanceof Uint8Array && this.isPlain)) return undefined;
    const tables = this.#channels.map(({ table }) => table);
    const features = this.#features;
    const batchInto = (indices: ArrayLike<number>, to: Uint8Array, labels: Int32Array): void => {
      for (let row = 0; row < indices.length; row++)
        labels[row] = this.labels[this.#requireExample('batchInto', indices[row]!)]!;
      copyRows(inputs, indices, features, to);
    };
    return { tables, batchInto };
  }

  /** Whether its arrays are all there is to it: a subclass may make something else of them. */
  get isPlain(): boolean {
    return this.batchInto === ArrayDataset.prototype.batchInto;
  }

  /** See `Dataset.batchInto`. */
  batchInto(indices: ArrayLike<number>, inputs: Float32Array, labels: Int32Array): void {
    requireBatch(indices, inputs, labels);
    const features = this.#features;
    const plane = features / this.#channels.length;
    for (let row = 0; row < indices.length; row++) {
      const index = this.#requireExample('batchInto', indices[row]!);
      labels[row] = this.labels[index]!;
      for (const [c, channel] of this.#channels.entries()) {
        const [from, to] = [index * features + c * plane, row * features + c * plane];
        if (this.inputs instanceof Uint8Array)
          normalizeBytes(this.inputs, from, inputs, to, plane, channel.table);
        else normalizeFloats(this.inputs, from, inputs, to, plane, channel);
      }
    }
  }

  /** The examples of these numbers, one after the other, in arrays of their own. */
  select(indices: ArrayLike<number>): ArrayDataset {
    requireArgument('select', 'indices', indices, anArrayLike);
    const features = this.#features;
    const count = indices.length * features;
    const chosen = this.inputs instanceof Uint8Array ? new Uint8Array(count) : new Float32Array(count);
    const labels = Int32Array.from(indices, (index) => this.labels[this.#requireExample('select', index)]!);
    for (let row = 0; row < indices.length; row++) {
      const from = indices[row]! * features;
      chosen.set(this.inputs.subarray(from, from + features), row * features);
    }
    return new ArrayDataset({ ...this.#options(), inputs: chosen, labels });
  }

  #requireExample(op: string, index: number): number {
    if (Number.isInteger(index) && index >= 0 && index < this.length) return index;
    throw new ArgumentError(
      `[${op}] example ${shown(index)} is out of range: the dataset has ${this.length}.`,
    );
  }

  /** The examples `begin` up to but without `end`, sharing this dataset's memory. */
  slice(begin: number, end: number = this.length): ArrayDataset {
    requireArgument('slice', 'begin', begin, integerFrom(0, this.length));
    requireArgument('slice', 'end', end, integerFrom(begin, this.length));
    return new ArrayDataset({
      ...this.#options(),
      inputs: this.inputs.subarray(begin * this.#features, end * this.#features),
      labels: this.labels.subarray(begin, end),
    });
  }

  /**
   * Its arrays are copied into shared memory, once, unless they are there already.
   * @throws ArgumentError for a subclass that overrides `batchInto` only
   */
  remote(): RemoteDataset {
    if (!this.isPlain)
      throw new ArgumentError(
        `a ${this.constructor.name} makes its batches in its own way, which another thread does not know. Give it a ` +
          'remote() method of its own, or use workers: 0.',
      );
    const data = { ...this.#options(), inputs: shared(this.inputs), labels: shared(this.labels) };
    return { module: REMOTE_DATASETS, open: 'openArrays', data };
  }

  #options(): ArrayDatasetOptions {
    const { inputs, inputShape, labels, classes, normalize } = this;
    return { inputs, inputShape, labels, classes, normalize };
  }
}

// Two small functions, each with one kind of array, stay fast however many kinds of dataset a program uses.

function normalizeBytes(
  from: Uint8Array,
  at: number,
  to: Float32Array,
  toAt: number,
  count: number,
  table: Float32Array,
): void {
  for (let i = 0; i < count; i++) to[toAt + i] = table[from[at + i]!]!;
}

function normalizeFloats(
  from: Float32Array,
  at: number,
  to: Float32Array,
  toAt: number,
  count: number,
  { mean, std }: ChannelNormalization,
): void {
  for (let i = 0; i < count; i++) to[toAt + i] = (from[at + i]! - mean) / std;
}

/** Rows that are prefetched together, and the bytes of a cache line. */
const TOGETHER = 16;
const CACHE_LINE = 64;
/** Collects every byte that is read ahead, so that V8 does not remove the reads. */
const looked = new Uint8Array(1);

/**
 * Copy rows of `count` bytes from anywhere in memory. One byte of each cache line of several rows is read first, so that their
 * cache misses overlap, which takes a third less time for rows of 784 bytes.
 */
function copyRows(from: Uint8Array, rows: ArrayLike<number>, count: number, to: Uint8Array): void {
  for (let first = 0; first < rows.length; first += TOGETHER) {
    const end = Math.min(first + TOGETHER, rows.length);
    for (let row = first; row < end; row++) looked[0]! |= lookAt(from, rows[row]! * count, count);
    for (let row = first; row < end; row++) copyBytes(from, rows[row]! * count, to, row * count, count);
  }
}

/** Reads a byte of each cache line, eight at a time: with fewer instructions in between, more cache misses overlap. */
function lookAt(from: Uint8Array, at: number, count: number): number {
  const end = at + count;
  let bits = 0;
  let i = at;
  for (; i + 7 * CACHE_LINE < end; i += 8 * CACHE_LINE)
    bits |=
      from[i]! |
      from[i + CACHE_LINE]! |
      from[i + 2 * CACHE_LINE]! |
      from[i + 3 * CACHE_LINE]! |
      from[i + 4 * CACHE_LINE]! |
      from[i + 5 * CACHE_LINE]! |
      from[i + 6 * CACHE_LINE]! |
      from[i + 7 * CACHE_LINE]!;
  for (; i < end; i += CACHE_LINE) bits |= from[i]!;
  return bits;
}

/** A loop for a few bytes: calls of `subarray` and `set` take longer than copying those. */
function copyBytes(from: Uint8Array, at: number, to: Uint8Array, toAt: number, count: number): void {
  if (count > 256) to.set(from.subarray(at, at + count), toAt);
  else for (let i = 0; i < count; i++) to[toAt + i] = from[at + i]!;
}

const copies = new WeakMap<ArrayBufferView, ArrayBufferView>();

/** `array`, or a copy of it in shared memory; the same copy each time. */
function shared<A extends Float32Array | Int32Array | Uint8Array>(array: A): A {
  if (array.buffer instanceof SharedArrayBuffer) return array;
  const copy = copies.get(array) ?? copyShared(array);
  copies.set(array, copy);
  return copy as A;
}

function copyShared(array: Float32Array | Int32Array | Uint8Array): ArrayBufferView {
  const memory = new SharedArrayBuffer(array.byteLength);
  new Uint8Array(memory).set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  if (array instanceof Float32Array) return new Float32Array(memory);
  return array instanceof Int32Array ? new Int32Array(memory) : new Uint8Array(memory);
}
