/** Windows that a GPU's kernel stores where it makes what they come from. A browser has none: see schedule/browser/spread.ts. */
export { spreadWindows } from '../lower/spread.js';
