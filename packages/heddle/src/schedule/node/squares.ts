/** Transposes on a GPU. A browser has none: see schedule/browser/squares.ts. */
export { squaresBody } from '../lower/squares.js';
