/**
 * The first page of the device's memory: how the main thread and its workers talk. Byte addresses of i32 words; each
 * group that one side writes often has a cache line of its own. (The kernels' own words are in render/wasm-abi.ts.)
 */
import type { WasmMemory, WasmModule } from './webassembly.js';

/** Counts commands; a worker sleeps on it. */
export const COMMAND = 128;
/** Workers asleep on it. */
export const SLEEPERS = 192;

/** The command: the program, messages to fetch first, where its slot table and scratch memory are. */
export const PROGRAM = 256;
export const MAIL = 260;
export const TABLE = 264;
export const SCRATCH = 268;
/** The program number that ends a worker. */
export const STOP = -1;

/** Workers that are up, and workers done with the command. */
export const READY = 320;
export const DONE = 324;

/** The barrier: threads arrived, its generation, threads asleep on that. */
export const ARRIVED = 384;
export const GENERATION = 448;
export const WAITING = 512;

/** Not 0: a thread has failed, all others leave. */
export const ABORT = 576;
/** What the worker that failed first has to say: length in bytes, then UTF-8. */
export const ERROR_LENGTH = 640;
export const ERROR_TEXT = 644;
export const ERROR_BYTES = 1024;

/** What a worker is given to start. */
export interface WorkerData {
  readonly memory: WasmMemory;
  /** Its number; the main thread is 0. */
  readonly thread: number;
  readonly threads: number;
}

/** Messages to a worker: a program to keep or to forget. */
export type Mail =
  | { readonly kind: 'program'; readonly program: number; readonly module: WasmModule }
  | { readonly kind: 'forget'; readonly program: number };

/** The function that a program's module exports; 0 if all went well. */
export type RunFunction = (table: number, scratch: number, thread: number, threads: number) => number;
