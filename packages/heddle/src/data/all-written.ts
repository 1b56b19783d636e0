/** Several parts of a batch, some of which may be written asynchronously. */
import { isThenable } from '../core/arguments.js';

/** @returns at once if all are written, else a promise of it @throws the first error, when none is written any more */
export function allWritten(parts: readonly (void | Promise<void>)[]): void | Promise<void> {
  if (parts.some(isThenable)) return settled(parts);
}

async function settled(parts: readonly (void | Promise<void>)[]): Promise<void> {
  const results = await Promise.allSettled(parts);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}
