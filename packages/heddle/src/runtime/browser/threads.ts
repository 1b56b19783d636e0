/**
 * Threads of the CPU device: Web Workers. Their program is part of this file, as text: so no bundler has to find
 * another file, and the library is one file on a CDN.
 */
import type * as node from '../node/threads.js';

/** browser/worker.ts, bundled; set by scripts/bundle-browser.mjs. */
declare const WORKER_SOURCE: string;

interface WebWorker {
  onerror: ((event: { readonly message?: string }) => void) | null;
  postMessage(message: unknown): void;
  terminate(): void;
}

interface WorkerScope {
  readonly Worker: new (url: string, options: { readonly name: string }) => WebWorker;
}

let url: string | undefined;

export const startThread: typeof node.startThread = (data, lost) => {
  url ??= URL.createObjectURL(new Blob([WORKER_SOURCE], { type: 'text/javascript' }));
  const { Worker } = globalThis as unknown as WorkerScope;
  const worker = new Worker(url, { name: `heddle ${data.thread}` });
  let ended = false;
  worker.onerror = ({ message }) =>
    lost(`failed: ${message ?? 'its script may not be loaded (a rule of the page)'}`);
  worker.postMessage(data);
  return {
    get ended() {
      return ended;
    },
    terminate: async () => {
      ended = true;
      worker.terminate();
    },
  };
};
