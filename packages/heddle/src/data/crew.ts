/** Worker threads that make batches in shared memory: of a batch nothing but numbers is sent. */
import { Worker } from '#platform/workers.js';
import { DataError } from '../core/errors.js';
import type { RemoteDataset } from './dataset.js';
import type { BatchJob, BatchSlot, EpochSource, MadeReport } from './fill.js';
import type { BatchMaker } from './prefetch.js';

/** What a worker needs to know of an epoch. */
export interface WorkerEpoch extends Pick<EpochSource, 'order' | 'onError'> {
  /** What the examples' random numbers are drawn from. */
  readonly seed: number;
  readonly epoch: number;
}

/** The slots of the epochs to come, in shared memory. */
export interface WorkerSlots {
  readonly slots: readonly BatchSlot[];
}

/** A worker makes the batch in `slots[slot]`. */
export interface WorkerJob extends BatchJob {
  readonly slot: number;
}

export type WorkerMessage = WorkerSlots | WorkerEpoch | WorkerJob;

/** What a worker answers: it has made the batch, or why it has not. */
export interface WorkerAnswer {
  readonly index: number;
  readonly report?: MadeReport;
  readonly error?: Error;
}

interface Awaited {
  readonly resolve: (report: MadeReport) => void;
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

/** Workers that have opened a data set, and make batches of it in turn, one epoch after the other. */
export class Crew implements BatchMaker {
  slots: readonly BatchSlot[] = [];
  readonly #workers: readonly Worker[];
  /** By the number of the batch. */
  readonly #awaited = new Map<number, Awaited>();
  #next = 0;
  #isBusy = false;
  #failure: DataError | undefined;

  constructor(count: number, remote: RemoteDataset) {
    this.#workers = Array.from({ length: count }, () => {
      const worker = new Worker(new URL('./prefetch-worker.js', import.meta.url), { workerData: remote });
      worker.on('message', (answer: WorkerAnswer) => this.#settle(answer));
      worker.on('error', (error: Error) => this.#fail(failed(error.message, error)));
      worker.on('exit', (code) => this.#fail(failed(`it exited with code ${code}`)));
      worker.unref();
      return worker;
    });
  }

  /** Whether an epoch is under way. */
  get isBusy(): boolean {
    return this.#isBusy;
  }

  /** Whether it can begin an epoch. */
  get isReady(): boolean {
    return !this.#isBusy && !this.#failure;
  }

  begin(epoch: WorkerEpoch, slots: readonly BatchSlot[]): void {
    this.#isBusy = true;
    if (slots !== this.slots) this.#tell({ slots });
    this.slots = slots;
    this.#tell(epoch);
  }

  #tell(message: WorkerSlots | WorkerEpoch): void {
    for (const worker of this.#workers) worker.postMessage(message);
  }

  make(job: BatchJob, slot: number): Promise<MadeReport> {
    return new Promise((resolve, reject) => {
      if (this.#failure) return reject(this.#failure);
      this.#awaited.set(job.index, { resolve, reject });
      this.#workers[this.#next++ % this.#workers.length]!.postMessage({ ...job, slot } satisfies WorkerJob);
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

  /** After an epoch that was done the workers stay for the next one. */
  async dismiss(isDone: boolean): Promise<void> {
    this.#isBusy = false;
    if (!isDone) await this.end();
  }

  async end(): Promise<void> {
    this.#failure ??= failed('it was ended');
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }

  #settle({ index, report, error }: WorkerAnswer): void {
    const awaited = this.#awaited.get(index);
    this.#awaited.delete(index);
    if (error) awaited?.reject(failed(error.message, error));
    else awaited?.resolve(report!);
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
