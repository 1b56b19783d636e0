/** Merges of byte-pair encoding (Sennrich, Haddow and Birch, Neural machine translation of rare words, 2016). */
import { Heap } from './heap.js';

/** Two tokens, by their numbers below 2^26, as one number. */
export const pairKey = (left: number, right: number): number => left * 2 ** 26 + right;
export const leftOf = (key: number): number => Math.floor(key / 2 ** 26);
export const rightOf = (key: number): number => key % 2 ** 26;

/** What a pair becomes, and how early. */
export interface Merge {
  /** Of the pairs of a word, that of the lowest rank is merged first. */
  readonly rank: number;
  readonly token: number;
}

/**
 * Merge the pairs of a word until none is left that can be: the lowest rank first, of equal ones the leftmost. The time
 * is n log n for n tokens, so that a word of a million characters ends, too.
 */
export function mergePairs(word: readonly number[], merges: ReadonlyMap<number, Merge>): number[] {
  const count = word.length;
  const tokens = Array.from(word);
  /** The neighbours of each place; a place that was merged into the one before it is −1. */
  const next = Array.from(word, (_, i) => i + 1);
  const before = Array.from(word, (_, i) => i - 1);
  const candidates = new Heap<number>((a, b) => a < b);
  const mergeAt = (place: number): Merge | undefined =>
    place >= 0 && next[place]! < count
      ? merges.get(pairKey(tokens[place]!, tokens[next[place]!]!))
      : undefined;
  const propose = (place: number): void => {
    const merge = mergeAt(place);
    if (merge) candidates.push(merge.rank * count + place);
  };
  for (let place = 0; place < count - 1; place++) propose(place);
  for (let found = candidates.pop(); found !== undefined; found = candidates.pop()) {
    const place = found % count;
    const merge = tokens[place] === -1 ? undefined : mergeAt(place);
    // What was proposed may have been merged with another neighbour since.
    if (merge?.rank !== Math.floor(found / count)) continue;
    const gone = next[place]!;
    tokens[place] = merge.token;
    tokens[gone] = -1;
    next[place] = next[gone]!;
    if (next[place]! < count) before[next[place]!] = place;
    propose(before[place]!);
    propose(place);
  }
  return tokens.filter((token) => token !== -1);
}
