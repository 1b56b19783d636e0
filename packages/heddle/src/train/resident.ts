/**
 * A data set in the memory of the device. Batches are gathered there by the program that works on them, so that many
 * steps are one launch: the order of the examples is uploaded once an epoch, and the position in it is state.
 */
import { i32, u8 } from '../core/dtype.js';
import { type Shape, sizeOf } from '../core/shape.js';
import { fillBatch } from '../data/dataset.js';
import { type AnyDataset, ArrayDataset, type Dataset, type Loader, TensorDataset } from '../data/index.js';
import { requireClasses } from '../data/labels.js';
import { examplesAt } from '../data/tensor-dataset.js';
import { arange, tensor } from '../tensor/create.js';
import { type Jitted, jit } from '../tensor/jit.js';
import { device, noGrad, realize } from '../tensor/modes.js';
import type { Tensor } from '../tensor/tensor.js';
import { ByteValues } from './byte-values.js';
import { type BatchWork, type Chunk, type Feed, type FeedSettings, runsOf } from './feed.js';

/** Batches of one launch on a GPU, at most: some milliseconds of the smallest networks. */
const CHUNK = 128;

export class ResidentFeed implements Feed {
  readonly #loader: Loader<AnyDataset>;
  /** Inputs (N, …inputShape), f32, and labels (N), i32, if they were copied to the device for this. */
  readonly #copied: readonly Tensor[];
  /** The examples of the epoch, in order: (N), i32. */
  readonly #order: Tensor<Shape, 'i32'>;
  /** How many of them are done. */
  readonly #done = tensor(0, { dtype: i32 });
  /** The epoch to come, made ahead. */
  #next: EpochOrder;
  readonly #full: Jitted<[size: number, closes: boolean], void>;
  /** Of the last batch, if it is smaller. */
  readonly #rest: Jitted<[size: number, closes: boolean], void>;
  readonly #group: number;

  constructor(loader: Loader<AnyDataset>, work: BatchWork, { tune, group }: FeedSettings) {
    this.#loader = loader;
    this.#group = group;
    const { dataset } = loader;
    const copy = dataset instanceof TensorDataset ? undefined : upload(dataset);
    this.#copied = copy ? [copy.inputs, copy.targets] : [];
    const examples: TensorDataset = copy ?? (dataset as TensorDataset);
    this.#next = orderOf(loader, loader.epoch);
    this.#order = tensor(this.#next.order);
    const gathered =
      (counts: boolean) =>
      (size: number, closes: boolean): void => {
        const { inputs, targets } = noGrad(() => {
          const rows = this.#order.gather(0, arange(size, { dtype: i32 }).add(this.#done));
          this.#done.assign(this.#done.add(size));
          return examplesAt(examples, rows);
        });
        work(inputs, targets, counts ? size : 0, closes);
      };
    this.#full = jit(gathered(true), { tune });
    this.#rest = jit(gathered(loader.rows.restCounts), { tune: 'frozen' });
  }

  async *chunks(epoch: number, first: number, room: (batch: number) => number): AsyncGenerator<Chunk> {
    const { examples, batchSize, length, rows } = this.#loader;
    const { order } = this.#next.epoch === epoch ? this.#next : orderOf(this.#loader, epoch);
    this.#loader.epoch = epoch + 1;
    this.#order.write(order);
    this.#done.write([first * rows.full]);
    const full = Math.floor(examples / batchSize);
    // On a CPU a launch ends before anything else happens: signals would wait for all of its batches.
    const most = device().name.startsWith('cuda') ? CHUNK : 1;
    let batches: number;
    for (let from = first; from < full; from += batches) {
      batches = Math.min(most, full - from, room(from));
      const runs = [...runsOf(from, batches, this.#group, length)];
      const run = (): void => {
        for (const { batches, closes } of runs) this.#full.repeat(batches, rows.full, closes);
      };
      yield { batches, examples: batches * batchSize, run };
    }
    const rest = examples - full * batchSize;
    if (full < length && first < length)
      yield { batches: 1, examples: rest, run: () => this.#rest(rows.rest, true) };
    // While the device is busy.
    this.#next = orderOf(this.#loader, epoch + 1);
  }

  prepare(what: 'full' | 'all'): boolean {
    const { examples, batchSize, length, rows } = this.#loader;
    const full = Math.floor(examples / batchSize);
    const kinds = new Set([...runsOf(0, full, this.#group, length)].map(({ closes }) => closes));
    const ready = [...kinds].map((closes) => this.#full.prepare(rows.full, closes)).every(Boolean);
    if (what === 'full' || full === length) return ready;
    return this.#rest.prepare(rows.rest, true) && ready;
  }

  dispose(): void {
    this.#full.dispose();
    this.#rest.dispose();
    for (const held of [...this.#copied, this.#order, this.#done]) held.dispose();
  }
}

/** The examples of an epoch, one after the other. */
interface EpochOrder {
  readonly epoch: number;
  readonly order: Int32Array;
}

const orderOf = (loader: Loader<AnyDataset>, epoch: number): EpochOrder => ({
  epoch,
  order: new Int32Array(loader.ownOrder(epoch)),
});

/** All examples of a data set. @throws DataError for a label that is not a class */
function upload(dataset: Dataset): TensorDataset<Tensor<Shape, 'f32'>, Tensor<Shape, 'i32'>> {
  const { length, classes } = dataset;
  const [inputs, labels] =
    dataset instanceof ArrayDataset && dataset.isPlain ? arraysOf(dataset) : examplesOf(dataset);
  requireClasses(labels, classes);
  return new TensorDataset(inputs, tensor(labels, { shape: [length], dtype: i32 }));
}

/** Bytes are uploaded as such and become numbers there. */
function arraysOf(dataset: ArrayDataset): [Tensor<Shape, 'f32'>, Int32Array | Uint8Array] {
  const { inputs, labels, length, inputShape } = dataset;
  if (!dataset.bytes) return examplesOf(dataset);
  const bytes = tensor(inputs as Uint8Array, { shape: [length, ...inputShape], dtype: u8 });
  const byteValues = new ByteValues(dataset.bytes.tables);
  const values = byteValues.of(bytes);
  realize(values);
  bytes.dispose();
  byteValues.dispose();
  return [values, labels];
}

function examplesOf(dataset: Dataset): [Tensor<Shape, 'f32'>, Int32Array] {
  const { length, inputShape } = dataset;
  const inputs = new Float32Array(length * sizeOf(inputShape));
  const labels = new Int32Array(length);
  fillBatch(
    dataset,
    Uint32Array.from({ length }, (_, i) => i),
    inputs,
    labels,
  );
  return [tensor(inputs, { shape: [length, ...inputShape] }), labels];
}
