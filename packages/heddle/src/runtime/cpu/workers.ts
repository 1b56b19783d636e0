/** The device's worker threads, from the main thread's side. */
import { Worker } from 'node:worker_threads';
import { debug, once } from '../../core/log.js';
import {
  ABORT,
  ARRIVED,
  COMMAND,
  DONE,
  ERROR_LENGTH,
  ERROR_TEXT,
  GENERATION,
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

export class Workers {
  /** Threads in all, the main one among them. */
  readonly threads: number;
  private readonly memory: WasmMemory;
  private readonly words: Int32Array;
  private workers: Worker[] = [];
  private started = false;
  private broken = false;
  private mail = 0;

  constructor(memory: WasmMemory, threads: number) {
    this.memory = memory;
    this.threads = threads;
    this.words = new Int32Array(memory.buffer, 0, 1024);
  }

  /** Start them in the background, once. They take tens of milliseconds to come up. */
  start(): void {
    if (this.started || this.threads === 1) return;
    this.started = true;
    for (let thread = 1; thread < this.threads; thread++) {
      const workerData: WorkerData = { memory: this.memory, thread, threads: this.threads };
      const worker = new Worker(new URL('./worker.js', import.meta.url), {
        workerData,
        // None of the process's own, which may be loaders or not be allowed for a worker.
        execArgv: [],
      });
      worker.unref();
      worker.on('error', (error) => this.lost(`failed: ${error.message}`));
      worker.on('exit', () => this.lost('ended'));
      this.workers.push(worker);
    }
    debug(1, () => `cpu: starting ${this.threads - 1} worker thread(s)`);
  }

  /** Whether all workers are up; until then the main thread works alone. */
  get ready(): boolean {
    return this.started && !this.broken && Atomics.load(this.words, READY >> 2) === this.threads - 1;
  }

  private lost(how: string): void {
    if (this.broken) return;
    this.broken = true;
    once(`a worker thread of the CPU device ${how}; going on with one thread`);
  }

  send(message: Mail): void {
    if (this.workers.length === 0 || this.broken) return;
    for (const worker of this.workers) worker.postMessage(message);
    this.mail++;
  }

  /** Set all workers going on a program they have been sent. The main thread must run its share. */
  command(program: number, table: number, scratch: number): void {
    const { words } = this;
    Atomics.store(words, DONE >> 2, 0);
    words[PROGRAM >> 2] = program;
    words[MAIL >> 2] = this.mail;
    words[TABLE >> 2] = table;
    words[SCRATCH >> 2] = scratch;
    Atomics.add(words, COMMAND >> 2, 1);
    if (Atomics.load(words, SLEEPERS >> 2) > 0) Atomics.notify(words, COMMAND >> 2);
  }

  /** Make the others leave the command: the main thread has failed. */
  abort(): void {
    Atomics.compareExchange(this.words, ABORT >> 2, 0, 1);
    Atomics.notify(this.words, GENERATION >> 2);
  }

  /** After a failure: wait until all have left, make ready for the next command. Returns what a worker said. */
  recover(): string {
    const { words } = this;
    for (;;) {
      const done = Atomics.load(words, DONE >> 2);
      if (done === this.threads - 1) break;
      Atomics.wait(words, DONE >> 2, done, 1);
    }
    Atomics.store(words, ARRIVED >> 2, 0);
    Atomics.store(words, ABORT >> 2, 0);
    const length = Atomics.exchange(words, ERROR_LENGTH >> 2, 0);
    return new TextDecoder().decode(
      new Uint8Array(this.memory.buffer).slice(ERROR_TEXT, ERROR_TEXT + length),
    );
  }

  async stop(): Promise<void> {
    this.broken = true;
    const workers = this.workers;
    this.workers = [];
    if (workers.length === 0) return;
    Atomics.store(this.words, PROGRAM >> 2, STOP);
    Atomics.add(this.words, COMMAND >> 2, 1);
    Atomics.notify(this.words, COMMAND >> 2);
    await Promise.all(workers.map((w) => w.terminate()));
  }
}
