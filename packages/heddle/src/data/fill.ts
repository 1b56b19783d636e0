/** One batch into its arrays, also where some of its examples cannot be read. */
import { DataError } from '../core/errors.js';
import type { Dataset } from './dataset.js';
import type { EpochRandom } from './epoch-random.js';

/** A place for one batch. */
export interface BatchSlot {
  readonly inputs: Float32Array;
  readonly labels: Int32Array;
}

/** A batch: so many examples of the epoch's order, from this place on. */
export interface BatchJob {
  /** The number of the batch in the epoch. */
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

/** @returns what was skipped @throws what `batchInto` throws, unless it is to be skipped; DataError if nothing is left */
export async function fill(source: EpochSource, job: BatchJob, slot: BatchSlot): Promise<SkippedExamples> {
  const { dataset, order, random, onError } = source;
  const examples = order.subarray(job.from, job.from + job.size);
  try {
    await dataset.batchInto(examples, slot.inputs, slot.labels, random);
    return [];
  } catch (error) {
    if (onError === 'throw') throw error;
    return fillOneByOne(source, job, slot);
  }
}

/**
 * Find out which examples of a batch cannot be read. In the place of each comes the next one of the epoch's order that can
 * be (after the last, the first): so a batch keeps its size, and is the same on whatever thread it is made.
 */
async function fillOneByOne(
  { dataset, order, random }: EpochSource,
  { from, size }: BatchJob,
  { inputs, labels }: BatchSlot,
): Promise<SkippedExamples> {
  const features = inputs.length / labels.length;
  const skipped = new Map<number, string>();
  const read = async (place: number, row: number): Promise<boolean> => {
    const example = order[place % order.length]!;
    if (skipped.has(example)) return false;
    const into = inputs.subarray(row * features, (row + 1) * features);
    try {
      await dataset.batchInto([example], into, labels.subarray(row, row + 1), random);
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
