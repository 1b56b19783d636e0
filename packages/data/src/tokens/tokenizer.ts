/** Texts as tokens of byte-pair encoding, and back. */
import { ArgumentError, DataError } from 'heddle';
import {
  aBoolean,
  anArrayLike,
  aString,
  type Rules,
  requireArgument,
  requireOptions,
  shown,
} from 'heddle/internal/core/arguments.js';
import { bytesOfToken, toByteCharacters, wordsOf } from './byte-level.js';
import { type Merge, mergePairs, pairKey } from './byte-pairs.js';

/** A token that is found in the text as it is written, such as `<|endoftext|>`. */
export interface AddedToken {
  /** Its number. */
  readonly id: number;
  /** How it is written. */
  readonly content: string;
  /** Whether `decode` leaves it out. */
  readonly special: boolean;
  /** Whether white space before it belongs to it. */
  readonly lstrip: boolean;
  /** Whether white space after it belongs to it. */
  readonly rstrip: boolean;
  /** Whether it is looked for after normalization. */
  readonly normalized: boolean;
}

/** Unicode normalization forms. */
export type NormalizationForm = 'NFC' | 'NFD' | 'NFKC' | 'NFKD';

/** What a `Tokenizer` is made of. */
export interface TokenizerParts {
  /** The number of each token. */
  readonly vocabulary: ReadonlyMap<string, number>;
  /** Pairs of tokens that become one, the first ones first. */
  readonly merges: readonly (readonly [left: string, right: string])[];
  /** Tokens that are found as they are written, before words are cut. */
  readonly addedTokens: readonly AddedToken[];
  /** Whether a text begins with a space, as its other words do. */
  readonly addPrefixSpace: boolean;
  /** Whether texts are cut into words before they are merged. */
  readonly useRegex: boolean;
  /** Whether a word that is a token is taken for it without merges. */
  readonly ignoreMerges: boolean;
  /** How texts are normalized first, if they are. */
  readonly normalizer: NormalizationForm | undefined;
  /** What stands for bytes that have no token. */
  readonly unknown: string | undefined;
}

/** Options of `Tokenizer.decode`. */
export interface DecodeOptions {
  /** Leave out special tokens. Default: true. */
  readonly skipSpecialTokens?: boolean;
}

const DECODE: Rules<DecodeOptions> = { skipSpecialTokens: aBoolean };

/** Words whose tokens are remembered. */
const REMEMBERED = 100_000;

/**
 * Byte-pair encoding on bytes, as GPT-2 has it: any text has tokens, and its tokens give the text again (unless a normalizer
 * changes it). `trainTokenizer` makes one, `readTokenizer` reads one of Hugging Face. Sources: R. Sennrich, B. Haddow and
 * A. Birch, Neural machine translation of rare words with subword units (2016); A. Radford et al., Language models are
 * unsupervised multitask learners (2019).
 */
export class Tokenizer {
  /** @internal */
  readonly parts: TokenizerParts;
  readonly #tokens = new Map<number, string>();
  readonly #merges = new Map<number, Merge>();
  readonly #special: ReadonlySet<number>;
  readonly #added: ReadonlyMap<string, number>;
  /** Those looked for before normalization, and those after it. */
  readonly #patterns: readonly (RegExp | undefined)[];
  readonly #remembered = new Map<string, readonly number[]>();

