/** The script of a test page: computes here, or in a worker when the page says so. */
import { compute } from './app.js';

declare const document: { readonly title: string };
declare const location: { readonly hash: string };

/** Turns of the page's event loop while it computes. */
let ticks = 0;
setInterval(() => ticks++, 5);

const rounds = Number(/rounds=(\d+)/.exec(location.hash)?.[1] ?? 0);
(globalThis as unknown as { computed: unknown }).computed = location.hash.startsWith('#worker')
  ? import('./start-worker.js').then(({ computedByWorker }) => computedByWorker(rounds))
  : compute('/files', rounds).then((computed) => ({ ...computed, ticks }));
