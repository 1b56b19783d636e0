/** Worker threads that make batches in shared memory: nothing but numbers is sent. */
import { Worker } from '#platform/workers.js';
import { DataError } from '../core/errors.js';
import type { RemoteDataset } from './dataset.js';
import type { BatchJob, BatchSlot, EpochSource, SkippedExamples } from './fill.js';
import type { BatchMaker } from './prefetch.js';

/** What a worker is started with. */
export interface WorkerSetup extends Pick<EpochSource, 'order' | 'onError'> {
  readonly remote: RemoteDataset;
  /** What the examples' random numbers are drawn from. */
  readonly seed: number;
  readonly epoch: number;
  readonly slots: readonly BatchSlot[];
}

/** A worker makes the batch in `slots[slot]`. */
export interface WorkerJob extends BatchJob {
  readonly slot: number;
}

/** What a worker answers: it has made the batch, or why it has not. */
export interface WorkerAnswer {
  readonly index: number;
  readonly skipped?: SkippedExamples;
  readonly error?: Error;
}

interface Awaited {
  readonly resolve: (skipped: SkippedExamples) => void;
  readonly reject: (error: Error) => void;
}

/** @throws DataError where no worker can be started */
export function requireWorkers(): void {
  if (!import.meta.url)
    throw new DataError(
      'workers cannot be started in a browser, or from a CommonJS bundle, which does not know where its files are. ' +
        'Use workers: 0; under Node, leave heddle out of the bundle.',
    );
}

/** The workers of one iteration. Batch `i` is made by worker `i` modulo their number. */
export class Crew implements BatchMaker {
  readonly slots: readonly BatchSlot[];
  readonly #workers: readonly Worker[];
  /** By the number of the batch. */
  readonly #awaited = new Map<number, Awaited>();
  #failure: DataError | undefined;

  constructor(count: number, setup: WorkerSetup) {
    this.slots = setup.slots;
    this.#workers = Array.from({ length: count }, () => {
      const worker = new Worker(new URL('./prefetch-worker.js', import.meta.url), { workerData: setup });
      worker.on('message', (answer: WorkerAnswer) => this.#settle(answer));
      worker.on('error', (error: Error) => this.#fail(failed(error.message, error)));
      worker.on('exit', (code) => this.#fail(failed(`it exited with code ${code}`)));
      worker.unref();
      return worker;
    });
  }

  make(job: BatchJob, slot: number): Promise<SkippedExamples> {
    return new Promise((resolve, reject) => {
      if (this.#failure) return reject(this.#failure);
      this.#awaited.set(job.index, { resolve, reject });
      this.#workers[job.index % this.#workers.length]!.postMessage({ ...job, slot } satisfies WorkerJob);
    });
  }

  /** The workers keep the process alive only while it waits for them. */
  async wait<T>(made: Promise<T>): Promise<T> {
    for (const worker of this.#workers) worker.ref();
    try {
      return await made;
    } finally {
      for (const worker of this.#workers) worker.unref();
    }
  }

  async dismiss(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }

  #settle({ index, skipped = [], error }: WorkerAnswer): void {
    const { resolve, reject } = this.#awaited.get(index)!;
    this.#awaited.delete(index);
    if (error) reject(failed(error.message, error));
    else resolve(skipped);
  }

  /** Without one of the workers there are no further batches. */
  #fail(failure: DataError): void {
    this.#failure ??= failure;
    for (const { reject } of this.#awaited.values()) reject(this.#failure);
    this.#awaited.clear();
  }
}

const failed = (reason: string, cause?: Error): DataError =>
  new DataError(`a worker of the loader failed: ${reason}`, { cause });
