/** Reductions in parts, which only a GPU computes. A browser has none: see schedule/browser/parts.ts. */
export { inTwo, spreadNodes } from '../passes/parts.js';
