/**
 * Bytes as characters that can be seen, and texts in words, as GPT-2 has them (Radford and others, Language models are
 * unsupervised multitask learners, 2019): a token is a string of such characters, and any text can be written in 256 of them.
 */

/** Bytes that stand for themselves: those of Latin-1 that print. */
const prints = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;

/** The character of each byte: itself, or for the n-th of the others the n-th after Latin-1. */
export const BYTE_CHARACTERS: readonly string[] = (() => {
  let others = 0;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(prints(byte) ? byte : 256 + others++));
})();

const BYTES: ReadonlyMap<string, number> = new Map(
  BYTE_CHARACTERS.map((character, byte) => [character, byte]),
);

const utf8 = new TextEncoder();

/** The characters of a text's bytes in UTF-8. */
export const toByteCharacters = (text: string): string[] =>
  Array.from(utf8.encode(text), (byte) => BYTE_CHARACTERS[byte]!);

/** The bytes of a token; of one with other characters, such as `<|endoftext|>`, those of its text. */
export function bytesOfToken(token: string): Uint8Array | readonly number[] {
  const bytes: number[] = [];
  for (const character of token) {
    const byte = BYTES.get(character);
    if (byte === undefined) return utf8.encode(token);
    bytes.push(byte);
  }
  return bytes;
}

/**
 * Contractions, letters, numbers and other characters with one space before them, and white space. JavaScript's `\s` has
 * U+FEFF and lacks U+0085, so that the Unicode property is named.
 */
const WORDS =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

/** A text in pieces that no token crosses. */
export const wordsOf = (text: string): readonly string[] => text.match(WORDS) ?? [];
