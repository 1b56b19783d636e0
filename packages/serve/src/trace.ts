/** W3C Trace Context (https://www.w3.org/TR/trace-context): requests that belong together. */
import { randomBytes } from 'node:crypto';

/** The trace that a request belongs to. */
export interface Trace {
  readonly traceId: string;
  /** The header for those who hear of the request from this service: the same trace, and a span of its own. */
  readonly traceparent: string;
}

const PATTERN = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** @returns undefined for a header that is not one of a trace */
export function traceOf(header: string | string[] | undefined): Trace | undefined {
  if (typeof header !== 'string') return undefined;
  const [, version, traceId, span, flags, more] = PATTERN.exec(header) ?? [];
  if (!version || !traceId || !span || version === 'ff' || (version === '00' && more !== undefined))
    return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(span)) return undefined;
  return { traceId, traceparent: `00-${traceId}-${randomBytes(8).toString('hex')}-${flags}` };
}
