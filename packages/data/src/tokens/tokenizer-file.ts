/** tokenizer.json, the format of Hugging Face's tokenizers, for byte-pair encoding on bytes. */
import { DataError } from 'heddle';
import { aString, instance, isPlainObject, requireArgument, shown } from 'heddle/internal/core/arguments.js';
import { writeFileAtomic } from 'heddle/io';
import { readText } from '../read-text.js';
import { type AddedToken, type NormalizationForm, Tokenizer, type TokenizerParts } from './tokenizer.js';

type Json = Readonly<Record<string, unknown>>;

/** Token numbers are below this. */
const MOST_TOKENS = 2 ** 26;

/**
 * The tokenizer of a `tokenizer.json`: a BPE model with a ByteLevel pre-tokenizer and decoder, as those of GPT-2, RoBERTa (but
 * for its template) and their like.
 * @throws DataError naming the file for what is not such a file, and naming the part that is of another kind
 */
export async function readTokenizer(path: string): Promise<Tokenizer> {
  requireArgument('readTokenizer', 'path', path, aString);
  const text = await readText(path);
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new DataError(`${path}: is not JSON (${(error as Error).message}).`, { cause: error });
  }
  return parseTokenizer(json, path);
}

/** Write a tokenizer as `tokenizer.json`, which Hugging Face's tokenizers read as well. @throws FileError */
export async function writeTokenizer(path: string, tokenizer: Tokenizer): Promise<void> {
  requireArgument('writeTokenizer', 'path', path, aString);
  requireArgument('writeTokenizer', 'tokenizer', tokenizer, instance(Tokenizer, 'a Tokenizer'));
  await writeFileAtomic(path, `${JSON.stringify(tokenizerJson(tokenizer), null, 2)}\n`);
}

/**
 * The tokenizer in the content of a `tokenizer.json`.
 * @param path names it in errors
 * @throws DataError
 */
export function parseTokenizer(json: unknown, path = 'tokenizer.json'): Tokenizer {
  const file = new Part(json, path, '');
  const model = file.part('model');
  model.requireType('BPE');
  for (const name of ['continuing_subword_prefix', 'end_of_word_suffix']) model.requireNone(name);
  if (model.json.byte_fallback) throw model.unsupported('byte_fallback', model.json.byte_fallback);
  const { normalizer, decoder, post_processor: postProcessor } = file.json;
  if (decoder != null) file.part('decoder').requireType('ByteLevel');
  if (postProcessor != null) file.part('post_processor').requireType('ByteLevel');
  const words = file.part('pre_tokenizer');
  words.requireType('ByteLevel');
  const vocabulary = vocabularyOf(model);
  const parts: TokenizerParts = {
    vocabulary,
    merges: mergesOf(model, vocabulary),
    addedTokens: addedTokensOf(file),
    addPrefixSpace: words.flag('add_prefix_space', true),
    useRegex: words.flag('use_regex', true),
    ignoreMerges: model.flag('ignore_merges', false),
    normalizer: normalizer == null ? undefined : formOf(file.part('normalizer')),
    unknown: unknownOf(model, vocabulary),
  };
  return new Tokenizer(parts);
}

/** An object in the file. */
class Part {
  readonly json: Json;
  readonly path: string;
  readonly name: string;

  constructor(json: unknown, path: string, name: string) {
    this.path = path;
    this.name = name;
    if (!isPlainObject(json)) throw this.wrong('', json, 'an object');
    this.json = json;
  }

  part(name: string): Part {
    return new Part(this.json[name], this.path, name);
  }

  wrong(name: string, value: unknown, must: string): DataError {
    const place = [this.name, name].filter((part) => part !== '').join('.') || 'the file';
    return new DataError(`${this.path}: ${place} is ${shown(value)}, must be ${must}.`);
  }

  unsupported(name: string, value: unknown): DataError {
    return new DataError(
      `${this.path}: ${this.name}.${name} is ${shown(value)}, which is not supported. Supported are tokenizers with byte-pair encoding on bytes, as GPT-2's.`,
    );
  }

  requireType(type: string): void {
    if (this.json.type !== type) throw this.unsupported('type', this.json.type);
  }

  requireNone(name: string): void {
    const value = this.json[name];
    if (value != null && value !== '') throw this.unsupported(name, value);
  }

