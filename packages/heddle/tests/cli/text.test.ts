/** Language models on the command line: trained, interrupted, judged, and made to write. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { runHeddle, type Watch } from './run-heddle.js';

let folder = '';
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'heddle-cli-text-'));
  // On a GPU, trainings are equal as long as they make the same choices among the ways of a kernel.
  process.env.HEDDLE_CACHE = join(folder, 'cache');
  const verse = (i: number): string => `Verse ${i}: the fox met ${i * i} hens.\n`;
  await writeFile(
    join(folder, 'book.txt.gz'),
    gzipSync(Array.from({ length: 150 }, (_, i) => verse(i)).join('')),
  );
  await writeFile(join(folder, 'other.txt'), 'Ünknown '.repeat(100));
});
after(async () => {
  await rm(folder, { recursive: true });
});
const heddle = (line: string, watch?: Watch) => runHeddle(folder, line.split(' '), watch);
const BEGIN =
  'train gpt --recipe small --text book.txt.gz --epochs 2 --batch-size 8 --limit 16 --no-progress';

test('a language model is trained, also killed and resumed, judged, and writes', async () => {
  const whole = await heddle(`${BEGIN} --out whole`);
  assert.equal(whole.code, 0, whole.err);
  assert.match(
    whole.out,
    /^data {5}book\.txt\.gz \(\d+ characters\), windows of 64: \d+ to train on, \d+ to test$/m,
  );
  assert.match(
    whole.out,
    /^loss {5}\d\.\d{4} nats per character \(perplexity .*, .* bits\) on the held-out text/m,
  );
  assert.match(whole.out, /^Try next:\n {2}npx heddle generate whole$/m);
  const killed = await heddle(`${BEGIN} --out killed --checkpoint-every 1`, (child, text) => {
    if (text.includes('epoch 1/')) child.kill('SIGKILL');
  });
  assert.equal(killed.code, null);
  const resumed = await heddle('train --resume killed');
  assert.equal(resumed.code, 0, resumed.err);
  for (const name of ['weights.safetensors', 'best.safetensors'])
    assert.deepEqual(
      await readFile(join(folder, 'killed', name)),
      await readFile(join(folder, 'whole', name)),
    );

  const judged = await heddle('eval whole --weights last');
  assert.equal(judged.code, 0, judged.err);
  const lossIn = (text: string): string | undefined => /(\d\.\d{4}) nats per character/.exec(text)?.[1];
  assert.equal(lossIn(judged.out), lossIn(whole.out));
  assert.match(judged.out, /^accuracy {3}\d+\.\d\d %$/m);
  assert.match((await heddle('runs list .')).out, /whole +gpt +book\.txt\.gz +2\/2/);

  const written = await heddle(
    'generate whole --prompt Verse --length 100 --temperature 0.7 --top-k 5 --seed 3',
  );
  assert.equal(written.code, 0, written.err);
  assert.ok(written.out.startsWith('Verse') && written.out.endsWith('\n'), written.out);
  assert.equal(written.out.length, 'Verse'.length + 100 + 1);
  const again = await heddle('generate whole -p Verse -n 20 -t 0.7 -k 5 -s 3');
  assert.equal(again.out, `${written.out.slice(0, 'Verse'.length + 20)}\n`);
  let sent = false;
  const stopped = await heddle('generate whole --length 1000000', (child, text) => {
    if (!sent && text.length > 20) sent = child.kill('SIGINT');
  });
  assert.deepEqual([stopped.code, stopped.err], [130, '']);
});

test('what a language model cannot do is refused, and says what to do', async () => {
  await heddle('train quadrants --epochs 1 --out points');
  for (const [line, code, message] of [
    ['train gpt', 2, /gpt is trained on a text: name its file, as in --text book\.txt/],
    ['train gpt --data mnist', 2, /name it by --text, leave --data out/],
    ['train gpt --text nowhere.txt', 1, /nowhere\.txt: no such file/],
    ['train mlp --text book.txt.gz', 2, /mlp is not trained on a text: leave --text book\.txt\.gz out/],
    ['predict whole test:3', 2, /whole is a run of gpt, which writes text\. Use: npx heddle generate whole/],
    ['eval whole --text other.txt', 1, /other\.txt: character 1, "Ü" \(U\+00DC\), is not in the vocabulary/],
    ['generate whole --prompt Ver@e', 2, /--prompt: character 4, "@"/],
    ['generate points', 2, /points is a run of quadrants, which does not write text/],
    ['generate nowhere', 2, /nowhere is not the folder of a run/],
    ['generate whole --length 0', 2, /Must be a whole number, at least 1/],
    ['generate whole --temperature -1', 2, /Must be a number, at least 0/],
    ['generate whole --top-k 0', 2, /Must be a whole number, at least 1/],
  ] as const) {
    const ended = await heddle(line);
    assert.equal(ended.code, code, `${line}: ${ended.err}`);
    assert.match(ended.err, message);
  }
});
