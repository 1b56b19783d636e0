/** The order of dimensions in memory, which GPUs gain by. A browser has none: see schedule/browser/orders.ts. */
export { reordered } from '../orders.js';
