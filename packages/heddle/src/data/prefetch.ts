/** Batches made ahead of the one in use, on this thread or on others. */
import { reclaim } from '../tensor/modes.js';
import { type BatchSpan, spanOf } from './batch.js';
import { type BatchJob, type BatchSlot, type EpochSource, fill, type MadeReport } from './fill.js';

/** Makes batches, as many at a time as it has slots. */
export interface BatchMaker {
  readonly slots: readonly BatchSlot[];
  /** Make a batch in one of the slots. @returns what is told of it, when it is there */
  make(job: BatchJob, slot: number): Promise<MadeReport>;
  /** The process stays alive until a batch is there. */
  wait<T>(made: Promise<T>): Promise<T>;
  /** End what is under way. @param isDone whether nothing is: all batches have been made */
  dismiss(isDone: boolean): Promise<void>;
}

interface Underway {
  readonly job: BatchJob;
  readonly slot: number;
  readonly made: Promise<MadeReport>;
}

/**
 * The batches of an epoch in order. A slot is used again when the consumer asks for the batch after the one in it, so that
 * no more are under way than there are slots. However the iteration ends, nothing of it is left running.
 * @param jobs is asked for a job when there is a slot for it
 * @param told is told of each batch when it is there
 */
export async function* prefetch(
  jobs: Iterator<BatchJob>,
  maker: BatchMaker,
  told: (report: MadeReport, job: BatchJob) => void,
): AsyncGenerator<BatchSpan, void, undefined> {
  const underway: Underway[] = [];
  const start = (slot: number): void => {
    const { value: job, done } = jobs.next();
    if (done) return;
    const made = maker.make(job, slot);
    // A failure is met where the batch is awaited.
    made.catch(() => {});
    underway.push({ job, slot, made });
  };
  let isDone = false;
  try {
    for (let slot = 0; slot < maker.slots.length; slot++) start(slot);
    for (let first = underway.shift(); first; first = underway.shift()) {
      const { job, slot, made } = first;
      told(await maker.wait(made), job);
      yield spanOf(job.index, job.size, maker.slots[slot]!);
      start(slot);
    }
    isDone = true;
  } finally {
    await maker.dismiss(isDone);
  }
}

/** Makes batches on this thread: several are under way where the data set makes them asynchronously. */
export class ThisThread implements BatchMaker {
  readonly slots: readonly BatchSlot[];
  readonly #source: EpochSource;
  readonly #underway = new Set<Promise<unknown>>();

  constructor(source: EpochSource, slots: readonly BatchSlot[]) {
    this.#source = source;
    this.slots = slots;
  }

  make(job: BatchJob, slot: number): Promise<MadeReport> {
    const made = fill(this.#source, job, this.slots[slot]!);
    const done = (): boolean => this.#underway.delete(made);
    this.#underway.add(made);
    made.then(done, done);
    return made;
  }

  async wait<T>(made: Promise<T>): Promise<T> {
    const value = await made;
    // A loop over batches may await nothing else: memory of earlier ones is given back here.
    await reclaim();
    return value;
  }

  async dismiss(): Promise<void> {
    await Promise.allSettled(this.#underway);
  }
}
