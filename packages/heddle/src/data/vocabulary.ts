/** The characters of a text as numbers. */
import { anArrayLike, aString, requireArgument, shown } from '../core/arguments.js';
import { ArgumentError, DataError } from '../core/errors.js';

/** Texts as numbers and back: a `Vocabulary`, or a `Tokenizer` of heddle-data. */
export interface TextCodec {
  /** How many tokens there are: their numbers are below it. */
  readonly size: number;
  /** The numbers of a text's tokens. @throws DataError for a text that cannot be written in tokens */
  encode(text: string): Int32Array;
  /** The text of tokens. @throws ArgumentError for a number that stands for no token */
  decode(codes: ArrayLike<number>): string;
}

/** Characters, and the number of each. A character is a Unicode code point. */
export class Vocabulary implements TextCodec {
  /** In the order of their code points: the place of a character is its number. */
  readonly characters: string;
  readonly #characters: readonly string[];
  readonly #codes: ReadonlyMap<string, number>;

  /** @param text its characters, each once or more often · @throws ArgumentError if it has none */
  constructor(text: string) {
    requireArgument('Vocabulary', 'text', text, aString);
    this.#characters = [...new Set(text)].sort((a, b) => a.codePointAt(0)! - b.codePointAt(0)!);
    if (this.#characters.length === 0) throw new ArgumentError('[Vocabulary] text has no characters.');
    this.characters = this.#characters.join('');
    this.#codes = new Map(this.#characters.map((character, code) => [character, code]));
  }

  /** How many characters there are. */
  get size(): number {
    return this.#characters.length;
  }

  /** The numbers of a text's characters. @throws DataError naming the first character that is not in the vocabulary */
  encode(text: string): Int32Array {
    requireArgument('encode', 'text', text, aString);
    const codes = new Int32Array(text.length);
    let count = 0;
    for (const character of text) {
      const code = this.#codes.get(character);
      if (code === undefined)
        throw new DataError(
          `character ${count + 1}, ${JSON.stringify(character)} (${codePoint(character)}), is not in the vocabulary. ` +
            `Its ${this.size} characters are ${shown(this.characters)}.`,
        );
      codes[count++] = code;
    }
    return codes.subarray(0, count);
  }

  /** The text that these numbers stand for. @throws ArgumentError for a number that stands for no character */
  decode(codes: ArrayLike<number>): string {
    requireArgument('decode', 'codes', codes, anArrayLike);
    return Array.from(codes, (code) => {
      const character = this.#characters[code];
      if (character === undefined)
        throw new ArgumentError(
          `[decode] ${shown(code)} is not the number of a character: must be 0 to ${this.size - 1}.`,
        );
      return character;
    }).join('');
  }
}

const codePoint = (character: string): string =>
  `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`;
