/** What collectives between GPUs tell of their runs: neither NCCL nor a copy compares what ranks do. */

/** A collective that is about to run. */
export interface CollectiveRun {
  readonly name: string;
  readonly dtype: string;
  readonly op: string;
  readonly ranks: readonly number[];
  /** A place in `ranks`. */
  readonly root: number;
  /** Elements that a rank has; where it has several tensors, with the gaps between them. */
  readonly elements: number;
  /** Identifies the orders of dimensions that they are in. */
  readonly orders: number;
}

let note: (run: CollectiveRun) => void = () => {};

/** From now on `next` is told of every collective before it is queued. */
export const onCollective = (next: (run: CollectiveRun) => void): void => {
  note = next;
};

export const noteCollective = (run: CollectiveRun): void => note(run);
