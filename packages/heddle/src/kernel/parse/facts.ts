/**
 * What a translation must know of places that it has not reached yet. Values of a kernel have types only once it is
 * translated, so facts are found by translating: where one is missing, the translation fails as it would for good and
 * names the fact that would resolve the error (parse.ts): a loop is then translated again (loops.ts), or else the kernel.
 */
import type { ValueType } from '../ir/types.js';

export interface Fact {
  /** The place of the source, within the calls that lead to it. */
  readonly key: string;
  /**
   * The type of a variable whose initial value is made of literals, from the first typed value that it meets; or that
   * a loop is unrolled, since a constant depends on its variable; or that a call is made for each side of a choice among
   * its arguments, since a constant depends on it: minifiers make `f(c ? a : b)` of `c ? f(a) : f(b)`.
   */
  readonly is: ValueType | 'unrolled' | 'split';
}

export type Facts = ReadonlyMap<string, Fact['is']>;

/** The type of a variable, if it is known. */
export function typeIn(facts: Facts, key: string): ValueType | undefined {
  const known = facts.get(key);
  return typeof known === 'string' ? undefined : known;
}
