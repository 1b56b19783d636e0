/** Where a function stands in the author's source. */
import type { Location } from '../core/errors.js';

export interface Origin {
  /** The location of the character `offset` of the function's text. */
  locate(offset: number): Location;
}

/** @param stack made where the author called us; read only when a location is asked for */
export function originOf(_fn: unknown, text: string, subject: string, _stack: Error): Origin {
  return {
    locate(offset) {
      const before = text.slice(0, offset);
      const line = before.split('\n').length;
      const start = before.lastIndexOf('\n') + 1;
      const end = text.indexOf('\n', offset);
      return {
        file: subject,
        line,
        column: offset - start + 1,
        text: text.slice(start, end < 0 ? text.length : end),
      };
    },
  };
}
