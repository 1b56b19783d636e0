/** Threads that run a module of the library. */
export { Worker } from 'node:worker_threads';
