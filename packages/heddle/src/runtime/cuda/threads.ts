/** NVRTC in worker threads, while the calling thread waits: an NVRTC compile takes 30 to 60 ms. */
import { availableParallelism } from 'node:os';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { DeviceError } from '../../core/errors.js';
import type { Compiled, Source } from './compiler.js';
import type { Architecture } from './nvrtc.js';

/** What a thread is started with. */
export interface CompileThreadData {
  readonly nvrtc: string;
  readonly port: MessagePort;
  /** Counters of all threads, by `COUNT`. */
  readonly counts: Int32Array;
}

/** Messages sent, and threads that have come up. */
export const COUNT = { messages: 0, started: 1 } as const;

export interface CompileTask {
  readonly index: number;
  readonly source: Source;
  readonly arch: Architecture;
}

export type CompileAnswer =
  | { readonly index: number; readonly result: Compiled }
  | { readonly index: number; readonly error: string };

const MOST_THREADS = 16;
/** Longest wait for a thread to come up, and for a compile, in ms. */
const START_PATIENCE = 10_000;
const PATIENCE = 300_000;

interface Thread {
  readonly worker: Worker;
  readonly port: MessagePort;
}

export class CompileThreads {
  private readonly nvrtc: string;
  private readonly threads: Thread[] = [];
  private readonly counts = new Int32Array(new SharedArrayBuffer(8));

  constructor(nvrtc: string) {
    this.nvrtc = nvrtc;
  }

  /**
   * Compile all; waits without returning to the event loop. Undefined if threads do not start here, which may be so
   * where the library has been bundled.
   */
  compile(sources: readonly Source[], arch: Architecture): Compiled[] | undefined {
    const results = new Array<Compiled>(sources.length);
    this.start(Math.min(sources.length, availableParallelism(), MOST_THREADS));
    let next = 0;
    const give = ({ port }: Thread): void => {
      const index = next++;
      const source = sources[index];
      if (source) port.postMessage({ index, source, arch } satisfies CompileTask);
    };
    let seen = Atomics.load(this.counts, COUNT.messages);
    this.threads.forEach(give);
    for (let received = 0; received < sources.length; ) {
      const up = Atomics.load(this.counts, COUNT.started) > 0;
      const patience = up ? PATIENCE : START_PATIENCE;
      if (Atomics.wait(this.counts, COUNT.messages, seen, patience) === 'timed-out') {
        if (up) throw new DeviceError(`NVRTC took more than ${PATIENCE / 1000} s for a kernel.`);
        if (Atomics.load(this.counts, COUNT.started) > 0) continue;
        void this.close();
        return undefined;
      }
      seen = Atomics.load(this.counts, COUNT.messages);
      for (const thread of this.threads) {
        const message = receiveMessageOnPort(thread.port);
        if (!message) continue;
        const answer = message.message as CompileAnswer;
        if ('error' in answer) throw new DeviceError(`A compile thread failed: ${answer.error}`);
        results[answer.index] = answer.result;
        received++;
        give(thread);
      }
    }
    return results;
  }

  async close(): Promise<void> {
    await Promise.all(this.threads.splice(0).map(({ worker }) => worker.terminate()));
  }

  private start(count: number): void {
    while (this.threads.length < count) {
      const { port1, port2 } = new MessageChannel();
      const workerData: CompileThreadData = { nvrtc: this.nvrtc, port: port2, counts: this.counts };
      const worker = new Worker(new URL('./compile-thread.js', import.meta.url), {
        workerData,
        transferList: [port2],
        execArgv: [],
      });
      worker.unref();
      port1.unref();
      this.threads.push({ worker, port: port1 });
    }
  }
}
