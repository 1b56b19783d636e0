/** Texts as windows of numbers: what is trained on, what is held out, and which files are refused. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { ArgumentError, DataError, FileError } from '../../src/core/errors.js';
import { Loader, loadText, TextDataset, Vocabulary } from '../../src/data/index.js';

const folder = await mkdtemp(join(tmpdir(), 'heddle-text-'));
after(() => rm(folder, { recursive: true }));
const written = async (name: string, content: string | Uint8Array): Promise<string> => {
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
};

/** No two windows of it are alike. */
const TEXT = Array.from({ length: 400 }, (_, i) => `${i},`).join('');

test('a vocabulary numbers code points in their order', () => {
  const vocabulary = new Vocabulary('zoë 😀\nz');
  assert.deepEqual([vocabulary.size, vocabulary.characters], [6, '\n ozë😀']);
  const codes = vocabulary.encode('😀ë\n');
  assert.deepEqual(codes, Int32Array.of(5, 4, 0));
  assert.equal(vocabulary.decode(codes), '😀ë\n');
  assert.throws(
    () => vocabulary.encode('zo€'),
    (e) => e instanceof DataError && /character 3, "€" \(U\+20AC\), is not in the vocabulary/.test(e.message),
  );
  assert.throws(() => vocabulary.decode([6]), /6 is not the number of a character: must be 0 to 5/);
  assert.throws(() => new Vocabulary(''), ArgumentError);
});

test('windows cover the text, and each target is the character after its input', async () => {
  const codes = Int32Array.from({ length: 23 }, (_, i) => i);
  const { inputs, targets, length } = new TextDataset(codes, 5);
  const [rows, after] = [await inputs.array(), await targets.array()] as [number[][], number[][]];
  assert.equal(length, 5);
  assert.deepEqual(rows[1], [5, 6, 7, 8, 9]);
  assert.deepEqual(rows.at(-1), [17, 18, 19, 20, 21], 'the last one ends with the text');
  assert.deepEqual(
    after,
    rows.map((row) => row.map((code) => code + 1)),
  );
  assert.deepEqual(new Set(after.flat()), new Set(codes.subarray(1)), 'every character is predicted');
  assert.throws(
    () => new TextDataset(codes.subarray(0, 5), 5),
    (e) => e instanceof DataError && /the text has 5 tokens, a window takes 6/.test(e.message),
  );
});

test('the end of a text is held out: training never sees it', async () => {
  const path = await written('text.txt', TEXT);
  const { train, test, vocabulary } = await loadText(path, 16);
  const texts = async (set: TextDataset): Promise<string[]> => {
    const [inputs, targets] = [await set.inputs.array(), await set.targets.array()] as [
      number[][],
      number[][],
    ];
    return inputs.map((row, i) => vocabulary.decode([...row, targets[i]!.at(-1)!]));
  };
  const held = await texts(test);
  const heldOut = held[0]!.slice(0, 1) + held.map((window) => window.slice(1)).join('');
  assert.ok(TEXT.endsWith(heldOut), 'windows of the held-out part lie side by side, up to the end');
  assert.ok(Math.abs(heldOut.length - 0.1 * TEXT.length) <= 9, `${heldOut.length} of ${TEXT.length}`);
  const rest = TEXT.slice(0, -heldOut.length);
  const seen = await texts(train);
  assert.ok(seen.every((window) => rest.includes(window)));
  assert.ok(rest.startsWith(seen[0]!) && rest.endsWith(seen.at(-1)!));
  const order = [...new Loader(train, { batchSize: 7, shuffle: true, seed: 3 }).order(1)];
  assert.deepEqual(
    order.toSorted((a, b) => a - b),
    Array.from(seen.keys()),
    'an epoch has every window once',
  );
  const zipped = await loadText(await written('zipped', gzipSync(TEXT)), 16);
  assert.deepEqual(await zipped.train.inputs.array(), await train.inputs.array());
});

test('files that are no text to train on are refused, and say why', async () => {
  const refused = async (
    content: string | Uint8Array,
    type: typeof DataError | typeof FileError,
    message: RegExp,
  ) =>
    assert.rejects(
      loadText(await written('bad', content), 16),
      (e) => e instanceof type && message.test(e.message),
    );
  await assert.rejects(loadText(join(folder, 'nowhere'), 16), /no such file/);
  await refused('', FileError, /is empty/);
  await refused('x'.repeat(33), DataError, /has 33 characters, too few: .* take 34/);
  await refused(Uint8Array.of(0x61, 0xef, 0xbf, 0xbd, 0x62, 0xe9, 0x20), FileError, /byte 5 is 0xe9.*iconv/);
  await refused(gzipSync(TEXT).subarray(0, 60), FileError, /damaged gzip data/);
  const vocabulary = new Vocabulary('0123456789');
  await assert.rejects(
    loadText(await written('text.txt', TEXT), 16, { vocabulary }),
    (e) => e instanceof DataError && /text\.txt: character 2, ","/.test(e.message),
  );
  const smallest = await loadText(await written('smallest', 'x'.repeat(34)), 16);
  assert.deepEqual([smallest.train.length, smallest.test.length], [1, 1]);
});
