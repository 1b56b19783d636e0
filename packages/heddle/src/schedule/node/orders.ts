/** How tensors lie in memory, which GPUs gain by. A browser has none: see schedule/browser/orders.ts. */
export { withAlignedRows } from '../aligned-rows.js';
export { reordered } from '../orders.js';
