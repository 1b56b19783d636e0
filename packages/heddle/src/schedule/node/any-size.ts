/** Element by element for any number of elements, on a GPU. A browser has none: see schedule/browser/any-size.ts. */
export { anySizeBody } from '../lower/any-size.js';
