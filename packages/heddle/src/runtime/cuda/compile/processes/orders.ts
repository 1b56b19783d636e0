/** What the calling thread, the broker and the compiling processes tell each other. */
import { availableParallelism } from 'node:os';
import type { MessagePort } from 'node:worker_threads';
import type { Architecture, CompileResult, CudaSource } from '../nvrtc.js';

/** What the broker is started with. */
export interface BrokerData {
  readonly nvrtc: string;
  readonly port: MessagePort;
  /** Answers sent. */
  readonly answers: Int32Array;
}

/** One of those that a process is told to compile together. */
export interface CompileOrder {
  readonly number: number;
  readonly source: CudaSource;
  readonly arch: Architecture;
}

/** An order of the caller, which somebody must claim before it is compiled. */
export interface OpenOrder extends CompileOrder {
  /** 0 until somebody compiles it. */
  readonly claim: Int32Array;
}

export const MOST_PROCESSES = Math.min(Math.max(1, availableParallelism() - 1), 15);

/** Ranks orders nearly as their compile times do: characters of the source. */
export const lengthOf = ({ source }: CompileOrder): number => source.text.length;

/**
 * Characters of what is compiled together, as many as a long kernel has. An empty kernel takes 20 ms, as long as 2,500 characters
 * of source.
 */
const TOGETHER = 16_000;

/** Whether an order can be compiled with others, if there are any: all are short, and their entry points have names of their own. */
export function fits(order: CompileOrder, others: readonly CompileOrder[]): boolean {
  if (others.length === 0) return true;
  const length = others.reduce((sum, other) => sum + lengthOf(other), lengthOf(order));
  return length <= TOGETHER && others.every(({ source }) => source.name !== order.source.name);
}

/** Word that so many kernels are about to be ordered: processes take a while to come up. */
export interface Expected {
  readonly kernels: number;
}

/** Whether the caller is the one to have it compiled. */
export const claimed = ({ claim }: OpenOrder): boolean => Atomics.exchange(claim, 0, 1) === 0;

export interface CompileAnswer {
  readonly number: number;
  /** An error is one of the process, not of the source. */
  readonly result: CompileResult | { readonly error: string };
}
