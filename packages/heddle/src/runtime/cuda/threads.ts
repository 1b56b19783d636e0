/** NVRTC in worker threads beside the calling one: a compile takes 30 to 60 ms, and a program has twenty kernels. */
import { availableParallelism } from 'node:os';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { DeviceError } from '../../core/errors.js';
import type { Compiled, Source } from './compiler.js';
import type { Architecture } from './nvrtc.js';

/** What a thread is started with. */
export interface CompileThreadData {
  readonly nvrtc: string;
  readonly port: MessagePort;
}

/** Sources that all threads share out among themselves. */
export interface CompileBatch {
  readonly number: number;
  readonly sources: readonly Source[];
  readonly arch: Architecture;
  /** By `COUNT`. */
  readonly counts: Int32Array;
}

/** The next source that nobody has taken; answers sent. */
export const COUNT = { next: 0, answers: 1 } as const;

export interface CompileAnswer {
  readonly batch: number;
  readonly index: number;
  /** An error is one of the thread, not of the source. */
  readonly result: Compiled | { readonly error: string };
}

const MOST_THREADS = 15;
/** Fewer sources are compiled sooner than a thread is up, in 100 ms. */
const LEAST_SOURCES = 4;
/** Longest wait for a compile, in ms. */
const PATIENCE = 300_000;

export class CompileThreads {
  private readonly nvrtc: string;
  private readonly workers: Worker[] = [];
  private readonly ports: MessagePort[] = [];
  private batches = 0;

  constructor(nvrtc: string) {
    this.nvrtc = nvrtc;
  }

  /**
   * Compile all, without returning to the event loop. Threads that do not come up, as where the library has been
   * bundled, take nothing, and the calling one does it all. @param own compiles in the calling thread
   */
  compile(sources: readonly Source[], arch: Architecture, own: (source: Source) => Compiled): Compiled[] {
    const results = new Array<Compiled>(sources.length);
    const counts = new Int32Array(new SharedArrayBuffer(8));
    const batch: CompileBatch = { number: ++this.batches, sources, arch, counts };
    if (sources.length >= LEAST_SOURCES)
      this.start(Math.min(sources.length - 1, availableParallelism() - 1, MOST_THREADS));
    if (sources.length > 1) for (const port of this.ports) port.postMessage(batch);
    let left = sources.length;
    for (;;) {
      const index = Atomics.add(counts, COUNT.next, 1);
      const source = sources[index];
      if (!source) break;
      results[index] = own(source);
      left--;
    }
    while (left > 0) {
      const seen = Atomics.load(counts, COUNT.answers);
      for (const { index, result } of this.answers(batch.number)) {
        if ('error' in result) throw new DeviceError(`A compile thread failed: ${result.error}`);
        results[index] = result;
        left--;
      }
      if (left > 0 && Atomics.wait(counts, COUNT.answers, seen, PATIENCE) === 'timed-out')
        throw new DeviceError(`NVRTC took more than ${PATIENCE / 1000} s for a kernel.`);
    }
    return results;
  }

  async close(): Promise<void> {
    this.ports.length = 0;
    await Promise.all(this.workers.splice(0).map((worker) => worker.terminate()));
  }

  private *answers(batch: number): Generator<CompileAnswer> {
    for (const port of this.ports) {
      for (let m = receiveMessageOnPort(port); m; m = receiveMessageOnPort(port)) {
        const answer = m.message as CompileAnswer;
        if (answer.batch === batch) yield answer;
      }
    }
  }

  private start(count: number): void {
    while (this.workers.length < count) {
      const { port1, port2 } = new MessageChannel();
      const workerData: CompileThreadData = { nvrtc: this.nvrtc, port: port2 };
      const worker = new Worker(new URL('./compile-thread.js', import.meta.url), {
        workerData,
        transferList: [port2],
        execArgv: [],
      });
      worker.unref();
      // Its sources are compiled by the others.
      worker.on('error', () => {});
      port1.unref();
      this.workers.push(worker);
      this.ports.push(port1);
    }
  }
}
