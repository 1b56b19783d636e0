/** Texts of runs: cut into characters, or into byte pairs by heddle-data, which is installed where it is needed. */
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { ArgumentError, DataError } from '../core/errors.js';
import { loadText, type TensorDataset, type TextCodec, Vocabulary } from '../data/index.js';
import { HELD_OUT, readTextFile } from '../data/text.js';
import type { Tensor } from '../tensor/tensor.js';
import type { DataPackage } from './data-package.js';
import { whole } from './format.js';
import { neededPackage } from './packages.js';
import type { RunConfig, RunFolder } from './run-folder.js';

/** How a text is cut into tokens, as options say it. */
export interface TokenizerOptions {
  /** `chars` (the default), `bpe` (byte pairs, learned from the text), or a `tokenizer.json`. */
  readonly tokenizer?: string;
  /** Tokens of `bpe` at most. */
  readonly vocabularySize?: number;
}

/** Windows of a text. */
export interface TextData {
  /** For people. */
  readonly name: string;
  readonly source: string;
  readonly train: TensorDataset<Tensor, Tensor>;
  readonly test: TensorDataset<Tensor, Tensor>;
  readonly codec: TextCodec;
  /** How many there are for a character of the test set, where tokens are not characters. */
  readonly tokensPerCharacter: number | undefined;
}

/** Tokens of byte pairs that are learned from a text, unless an option says how many. */
const VOCABULARY_SIZE = 1024;

const dataPackage = (what: string): Promise<DataPackage> => neededPackage('heddle-data', what);

/** A text as windows of so many tokens. */
export async function readTextData(
  path: string,
  context: number,
  codec: TextCodec | undefined,
): Promise<TextData> {
  const { source, train, test, vocabulary } = await loadText<TextCodec>(path, context, {
    vocabulary: codec,
  });
  const isCharacters = vocabulary instanceof Vocabulary;
  const tokens = `${whole(vocabulary.size)} ${isCharacters ? 'characters' : 'byte-pair tokens'}`;
  const held = (await test.targets.data()) as Int32Array;
  return {
    ...{ source, train, test, codec: vocabulary },
    name: `${basename(path)} (${tokens}), windows of ${context}`,
    tokensPerCharacter: isCharacters ? undefined : held.length / [...vocabulary.decode(held)].length,
  };
}

/**
 * What encodes the text of a new run; undefined for its own characters.
 * @throws ArgumentError for options that contradict each other, or name no tokenizer; DataError for a damaged one
 */
export async function chosenCodec(
  text: string,
  { tokenizer = 'chars', vocabularySize }: TokenizerOptions,
  tell: (text: string) => void,
): Promise<TextCodec | undefined> {
  if (vocabularySize !== undefined && tokenizer !== 'bpe')
    throw new ArgumentError(
      `--vocabulary-size ${vocabularySize} is for byte pairs that are learned from the text: add --tokenizer bpe, or leave it out.`,
    );
  if (tokenizer === 'chars') return undefined;
  const { readTokenizer, trainTokenizer } = await dataPackage(`--tokenizer ${tokenizer}`);
  if (tokenizer === 'bpe') {
    const whole = await readTextFile(text);
    tell('learning byte pairs from the text');
    // The end of the text is held out, of the tokenizer as of the network.
    const seen = whole.slice(0, Math.ceil((1 - HELD_OUT) * whole.length));
    return trainTokenizer([seen], { vocabularySize: vocabularySize ?? VOCABULARY_SIZE });
  }
  if (!existsSync(tokenizer))
    throw new ArgumentError(
      `--tokenizer ${tokenizer}: no such file. Expected chars, bpe, or the path of a tokenizer.json.`,
    );
  return readTokenizer(tokenizer);
}

/** What encodes the text of a run that there is; undefined for a run on other data. @throws DataError, ArgumentError */
export async function codecOfRun(
  folder: RunFolder,
  { vocabulary, tokenizer }: RunConfig['data'],
): Promise<TextCodec | undefined> {
  if (vocabulary !== undefined) return new Vocabulary(vocabulary);
  if (tokenizer === undefined) return undefined;
  const { readTokenizer } = await dataPackage(`${folder.path}, a run on byte pairs,`);
  const codec = await readTokenizer(folder.tokenizer);
  if (codec.size !== tokenizer.size)
    throw new DataError(
      `${folder.tokenizer} has ${codec.size} tokens, the run was trained with ${tokenizer.size}. Put back the file that the run wrote.`,
    );
  return codec;
}

/** What config.json says of the tokens of a text. */
export const describedCodec = (codec: TextCodec): Pick<RunConfig['data'], 'vocabulary' | 'tokenizer'> =>
  codec instanceof Vocabulary ? { vocabulary: codec.characters } : { tokenizer: { size: codec.size } };

/** Write the tokenizer of byte pairs beside config.json, which has characters itself. */
export async function keepCodec(folder: RunFolder, codec: TextCodec): Promise<void> {
  if (codec instanceof Vocabulary) return;
  const { writeTokenizer } = await dataPackage('writing a tokenizer');
  await writeTokenizer(folder.tokenizer, codec);
}