  /** @internal Use `readTokenizer` or `trainTokenizer`. */
  constructor(parts: TokenizerParts) {
    this.parts = parts;
    const { vocabulary, merges, addedTokens } = parts;
    for (const [token, id] of vocabulary) this.#tokens.set(id, token);
    for (const { content, id } of addedTokens) this.#tokens.set(id, content);
    for (const [rank, [left, right]] of merges.entries()) {
      const key = pairKey(vocabulary.get(left)!, vocabulary.get(right)!);
      this.#merges.set(key, { rank, token: vocabulary.get(left + right)! });
    }
    this.#special = new Set(addedTokens.filter(({ special }) => special).map(({ id }) => id));
    this.#added = new Map(addedTokens.map(({ content, id }) => [content, id]));
    this.#patterns = [false, true].map((after) =>
      patternOf(addedTokens.filter(({ normalized }) => normalized === after)),
    );
  }

  /** One more than the largest number of a token: what an embedding needs. */
  get size(): number {
    let largest = -1;
    for (const id of this.#tokens.keys()) largest = Math.max(largest, id);
    return largest + 1;
  }

  /** The number of a token, or undefined: of ` the` it is that of `Ġthe`, as files write it. */
  idOf(token: string): number | undefined {
    requireArgument('idOf', 'token', token, aString);
    return this.#added.get(token) ?? this.parts.vocabulary.get(token);
  }

  /** The numbers of a text's tokens, i32. @throws DataError for a byte that has no token and no unknown one in its place */
  encode(text: string): Int32Array {
    requireArgument('encode', 'text', text, aString);
    const ids: number[] = [];
    for (const piece of this.#split([text], this.#patterns[0])) {
      if (typeof piece === 'number') ids.push(piece);
      else
        for (const inner of this.#split([this.#normalized(piece)], this.#patterns[1])) {
          if (typeof inner === 'number') ids.push(inner);
          else if (inner !== '')
            for (const word of this.#words(inner)) for (const id of this.#encodeWord(word)) ids.push(id);
        }
    }
    return Int32Array.from(ids);
  }

  /** The text of tokens; bytes that are not UTF-8 become U+FFFD. @throws ArgumentError for a number without a token */
  decode(ids: ArrayLike<number>, options: DecodeOptions = {}): string {
    requireArgument('decode', 'ids', ids, anArrayLike);
    requireOptions('decode', options, DECODE);
    const { skipSpecialTokens = true } = options;
    const bytes: number[] = [];
    for (let i = 0; i < ids.length; i++) {
      const token = this.#tokens.get(ids[i]!);
      if (token === undefined)
        throw new ArgumentError(
          `[decode] ${shown(ids[i])} is not the number of a token: there are ${this.#tokens.size}.`,
        );
      if (skipSpecialTokens && this.#special.has(ids[i]!)) continue;
      for (const byte of bytesOfToken(token)) bytes.push(byte);
    }
    return new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  }

  #normalized(text: string): string {
    const { normalizer } = this.parts;
    return normalizer === undefined ? text : text.normalize(normalizer);
  }

  /** Texts, and the numbers of the added tokens between them. */
  *#split(texts: readonly string[], pattern: RegExp | undefined): Generator<string | number> {
    for (const text of texts) {
      let end = 0;
      for (const found of pattern ? text.matchAll(pattern) : []) {
        if (found.index > end) yield text.slice(end, found.index);
        yield this.#added.get(found.slice(1).find((group) => group !== undefined)!)!;
        end = found.index + found[0].length;
      }
      yield text.slice(end);
    }
  }

  #words(text: string): readonly string[] {
    const { addPrefixSpace, useRegex } = this.parts;
    const whole = addPrefixSpace && !text.startsWith(' ') ? ` ${text}` : text;
    return useRegex ? wordsOf(whole) : [whole];
  }

  #encodeWord(word: string): readonly number[] {
    const known = this.#remembered.get(word);
    if (known) return known;
    const { vocabulary, unknown, ignoreMerges } = this.parts;
    const characters = toByteCharacters(word);
    const whole = ignoreMerges ? vocabulary.get(characters.join('')) : undefined;
    const ids = characters.map((character) => {
      const id = vocabulary.get(character) ?? (unknown === undefined ? undefined : vocabulary.get(unknown));
      if (id === undefined)
        throw new DataError(
          `[encode] ${shown(word)} has a byte, written ${shown(character)}, that has no token.`,
        );
      return id;
    });
    const merged = whole === undefined ? mergePairs(ids, this.#merges) : [whole];
    if (word.length < 100 && this.#remembered.size < REMEMBERED) this.#remembered.set(word, merged);
    return merged;
  }
}

/** Finds the tokens, of those that begin at one place the longest; a group holds the token without white space around it. */
function patternOf(tokens: readonly AddedToken[]): RegExp | undefined {
  if (tokens.length === 0) return undefined;
  const sorted = tokens.toSorted((a, b) => b.content.length - a.content.length);
  const each = sorted.map(({ content, lstrip, rstrip }) => {
    const literal = content.replace(/[.*+?^${}()|[\]\\/-]/gu, '\\$&');
    return `${lstrip ? '\\p{White_Space}*' : ''}(${literal})${rstrip ? '\\p{White_Space}*' : ''}`;
  });
  return new RegExp(each.join('|'), 'gu');
}
