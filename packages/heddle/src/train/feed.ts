/** How batches reach a model: what fit and evaluate ask of a feed. */
import type { Batched } from '../data/index.js';

/**
 * What is done with a batch of `size` examples: of a `Dataset` inputs (size, …inputShape), f32, and labels (size), i32.
 * Traced, not run, for each size. A size of 0 is that of a rank without a part in the batch: it has a row that counts
 * elsewhere.
 * @param closes whether the batch is the last of its group: an update follows it
 */
export type BatchWork = (inputs: Batched, targets: Batched, size: number, closes: boolean) => void;

/** Consecutive batches of an epoch that one program works on. */
export interface BatchRun {
  readonly batches: number;
  readonly closes: boolean;
}

/**
 * Batches in runs of one program each. Groups begin with the epoch; its last batch closes the last one.
 * @param from the first of the batches @param group batches of a group @param length batches of the epoch
 */
export function* runsOf(from: number, batches: number, group: number, length: number): Generator<BatchRun> {
  // Where each batch is a group, all of them are one run.
  if (group === 1) return yield { batches, closes: true };
  const end = from + batches;
  for (let first = from; first < end; ) {
    const closing = Math.min(first + group - (first % group), length) - 1;
    const run = { batches: Math.max(1, Math.min(closing, end) - first), closes: first === closing };
    yield run;
    first += run.batches;
  }
}

/** Batches that are worked on together. */
export interface Chunk {
  readonly batches: number;
  /** Of all ranks. */
  readonly examples: number;
  /** Start the work on them. */
  run(): void;
}

/** How a feed works on batches. */
export interface FeedSettings {
  /** How kernels are chosen for full batches. */
  readonly tune: 'on' | 'frozen';
  /** Batches of an update. */
  readonly group: number;
}

export interface Feed {
  /**
   * The batches of an epoch from `first` on, in the loader's order.
   * @param room how many batches a chunk that begins with `batch` may have
   */
  chunks(epoch: number, first: number, room: (batch: number) => number): AsyncIterable<Chunk>;
  /**
   * Compile what full batches need, or all, ahead of them. Absent: only the batches themselves show what that is.
   * @returns whether it is compiled; if not, it is compiling in the background
   */
  prepare?(what: 'full' | 'all'): boolean;
  dispose(): void;
}
