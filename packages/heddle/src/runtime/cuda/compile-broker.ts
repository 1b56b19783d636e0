/** The thread between a caller that waits and the processes that compile (compile-pool.ts). */
import { type ChildProcess, fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { workerData } from 'node:worker_threads';
import { type BrokerData, type CompileAnswer, claimed, type OpenOrder } from './compile-pool.js';

const { nvrtc, port, answers } = workerData as BrokerData;

const MOST_PROCESSES = Math.min(Math.max(1, availableParallelism() - 1), 15);
/** Orders that a process has at once: one to work on, one to go on with. */
const MOST_ORDERS = 2;
/** Processes take 50 MiB each: without work for so long, in ms, they end. */
const IDLE = 5000;

interface Compiling {
  readonly child: ChildProcess;
  /** It has said that it is there. */
  ready: boolean;
  /** Numbers of the orders that it has not answered. */
  readonly orders: Set<number>;
}

const processes = new Set<Compiling>();
let started = 0;
const waiting: OpenOrder[] = [];
let idle: NodeJS.Timeout | undefined;

port.on('message', (order: OpenOrder) => {
  waiting.push(order);
  clearTimeout(idle);
  idle = setTimeout(dismiss, IDLE);
  // As many as there is work for.
  if (started < MOST_PROCESSES && started < waiting.length) start();
  handOut();
});

function start(): void {
  started++;
  const file = fileURLToPath(new URL('./compile-process.js', import.meta.url));
  const child = fork(file, [nvrtc], { execArgv: [], serialization: 'advanced', stdio: 'ignore' });
  const process: Compiling = { child, ready: false, orders: new Set() };
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
  if ([...processes].some(({ orders }) => orders.size > 0)) idle = setTimeout(dismiss, IDLE);
  else {
    for (const { child } of processes) child.disconnect();
    processes.clear();
    started = 0;
  }
}

/** What it was given nobody else will compile. */
function lost(process: Compiling): void {
  if (!processes.delete(process)) return;
  for (const number of process.orders) answer({ number, result: { error: 'it ended' } });
}

function answer(message: CompileAnswer): void {
  port.postMessage(message);
  Atomics.add(answers, 0, 1);
  Atomics.notify(answers, 0);
}

function handOut(): void {
  for (let count = 0; count < MOST_ORDERS && waiting.length > 0; count++) {
    for (const { child, ready, orders } of processes) {
      if (!ready || orders.size > count) continue;
      // The caller may have done some itself.
      let order = waiting.shift();
      while (order && !claimed(order)) order = waiting.shift();
      if (!order) return;
      const { number, source, arch } = order;
      orders.add(number);
      child.send({ number, source, arch });
    }
  }
}
