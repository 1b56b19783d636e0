/** Batches made ahead on worker threads, in shared memory: nothing but indices and tickets is sent. */
import { Worker } from 'node:worker_threads';
import { DataError } from '../core/errors.js';
import { type Batch, makeBatch } from './batch.js';
import type { RemoteDataset } from './dataset.js';

export interface PrefetchOptions {
  readonly remote: RemoteDataset;
  /** What the examples' random numbers are drawn from. */
  readonly seed: number;
  readonly epoch: number;
  readonly workers: number;
  /** Batches made ahead of the one in use. */
  readonly ahead: number;
  /** The number of the first batch. */
  readonly first: number;
  /** The examples of each batch from that on. */
  readonly chunks: readonly Uint32Array[];
  readonly batchSize: number;
  readonly features: number;
}

/** A place for one batch. */
export interface BatchSlot {
  readonly inputs: Float32Array;
  readonly labels: Int32Array;
}

/** What a worker is started with. */
export interface WorkerSetup {
  readonly remote: RemoteDataset;
  readonly seed: number;
  readonly epoch: number;
  readonly slots: readonly BatchSlot[];
}

/** A worker writes batch `index` into `slots[slot]`, then answers with `index`. */
export interface WorkerJob {
  readonly index: number;
  readonly slot: number;
  readonly indices: Uint32Array;
}

/**
 * The batches of one epoch in order. Batch `i` is made by worker `i % workers` in slot `i % slots`; a slot is used
 * again when the consumer asks for the batch after the one in it. The workers live as long as the iteration, however
 * it ends.
 * @throws DataError with the cause if a worker fails
 */
export async function* prefetch(options: PrefetchOptions): AsyncGenerator<Batch, void, undefined> {
  const { chunks, batchSize, features, remote, seed, epoch } = options;
  const slots = Array.from({ length: Math.min(options.ahead + 1, chunks.length) }, () =>
    makeSlot(batchSize, features),
  );
  const count = Math.min(options.workers, slots.length);
  const crew = new Crew(count, { remote, seed, epoch, slots });
  try {
    const start = (index: number): void => {
      const indices = chunks[index];
      if (indices) crew.post({ index, slot: index % slots.length, indices });
    };
    for (let index = 0; index < slots.length; index++) start(index);
    for (const [index, { length: size }] of chunks.entries()) {
      await crew.finished(index);
      const { inputs, labels } = slots[index % slots.length]!;
      yield makeBatch(options.first + index, size, inputs, labels);
      start(index + slots.length);
    }
  } finally {
    await crew.dismiss();
  }
}

function makeSlot(batchSize: number, features: number): BatchSlot {
  return {
    inputs: new Float32Array(new SharedArrayBuffer(batchSize * features * Float32Array.BYTES_PER_ELEMENT)),
    labels: new Int32Array(new SharedArrayBuffer(batchSize * Int32Array.BYTES_PER_ELEMENT)),
  };
}

/** The workers of one iteration, and what they have finished. They keep the process alive only while waited for. */
class Crew {
  readonly #workers: Worker[];
  readonly #finished = new Set<number>();
  #failure: DataError | undefined;
  #wake: (() => void) | undefined;

  constructor(count: number, setup: WorkerSetup) {
    if (!import.meta.url)
      throw new DataError(
        'workers cannot be started from a CommonJS bundle, which does not know where its files are. Use workers: 0, ' +
          'or leave heddle out of the bundle.',
      );
    this.#workers = Array.from({ length: count }, () => {
      const worker = new Worker(new URL('./prefetch-worker.js', import.meta.url), { workerData: setup });
      worker.on('message', (index: number) => this.#report(() => this.#finished.add(index)));
      worker.on('error', (error: Error) => this.#fail(error.message, error));
      worker.on('exit', (code) => this.#fail(`it exited with code ${code}`));
      worker.unref();
      return worker;
    });
  }

  post(job: WorkerJob): void {
    this.#workers[job.index % this.#workers.length]!.postMessage(job);
  }

  async finished(index: number): Promise<void> {
    for (const worker of this.#workers) worker.ref();
    while (!this.#finished.has(index) && !this.#failure) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    for (const worker of this.#workers) worker.unref();
    if (this.#failure) throw this.#failure;
    this.#finished.delete(index);
  }

  async dismiss(): Promise<void> {
    await Promise.all(this.#workers.map((worker) => worker.terminate()));
  }

  #fail(reason: string, cause?: Error): void {
    this.#report(() => {
      this.#failure ??= new DataError(`a worker of the loader failed: ${reason}`, { cause });
    });
  }

  #report(change: () => void): void {
    change();
    this.#wake?.();
  }
}
