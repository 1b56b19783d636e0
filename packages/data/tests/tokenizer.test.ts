/** Byte-pair encoding, compared with what Hugging Face's tokenizers make of the same texts (golden/tokenizers.py). */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { DataError } from 'heddle';
import { parseTokenizer, readTokenizer, trainTokenizer, writeTokenizer } from 'heddle-data';
import { temporaryFolder } from './image-files.js';

interface Golden {
  readonly book: readonly string[];
  readonly sets: readonly {
    readonly name: string;
    readonly file: { readonly model: { readonly vocab: object; readonly merges: readonly unknown[] } };
    readonly cases: readonly {
      readonly text: string;
      readonly ids: number[];
      readonly decoded: string;
      readonly whole: string;
    }[];
    readonly cut: readonly { readonly ids: number[]; readonly decoded: string }[];
  }[];
}

const golden = JSON.parse(
  readFileSync(fileURLToPath(new URL('../../tests/golden/tokenizers.json', import.meta.url)), 'utf8'),
) as Golden;
/** Any part may be replaced. */
interface Damaged {
  model: { type: unknown; byte_fallback: unknown; merges: unknown[]; vocab: Record<string, unknown> };
  pre_tokenizer: unknown;
  normalizer: unknown;
}

const plain = golden.sets[0]!;

for (const { name, file, cases, cut } of golden.sets)
  test(`the ${name} tokenizer gives the tokens and texts of Hugging Face's`, async () => {
    const path = join(temporaryFolder(), 'tokenizer.json');
    await writeTokenizer(path, parseTokenizer(file));
    for (const tokenizer of [parseTokenizer(file), await readTokenizer(path)]) {
      for (const { text, ids, decoded, whole } of cases) {
        assert.deepEqual([...tokenizer.encode(text)], ids, JSON.stringify(text));
        assert.equal(tokenizer.decode(ids), decoded);
        assert.equal(tokenizer.decode(ids, { skipSpecialTokens: false }), whole);
      }
      for (const { ids, decoded } of cut) assert.equal(tokenizer.decode(ids), decoded);
    }
  });

test("training finds the merges that Hugging Face's trainer finds", () => {
  const { model } = plain.file;
  const options = { vocabularySize: 400, specialTokens: ['<|endoftext|>'] };
  const { parts, size } = trainTokenizer(golden.book, options);
  assert.deepEqual(parts.merges, model.merges);
  assert.deepEqual(Object.fromEntries(parts.vocabulary), model.vocab);
  assert.equal(size, Object.keys(model.vocab).length);
  assert.equal(trainTokenizer(['ab ab ab'], { vocabularySize: 256 }).parts.merges.length, 0);
  assert.throws(() => trainTokenizer([], { vocabularySize: 256, specialTokens: ['<s>'] }), {
    name: 'ArgumentError',
    message: '[trainTokenizer] vocabularySize is 256, must be at least 257: 256 bytes and 1 special tokens.',
  });
});

test('a word of a hundred thousand characters ends', () => {
  const tokenizer = trainTokenizer(['aaaaaaaa aaaa'], { vocabularySize: 260, minFrequency: 1 });
  const text = 'a'.repeat(2 ** 17);
  const ids = tokenizer.encode(text);
  assert.ok(ids.length <= 2 ** 15);
  assert.equal(tokenizer.decode(ids), text);
});

test('a file of another kind is refused, naming the part', async () => {
  const folder = temporaryFolder();
  const path = join(folder, 'tokenizer.json');
  const refused = async (change: (file: Damaged) => unknown, message: string): Promise<void> => {
    const file = structuredClone(plain.file) as unknown as Damaged;
    const written = change(file) ?? file;
    writeFileSync(path, typeof written === 'string' ? written : JSON.stringify(written));
    await assert.rejects(readTokenizer(path), (error: Error) => {
      assert.ok(error instanceof DataError);
      assert.equal(error.message.replace(`${path}: `, ''), message);
      return true;
    });
  };
  const only =
    "which is not supported. Supported are tokenizers with byte-pair encoding on bytes, as GPT-2's.";
  await refused(() => '', 'is not JSON (Unexpected end of JSON input).');
  await refused(() => '[]', 'the file is [], must be an object.');
  await refused((f) => void Object.assign(f.model, { type: 'Unigram' }), `model.type is 'Unigram', ${only}`);
  await refused(
    (f) => void Object.assign(f.model, { byte_fallback: true }),
    `model.byte_fallback is true, ${only}`,
  );
  await refused(
    (f) => void Object.assign(f, { pre_tokenizer: { type: 'Metaspace' } }),
    `pre_tokenizer.type is 'Metaspace', ${only}`,
  );
  await refused(
    (f) => void Object.assign(f, { pre_tokenizer: null }),
    'pre_tokenizer is null, must be an object.',
  );
  await refused(
    (f) => void Object.assign(f, { normalizer: { type: 'Lowercase' } }),
    `normalizer.type is 'Lowercase', ${only}`,
  );
  await refused((f) => void f.model.merges.splice(3, 1, 'a'), "model.merges[3] is 'a', must be two tokens.");
  await refused(
    (f) => void f.model.merges.splice(3, 1, ['zq', 'a']),
    "model.merges[3] has 'zq', which is not in model.vocab.",
  );
  await refused(
    (f) => void Object.assign(f.model.vocab, { a: -1 }),
    "model.vocab['a'] is -1, must be a number from 0 to 67108863.",
  );
  await assert.rejects(readTokenizer(join(folder, 'none')), /none: no such file\. Check the path\.$/);
  await assert.rejects(readTokenizer(folder), /: is a folder, expected a file\.$/);
  assert.throws(() => parseTokenizer(plain.file).decode([9999]), /9999 is not the number of a token/);
});
