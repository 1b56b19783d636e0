/** How processes that train together find each other, and end together. */
import { hostname } from 'node:os';
import { Worker } from 'node:worker_threads';
import { BUILD_ID } from '../../core/build-id.js';
import { env } from '../../core/env.js';
import { ArgumentError, DeviceError, DistributedError, InternalError } from '../../core/errors.js';
import { packageVersion } from '../../core/platform/node/version.js';
import type { WorldPlace } from '../environment.js';
import type { Rendezvous } from '../transport.js';
import { CallLog } from './call-log.js';
import { EXIT_LOST, endInTime, endProcess } from './ending.js';
import { type ControlRequest, MOST_BYTES, type WorldMember } from './messages.js';
import { ControlStore } from './store.js';
import {
  type ControlThreadData,
  type FromControlThread,
  SHARED,
  type ToControlThread,
} from './thread-messages.js';

/** The connection between the processes that train together, by which they notice when one of them is gone. */
export interface Control extends Rendezvous {
  /** All processes, by rank. */
  readonly members: readonly WorldMember[];
  /** Returns when all ranks have called it. @throws DistributedError after the time limit, naming those that have not come */
  barrier(): Promise<void>;
  /** Whether a rank has ended in order. May be asked at any time, also between blocking calls. */
  hasLeft(rank: number): boolean;
  /** This process begins a collective: where ranks begin different ones, all of them end and say what two of them do. */
  note(header: Int32Array): void;
  /** Say good-bye. That of rank 0 waits for those of the others. */
  close(): Promise<void>;
}

export interface ControlOptions {
  /** How long ranks wait for each other: to come, for a value, at a barrier. Default 300,000 ms. */
  readonly timeoutMs?: number;
  /** Must be the same everywhere (default `VERSION`). */
  readonly version?: string;
}

const TIMEOUT_MS = 300_000;
/** Of Heddle and its build. */
export const VERSION = `${packageVersion()} (build ${BUILD_ID ?? 'unknown'})`;

/**
 * Meet the other processes, and watch them from then on. When one is gone without a good-bye (it was killed, its host is down,
 * it failed), every other process ends within 10 s with exit code 3, whatever its main thread does, and one process of each host says
 * which rank is gone and why. A process that only takes long is not gone.
 * @param place from `placeFromEnvironment`
 * @returns when all processes have come
 * @throws DistributedError if they have not after the time limit, naming them; if rank 0 cannot listen or is not reached; if
 *   processes have different versions of Heddle or numbers of ranks, or the same rank
 */
export async function openControl(place: WorldPlace, options: ControlOptions = {}): Promise<Control> {
  const { timeoutMs = TIMEOUT_MS, version = VERSION } = options;
  const me = { rank: place.rank, host: hostname(), pid: process.pid };
  if (place.worldSize === 1) return new LoneControl(me, timeoutMs);
  const shared = new Int32Array(new SharedArrayBuffer(4 * (SHARED.ranks + place.worldSize)));
  const log = new CallLog();
  const data: ControlThreadData = {
    ...{ place, me, version, timeoutMs, shared, calls: log.shared },
    launcher: env('HEDDLE_LAUNCHER') || undefined,
  };
  const worker = new Worker(new URL('./control-thread.js', import.meta.url), {
    workerData: data,
    execArgv: [],
  });
  return new ThreadControl(worker, data, log).formed;
}

/** A request without its number. */
type Ask = ControlRequest extends infer R ? (R extends ControlRequest ? Omit<R, 'id'> : never) : never;

interface Asked {
  readonly resolve: (value: string) => void;
  readonly reject: (error: Error) => void;
}

/** What ranks leave for each other is asked for in the same way, wherever it is. */
abstract class AskingControl implements Control {
  readonly rank: number;
  readonly worldSize: number;
  abstract readonly members: readonly WorldMember[];
  readonly #timeoutMs: number;

  constructor(rank: number, worldSize: number, timeoutMs: number) {
    this.rank = rank;
    this.worldSize = worldSize;
    this.#timeoutMs = timeoutMs;
  }

  protected abstract ask(ask: Ask): Promise<string>;
  abstract hasLeft(rank: number): boolean;
  abstract note(header: Int32Array): void;
  abstract close(): Promise<void>;

  async set(key: string, value: string): Promise<void> {
    // JSON may need six bytes for a character.
    if (value.length > MOST_BYTES / 8)
      throw new ArgumentError(
        `The value of '${key}' has ${value.length} characters; at most ${MOST_BYTES / 8} can be sent.`,
      );
    await this.ask({ kind: 'set', key, value });
  }

