/** Texts to train language models on, as characters or as other tokens. */
import {
  above,
  aFunction,
  aString,
  instance,
  integerFrom,
  type Rule,
  type Rules,
  requireArgument,
  requireOptions,
  shaped,
} from '../core/arguments.js';
import { DataError, FileError } from '../core/errors.js';
import type { Shape } from '../core/shape.js';
import { gunzipped } from '../io/gzip.js';
import { readBytes } from '../io/read.js';
import { tensor } from '../tensor/create.js';
import type { Tensor } from '../tensor/tensor.js';
import { TensorDataset } from './tensor-dataset.js';
import { type TextCodec, Vocabulary } from './vocabulary.js';

const CODES: Rule = instance(Int32Array, 'an Int32Array, as encode gives it');

/**
 * Windows of a text, side by side: an input is `context` tokens, i32 (context), its targets the tokens that follow each
 * of them. Tokens are characters, where a `Vocabulary` has encoded the text. The last window ends where the text ends, and overlaps the one before it where that is needed.
 */
export class TextDataset extends TensorDataset<Tensor<Shape, 'i32'>, Tensor<Shape, 'i32'>> {
  /** Tokens of an input. */
  readonly context: number;

  /**
   * @param codes the numbers of the tokens
   * @throws DataError if the text is shorter than one window of `context` + 1 tokens; ArgumentError
   */
  constructor(codes: Int32Array, context: number) {
    requireArgument('TextDataset', 'codes', codes, CODES);
    requireArgument('TextDataset', 'context', context, integerFrom(1));
    const last = codes.length - context - 1;
    if (last < 0)
      throw new DataError(
        `the text has ${codes.length} tokens, a window takes ${context + 1}: ${context} and the one after them. ` +
          'Choose a longer text, or a smaller context.',
      );
    const count = Math.ceil(last / context) + 1;
    const windows = (shift: number): Tensor<Shape, 'i32'> => {
      const values = new Int32Array(count * context);
      for (let i = 0; i < count; i++) {
        const begin = Math.min(i * context, last) + shift;
        values.set(codes.subarray(begin, begin + context), i * context);
      }
      return tensor(values, { shape: [count, context] });
    };
    super(windows(0), windows(1));
    this.context = context;
  }
}

/** A text in two parts. */
export interface TextSet<V extends TextCodec = Vocabulary> {
  /** The file it was read from. */
  readonly source: string;
  /** What has encoded both parts. */
  readonly vocabulary: V;
  /** The beginning, to train on. */
  readonly train: TextDataset;
  /** The end, to judge a trained model by: it shares no token with `train`, and its windows do not overlap. */
  readonly test: TextDataset;
}

/** Options of `loadText`. */
export interface LoadTextOptions<V extends TextCodec = Vocabulary> {
  /** The fraction of the text that is held out for `test`. Default: 0.1. */
  readonly heldOut?: number;
  /** What encodes the text: a `Vocabulary`, or a `Tokenizer` of heddle-data. Default: the characters of the text. */
  readonly vocabulary?: V | undefined;
}

const LOAD_TEXT: Rules<LoadTextOptions<TextCodec>> = {
  heldOut: { must: 'a number above 0 and below 1', holds: (v) => above(0).holds(v) && (v as number) < 1 },
  vocabulary: shaped('a Vocabulary or a Tokenizer', {
    size: integerFrom(1),
    encode: aFunction,
    decode: aFunction,
  }),
};

/**
 * Read a text file (UTF-8), plain or gzipped, as windows of `context` tokens and the one after each. As many whole
 * windows of its end are held out as come nearest to the fraction, at least one.
 * @throws FileError if the file is missing, damaged, empty or not UTF-8
 * @throws DataError if the text is too short, or has a character that is not in the vocabulary
 * @throws ArgumentError
 */
export async function loadText<V extends TextCodec = Vocabulary>(
  path: string,
  context: number,
  options: LoadTextOptions<V> = {},
): Promise<TextSet<V>> {
  requireArgument('loadText', 'path', path, aString);
  requireArgument('loadText', 'context', context, integerFrom(1));
  requireOptions('loadText', options, LOAD_TEXT);
  const { heldOut = HELD_OUT } = options;
  const text = await readTextFile(path);
  // Without the option, V is Vocabulary.
  const vocabulary = options.vocabulary ?? (new Vocabulary(text) as TextCodec as V);
  const unit = vocabulary instanceof Vocabulary ? 'characters' : 'tokens';
  const codes = encoded(text, vocabulary, path);
  // A window to train on is left.
  const most = Math.floor((codes.length - 2) / context) - 1;
  if (most < 1)
    throw new DataError(
      `${path} has ${codes.length} ${unit}, too few: one window of ${context} + 1 ${unit} to train on and one to ` +
        `hold out take ${2 * context + 2}. Choose a longer text, or a smaller context.`,
    );
  const windows = Math.min(most, Math.max(1, Math.round((heldOut * codes.length) / context)));
  const end = codes.length - windows * context - 1;
  return {
    source: path,
    vocabulary,
    train: new TextDataset(codes.subarray(0, end), context),
    test: new TextDataset(codes.subarray(end), context),
  };
}

/** The fraction of a text that is held out. */
export const HELD_OUT = 0.1;

/** A text file (UTF-8), plain or gzipped. @throws FileError if it is missing, damaged, empty or not UTF-8 */
export async function readTextFile(path: string): Promise<string> {
  const text = decoded(await gunzipped(await readBytes(path), path), path);
  if (text === '') throw new FileError(path, 'is empty, expected a text.');
  return text;
}

/** @throws DataError naming the file */
function encoded(text: string, vocabulary: TextCodec, path: string): Int32Array {
  try {
    return vocabulary.encode(text);
  } catch (error) {
    throw new DataError(`${path}: ${(error as Error).message}`);
  }
}

/** @throws FileError for what is not UTF-8 */
function decoded(bytes: Uint8Array, path: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    const at = firstInvalid(bytes);
    throw new FileError(
      path,
      `is not UTF-8: byte ${at} is 0x${bytes[at]!.toString(16).padStart(2, '0')}, which is not part of a character there. ` +
        'Convert it: iconv -f latin1 -t utf-8.',
      { cause: error },
    );
  }
}

/** The place of the first byte that is not part of a UTF-8 character. */
function firstInvalid(bytes: Uint8Array): number {
  const lossy = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  let at = 0;
  for (const character of lossy) {
    // Stands for what cannot be decoded, unless the text itself has it.
    if (character === '\ufffd' && !(bytes[at] === 0xef && bytes[at + 1] === 0xbf)) return at;
    at += new TextEncoder().encode(character).length;
  }
  return at;
}
