/**
 * NVRTC in separate processes. In the threads of one process it compiles one kernel at a time: 46 a second
 * by 15 threads of a 16-core host, 229 by as many processes. A broker, which is a thread, hands out the work, so that
 * the caller can wait for results without returning to its event loop.
 */
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { DeviceError } from '../../../../core/errors.js';
import type { Architecture, CompileResult, CudaSource } from '../nvrtc.js';
import {
  type BrokerData,
  type CompileAnswer,
  claimed,
  type Expected,
  fits,
  lengthOf,
  MOST_PROCESSES,
  type OpenOrder,
} from './orders.js';

/** A source on its way. */
export interface CompileJob {
  readonly order: OpenOrder;
  result?: CompileAnswer['result'];
}

/** Longest wait for a compile, in ms. */
const PATIENCE = 300_000;

interface Broker {
  /** None in a CommonJS bundle, which does not know where its files are. */
  readonly worker: Worker | undefined;
  readonly port: MessagePort;
}

export class CompilePool {
  readonly #nvrtc: string;
  #broker: Broker | undefined;
  readonly #answers = new Int32Array(new SharedArrayBuffer(4));
  /** Begun and not finished, by their numbers. */
  readonly #jobs = new Map<number, CompileJob>();
  #count = 0;

  constructor(nvrtc: string) {
    this.#nvrtc = nvrtc;
  }

  /** Start processes for that many kernels. Returns at once. */
  expect(kernels: number): void {
    this.#broker ??= this.#startBroker();
    this.#broker.port.postMessage({ kernels } satisfies Expected);
  }

  /** Have it compiled. Returns at once. */
  begin(source: CudaSource, arch: Architecture): CompileJob {
    this.#broker ??= this.#startBroker();
    const order = { number: ++this.#count, source, arch, claim: new Int32Array(new SharedArrayBuffer(4)) };
    const job: CompileJob = { order };
    this.#jobs.set(order.number, job);
    this.#broker.port.postMessage(order);
    return job;
  }

  /** Whether there is nothing to wait for. */
  isDone(job: CompileJob): boolean {
    this.#takeAnswers();
    return job.result !== undefined;
  }

  /**
   * The results of jobs, without returning to the event loop. What no process has begun is compiled on the spot: where
   * none come up, as where the library has been bundled, that is all.
   * @param own compiles several in the calling thread
   * @throws DeviceError if a process ended over one of them, or takes too long
   */
  finish(
    jobs: readonly CompileJob[],
    own: (sources: readonly CudaSource[]) => CompileResult[],
  ): CompileResult[] {
    // The shortest is the one that a process would come to last.
    const shortestFirst = [...jobs].sort((a, b) => lengthOf(a.order) - lengthOf(b.order));
    try {
      for (;;) {
        const seen = Atomics.load(this.#answers, 0);
        this.#takeAnswers();
        const open = shortestFirst.filter((job) => !job.result);
        if (open.length === 0) return jobs.map(resultOf);
        const mine = claim(open);
        if (mine.length > 0) {
          const results = own(mine.map(({ order }) => order.source));
          for (const [i, job] of mine.entries()) job.result = results[i]!;
        } else if (Atomics.wait(this.#answers, 0, seen, PATIENCE) === 'timed-out')
          throw new DeviceError(`NVRTC took more than ${PATIENCE / 1000} s for a kernel.`);
      }
    } finally {
      for (const { order } of jobs) this.#jobs.delete(order.number);
    }
  }

  async close(): Promise<void> {
    const broker = this.#broker;
    this.#broker = undefined;
    await broker?.worker?.terminate();
  }

  #takeAnswers(): void {
    if (!this.#broker) return;
    const { port } = this.#broker;
    for (let m = receiveMessageOnPort(port); m; m = receiveMessageOnPort(port)) {
      for (const { number, result } of m.message as readonly CompileAnswer[]) {
        const job = this.#jobs.get(number);
        if (job) job.result = result;
      }
    }
  }

  #startBroker(): Broker {
    const { port1, port2 } = new MessageChannel();
    port1.unref();
    if (!import.meta.url) return { worker: undefined, port: port1 };
    const workerData: BrokerData = { nvrtc: this.#nvrtc, port: port2, answers: this.#answers };
    const worker = new Worker(new URL('./broker.js', import.meta.url), {
      workerData,
      transferList: [port2],
      execArgv: [],
    });
    worker.unref();
    // The caller compiles everything then.
    worker.on('error', () => {});
    return { worker, port: port1 };
  }
}

/** Of what nobody has begun, as much as a process would take of it. */
function claim(open: readonly CompileJob[]): CompileJob[] {
  const share = Math.ceil(open.length / MOST_PROCESSES);
  const mine: CompileJob[] = [];
  for (const job of open) {
    const others = mine.map(({ order }) => order);
    if (fits(job.order, others) && claimed(job.order)) mine.push(job);
    if (mine.length === share) break;
  }
  return mine;
}

function resultOf({ order, result }: CompileJob): CompileResult {
  if ('error' in result!)
    throw new DeviceError(`[${order.source.name}] A process that compiled it failed: ${result.error}.`);
  return result!;
}
