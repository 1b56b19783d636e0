/** Collectives over TCP between the processes of one or several machines. Nothing has to be installed. */
import { once } from 'node:events';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { DTYPES } from '../../core/dtype.js';
import { DistributedError } from '../../core/errors.js';
import { CallCounter, type CollectiveCall } from '../call.js';
import type { HostValues, Peers, ReductionOp, Rendezvous, Transport } from '../transport.js';
import type { TcpAddress, TcpAnswer, TcpOrder, TcpWorkerData } from './messages.js';

export interface TcpOptions {
  /** Address of the network interface that the others reach this rank by (default: all of this machine's are tried). */
  readonly host?: string;
  /** How long to wait for the others to connect, in s (default 60). */
  readonly timeout?: number;
}

/** How often to look whether the other thread is still there, in ms. */
const CHECK = 1000;
/** The longest that a process that ends waits for its last bytes to go out, in ms. */
const LONGEST_LEAVE = 2000;

/**
 * Connect this rank with all others, each of which must call this too.
 * @throws DistributedError naming the ranks that cannot be reached
 */
export async function openTcpTransport(
  rendezvous: Rendezvous,
  { host, timeout = 60 }: TcpOptions = {},
): Promise<Transport> {
  const { rank, worldSize } = rendezvous;
  const transport = new TcpTransport({ rank, worldSize, host });
  try {
    const { address } = await transport.ask({ order: 'listen' });
    await rendezvous.set(`tcp/${rank}`, JSON.stringify(address));
    const texts = await Promise.all(Array.from({ length: worldSize }, (_, r) => rendezvous.get(`tcp/${r}`)));
    const addresses = texts.map((text) => JSON.parse(text) as TcpAddress);
    await transport.ask({ order: 'connect', addresses, timeout: 1000 * timeout });
    return transport;
  } catch (error) {
    await transport.close();
    throw error;
  }
}

class TcpTransport implements Transport {
  readonly name = 'tcp';
  readonly #worker: Worker;
  readonly #port: MessagePort;
  readonly #answers = new Int32Array(new SharedArrayBuffer(4));
  readonly #calls = new CallCounter();
  /** Answers that have been taken. */
  #taken = 0;
  #closed = false;
  /** A call has failed: the other ranks are told why. */
  #failed = false;
  /** A process that ends in good order, or after a call has failed, takes leave; the others see how any other ends. */
  readonly #onExit = (code: number): void => {
    if ((code === 0 || this.#failed) && !this.#closed) this.#wait({ order: 'leave' }, LONGEST_LEAVE);
  };

  constructor(data: Omit<TcpWorkerData, 'port' | 'answers'>) {
    if (!import.meta.url)
      throw new DistributedError('[distributed] a CommonJS bundle does not know where its files are.');
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    port1.unref();
    this.#worker = new Worker(new URL('./tcp-worker.js', import.meta.url), {
      workerData: { ...data, port: port2, answers: this.#answers } satisfies TcpWorkerData,
      transferList: [port2],
      // None of the process's own, which may be loaders or not be allowed for a worker.
      execArgv: [],
    });
    // Whether it has ended can be told only if it has been asked while the thread was online.
    this.#worker.once('online', () => this.#ended);
    this.#worker.on('error', () => {});
    process.once('exit', this.#onExit);
  }

  get #ended(): boolean {
    return this.#worker.performance.eventLoopUtilization().idle === -1;
  }

  /** Give an order and wait for its answer, without blocking. @throws DistributedError */
  async ask(order: TcpOrder): Promise<TcpAnswer> {
    this.#port.postMessage(order);
    const lost = once(this.#worker, 'exit').then(() => [{ error: LOST }]);
    const [answer] = (await Promise.race([once(this.#port, 'message'), lost])) as [TcpAnswer];
    this.#taken++;
    // From now on it need not keep the process alive.
    this.#worker.unref();
    return succeeded(answer);
  }

  /** The same, blocking. @param longest in ms */
  #wait(order: TcpOrder, longest = Number.POSITIVE_INFINITY): TcpAnswer {
    this.#port.postMessage(order);
    for (let end = performance.now() + longest; performance.now() < end; ) {
      // The count of an answer that `ask` has taken may come after it.
      const seen = Atomics.load(this.#answers, 0);
      if (seen > this.#taken) {
        this.#taken++;
        return (receiveMessageOnPort(this.#port) as { message: TcpAnswer }).message;
      }
      if (Atomics.wait(this.#answers, 0, seen, CHECK) === 'timed-out' && this.#ended) return { error: LOST };
    }
    return { error: `[distributed] no answer within ${longest / 1000} s.` };
  }

  #call(call: CollectiveCall): void {
    if (this.#closed) throw new DistributedError('[distributed] the transport has been closed.');
    const from = shared(call.from, DTYPES[call.dtype].bytes);
    const to = call.to === call.from ? from : shared(call.to, DTYPES[call.dtype].bytes);
    const answer = this.#wait({ order: 'call', call: { ...call, from, to } });
    this.#failed ||= answer.error !== undefined;
    succeeded(answer);
    if (to !== call.to) call.to.set(to);
  }

  allReduce(peers: Peers, op: ReductionOp, from: HostValues, to: HostValues): void {
    this.#call(this.#calls.next('allReduce', peers, from, to, { op }));
  }

  broadcast(peers: Peers, root: number, values: HostValues): void {
    this.#call(this.#calls.next('broadcast', peers, values, values, { root }));
  }

  allGather(peers: Peers, from: HostValues, to: HostValues): void {
    this.#call(this.#calls.next('allGather', peers, from, to));
  }

  reduceScatter(peers: Peers, op: ReductionOp, from: HostValues, to: HostValues): void {
    this.#call(this.#calls.next('reduceScatter', peers, from, to, { op }));
  }

  barrier(peers: Peers): void {
    this.#call(this.#calls.next('barrier', peers));
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    process.removeListener('exit', this.#onExit);
    await this.ask({ order: 'leave' }).catch(() => {});
    this.#worker.ref();
    await this.#worker.terminate();
  }
}

const LOST = '[distributed] the thread that exchanges values with the other ranks has ended.';

function succeeded(answer: TcpAnswer): TcpAnswer {
  if (answer.error !== undefined) throw new DistributedError(answer.error);
  return answer;
}

/** The bytes themselves, if another thread can see them as elements, or a copy. */
function shared(bytes: Uint8Array, elementBytes: number): Uint8Array {
  if (bytes.buffer instanceof SharedArrayBuffer && bytes.byteOffset % elementBytes === 0) return bytes;
  const copy = new Uint8Array(new SharedArrayBuffer(bytes.length));
  copy.set(bytes);
  return copy;
}
