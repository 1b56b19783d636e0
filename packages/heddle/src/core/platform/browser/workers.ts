/** A browser's files are bundled: there is no module for a thread to run. */
export class Worker {
  constructor() {
    throw new Error('a browser has no threads that run modules of the library');
  }
}