  flag(name: string, otherwise: boolean): boolean {
    const value = this.json[name] ?? otherwise;
    if (typeof value !== 'boolean') throw this.wrong(name, value, 'true or false');
    return value;
  }
}

const isTokenNumber = (id: unknown): id is number =>
  Number.isSafeInteger(id) && (id as number) >= 0 && (id as number) < MOST_TOKENS;

function vocabularyOf(model: Part): ReadonlyMap<string, number> {
  const { vocab } = model.json;
  if (!isPlainObject(vocab)) throw model.wrong('vocab', vocab, 'an object with the number of each token');
  const vocabulary = new Map<string, number>();
  for (const [token, id] of Object.entries(vocab)) {
    if (!isTokenNumber(id))
      throw model.wrong(`vocab[${shown(token)}]`, id, `a number from 0 to ${MOST_TOKENS - 1}`);
    vocabulary.set(token, id);
  }
  return vocabulary;
}

/** Each is `"a b"`, or `["a", "b"]` in newer files. */
function mergesOf(model: Part, vocabulary: ReadonlyMap<string, number>): TokenizerParts['merges'] {
  const { merges } = model.json;
  if (!Array.isArray(merges)) throw model.wrong('merges', merges, 'a list');
  return merges.map((merge: unknown, i) => {
    const pair: unknown = typeof merge === 'string' ? merge.split(' ') : merge;
    if (!Array.isArray(pair) || pair.length !== 2 || !pair.every((token) => typeof token === 'string'))
      throw model.wrong(`merges[${i}]`, merge, 'two tokens');
    const [left, right] = pair as [string, string];
    for (const token of [left, right, left + right])
      if (!vocabulary.has(token))
        throw new DataError(
          `${model.path}: model.merges[${i}] has ${shown(token)}, which is not in model.vocab.`,
        );
    return [left, right] as const;
  });
}

function addedTokensOf(file: Part): readonly AddedToken[] {
  const { added_tokens: tokens } = file.json;
  if (tokens == null) return [];
  if (!Array.isArray(tokens)) throw file.wrong('added_tokens', tokens, 'a list');
  return tokens.map((token: unknown, i) => {
    const added = new Part(token, file.path, `added_tokens[${i}]`);
    const { id, content } = added.json;
    if (!isTokenNumber(id)) throw added.wrong('id', id, `a number from 0 to ${MOST_TOKENS - 1}`);
    if (typeof content !== 'string' || content === '') throw added.wrong('content', content, 'a text');
    if (added.flag('single_word', false)) throw added.unsupported('single_word', true);
    return {
      ...{ id, content, special: added.flag('special', false) },
      ...{ lstrip: added.flag('lstrip', false), rstrip: added.flag('rstrip', false) },
      normalized: added.flag('normalized', true),
    };
  });
}

function formOf(normalizer: Part): NormalizationForm {
  const { type } = normalizer.json;
  if (type === 'NFC' || type === 'NFD' || type === 'NFKC' || type === 'NFKD') return type;
  throw normalizer.unsupported('type', type);
}

function unknownOf(model: Part, vocabulary: ReadonlyMap<string, number>): string | undefined {
  const { unk_token: unknown } = model.json;
  if (unknown == null) return undefined;
  if (typeof unknown !== 'string' || !vocabulary.has(unknown))
    throw model.wrong('unk_token', unknown, 'a token of model.vocab');
  return unknown;
}

/** What `writeTokenizer` writes. */
export function tokenizerJson({ parts }: Tokenizer): Json {
  const { vocabulary, merges, addedTokens, addPrefixSpace, useRegex, ignoreMerges, normalizer, unknown } =
    parts;
  const byteLevel = {
    ...{ type: 'ByteLevel', add_prefix_space: addPrefixSpace, trim_offsets: true, use_regex: useRegex },
  };
  return {
    ...{ version: '1.0', truncation: null, padding: null },
    added_tokens: addedTokens.map(({ id, content, ...token }) => ({
      id,
      content,
      single_word: false,
      ...token,
    })),
    normalizer: normalizer === undefined ? null : { type: normalizer },
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: byteLevel,
    model: {
      ...{ type: 'BPE', dropout: null, unk_token: unknown ?? null },
      ...{ continuing_subword_prefix: null, end_of_word_suffix: null },
      ...{ fuse_unk: false, byte_fallback: false, ignore_merges: ignoreMerges },
      vocab: Object.fromEntries(vocabulary),
      merges,
    },
  };
}
