/** What HEDDLE_DEBUG=1..5 prints, on stderr. */
import { warn } from '#platform/process.js';
import { env } from './env.js';

/** Print a line if HEDDLE_DEBUG is at least `level`; the text is only made when it is needed. */
export function debug(level: 1 | 2 | 3 | 4 | 5, text: () => string): void {
  if (env('HEDDLE_DEBUG') >= level) warn(`[heddle] ${text()}`);
}

const told = new Set<string>();

/** Print a line once per process. */
export function once(text: string): void {
  if (told.has(text)) return;
  told.add(text);
  warn(`[heddle] ${text}`);
}
