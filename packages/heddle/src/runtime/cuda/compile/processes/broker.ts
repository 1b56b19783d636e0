/** The thread between a caller that waits and the processes that compile (pool.ts). */
import { type ChildProcess, fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { workerData } from 'node:worker_threads';
import {
  type BrokerData,
  type CompileAnswer,
  claimed,
  type Expected,
  lengthOf,
  type OpenOrder,
} from './orders.js';

const { nvrtc, port, answers } = workerData as BrokerData;

const MOST_PROCESSES = Math.min(Math.max(1, availableParallelism() - 1), 15);
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
  work: Waiting | undefined;
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
  const process: Compiling = { child, ready: false, work: undefined };
  processes.add(process);
  child.on('message', (message: 'ready' | CompileAnswer) => {
    if (message === 'ready') process.ready = true;
    else {
      process.work = undefined;
      answer(message);
    }
    handOut();
  });
  child.on('error', () => lost(process));
  child.on('exit', () => lost(process));
}

function dismiss(): void {
  // What is waiting waits for a process that is still on its way.
  if (waiting.length > 0 || [...processes].some(({ work }) => work)) idle = setTimeout(dismiss, IDLE);
  else {
    for (const { child } of processes) child.disconnect();
    processes.clear();
    started = 0;
  }
}

/** What it was given another one compiles, once: it may have been killed, or it may be the source. */
function lost(process: Compiling): void {
  if (!processes.delete(process)) return;
  if (process.work?.again) fail(process.work.order);
  else if (process.work) waiting.push({ ...process.work, again: true });
  if (process.ready) {
    started--;
    if (waiting.length > 0) start();
  }
  handOut();
  if (processes.size > 0) return;
  // None comes up. What nobody has claimed is the caller's.
  for (const { order, again } of waiting.splice(0)) if (again) fail(order);
}

const fail = ({ number }: OpenOrder): void => answer({ number, result: { error: 'it ended' } });

function answer(message: CompileAnswer): void {
  port.postMessage(message);
  Atomics.add(answers, 0, 1);
  Atomics.notify(answers, 0);
}

/** What takes long to compile would keep the caller waiting if it were begun last. */
function takeLongest(): Waiting | undefined {
  const lengths = waiting.map(({ order }) => lengthOf(order));
  return waiting.splice(lengths.indexOf(Math.max(...lengths)), 1)[0];
}

function handOut(): void {
  for (const process of processes) {
    if (!process.ready || process.work) continue;
    // The caller may have done some itself.
    let next = takeLongest();
    while (next && !next.again && !claimed(next.order)) next = takeLongest();
    if (!next) return;
    const { number, source, arch } = next.order;
    process.work = next;
    process.child.send({ number, source, arch });
  }
}
