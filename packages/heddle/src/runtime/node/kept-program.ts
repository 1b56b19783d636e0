/** Programs of the CPU on disk. A browser keeps none: see runtime/browser/kept-program.ts. */
export { keptProgram } from '../cpu/kept-program.js';
