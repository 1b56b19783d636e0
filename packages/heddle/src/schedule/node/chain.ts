/** Rows that a block takes through several groups. A browser has none: see schedule/browser/chain.ts. */
export { chainBody } from '../lower/chain.js';
