/** Strips of columns that stay on a GPU's chip. A browser has none: see schedule/browser/strips.ts. */
export { suitsStrips } from '../lower/strip-shares.js';
export { stripsBody } from '../lower/strips.js';
