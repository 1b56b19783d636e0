/** Long rows that stay in the shared memory of a GPU. A browser has none: see schedule/browser/kept-rows.ts. */
export { type CarriedValue, carriedOf } from '../lower/carried.js';
export { inputsOf, KeptPieces, readsOf } from '../lower/kept-pieces.js';
export { LineReads } from '../lower/line-reads.js';
export { type SharedRows, sharedRowsOf } from '../lower/shared-rows.js';
