/** Work on many files at a time. */

/** What long work on many files can be told. */
export interface LongWorkOptions {
  /** Is told after every file how many are done, and of how many. */
  readonly onProgress?: (done: number, total: number) => void;
  /** Ends the work: it fails with the signal's reason. */
  readonly signal?: AbortSignal;
}

/**
 * Call `work` for 0 to `count` − 1, up to `concurrency` at a time, in this order.
 * @throws the failure of the lowest number, when nothing is under way any more; the signal's reason
 */
export async function inParallel(
  count: number,
  concurrency: number,
  work: (i: number) => Promise<void>,
  { onProgress, signal }: LongWorkOptions = {},
): Promise<void> {
  let next = 0;
  let done = 0;
  let failed = count;
  let failure: unknown;
  const run = async (): Promise<void> => {
    while (next < count && failed === count && !signal?.aborted) {
      const i = next++;
      try {
        await work(i);
        onProgress?.(++done, count);
      } catch (error) {
        if (i < failed) {
          failed = i;
          failure = error;
        }
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, count) }, run));
  if (failed < count) throw failure;
  signal?.throwIfAborted();
}
