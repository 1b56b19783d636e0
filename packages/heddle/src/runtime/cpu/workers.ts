/** The device's worker threads, from the main thread's side. */
import { Worker } from 'node:worker_threads';
import { debug, once } from '../../core/log.js';
import {
  ABORT,
  BUSY,
  COMMAND,
  EPOCH,
  ERROR_LENGTH,
  ERROR_TEXT,
  IDLE,
  MAIL,
  type Mail,
  PROGRAM,
  READY,
  SCRATCH,
  SLEEPERS,
  STOP,
  TABLE,
  type WorkerData,
} from './control.js';
import type { WasmMemory } from './webassembly.js';

/**
 * Whether a worker's thread is gone, while its exit event waits for this thread to be idle: it has no event loop any
 * more, and Node gives −1 as the loop's idle time. Node must have been asked while the worker was online.
 */
const hasEnded = (worker: Worker): boolean => worker.performance?.eventLoopUtilization().idle === -1;

/** How long to wait for workers to end, in ms: it takes some 20. */
const LONGEST_END = 5000;

export class Workers {
  /** Threads in all, the main one among them. */
  readonly threads: number;
  readonly #memory: WasmMemory;
  readonly #words: Int32Array;
  workers: Worker[] = [];
  #started = false;
  #broken = false;
  #mail = 0;

  constructor(memory: WasmMemory, threads: number) {
    this.#memory = memory;
    this.threads = threads;
    this.#words = new Int32Array(memory.buffer, 0, 1024);
  }

  /** Start them in the background, once. They take tens of milliseconds to come up. */
  start(): void {
    if (this.#started || this.threads === 1) return;
    this.#started = true;
    if (!import.meta.url) {
      this.#lost('cannot be started from a CommonJS bundle');
      return;
    }
    try {
      for (let thread = 1; thread < this.threads; thread++) this.#startOne(thread);
    } catch (error) {
      // Node's permission model may forbid it, or the system have no thread left.
      this.#lost(`cannot be started: ${(error as Error).message}`);
    }
    debug(1, () => `cpu: starting ${this.threads - 1} worker thread(s)`);
  }

  #startOne(thread: number): void {
    const workerData: WorkerData = { memory: this.#memory, thread };
    const worker = new Worker(new URL('./worker.js', import.meta.url), {
      workerData,
      // None of the process's own, which may be loaders or not be allowed for a worker.
      execArgv: [],
    });
    worker.unref();
    worker.once('online', () => hasEnded(worker));
    worker.on('error', (error) => this.#lost(`failed: ${error.message}`));
    worker.on('exit', () => this.#lost('ended'));
    this.workers.push(worker);
  }

  /** Whether all workers are up; until then the main thread works alone. */
  get ready(): boolean {
    return this.#started && !this.#broken && Atomics.load(this.#words, READY >> 2) === this.threads - 1;
  }

  /** Whether no worker has ended. */
  get alive(): boolean {
    return !this.#broken && !this.workers.some(hasEnded);
  }

  #lost(how: string): void {
    if (this.#broken) return;
    this.#broken = true;
    once(`a worker thread of the CPU device ${how}; going on with one thread`);
  }

  send(message: Mail): void {
    if (this.workers.length === 0 || this.#broken) return;
    for (const worker of this.workers) worker.postMessage(message);
    this.#mail++;
  }

  /** Set all workers going on a run of a program they have been sent. The main thread must take part. */
  command(program: number, epoch = 0, table = 0, scratch = 0): void {
    const words = this.#words;
    const store = (address: number, v: number): void => {
      Atomics.store(words, address >> 2, v);
    };
    Atomics.add(words, COMMAND >> 2, 1);
    store(PROGRAM, program);
    store(MAIL, this.#mail);
    store(EPOCH, epoch);
    store(TABLE, table);
    store(SCRATCH, scratch);
    Atomics.add(words, COMMAND >> 2, 1);
    if (Atomics.load(words, SLEEPERS >> 2) > 0) Atomics.notify(words, COMMAND >> 2);
  }

  /** Wait until no worker is in a program any more: after this, a table may be given back. */
  rest(): void {
    if (!this.ready) return;
    this.command(IDLE);
    const words = this.#words;
    for (;;) {
      const busy = Atomics.load(words, BUSY >> 2);
      if (busy === 0) return;
      if (!this.alive) {
        this.#end();
        return;
      }
      Atomics.wait(words, BUSY >> 2, busy, 1);
    }
  }

  /** End all workers, whatever they do, and wait until none runs any more: one has ended that others may wait for. */
  #end(): void {
    this.#lost('ended');
    for (const worker of this.workers) void worker.terminate();
    const words = this.#words;
    const started = performance.now();
    while (!this.workers.every(hasEnded) && performance.now() - started < LONGEST_END)
      Atomics.wait(words, BUSY >> 2, Atomics.load(words, BUSY >> 2), 1);
    this.workers = [];
  }

  /** Make all leave the program: a thread has failed, or ended. Returns what a worker said, if it was one. */
  abandon(): string {
    const words = this.#words;
    Atomics.compareExchange(words, ABORT >> 2, 0, 1);
    this.rest();
    Atomics.store(words, ABORT >> 2, 0);
    const length = Atomics.exchange(words, ERROR_LENGTH >> 2, 0);
    return new TextDecoder().decode(
      new Uint8Array(this.#memory.buffer).slice(ERROR_TEXT, ERROR_TEXT + length),
    );
  }

  async stop(): Promise<void> {
    this.#broken = true;
    const workers = this.workers;
    this.workers = [];
    if (workers.length === 0) return;
    this.command(STOP);
    await Promise.all(workers.map((w) => w.terminate()));
  }
}
