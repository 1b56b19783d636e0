/** The script of the page's worker. */
import { compute } from './app.js';

const scope = globalThis as unknown as {
  onmessage: (event: { readonly data: number }) => void;
  postMessage(message: unknown): void;
};
scope.onmessage = async ({ data: rounds }) => {
  scope.postMessage(await compute('/files', rounds).catch((error: Error) => ({ error: error.stack })));
};
