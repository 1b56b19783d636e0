/** Language models on byte pairs, as users train them: by `heddle train gpt --tokenizer`, and by `loadText`. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { loadText } from 'heddle';
import { readTokenizer, type Tokenizer, trainTokenizer, writeTokenizer } from 'heddle-data';
import { temporaryFolder } from './image-files.js';

const MAIN = join(dirname(createRequire(import.meta.url).resolve('heddle/package.json')), 'bin', 'heddle.js');

const folder = temporaryFolder();
const TEXT = Array.from({ length: 70 }, (_, i) => `Verse ${i}: the fox 🦊 met ${i * i} “naïve” hens.\n`).join(
  '',
);
writeFileSync(join(folder, 'book.txt'), TEXT);

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** @param until the process is killed as soon as it has printed this */
async function heddle(line: string, until?: string): Promise<Ended> {
  const { HEDDLE_DEBUG: _, FORCE_COLOR: __, ...rest } = process.env;
  const env = { ...rest, HEDDLE_DEVICE: 'cpu', HEDDLE_CACHE: join(folder, 'cache') };
  const child = spawn(process.execPath, [MAIN, ...line.split(' ')], { cwd: folder, env });
  let out = '';
  let err = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    if (until !== undefined && out.includes(until)) child.kill('SIGKILL');
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, out, err };
}

async function succeeds(line: string): Promise<string> {
  const { code, out, err } = await heddle(line);
  assert.equal(code, 0, `${out}${err}`);
  return out;
}

const BEGIN =
  'train gpt --recipe small --text book.txt --epochs 2 --batch-size 8 --limit 8 --checkpoint-every 1 --no-progress';
const lossIn = (out: string): string | undefined =>
  /\d\.\d{4} nats per token \(perplexity [\d.]+, [\d.]+ bits per character\)/.exec(out)?.[0];

test('a language model learns byte pairs, which its run keeps', async () => {
  const trained = await succeeds(`${BEGIN} --tokenizer bpe --vocabulary-size 300 --out whole`);
  assert.match(trained, /^data {5}book\.txt \(300 byte-pair tokens\), windows of 64/m);
  const kept = join(folder, 'whole', 'tokenizer.json');
  const seen = TEXT.slice(0, Math.ceil(0.9 * TEXT.length));
  assert.deepEqual(
    (await readTokenizer(kept)).encode(TEXT),
    trainTokenizer([seen], { vocabularySize: 300 }).encode(TEXT),
    'learned from what is not held out',
  );
  assert.ok(lossIn(trained));
  assert.equal(lossIn(await succeeds('eval whole --weights last')), lossIn(trained));
  await succeeds('look whole --only curves,embedding');
  const pictures = join(folder, 'whole', 'look');
  assert.match(readFileSync(join(pictures, 'report.html'), 'utf8'), /byte-pair tokens/);
  assert.match(readFileSync(join(pictures, 'curves-loss.svg'), 'utf8'), /nats per token/);
  assert.match(readFileSync(join(pictures, 'embedding.svg'), 'utf8'), /Tokens, projected by PCA/);
  // 🦊 is several tokens: it is written once they are complete.
  const write = 'generate whole --prompt 🦊 --length 16 --temperature 0';
  assert.match(await succeeds(write), /^🦊.{5}/su);

  const killed = await heddle(`${BEGIN} --tokenizer whole/tokenizer.json --out killed`, 'epoch 1/');
  assert.equal(killed.code, null);
  const other = trainTokenizer([TEXT], { vocabularySize: 256 });
  await writeTokenizer(join(folder, 'killed', 'tokenizer.json'), other);
  const refused = await heddle('train --resume killed');
  assert.match(refused.err, /tokenizer\.json has 256 tokens, the run was trained with 300\. Put back/);
  assert.equal(refused.code, 1);
  copyFileSync(kept, join(folder, 'killed', 'tokenizer.json'));
  await succeeds('train --resume killed');
  const weights = (run: string): Buffer => readFileSync(join(folder, run, 'weights.safetensors'));
  assert.deepEqual(weights('killed'), weights('whole'));
});

test('tokenizers that contradict each other, or are none, are refused before a run begins', async () => {
  writeFileSync(join(folder, 'unigram.json'), '{"model": {"type": "Unigram"}}');
  for (const [options, code, message] of [
    [
      '--tokenizer words',
      2,
      /--tokenizer words: no such file\. Expected chars, bpe, or the path of a tokenizer/,
    ],
    ['--vocabulary-size 300', 2, /--vocabulary-size 300 is for byte pairs .*: add --tokenizer bpe, or leave/],
    ['--tokenizer unigram.json', 1, /unigram\.json: model\.type is 'Unigram', which is not supported/],
  ] as const) {
    const ended = await heddle(`train gpt --text book.txt ${options} --out none`);
    assert.equal(ended.code, code, `${options}: ${ended.err}`);
    assert.match(ended.err, message);
  }
  const points = await heddle('train quadrants --tokenizer bpe --out none');
  assert.equal(points.code, 2);
  assert.match(points.err, /quadrants is not trained on a text: leave --tokenizer and --vocabulary-size out/);
  assert.ok(!existsSync(join(folder, 'none')));
});

test('loadText cuts a text into the tokens of a tokenizer', async () => {
  const tokenizer: Tokenizer = trainTokenizer([TEXT], { vocabularySize: 400 });
  const path = join(folder, 'book.txt');
  const { train, test: held, vocabulary } = await loadText(path, 16, { vocabulary: tokenizer });
  assert.equal(vocabulary.idOf('Ġthe'), tokenizer.idOf('Ġthe'), 'it is the tokenizer that was given');
  const first = (await train.inputs.array()) as number[][];
  assert.ok(TEXT.startsWith(tokenizer.decode(first[0]!)));
  const last = ((await held.targets.array()) as number[][]).at(-1)!;
  assert.ok(TEXT.endsWith(tokenizer.decode(last)));
  writeFileSync(join(folder, 'short.txt'), 'Verse');
  await assert.rejects(
    loadText(join(folder, 'short.txt'), 16, { vocabulary: tokenizer }),
    /short\.txt has \d tokens, too few: one window of 16 \+ 1 tokens/,
  );
});
