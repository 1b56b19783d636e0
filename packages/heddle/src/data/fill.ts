/** One batch into its arrays, also where some of its examples cannot be read. */
import { DataError } from '../core/errors.js';
import type { Dataset } from './dataset.js';
import type { EpochRandom } from './epoch-random.js';

/** A place for a batch, or for several side by side. With bytes, inputs are those of `Dataset.bytes`. */
export interface BatchSlot {
  readonly inputs: Float32Array | Uint8Array;
  readonly labels: Int32Array;
}

/** A batch, or several side by side: so many examples of the epoch's order, from this place on. */
export interface BatchJob {
  /** The number of the first batch in the epoch. */
  readonly index: number;
  readonly from: number;
  readonly size: number;
}

/** Where the batches of an epoch come from. */
export interface EpochSource {
  readonly dataset: Dataset;
  /** The examples of the epoch, in order. */
  readonly order: Uint32Array;
  readonly random: EpochRandom;
  readonly onError: 'throw' | 'skip';
}

/** Examples that could not be read, and why. */
export type SkippedExamples = readonly (readonly [example: number, reason: string])[];

/** What is told of a batch that is made. */
export interface MadeReport {
  readonly skipped: SkippedExamples;
  /** How long it took. */
  readonly milliseconds: number;
}

/** @throws what `batchInto` throws, unless it is to be skipped; DataError if nothing is left */
export async function fill(source: EpochSource, job: BatchJob, slot: BatchSlot): Promise<MadeReport> {
  const { order, onError } = source;
  const start = performance.now();
  let skipped: SkippedExamples = [];
  try {
    await write(source, order.subarray(job.from, job.from + job.size), slot);
  } catch (error) {
    if (onError === 'throw') throw error;
    skipped = await fillOneByOne(source, job, slot);
  }
  return { skipped, milliseconds: performance.now() - start };
}

const write = (
  { dataset, random }: EpochSource,
  examples: ArrayLike<number>,
  { inputs, labels }: BatchSlot,
): void | Promise<void> =>
  inputs instanceof Uint8Array
    ? dataset.bytes!.batchInto(examples, inputs, labels, random)
    : dataset.batchInto(examples, inputs, labels, random);

/**
 * Find out which examples of a batch cannot be read. In the place of each comes the next one of the epoch's order that can
 * be (after the last, the first): so a batch keeps its size, and is the same on whatever thread it is made.
 */
async function fillOneByOne(
  source: EpochSource,
  { from, size }: BatchJob,
  { inputs, labels }: BatchSlot,
): Promise<SkippedExamples> {
  const { order } = source;
  const features = inputs.length / labels.length;
  const skipped = new Map<number, string>();
  const read = async (place: number, row: number): Promise<boolean> => {
    const example = order[place % order.length]!;
    if (skipped.has(example)) return false;
    const into = inputs.subarray(row * features, (row + 1) * features);
    try {
      await write(source, [example], { inputs: into, labels: labels.subarray(row, row + 1) });
      return true;
    } catch (error) {
      skipped.set(example, reasonOf(error));
      return false;
    }
  };
  for (let row = 0; row < size; row++) {
    let place = from + row;
    while (!(await read(place, row)))
      if (++place === from + row + order.length)
        throw new DataError(
          `none of the ${order.length} examples of the epoch can be read. Example ${order[from]}: ${skipped.get(order[from]!)}`,
        );
  }
  return [...skipped];
}

export const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
