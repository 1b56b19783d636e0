/** A worker of the CPU device: runs its share of every command, on the memory it shares with the main thread. */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import {
  ABORT,
  COMMAND,
  DONE,
  ERROR_BYTES,
  ERROR_LENGTH,
  ERROR_TEXT,
  GENERATION,
  MAIL,
  type Mail,
  PROGRAM,
  READY,
  type RunFunction,
  SCRATCH,
  SLEEPERS,
  STOP,
  TABLE,
  type WorkerData,
} from './control.js';
import { Instance } from './webassembly.js';

/** Looks at the command counter before sleeping: about 50 µs. */
const SPINS = 5000;

const { memory, thread, threads } = workerData as WorkerData;
const words = new Int32Array(memory.buffer, 0, 1024);
const programs = new Map<number, RunFunction>();
let fetched = 0;

/** Take in the messages sent before the command at hand. */
function fetchMail(sent: number): void {
  while (fetched < sent) {
    const received = receiveMessageOnPort(parentPort!) as { message: Mail } | undefined;
    if (!received) continue;
    fetched++;
    const { message } = received;
    if (message.kind === 'forget') {
      programs.delete(message.program);
    } else {
      const instance = new Instance(message.module, { heddle: { memory } });
      programs.set(message.program, instance.exports.run as RunFunction);
    }
  }
}

/** Wait for a command after number `last`; returns its number. */
function nextCommand(last: number): number {
  for (let i = 0; i < SPINS; i++) {
    const now = Atomics.load(words, COMMAND >> 2);
    if (now !== last) return now;
  }
  Atomics.add(words, SLEEPERS >> 2, 1);
  Atomics.wait(words, COMMAND >> 2, last);
  Atomics.sub(words, SLEEPERS >> 2, 1);
  return Atomics.load(words, COMMAND >> 2);
}

let last = Atomics.load(words, COMMAND >> 2);
Atomics.add(words, READY >> 2, 1);
for (;;) {
  const command = nextCommand(last);
  if (command === last) continue;
  last = command;
  const program = Atomics.load(words, PROGRAM >> 2);
  if (program === STOP) break;
  try {
    fetchMail(Atomics.load(words, MAIL >> 2));
    programs.get(program)!(words[TABLE >> 2]!, words[SCRATCH >> 2]!, thread, threads);
  } catch (error) {
    if (Atomics.compareExchange(words, ABORT >> 2, 0, thread + 1) === 0) {
      const text = new TextEncoder().encode(String(error)).subarray(0, ERROR_BYTES);
      new Uint8Array(memory.buffer).set(text, ERROR_TEXT);
      words[ERROR_LENGTH >> 2] = text.length;
    }
    Atomics.notify(words, GENERATION >> 2);
  }
  Atomics.add(words, DONE >> 2, 1);
}
