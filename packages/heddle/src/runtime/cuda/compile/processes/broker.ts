/** The thread between a caller that waits and the processes that compile (pool.ts). */
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { workerData } from 'node:worker_threads';
import {
  type BrokerData,
  type CompileAnswer,
  type CompileOrder,
  claimed,
  type Expected,
  fits,
  lengthOf,
  MOST_PROCESSES,
  type OpenOrder,
} from './orders.js';

const { nvrtc, port, answers } = workerData as BrokerData;

/** Processes take 50 MiB each: without work for so long, in ms, they end. */
const IDLE = 5000;

interface Waiting {
  readonly order: OpenOrder;
  /** A process has ended over it. */
  readonly again: boolean;
}

interface Compiling {
  readonly child: ChildProcess;
  /** It has said that it is there. */
  ready: boolean;
  /** What it works on. */
  work: readonly Waiting[];
}

const processes = new Set<Compiling>();
let started = 0;
const waiting: Waiting[] = [];
let idle: NodeJS.Timeout | undefined;

port.on('message', (message: OpenOrder | Expected) => {
  clearTimeout(idle);
  idle = setTimeout(dismiss, IDLE);
  if ('kernels' in message) startFor(message.kernels);
  else {
    waiting.push({ order: message, again: false });
    startFor(waiting.length);
    handOut();
  }
});

/** As many processes as there is work for. */
function startFor(kernels: number): void {
  while (started < Math.min(MOST_PROCESSES, kernels)) start();
}

function start(): void {
  started++;
  const file = fileURLToPath(new URL('./process.js', import.meta.url));
  const child = fork(file, [nvrtc], { execArgv: [], serialization: 'advanced', stdio: 'ignore' });
  const process: Compiling = { child, ready: false, work: [] };
  processes.add(process);
  child.on('message', (message: 'ready' | readonly CompileAnswer[]) => {
    if (message === 'ready') process.ready = true;
    else {
      process.work = [];
      answer(message);
    }
    handOut();
  });
  child.on('error', () => lost(process));
  child.on('exit', () => lost(process));
}

function dismiss(): void {
  // What is waiting waits for a process that is still on its way.
  if (waiting.length > 0 || [...processes].some(({ work }) => work.length > 0))
    idle = setTimeout(dismiss, IDLE);
  else {
    for (const { child } of processes) child.disconnect();
    processes.clear();
    started = 0;
  }
}

/** What it was given another one compiles, once: it may have been killed, or it may be the source. */
function lost(process: Compiling): void {
  if (!processes.delete(process)) return;
  for (const { order, again } of process.work)
    if (again) fail(order);
    else waiting.push({ order, again: true });
  if (process.ready) {
    started--;
    if (waiting.length > 0) start();
  }
  handOut();
  if (processes.size > 0) return;
  // None comes up. What nobody has claimed is the caller's.
  for (const { order, again } of waiting.splice(0)) if (again) fail(order);
}

const fail = ({ number }: OpenOrder): void => answer([{ number, result: { error: 'it ended' } }]);

function answer(message: readonly CompileAnswer[]): void {
  port.postMessage(message);
  Atomics.add(answers, 0, 1);
  Atomics.notify(answers, 0);
}

/**
 * What takes longest to compile, which would keep the caller waiting if it were begun last; with a short source its share of
 * other short ones.
 */
function take(): Waiting[] {
  const share = Math.ceil(waiting.length / processes.size);
  const taken: Waiting[] = [];
  for (const next of waiting.toSorted((a, b) => lengthOf(b.order) - lengthOf(a.order))) {
    const others = taken.map(({ order }) => order);
    // What a process has ended over is compiled alone.
    if ((next.again && others.length > 0) || !fits(next.order, others)) continue;
    waiting.splice(waiting.indexOf(next), 1);
    // The caller may have done it itself.
    if (!next.again && !claimed(next.order)) continue;
    taken.push(next);
    if (next.again || taken.length === share) break;
  }
  return taken;
}

function handOut(): void {
  for (const process of processes) {
    if (!process.ready || process.work.length > 0) continue;
    process.work = take();
    if (process.work.length === 0) return;
    process.child.send(
      process.work.map(({ order: { number, source, arch } }): CompileOrder => ({ number, source, arch })),
    );
  }
}
