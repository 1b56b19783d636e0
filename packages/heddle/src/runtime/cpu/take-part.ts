/** A worker of the CPU device: takes part in every command, on the memory it shares with the main thread. */
import {
  ABORT,
  BUSY,
  COMMAND,
  COMMAND_WORDS,
  type Command,
  ERROR_BYTES,
  ERROR_LENGTH,
  ERROR_TEXT,
  IDLE,
  READY,
  type RunFunction,
  SLEEPERS,
  STOP,
  WAITED,
  type WorkerData,
} from './control.js';
import { Instance, Module, type WasmMemory } from './webassembly.js';

/** Looks at the command counter before sleeping: about 50 µs. */
const SPINS = 5000;

/** Take part in what the main thread commands, until it says stop. */
export function takePart({ memory, thread }: WorkerData): void {
  const words = new Int32Array(memory.buffer, 0, 1024);
  const programs = new Programs(memory);
  let last = Atomics.load(words, COMMAND >> 2);
  Atomics.add(words, READY >> 2, 1);
  for (;;) {
    awaitCommand(words, last);
    Atomics.add(words, BUSY >> 2, 1);
    const { number, command } = readCommand(words);
    const { program, table, scratch, epoch } = command;
    if (number !== last && program !== IDLE && program !== STOP) {
      try {
        const run = programs.of(command);
        while (run(table, scratch, thread, epoch) === WAITED);
      } catch (error) {
        fail(words, thread, error);
      }
    }
    last = number;
    Atomics.sub(words, BUSY >> 2, 1);
    if (program === STOP) break;
  }
}

/** The programs that this thread has met. Of one that is gone, the instance stays until another takes its place. */
class Programs {
  readonly #memory: WasmMemory;
  readonly #known: { readonly program: number; readonly run: RunFunction }[] = [];

  constructor(memory: WasmMemory) {
    this.#memory = memory;
  }

  of({ program, module, moduleBytes, place }: Command): RunFunction {
    const known = this.#known[place];
    if (known?.program === program) return known.run;
    const bytes = new Uint8Array(moduleBytes);
    bytes.set(new Uint8Array(this.#memory.buffer, module, moduleBytes));
    const { exports } = new Instance(new Module(bytes), { heddle: { memory: this.#memory } });
    const run = exports.run as RunFunction;
    this.#known[place] = { program, run };
    return run;
  }
}

/** Wait until the command counter is not `last`. */
function awaitCommand(words: Int32Array<SharedArrayBuffer>, last: number): void {
  for (let i = 0; i < SPINS; i++) if (Atomics.load(words, COMMAND >> 2) !== last) return;
  Atomics.add(words, SLEEPERS >> 2, 1);
  Atomics.wait(words, COMMAND >> 2, last);
  Atomics.sub(words, SLEEPERS >> 2, 1);
}

/** The command as it stands, whole: read again if it was being written meanwhile. */
function readCommand(words: Int32Array): { readonly number: number; readonly command: Command } {
  for (;;) {
    const number = Atomics.load(words, COMMAND >> 2);
    const entries = COMMAND_WORDS.map(
      ([name, address]) => [name, Atomics.load(words, address >> 2) >>> 0] as const,
    );
    const command = Object.fromEntries(entries) as unknown as Command;
    if (number % 2 === 0 && Atomics.load(words, COMMAND >> 2) === number) return { number, command };
  }
}

function fail(words: Int32Array<SharedArrayBuffer>, thread: number, error: unknown): void {
  if (Atomics.compareExchange(words, ABORT >> 2, 0, thread + 1) !== 0) return;
  const text = new TextEncoder().encode(String(error)).subarray(0, ERROR_BYTES);
  new Uint8Array(words.buffer).set(text, ERROR_TEXT);
  Atomics.store(words, ERROR_LENGTH >> 2, text.length);
}
