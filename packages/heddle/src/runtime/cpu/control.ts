/**
 * The first page of the device's memory: how the main thread and its workers talk. Byte addresses of i32 words; each
 * group that one side writes often has its own cache line. (The kernels' own words are in render/wasm/abi.ts.)
 */
import type { WasmMemory } from './webassembly.js';

/** Counts commands, by two: odd while one is being written. A worker sleeps on it. */
export const COMMAND = 128;
/** Workers asleep on it. */
export const SLEEPERS = 192;

/**
 * The command: the program, its run, its table, scratch memory; then where the program's module stands in memory, its
 * bytes, and its place among the programs that live, which one that comes later may take.
 */
export const PROGRAM = 256;
export const EPOCH = 260;
export const TABLE = 264;
export const SCRATCH = 268;
export const MODULE = 272;
export const MODULE_BYTES = 276;
export const PLACE = 280;
/** Program numbers that mean: nothing to do, and end. */
export const IDLE = 0;
export const STOP = 2 ** 32 - 1;

/** Workers that are up, and workers that are looking at a command or running one. */
export const READY = 320;
export const BUSY = 384;

/** Threads asleep until a section is done. */
export const WAITING = 448;

/** Not 0: a thread has failed, all others leave. */
export const ABORT = 512;
/** What the worker that failed first has to say: length in bytes, then UTF-8. */
export const ERROR_LENGTH = 576;
export const ERROR_TEXT = 580;
export const ERROR_BYTES = 1024;

/** What a program's function returns: all is done, or a thread has failed. */
export const DONE = 0;
export const FAILED = 1;
/** No thread has finished anything for a while. Called again with the same arguments, it goes on where it was. */
export const WAITED = 2;

/** What a worker is given to start. */
export interface WorkerData {
  readonly memory: WasmMemory;
  /** Its number; the main thread is 0. */
  readonly thread: number;
}

/** What a command says: an unsigned number for each word, as addresses go up to 4 GiB. */
export interface Command {
  /** The number of the program, IDLE or STOP. */
  readonly program: number;
  readonly epoch: number;
  readonly table: number;
  readonly scratch: number;
  readonly module: number;
  readonly moduleBytes: number;
  readonly place: number;
}

/** The words of a command, in the order in which they are written. */
export const COMMAND_WORDS: readonly (readonly [keyof Command, number])[] = [
  ['program', PROGRAM],
  ['epoch', EPOCH],
  ['table', TABLE],
  ['scratch', SCRATCH],
  ['module', MODULE],
  ['moduleBytes', MODULE_BYTES],
  ['place', PLACE],
];

/** The function that a program's module exports. Returns DONE, FAILED or WAITED. */
export type RunFunction = (table: number, scratch: number, thread: number, epoch: number) => number;
