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
  /** Answers sent by all threads. */
  readonly answers: Int32Array;
}

/** A source for a thread, which compiles it if it is the first to `claim` it. */
export interface CompileOrder {
  readonly number: number;
  readonly source: Source;
  readonly arch: Architecture;
  /** 0 until somebody compiles it. */
  readonly claim: Int32Array;
}

export interface CompileAnswer {
  readonly number: number;
  /** An error is one of the thread, not of the source; nothing: somebody else had claimed it. */
  readonly result?: Compiled | { readonly error: string };
}

/** Whether the caller is the one to compile it. */
export const claimed = ({ claim }: CompileOrder): boolean => Atomics.exchange(claim, 0, 1) === 0;

/** A source on its way. */
export interface CompileJob {
  readonly order: CompileOrder;
  result?: Compiled;
}

interface Thread {
  readonly worker: Worker;
  readonly port: MessagePort;
  /** Orders that it has not answered. */
  orders: number;
}

const MOST_THREADS = 15;
/** Orders that a thread is given at once: one to work on, one to go on with. */
const MOST_ORDERS = 2;
/** Longest wait for a compile, in ms. */
const PATIENCE = 300_000;

export class CompileThreads {
  private readonly nvrtc: string;
  private readonly threads: Thread[] = [];
  private readonly answers = new Int32Array(new SharedArrayBuffer(4));
  /** Begun and not finished, by their numbers. */
  private readonly jobs = new Map<number, CompileJob>();
  /** In no thread's hands yet. */
  private readonly waiting: CompileJob[] = [];
  private count = 0;

  constructor(nvrtc: string) {
    this.nvrtc = nvrtc;
  }

  /** Have a thread compile it, one more than there were if need be. Returns at once. */
  begin(source: Source, arch: Architecture): CompileJob {
    const order = { number: ++this.count, source, arch, claim: new Int32Array(new SharedArrayBuffer(4)) };
    const job: CompileJob = { order };
    this.jobs.set(order.number, job);
    this.waiting.push(job);
    this.handOut();
    if (this.waiting.length > 0 && this.threads.length < Math.min(availableParallelism() - 1, MOST_THREADS)) {
      this.startThread();
      this.handOut();
    }
    return job;
  }

  /**
   * The results of jobs, without returning to the event loop. What no thread has begun is compiled on the spot: threads
   * that do not come up, as where the library has been bundled, take nothing. @param own compiles in the calling thread
   */
  finish(jobs: readonly CompileJob[], own: (source: Source) => Compiled): Compiled[] {
    for (;;) {
      const seen = Atomics.load(this.answers, 0);
      this.takeAnswers();
      this.handOut();
      const open = jobs.filter((job) => !job.result);
      if (open.length === 0) break;
      // The last is the one that a thread would come to last.
      const mine = open.findLast((job) => claimed(job.order));
      if (mine) mine.result = own(mine.order.source);
      else if (Atomics.wait(this.answers, 0, seen, PATIENCE) === 'timed-out')
        throw new DeviceError(`NVRTC took more than ${PATIENCE / 1000} s for a kernel.`);
    }
    for (const { order } of jobs) this.jobs.delete(order.number);
    return jobs.map((job) => job.result!);
  }

  async close(): Promise<void> {
    await Promise.all(this.threads.splice(0).map(({ worker }) => worker.terminate()));
  }

  private takeAnswers(): void {
    for (const thread of this.threads) {
      for (let m = receiveMessageOnPort(thread.port); m; m = receiveMessageOnPort(thread.port)) {
        thread.orders--;
        const { number, result } = m.message as CompileAnswer;
        if (!result) continue;
        if ('error' in result) throw new DeviceError(`A compile thread failed: ${result.error}`);
        const job = this.jobs.get(number);
        if (job) job.result = result;
      }
    }
  }

  private handOut(): void {
    while (this.waiting.length > 0) {
      const idlest = this.threads.reduce<Thread | undefined>(
        (least, thread) => (least && least.orders <= thread.orders ? least : thread),
        undefined,
      );
      if (!idlest || idlest.orders >= MOST_ORDERS) return;
      const { order } = this.waiting.shift()!;
      // The caller may have done it meanwhile.
      if (Atomics.load(order.claim, 0) !== 0) continue;
      idlest.port.postMessage(order);
      idlest.orders++;
    }
  }

  private startThread(): void {
    const { port1, port2 } = new MessageChannel();
    const workerData: CompileThreadData = { nvrtc: this.nvrtc, port: port2, answers: this.answers };
    const worker = new Worker(new URL('./compile-thread.js', import.meta.url), {
      workerData,
      transferList: [port2],
      execArgv: [],
    });
    worker.unref();
    // Its sources are compiled by the others.
    worker.on('error', () => {});
    port1.unref();
    this.threads.push({ worker, port: port1, orders: 0 });
  }
}
