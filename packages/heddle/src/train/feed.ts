/** How batches reach a model: what fit and evaluate ask of a feed. */
import type { Batched } from '../data/index.js';

/**
 * What is done with a batch of `size` examples: of a `Dataset` inputs (size, …inputShape), f32, and labels (size), i32.
 * Traced, not run, for each size. A size of 0 is that of a rank without a part in the batch: it has a row that counts
 * elsewhere.
 */
export type BatchWork = (inputs: Batched, targets: Batched, size: number) => void;

/** Batches that are worked on together. */
export interface Chunk {
  readonly batches: number;
  /** Of all ranks. */
  readonly examples: number;
  /** Start the work on them. */
  run(): void;
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
