/** Dynamic batching: requests that come in while a model computes share its next run. */
import { ServiceError } from '../errors.js';
import type { CheckedInputs } from '../protocol/infer-request.js';
import { type Waiting, WaitingQueue } from './queue.js';

/** Several requests that run together. */
export interface Batch {
  readonly rows: number;
  /** Of each input: its shape; in a batched model without the batch. */
  readonly shapes: readonly (readonly number[])[];
  /** Of each input: the elements of each request, one after another. */
  readonly parts: readonly (readonly Uint8Array[])[];
  /** Of a request for an explanation, which runs alone: the class. */
  readonly target: number | undefined;
}

/** An output of a run, or of one request of it. */
export interface OutputTensor {
  /** In a batched model with the batch. */
  readonly shape: readonly number[];
  readonly bytes: Uint8Array;
  /** Of an explanation: the layer whose maps were looked at. */
  readonly layer?: string;
}

/** What runs batches, one at a time. */
export interface BatchRunner {
  /** Whether it waits for a batch. */
  readonly isIdle: boolean;
  /** @returns the outputs of all rows @throws ServiceError */
  readonly run: (batch: Batch) => Promise<readonly OutputTensor[]>;
}

/** How requests are put together. */
export interface BatchLimits {
  /** Rows of a batch. */
  readonly maxBatchSize: number;
  /** How long the first request of a batch waits for others, in milliseconds. */
  readonly maxDelayMs: number;
  /** Requests that may wait; further ones are refused. */
  readonly queueSize: number;
  /** Whether requests can share a run. */
  readonly batched: boolean;
}

/** When a request must be answered, and before which others. */
export interface Urgency {
  /** 1 is the most urgent. */
  readonly priority: number;
  /** In milliseconds of performance.now(). */
  readonly expires: number;
}

/** A request that was accepted. */
export interface PendingAnswer {
  /** @throws ServiceError */
  readonly outputs: Promise<readonly OutputTensor[]>;
  /** Nobody wants the answer any more: what has not begun is never computed. */
  readonly cancel: () => void;
}

/** What the batcher reports, for metrics. */
export interface BatchObserver {
  /** A batch begins. */
  readonly began: (rows: number, waitedMs: readonly number[]) => void;
  /** A batch has ended. */
  readonly ended: (computeMs: number) => void;
}

interface Entry extends Waiting {
  readonly inputs: CheckedInputs;
  readonly resolve: (outputs: readonly OutputTensor[]) => void;
  readonly reject: (error: Error) => void;
}

/** How often deadlines of waiting requests are looked at, in milliseconds. */
const SWEEP_MS = 20;
/** What the next batch is thought to take before there was one. */
const FIRST_GUESS_MS = 20;

export class Batcher {
  readonly #queue = new WaitingQueue<Entry>();
  readonly #limits: BatchLimits;
  readonly #runners: () => Iterable<BatchRunner>;
  readonly #observer: BatchObserver;
  #isScheduled = false;
  #delay: NodeJS.Timeout | undefined;
  #sweep: NodeJS.Timeout | undefined;
  #soonest = Number.POSITIVE_INFINITY;
  /** Requests answered in a millisecond, smoothed: how soon a refused client should come back. */
  #rate = 1 / FIRST_GUESS_MS;
  #running = 0;
  /** Requests for explanations up to now. */
  #explanations = 0;

