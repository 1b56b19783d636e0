/** How urgent a request is: its priority and its deadline, as each protocol says them. */
import { shown } from 'heddle/internal/core/arguments.js';
import type { Urgency } from '../batching/batcher.js';
import { invalid } from '../errors.js';

/** What a request says of it. */
export interface GivenUrgency {
  /** The parameter `priority`: 1 is the most urgent; 0, or none, is the default. */
  readonly priority: unknown;
  /** The parameter `timeout`: microseconds from the arrival. */
  readonly timeout: unknown;
  /** Milliseconds from the arrival, of a header or of a deadline of gRPC. */
  readonly timeoutMs: number | undefined;
}

/** The least urgent priority. */
const LAST = 100;
/** Of requests that name none. */
const DEFAULT = 50;

/** @param defaultMs of a request that names no deadline @throws ServiceError */
export function urgencyOf({ priority, timeout, timeoutMs }: GivenUrgency, defaultMs: number): Urgency {
  const level = wholeNumber('priority', priority, LAST) ?? 0;
  const micros = wholeNumber('timeout', timeout, Number.MAX_SAFE_INTEGER);
  const given = Math.min(
    micros ? micros / 1000 : Number.POSITIVE_INFINITY,
    timeoutMs ?? Number.POSITIVE_INFINITY,
  );
  return {
    priority: level === 0 ? DEFAULT : level,
    expires: performance.now() + (given === Number.POSITIVE_INFINITY ? defaultMs : given),
  };
}

function wholeNumber(name: string, value: unknown, most: number): number | undefined {
  if (value === undefined) return undefined;
  const number = typeof value === 'bigint' ? Number(value) : value;
  if (Number.isSafeInteger(number) && (number as number) >= 0 && (number as number) <= most)
    return number as number;
  throw invalid(`the parameter ${name} is ${shown(value)}, must be an integer from 0 to ${most}.`);
}
