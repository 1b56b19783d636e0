/** Batches made ahead of the one in use, on this thread or on others. */
import { reclaim } from '../tensor/modes.js';
import { type BatchSpan, spanOf } from './batch.js';
import { type BatchJob, type BatchSlot, type EpochSource, fill, type MadeReport } from './fill.js';

/** Makes batches. */
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

interface PrefetchOptions {
  /** The batches to make, in order: the next one is taken as soon as a slot is free. */
  readonly jobs: Iterator<BatchJob>;
  /** How many batches are under way or in use, at most. */
  readonly most: number;
  /** Resolves when a slot can be used again. */
  readonly free: (slot: BatchSlot) => Promise<void> | undefined;
  /** Called with each batch as soon as it is ready. */
  readonly told: (report: MadeReport, job: BatchJob) => void;
}

/**
 * The batches of an epoch in order. Slots take turns. The next batch is begun when the consumer asks for the one after that
 * which it has. However the iteration ends, nothing of it is left running.
 */
export async function* prefetch(
  maker: BatchMaker,
  { jobs, most, free, told }: PrefetchOptions,
): AsyncGenerator<BatchSpan, void, undefined> {
  const underway: Underway[] = [];
  let turn = 0;
  const start = async (): Promise<void> => {
    const slot = turn++ % maker.slots.length;
    await free(maker.slots[slot]!);
    const { value: job, done } = jobs.next();
    if (done) return;
    const made = maker.make(job, slot);
    // A failure is met where the batch is awaited.
    made.catch(() => {});
    underway.push({ job, slot, made });
  };
  let isDone = false;
  try {
    for (let i = 0; i < most; i++) await start();
    for (let first = underway.shift(); first; first = underway.shift()) {
      const { job, slot, made } = first;
      told(await maker.wait(made), job);
      yield spanOf(job.index, job.size, maker.slots[slot]!);
      await start();
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
