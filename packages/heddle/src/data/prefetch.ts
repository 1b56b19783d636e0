/** Batches made ahead of the one in use, on this thread or on others. */
import { reclaim } from '../tensor/modes.js';
import { type Batch, makeBatch } from './batch.js';
import { type BatchJob, type BatchSlot, type EpochSource, fill, type SkippedExamples } from './fill.js';

/** Makes batches, as many at a time as it has slots. */
export interface BatchMaker {
  readonly slots: readonly BatchSlot[];
  /** Make a batch in one of the slots. @returns what was skipped, when the batch is there */
  make(job: BatchJob, slot: number): Promise<SkippedExamples>;
  /** The process stays alive until a batch is there. */
  wait<T>(made: Promise<T>): Promise<T>;
  /** End what is under way. */
  dismiss(): Promise<void>;
}

/**
 * The batches of an epoch in order. A slot is used again when the consumer asks for the batch after the one in it, so that
 * no more are under way than there are slots. However the iteration ends, nothing of it is left running.
 */
export async function* prefetch(
  jobs: readonly BatchJob[],
  maker: BatchMaker,
  skip: (skipped: SkippedExamples) => void,
): AsyncGenerator<Batch, void, undefined> {
  const { slots } = maker;
  const underway: Promise<SkippedExamples>[] = [];
  const start = (place: number): void => {
    const job = jobs[place];
    if (!job) return;
    const made = maker.make(job, place % slots.length);
    // A failure is met where the batch is awaited.
    made.catch(() => {});
    underway.push(made);
  };
  try {
    for (let place = 0; place < slots.length; place++) start(place);
    for (const [place, { index, size }] of jobs.entries()) {
      skip(await maker.wait(underway.shift()!));
      const { inputs, labels } = slots[place % slots.length]!;
      yield makeBatch(index, size, inputs, labels);
      start(place + slots.length);
    }
  } finally {
    await maker.dismiss();
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

  make(job: BatchJob, slot: number): Promise<SkippedExamples> {
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