  /** @param runners those that there are at the moment */
  constructor(limits: BatchLimits, runners: () => Iterable<BatchRunner>, observer: BatchObserver) {
    this.#limits = limits;
    this.#runners = runners;
    this.#observer = observer;
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Whether requests wait or are computed. */
  get isBusy(): boolean {
    return this.#queue.length > 0 || this.#running > 0;
  }

  /** @throws ServiceError if too many wait, or if it is too late already */
  submit(inputs: CheckedInputs, { priority, expires }: Urgency): PendingAnswer {
    const { queueSize } = this.#limits;
    const arrived = performance.now();
    if (expires <= arrived) throw expired();
    if (this.#queue.length >= queueSize)
      throw new ServiceError('busy', `${queueSize} requests wait for this model, which is its limit.`, {
        retryAfter: Math.max(1, Math.ceil(this.#queue.length / this.#rate / 1000)),
      });
    const shapes = inputs.shapes.map((shape) => shape.join()).join(';');
    const key = inputs.target === undefined ? shapes : `explain ${++this.#explanations}`;
    let entry: Entry | undefined;
    const outputs = new Promise<readonly OutputTensor[]>((resolve, reject) => {
      entry = { key, rows: inputs.rows, priority, arrived, expires, wanted: true, inputs, resolve, reject };
    });
    const own = entry!;
    this.#queue.add(own);
    this.#watch(expires);
    this.wake();
    return { outputs, cancel: () => this.#drop(own, new ServiceError('cancelled', 'the client is gone.')) };
  }

  /** Look for work: a request came, or a runner became idle. */
  wake(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // After what has arrived on all connections was read, so that it shares a batch.
    setImmediate(() => {
      this.#isScheduled = false;
      this.#dispatch();
    });
  }

  /** Refuse everything that waits. */
  refuseAll(error: ServiceError): void {
    for (const entry of this.#queue.filter(() => true)) this.#drop(entry, error);
  }

  #dispatch(): void {
    clearTimeout(this.#delay);
    this.#delay = undefined;
    for (const runner of this.#runners()) {
      if (!runner.isIdle) continue;
      const entries = this.#nextBatch();
      if (entries.length === 0) return;
      void this.#run(runner, entries);
    }
  }

  /** The requests to run now: none if none waits, or if others may still join them. */
  #nextBatch(): readonly Entry[] {
    const { maxBatchSize, maxDelayMs, batched } = this.#limits;
    for (;;) {
      const next = this.#queue.next();
      if (!next) return [];
      const now = performance.now();
      const wait = next.arrived + maxDelayMs - now;
      if (batched && wait > 0 && next.rows < maxBatchSize) {
        this.#delay = setTimeout(() => this.wake(), wait);
        return [];
      }
      const taken = this.#queue.take(next.key, batched ? maxBatchSize : 1);
      const [timely, late] = [
        taken.filter(({ expires }) => expires > now),
        taken.filter(({ expires }) => expires <= now),
      ];
      for (const { reject } of late) reject(expired());
      if (timely.length > 0) return timely;
    }
  }

  async #run(runner: BatchRunner, entries: readonly Entry[]): Promise<void> {
    const began = performance.now();
    const rows = entries.reduce((sum, entry) => sum + entry.rows, 0);
    const { shapes, bytes, target } = entries[0]!.inputs;
    this.#running++;
    this.#observer.began(
      rows,
      entries.map(({ arrived }) => began - arrived),
    );
    const parts = bytes.map((_, i) => entries.map(({ inputs }) => inputs.bytes[i]!));
    let outputs: readonly OutputTensor[];
    try {
      outputs = await runner.run({ rows, shapes, parts, target });
    } catch (error) {
      for (const { reject } of entries) reject(error as Error);
      return;
    } finally {
      const took = performance.now() - began;
      this.#rate = 0.9 * this.#rate + 0.1 * (entries.length / Math.max(took, 0.01));
      this.#observer.ended(took);
      this.#running--;
      // The runner computes the next batch while the answers of this one are written.
      this.#dispatch();
    }
    let at = 0;
    for (const entry of entries) {
      entry.resolve(
        this.#limits.batched ? outputs.map((output) => rowsOf(output, rows, at, entry.rows)) : outputs,
      );
      at += entry.rows;
    }
  }

  #drop(entry: Entry, error: ServiceError): void {
    if (this.#queue.drop(entry)) entry.reject(error);
  }

  /** Answer requests whose deadline passes while they wait. */
  #watch(expires: number): void {
    this.#soonest = Math.min(this.#soonest, expires);
    if (this.#sweep || expires === Number.POSITIVE_INFINITY) return;
    this.#sweep = setInterval(() => {
      const now = performance.now();
      if (this.#soonest <= now) {
        for (const entry of this.#queue.filter((waiting) => waiting.expires <= now))
          this.#drop(entry, expired());
        this.#soonest = Math.min(
          Number.POSITIVE_INFINITY,
          ...this.#queue.filter(() => true).map((waiting) => waiting.expires),
        );
      }
      if (this.#queue.length > 0) return;
      clearInterval(this.#sweep);
      this.#sweep = undefined;
      this.#soonest = Number.POSITIVE_INFINITY;
    }, SWEEP_MS);
  }
}

const expired = (): ServiceError =>
  new ServiceError('expired', 'the deadline passed before the model could answer. Nothing was computed.');

/** Some rows of an output, in the same memory. */
function rowsOf(output: OutputTensor, all: number, at: number, rows: number): OutputTensor {
  const { shape, bytes } = output;
  const size = bytes.byteLength / all;
  return {
    ...output,
    shape: [rows, ...shape.slice(1)],
    bytes: bytes.subarray(at * size, (at + rows) * size),
  };
}
