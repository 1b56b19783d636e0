/** A worker of the page, by the expression that Vite and webpack know. */
interface WebWorker {
  onmessage: (event: { readonly data: unknown }) => void;
  onerror: (event: { readonly message: string }) => void;
  postMessage(message: unknown): void;
}
declare const Worker: new (url: URL, options: { readonly type: 'module' }) => WebWorker;

export function computedByWorker(rounds: number): Promise<unknown> {
  const worker = new Worker(new URL('./page-worker.js', import.meta.url), { type: 'module' });
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(`the worker failed: ${message}`));
    worker.postMessage(rounds);
  });
}
