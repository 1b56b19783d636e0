/** A worker of the CPU device: takes part in every command, on the memory it shares with the main thread. */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads';
import {
  ABORT,
  BUSY,
  COMMAND,
  EPOCH,
  ERROR_BYTES,
  ERROR_LENGTH,
  ERROR_TEXT,
  IDLE,
  MAIL,
  type Mail,
  PROGRAM,
  READY,
  type RunFunction,
  SCRATCH,
  SLEEPERS,
  STOP,
  TABLE,
  WAITED,
  type WorkerData,
} from './control.js';
import { Instance } from './webassembly.js';

/** Looks at the command counter before sleeping: about 50 µs. */
const SPINS = 5000;

const { memory, thread } = workerData as WorkerData;
const words = new Int32Array(memory.buffer, 0, 1024);
const load = (address: number): number => Atomics.load(words, address >> 2);
const programs = new Map<number, RunFunction>();
let fetched = 0;

/** Take in the messages sent before the current command. */
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

/** Wait until the command counter is not `last`. */
function awaitCommand(last: number): void {
  for (let i = 0; i < SPINS; i++) if (load(COMMAND) !== last) return;
  Atomics.add(words, SLEEPERS >> 2, 1);
  Atomics.wait(words, COMMAND >> 2, last);
  Atomics.sub(words, SLEEPERS >> 2, 1);
}

interface Command {
  readonly number: number;
  readonly program: number;
  readonly mail: number;
  readonly epoch: number;
  readonly table: number;
  readonly scratch: number;
}

/** The command as it stands, whole: read again if it was being written meanwhile. */
function readCommand(): Command {
  for (;;) {
    const number = load(COMMAND);
    const command: Command = {
      number,
      program: load(PROGRAM),
      mail: load(MAIL),
      epoch: load(EPOCH),
      table: load(TABLE),
      scratch: load(SCRATCH),
    };
    if (number % 2 === 0 && load(COMMAND) === number) return command;
  }
}

function fail(error: unknown): void {
  if (Atomics.compareExchange(words, ABORT >> 2, 0, thread + 1) !== 0) return;
  const text = new TextEncoder().encode(String(error)).subarray(0, ERROR_BYTES);
  new Uint8Array(memory.buffer).set(text, ERROR_TEXT);
  Atomics.store(words, ERROR_LENGTH >> 2, text.length);
}

let last = load(COMMAND);
Atomics.add(words, READY >> 2, 1);
for (;;) {
  awaitCommand(last);
  Atomics.add(words, BUSY >> 2, 1);
  const { number, program, mail, epoch, table, scratch } = readCommand();
  if (number !== last && program !== IDLE && program !== STOP) {
    try {
      fetchMail(mail);
      const run = programs.get(program)!;
      while (run(table, scratch, thread, epoch) === WAITED);
    } catch (error) {
      fail(error);
    }
  }
  last = number;
  Atomics.sub(words, BUSY >> 2, 1);
  if (program === STOP) break;
}
