/** The device's worker threads, from the main thread's side. */
import { startThread, type WorkerThread } from '#runtime/threads.js';
import { debug, once } from '../../core/log.js';
import {
  ABORT,
  BUSY,
  COMMAND,
  COMMAND_WORDS,
  type Command,
  ERROR_LENGTH,
  ERROR_TEXT,
  IDLE,
  READY,
  SLEEPERS,
  STOP,
} from './control.js';
import type { WasmMemory } from './webassembly.js';

/** How long to wait for workers to end, in ms: it takes some 20. */
const LONGEST_END = 5000;

const NOTHING: Command = {
  ...{ program: IDLE, epoch: 0, table: 0, scratch: 0, module: 0, moduleBytes: 0, place: 0 },
};

export class Workers {
  /** Threads in all, the main one among them. */
  readonly threads: number;
  readonly #memory: WasmMemory;
  readonly #words: Int32Array;
  workers: WorkerThread[] = [];
  #started = false;
  #broken = false;
  readonly #freePlaces: number[] = [];
  #places = 0;

  constructor(memory: WasmMemory, threads: number) {
    this.#memory = memory;
    this.threads = threads;
    this.#words = new Int32Array(memory.buffer, 0, 1024);
  }

  /** Start them in the background, once. They take tens of milliseconds to come up. */
  start(): void {
    if (this.#started || this.threads === 1) return;
    this.#started = true;
    try {
      for (let thread = 1; thread < this.threads; thread++)
        this.workers.push(startThread({ memory: this.#memory, thread }, (how) => this.#lost(how)));
    } catch (error) {
      // Node's permission model or the rules of a page may forbid it, or the system have no thread left.
      this.#lost(`cannot be started: ${(error as Error).message}`);
    }
    debug(1, () => `cpu: starting ${this.threads - 1} worker thread(s)`);
  }

  /** Whether all workers are up; until then the main thread works alone. */
  get ready(): boolean {
    return this.#started && !this.#broken && Atomics.load(this.#words, READY >> 2) === this.threads - 1;
  }

  /** Whether no worker has ended. */
  get alive(): boolean {
    return !this.#broken && !this.workers.some(({ ended }) => ended);
  }

  #lost(how: string): void {
    if (this.#broken) return;
    this.#broken = true;
    once(`a worker thread of the CPU device ${how}; going on with one thread`);
  }

  /** A place for a program that no other that lives has. */
  takePlace(): number {
    return this.#freePlaces.pop() ?? this.#places++;
  }

  leavePlace(place: number): void {
    this.#freePlaces.push(place);
  }

  /** Set all workers going on a run of a program. The main thread must take part. */
  command(command: Command): void {
    const words = this.#words;
    Atomics.add(words, COMMAND >> 2, 1);
    for (const [name, address] of COMMAND_WORDS) Atomics.store(words, address >> 2, command[name]);
    Atomics.add(words, COMMAND >> 2, 1);
    if (Atomics.load(words, SLEEPERS >> 2) > 0) Atomics.notify(words, COMMAND >> 2);
  }

  /** Wait until no worker is in a program any more: after this, a table may be given back. */
  rest(): void {
    if (!this.ready) return;
    this.command({ ...NOTHING, program: IDLE });
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
    while (!this.workers.every(({ ended }) => ended) && performance.now() - started < LONGEST_END)
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
    this.command({ ...NOTHING, program: STOP });
    await Promise.all(workers.map((w) => w.terminate()));
  }
}
