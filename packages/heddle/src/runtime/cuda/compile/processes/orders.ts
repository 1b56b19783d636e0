/** What the calling thread, the broker and the compiling processes tell each other. */
import type { MessagePort } from 'node:worker_threads';
import type { Architecture, CompileFailure } from '../nvrtc.js';

export interface CudaSource {
  /** The entry point. */
  readonly name: string;
  readonly text: string;
}

export type CompileResult = Uint8Array | CompileFailure;

/** What the broker is started with. */
export interface BrokerData {
  readonly nvrtc: string;
  readonly port: MessagePort;
  /** Answers sent. */
  readonly answers: Int32Array;
}

/** What a process is told to compile. */
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

/** Ranks orders nearly as their compile times do: characters of the source. */
export const lengthOf = ({ source }: CompileOrder): number => source.text.length;

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
