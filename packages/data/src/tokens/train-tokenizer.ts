/** Learning the merges of byte-pair encoding from texts. */
import { ArgumentError } from 'heddle';
import {
  aBoolean,
  aString,
  integerFrom,
  listOf,
  type Rules,
  requireArgument,
  required,
  requireOptions,
  shown,
} from 'heddle/internal/core/arguments.js';
import { BYTE_CHARACTERS, toByteCharacters, wordsOf } from './byte-level.js';
import { leftOf, pairKey, rightOf } from './byte-pairs.js';
import { Heap } from './heap.js';
import { Tokenizer } from './tokenizer.js';

/** Options of `trainTokenizer`. */
export interface TrainTokenizerOptions {
  /** Tokens in all, at most: the special ones, 256 for bytes, and merged ones; fewer if the texts do not have as many pairs. */
  readonly vocabularySize: number;
  /** How often a pair must be there to be merged, at least 1. Default: 2. */
  readonly minFrequency?: number;
  /** Such as `<|endoftext|>`; they get the first numbers. Default: none. */
  readonly specialTokens?: readonly string[];
  /** Whether a text begins with a space, as its other words do. Default: false. */
  readonly addPrefixSpace?: boolean;
}

const RULES: Rules<TrainTokenizerOptions> = {
  vocabularySize: required(integerFrom(256, 2 ** 26)),
  minFrequency: integerFrom(1),
  specialTokens: listOf(aString),
  addPrefixSpace: aBoolean,
};

/** A distinct word of the texts. */
interface CountedWord {
  tokens: number[];
  readonly count: number;
}

/** A pair, and how often it was there when it was put into the queue. */
interface QueuedPair {
  readonly key: number;
  readonly count: number;
}

/**
 * A tokenizer whose merges are the most frequent pairs of the texts, one after the other: what Hugging Face's BpeTrainer
 * with a ByteLevel pre-tokenizer makes of them. Of pairs that are equally frequent, that of the lower numbers is first.
 * @throws ArgumentError for a vocabulary without room for the special tokens and 256 bytes
 */
export function trainTokenizer(texts: Iterable<string>, options: TrainTokenizerOptions): Tokenizer {
  requireOptions('trainTokenizer', options, RULES);
  const { vocabularySize, minFrequency = 2, specialTokens = [], addPrefixSpace = false } = options;
  const all = typeof texts === 'string' ? [texts] : texts;
  const tokens = [...specialTokens, ...BYTE_CHARACTERS.toSorted()];
  if (tokens.length > vocabularySize)
    throw new ArgumentError(
      `[trainTokenizer] vocabularySize is ${vocabularySize}, must be at least ${tokens.length}: 256 bytes and ${specialTokens.length} special tokens.`,
    );
  const vocabulary = new Map(tokens.map((token, id) => [token, id]));
  if (vocabulary.size < tokens.length)
    throw new ArgumentError(
      `[trainTokenizer] specialTokens is ${shown(specialTokens)}, must be distinct, and none a byte.`,
    );
  const words = countedWords(all, addPrefixSpace, vocabulary);
  const merges = learnMerges(words, tokens, vocabulary, { vocabularySize, minFrequency });
  return new Tokenizer({
    ...{ vocabulary, merges, addPrefixSpace },
    addedTokens: specialTokens.map((content, id) => ({
      ...{ id, content, special: true },
      ...{ lstrip: false, rstrip: false, normalized: false },
    })),
    ...{ useRegex: true, ignoreMerges: false, normalizer: undefined, unknown: undefined },
  });
}

function countedWords(
  texts: Iterable<string>,
  addPrefixSpace: boolean,
  vocabulary: ReadonlyMap<string, number>,
): CountedWord[] {
  const counts = new Map<string, number>();
  for (const text of texts) {
    requireArgument('trainTokenizer', 'texts', text, { ...aString, must: 'strings' });
    const whole = addPrefixSpace && text !== '' && !text.startsWith(' ') ? ` ${text}` : text;
    for (const word of wordsOf(whole)) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return Array.from(counts, ([word, count]) => ({
    tokens: toByteCharacters(word).map((character) => vocabulary.get(character)!),
    count,
  }));
}

/** Adds to `tokens` and `vocabulary`. @returns the pairs that were merged, in this order */
function learnMerges(
  words: readonly CountedWord[],
  tokens: string[],
  vocabulary: Map<string, number>,
  { vocabularySize, minFrequency }: { readonly vocabularySize: number; readonly minFrequency: number },
): (readonly [string, string])[] {
  const counts = new Map<number, number>();
  const places = new Map<number, Set<CountedWord>>();
  const add = (key: number, count: number, word: CountedWord): void => {
    counts.set(key, (counts.get(key) ?? 0) + count);
    if (count < 0) return;
    const known = places.get(key);
    if (known) known.add(word);
    else places.set(key, new Set([word]));
  };
  for (const word of words)
    for (let i = 1; i < word.tokens.length; i++)
      add(pairKey(word.tokens[i - 1]!, word.tokens[i]!), word.count, word);
  const queue = new Heap<QueuedPair>((a, b) => a.count > b.count || (a.count === b.count && a.key < b.key));
  for (const [key, count] of counts) queue.push({ key, count });
  const merges: (readonly [string, string])[] = [];
  while (vocabulary.size < vocabularySize) {
    const top = queue.pop();
    if (!top) break;
    const count = counts.get(top.key)!;
    if (count !== top.count) {
      // It is rarer by now.
      if (count > 0) queue.push({ key: top.key, count });
      continue;
    }
    if (count < minFrequency) break;
    const [left, right] = [leftOf(top.key), rightOf(top.key)];
    const token = tokens[left]! + tokens[right]!;
    const id = vocabulary.get(token) ?? tokens.push(token) - 1;
    vocabulary.set(token, id);
    merges.push([tokens[left]!, tokens[right]!]);
    const changed = new Set<number>();
    for (const word of places.get(top.key)!)
      mergeIn(word, left, right, id, (key, sign) => {
        add(key, sign * word.count, word);
        if (sign > 0) changed.add(key);
      });
    counts.set(top.key, 0);
    places.delete(top.key);
    for (const key of changed) queue.push({ key, count: counts.get(key)! });
  }
  return merges;
}

/** @param tell is told of pairs that come (1) and go (−1) */
function mergeIn(
  word: CountedWord,
  left: number,
  right: number,
  id: number,
  tell: (key: number, sign: 1 | -1) => void,
): void {
  const { tokens } = word;
  const merged: number[] = [];
  for (let i = 0; i < tokens.length; i++) {
    if (tokens[i] !== left || tokens[i + 1] !== right) {
      merged.push(tokens[i]!);
      continue;
    }
    const before = merged.at(-1);
    const after = tokens[i + 2];
    if (before !== undefined) {
      tell(pairKey(before, left), -1);
      tell(pairKey(before, id), 1);
    }
    if (after !== undefined) {
      tell(pairKey(right, after), -1);
      tell(pairKey(id, after), 1);
    }
    merged.push(id);
    i++;
  }
  word.tokens = merged;
}
