/** Threads of the CPU device: Node's workers. */
import { Worker } from 'node:worker_threads';
import type { WorkerData } from '../cpu/control.js';

export interface WorkerThread {
  /** Its event loop is gone; an event of its end may still wait for this thread to be idle. */
  readonly ended: boolean;
  terminate(): Promise<unknown>;
}

/** @param lost is told how the thread failed or ended @throws Error if no thread can be started */
export function startThread(workerData: WorkerData, lost: (how: string) => void): WorkerThread {
  if (!import.meta.url) throw new Error('a CommonJS bundle does not know where its files are');
  const worker = new Worker(new URL('./worker.js', import.meta.url), {
    workerData,
    // None of the process's own, which may be loaders or not be allowed for a worker.
    execArgv: [],
  });
  /** Node gives −1 as the idle time of a loop that is gone. It must have been asked while the worker was online. */
  const hasEnded = (): boolean => worker.performance?.eventLoopUtilization().idle === -1;
  worker.unref();
  worker.once('online', hasEnded);
  worker.on('error', (error) => lost(`failed: ${error.message}`));
  worker.on('exit', () => lost('ended'));
  return {
    get ended() {
      return hasEnded();
    },
    terminate: () => worker.terminate(),
  };
}