  get(key: string): Promise<string> {
    return this.ask({ kind: 'get', key, timeoutMs: this.#timeoutMs });
  }

  async barrier(): Promise<void> {
    await this.ask({ kind: 'barrier', timeoutMs: this.#timeoutMs });
  }
}

class ThreadControl extends AskingControl {
  /** Itself, once all ranks have come. */
  readonly formed: Promise<this>;
  members: readonly WorldMember[] = [];
  readonly #worker: Worker;
  readonly #shared: Int32Array;
  readonly #log: CallLog;
  readonly #asked = new Map<number, Asked>();
  #asks = 0;
  #closing: Promise<void> | undefined;
  #closed: () => void = () => {};

  constructor(worker: Worker, { place, shared, timeoutMs }: ControlThreadData, log: CallLog) {
    super(place.rank, place.worldSize, timeoutMs);
    this.#log = log;
    this.#worker = worker;
    this.#shared = shared;
    this.formed = new Promise<this>((resolve, reject) => {
      worker.on('message', (message: FromControlThread) => {
        if (message.kind === 'formed') {
          this.members = message.members;
          this.#hook();
          resolve(this);
        } else if (message.kind === 'refused') reject(new DistributedError(message.reason));
        else this.#hear(message);
      });
      worker.on('error', (error) => {
        const failed = new InternalError(
          `The thread that watches the other ranks has failed: ${error.message}`,
        );
        reject(failed);
        if (this.members.length > 0) throw failed;
      });
    }).finally(() => worker.unref());
  }

  /** What another rank's end leads to is not said: that a rank is gone is known in a moment, and this process then ends. */
  endIfLost(): void {
    Atomics.wait(this.#shared, SHARED.lost, 0, VERDICT_MS);
    if (this.#isLost) endLost();
  }

  note(header: Int32Array): void {
    this.#log.note(header);
  }

  hasLeft(rank: number): boolean {
    return Atomics.load(this.#shared, SHARED.ranks + rank) === 1;
  }

  close(): Promise<void> {
    this.#closing ??= new Promise<void>((resolve) => {
      this.#closed = resolve;
      this.#worker.ref();
      this.#post({ kind: 'close' });
    }).then(() => this.#unhook());
    return this.#closing;
  }

  protected ask(ask: Ask): Promise<string> {
    if (this.#closing)
      return Promise.reject(new DistributedError('The connection to the other ranks is closed.'));
    const id = this.#asks++;
    // The thread alone does not keep the process alive.
    this.#worker.ref();
    return new Promise<string>((resolve, reject) => {
      this.#asked.set(id, { resolve, reject });
      this.#post({ ...ask, id } as ControlRequest);
    }).finally(() => {
      if (this.#asked.size === 0 && !this.#closing) this.#worker.unref();
    });
  }

  #post(message: ToControlThread): void {
    this.#worker.postMessage(message);
  }

  #hear(message: FromControlThread): void {
    if (message.kind === 'lost') endLost();
    else if (message.kind === 'closed') this.#closed();
    else if (message.kind === 'answer') {
      const asked = this.#asked.get(message.id)!;
      this.#asked.delete(message.id);
      if (message.error === undefined) asked.resolve(message.value ?? '');
      else asked.reject(new DistributedError(message.error));
    }
  }

  /** Called before an error is printed that ends the process. */
  readonly #onUncaught = (error: unknown): void => {
    if (process.listenerCount('uncaughtException') > 0) return;
    // The memory of a rank that is gone is also missing in kernels which exchange values with it.
    if (error instanceof DistributedError || error instanceof DeviceError) this.endIfLost();
    if (!this.#isLost) this.#fail(`it failed with ${errorText(error)}`);
    if (this.#isLost) endLost();
  };

  /** The program has come to its end. */
  readonly #onIdle = (code: number): void => {
    if (isOrderly(code)) void this.close();
    else this.#onExit(code);
  };

  readonly #onExit = (code: number): void => {
    this.#unhook();
    if (this.#isLost || this.#isNoted || this.#closing) return;
    if (isOrderly(code)) this.#tellNow({ kind: 'leave' });
    else this.#fail(`it ended with exit code ${code}`);
  };

  #fail(reason: string): void {
    endInTime();
    this.#tellNow({ kind: 'failed', reason });
  }

  /** Returns when the others know, or after a moment. */
  #tellNow(message: ToControlThread): void {
    this.#post(message);
    Atomics.wait(this.#shared, SHARED.noted, 0, NOTED_MS);
  }

  get #isLost(): boolean {
    return Atomics.load(this.#shared, SHARED.lost) === 1;
  }

  get #isNoted(): boolean {
    return Atomics.load(this.#shared, SHARED.noted) === 1;
  }

  #hook(): void {
    opened = this;
    process.on('uncaughtExceptionMonitor', this.#onUncaught);
    process.on('beforeExit', this.#onIdle);
    process.on('exit', this.#onExit);
  }

  #unhook(): void {
    opened = undefined;
    process.off('uncaughtExceptionMonitor', this.#onUncaught);
    process.off('beforeExit', this.#onIdle);
    process.off('exit', this.#onExit);
  }
}

let opened: ThreadControl | undefined;

/** Libraries that have work on a GPU wait for its end when a process exits, and here it does not come. */
function endLost(): never {
  process.once('exit', () => endProcess(EXIT_LOST));
  process.exit(EXIT_LOST);
}

/** For who catches a DistributedError: end this process without another word if it is because a rank is gone. */
export const endIfLost = (): void => opened?.endIfLost();

/** What the others need at most to say that a rank is gone, after a connection to it has ended. */
const VERDICT_MS = 3000;
const NOTED_MS = 2000;

/** 0, or that of a program that a signal has ended in order (Ctrl-C, SIGTERM, SIGHUP). */
const isOrderly = (code: number): boolean => [0, 129, 130, 143].includes(code);

function errorText(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return text.length > 500 ? `${text.slice(0, 500)}…` : text;
}

/** That of a process alone. */
class LoneControl extends AskingControl {
  readonly members: readonly WorldMember[];
  readonly #store = new ControlStore(1);

  constructor(me: WorldMember, timeoutMs: number) {
    super(0, 1, timeoutMs);
    this.members = [me];
  }

  hasLeft(): boolean {
    return false;
  }

  note(): void {}

  async close(): Promise<void> {
    this.#store.close();
  }

  protected ask(ask: Ask): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#store.ask(0, { ...ask, id: 0 } as ControlRequest, ({ value = '', error }) => {
        if (error === undefined) resolve(value);
        else reject(new DistributedError(error));
      });
    });
  }
}
