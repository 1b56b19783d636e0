/** A worker as the service sees it: a process that runs batches, and is started again when it dies. */
import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Batch, BatchRunner, OutputTensor } from '../batching/batcher.js';
import { ServiceError } from '../errors.js';
import type { ModelSpec } from '../protocol/model-spec.js';
import { FrameReader, sendFrame, type WorkerReply, type WorkerRequest } from './frames.js';
import type { WorkerArguments } from './main.js';

const MAIN = fileURLToPath(new URL('./main.js', import.meta.url));

/** How a worker is started, and what is told of it. */
export interface WorkerOptions extends WorkerArguments {
  /** Threads of the CPU device. */
  readonly threads: number;
  /** The longest that a batch may take, in milliseconds: a worker that takes longer hangs, and is killed. */
  readonly maxRunMs: number;
  /** It can run batches now. */
  readonly onReady: (spec: ModelSpec) => void;
  /** It cannot open its model: it is not started again. */
  readonly onFailure: (reason: string) => void;
  /** It died; it is started again after so many milliseconds. */
  readonly onDeath: (how: string, restartMs: number) => void;
  /** A line that it printed. */
  readonly onOutput: (line: string) => void;
}

/** How soon a worker that died is started again: at first, and at most. */
const FIRST_RESTART_MS = 100;
const LAST_RESTART_MS = 10_000;

interface Call {
  readonly resolve: (reply: WorkerReply, body: Uint8Array) => void;
  readonly reject: (error: Error) => void;
  readonly timeout: NodeJS.Timeout;
}

export class WorkerProcess implements BatchRunner {
  readonly #options: WorkerOptions;
  #child: ChildProcess | undefined;
  #socket: Socket | undefined;
  #isReady = false;
  /** Whether it ever opened its model: a process that dies before would die again. */
  #wasReady = false;
  #isClosed = false;
  /** What the process is computing, and what it was sent meanwhile, in order. */
  #calls: Call[] = [];
  #restartMs = FIRST_RESTART_MS;
  #restart: NodeJS.Timeout | undefined;

  constructor(options: WorkerOptions) {
    this.#options = options;
    this.#start();
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  get isIdle(): boolean {
    return this.#isReady && this.#calls.length === 0;
  }

  /** The process, while there is one. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  async run({ rows, shapes, parts, target }: Batch): Promise<readonly OutputTensor[]> {
    const { reply, body } = await this.#ask(
      { rows, shapes, ...(target !== undefined && { target }) },
      parts.flat(),
    );
    if (reply.kind !== 'outputs') throw unexpected(reply);
    const { layer } = reply;
    let at = 0;
    return reply.shapes.map((shape, i) => {
      const end = at + reply.lengths[i]!;
      const bytes = body.subarray(at, end);
      at = end;
      return { shape, bytes, ...(layer !== undefined && { layer }) };
    });
  }

  /** End the process. What it computes is not waited for. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#restart);
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    this.#socket?.end();
    const late = setTimeout(() => child.kill('SIGKILL'), 2000);
    await gone;
    clearTimeout(late);
  }

  #start(): void {
    const { path, device, maxBatchSize, precision, threads, onOutput } = this.#options;
    const own: WorkerArguments = { path, device, maxBatchSize, precision };
    const child = spawn(process.execPath, [MAIN, JSON.stringify(own)], {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      env: { ...process.env, HEDDLE_THREADS: String(threads) },
    });
    this.#child = child;
    const socket = child.stdio[3] as Socket;
    this.#socket = socket;
    const reader = new FrameReader<WorkerReply>((head, body) => this.#heard(head, body));
    socket.on('data', (piece: Buffer) => reader.push(piece));
    // What follows is the end of the process.
    socket.on('error', () => {});
    for (const stream of [child.stdout!, child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        for (const line of text.split('\n')) if (line.trim() !== '') onOutput(line);
      });
    }
    child.on('error', (error) => this.#died(error.message));
    child.on('exit', (code, signal) => this.#died(signal ?? `exit code ${code}`));
  }

  #heard(reply: WorkerReply, body: Uint8Array): void {
    if (reply.kind === 'ready') {
      this.#isReady = true;
      this.#wasReady = true;
      this.#options.onReady(reply.spec);
      return;
    }
    if (!this.#isReady) {
      const reason = reply.kind === 'error' ? reply.message : `unexpected frame '${reply.kind}'`;
      void this.close();
      this.#options.onFailure(reason);
      return;
    }
    const call = this.#calls.shift();
    clearTimeout(call?.timeout);
    this.#restartMs = FIRST_RESTART_MS;
    if (reply.kind === 'error')
      call?.reject(new ServiceError(reply.isClients ? 'invalid' : 'internal', reply.message));
    else call?.resolve(reply, body);
  }

  #ask(
    head: WorkerRequest,
    parts: readonly Uint8Array[],
  ): Promise<{ readonly reply: WorkerReply; readonly body: Uint8Array }> {
    return new Promise((resolve, reject) => {
      if (!this.#isReady) return reject(gone());
      const { maxRunMs } = this.#options;
      const timeout = setTimeout(() => this.#child?.kill('SIGKILL'), maxRunMs);
      this.#calls.push({ resolve: (reply, body) => resolve({ reply, body }), reject, timeout });
      sendFrame(this.#socket!, head, parts);
    });
  }

  #died(how: string): void {
    if (!this.#child) return;
    this.#child = undefined;
    this.#isReady = false;
    for (const { timeout, reject } of this.#calls.splice(0)) {
      clearTimeout(timeout);
      reject(gone());
    }
    if (this.#isClosed) return;
    if (!this.#wasReady) {
      this.#isClosed = true;
      this.#options.onFailure(`its process ended (${how}) before the model was open.`);
      return;
    }
    this.#options.onDeath(how, this.#restartMs);
    this.#restart = setTimeout(() => this.#start(), this.#restartMs);
    this.#restartMs = Math.min(LAST_RESTART_MS, 2 * this.#restartMs);
  }
}

const gone = (): ServiceError =>
  new ServiceError(
    'unavailable',
    'the worker that computed this request died. It is started again: try again.',
    {
      retryAfter: 1,
    },
  );

const unexpected = (reply: WorkerReply): ServiceError =>
  new ServiceError('internal', `the worker answered with '${reply.kind}'.`);
