/** The thread between a caller that waits and the processes that compile (pool.ts). */
import { type ChildProcess, fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { workerData } from 'node:worker_threads';
import { type BrokerData, type CompileAnswer, claimed, type OpenOrder } from './orders.js';

const { nvrtc, port, answers } = workerData as BrokerData;

const MOST_PROCESSES = Math.min(Math.max(1, availableParallelism() - 1), 15);
/** Orders that a process has at once: one to work on, one to go on with. */
const MOST_ORDERS = 2;
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
  /** What it has not answered, by number. */
  readonly orders: Map<number, Waiting>;
}

const processes = new Set<Compiling>();
let started = 0;
const waiting: Waiting[] = [];
let idle: NodeJS.Timeout | undefined;

port.on('message', (order: OpenOrder) => {
  waiting.push({ order, again: false });
  clearTimeout(idle);
  idle = setTimeout(dismiss, IDLE);
  // As many as there is work for.
  if (started < MOST_PROCESSES && started < waiting.length) start();
  handOut();
});

function start(): void {
  started++;
  const file = fileURLToPath(new URL('./process.js', import.meta.url));
  const child = fork(file, [nvrtc], { execArgv: [], serialization: 'advanced', stdio: 'ignore' });
  const process: Compiling = { child, ready: false, orders: new Map() };
  processes.add(process);
  child.on('message', (message: 'ready' | CompileAnswer) => {
    if (message === 'ready') process.ready = true;
    else {
      process.orders.delete(message.number);
      answer(message);
    }
    handOut();
  });
  child.on('error', () => lost(process));
  child.on('exit', () => lost(process));
}

function dismiss(): void {
  // What is waiting waits for a process that is still on its way.
  if (waiting.length > 0 || [...processes].some(({ orders }) => orders.size > 0))
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
  for (const { order, again } of process.orders.values()) {
    if (again) fail(order);
    else waiting.unshift({ order, again: true });
  }
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

function handOut(): void {
  for (let count = 0; count < MOST_ORDERS && waiting.length > 0; count++) {
    for (const { child, ready, orders } of processes) {
      if (!ready || orders.size > count) continue;
      const [first] = waiting;
      // Alone, so that it takes no other with it.
      const apart = [...orders.values()].some(({ again }) => again);
      if (apart || (first?.again && orders.size > 0)) continue;
      // The caller may have done some itself.
      let next = waiting.shift();
      while (next && !next.again && !claimed(next.order)) next = waiting.shift();
      if (!next) return;
      const { number, source, arch } = next.order;
      orders.set(number, next);
      child.send({ number, source, arch });
    }
  }
}
