/** Where other threads find the data sets of this library: the module remote-datasets.ts. */

/** Its URL. A CommonJS bundle has no import.meta; there, the loader refuses to start workers. */
export const REMOTE_DATASETS: string =
  import.meta.url && new URL('./remote-datasets.js', import.meta.url).href;
