import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, test } from 'node:test';
import { examine } from '../src/cli/doctor.js';
import { clock, percent, table, whole } from '../src/cli/format.js';
import { progress } from '../src/cli/progress.js';
import { RunFolder } from '../src/cli/run-folder.js';
import { positiveNumber, wholeNumber, wholeNumbers, words } from '../src/cli/values.js';
import type { EpochReport, StepReport } from '../src/train/index.js';

const before = process.cwd();
let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'heddle-parts-'));
  process.chdir(folder);
});
afterEach(async () => {
  process.chdir(before);
  await rm(folder, { recursive: true });
});

test('numbers for people', () => {
  assert.equal(whole(1234567.8), '1,234,568');
  assert.equal(percent(0.98765), '98.77 %');
  assert.equal(clock(75.4), '1:15');
  assert.equal(clock(-3), '0:00');
  assert.equal(
    table(
      ['name', 'n'],
      [
        ['a', '10'],
        ['longer', '5'],
      ],
    ),
    'name     n\n──────  ──\na       10\nlonger   5',
  );
});

test('option values', () => {
  assert.equal(wholeNumber(1)('42'), 42);
  for (const text of ['', ' ', '0', '1.5', 'x', '1e400', '-1']) {
    assert.throws(() => wholeNumber(1)(text), /Must be a whole number, at least 1/);
  }
  assert.throws(() => wholeNumber(0, 8)('9'), /from 0 to 8/);
  assert.equal(positiveNumber('1e-3'), 0.001);
  for (const text of ['0', '-1', 'x', 'Infinity', ''])
    assert.throws(() => positiveNumber(text), /positive number/);
  assert.deepEqual(words('a, b'), ['a', 'b']);
  assert.deepEqual(wholeNumbers(1)('1,2'), [1, 2]);
});

test('runs of the same second get folders of their own', async () => {
  const now = new Date(2026, 0, 31, 9, 5, 0);
  const first = await RunFolder.create('cnn', undefined, now);
  const second = await RunFolder.create('cnn', undefined, now);
  const third = await RunFolder.create('cnn', undefined, now);
  assert.equal(first.path, join('runs', '2026-01-31T09-05-00-cnn'));
  assert.deepEqual([second.path, third.path], [`${first.path}-2`, `${first.path}-3`]);
});

test('a folder of one’s own must be new or empty', async () => {
  const run = await RunFolder.create('cnn', join('a', 'b'));
  await run.addMetrics({ epoch: 1 });
  await run.addMetrics({ epoch: 2 });
  assert.equal(await readFile(join('a', 'b', 'metrics.jsonl'), 'utf8'), '{"epoch":1}\n{"epoch":2}\n');
  await assert.rejects(RunFolder.create('cnn', join('a', 'b')), {
    code: 'HEDDLE_ARGUMENT',
    message: /never overwritten/,
  });
  await writeFile('file', '');
  await assert.rejects(RunFolder.create('cnn', 'file'), {
    code: 'HEDDLE_FILE',
    message: /cannot make this folder/,
  });
});

const stepReport = (epoch: number, step: number): StepReport => ({
  epoch,
  step,
  steps: 4,
  examples: 64 * step,
  loss: step > 1 ? 0.5 : undefined,
  seconds: step / 10,
  lr: 0.1,
});

const epochReport: EpochReport = {
  epoch: 0,
  epochs: 2,
  loss: 0.25,
  validation: { loss: 0.125, metrics: { accuracy: 0.9746 }, examples: 100, seconds: 0.1 },
  seconds: 12.04,
  examplesPerSecond: 5012.3,
  lr: 0.1,
};

test('without a terminal: plain lines now and then, and one per epoch', async () => {
  const lines: string[] = [];
  const callback = progress({ noun: 'images', out: (line) => lines.push(line), interval: -1 });
  await callback.onStart?.({ epochs: 2, steps: 4 });
  await callback.onStep?.(stepReport(0, 1));
  await callback.onStep?.(stepReport(0, 2));
  await callback.onEpochEnd?.(epochReport);
  assert.equal(lines.length, 3);
  assert.match(lines[0]!, /^ {2}epoch 1\/2, step 1\/4: loss –, 640 images\/s, 0:0\d left$/);
  assert.match(lines[1]!, /^ {2}epoch 1\/2, step 2\/4: loss 0\.5000, 640 images\/s, 0:0\d left$/);
  assert.equal(
    lines[2],
    'epoch 1/2   loss 0.2500   test loss 0.1250   test accuracy 97.46 %   5,012 images/s   12.0 s',
  );
});

test('between lines there is an interval', async () => {
  const lines: string[] = [];
  const callback = progress({ noun: 'images', out: (line) => lines.push(line), interval: 60 });
  await callback.onStart?.({ epochs: 2, steps: 4 });
  for (let step = 1; step <= 4; step++) await callback.onStep?.(stepReport(0, step));
  assert.deepEqual(lines, []);
});

test('on a terminal: a bar that goes away, and a line per epoch', async () => {
  const shown: string[] = [];
  const terminal = Object.assign(new PassThrough(), { isTTY: true, columns: 100 });
  terminal.on('data', (text: Buffer) => shown.push(text.toString()));
  // What the bar calls on a terminal besides write.
  for (const name of ['cursorTo', 'clearLine', 'moveCursor']) Object.assign(terminal, { [name]: () => true });
  const lines: string[] = [];
  const callback = progress({
    noun: 'images',
    out: (line) => lines.push(line),
    terminal: terminal as unknown as NodeJS.WriteStream,
  });
  await callback.onStart?.({ epochs: 2, steps: 4 });
  for (let step = 1; step <= 4; step++) await callback.onStep?.(stepReport(0, step));
  await callback.onEpochEnd?.(epochReport);
  await callback.onEnd?.({ epochs: [epochReport], steps: 4, seconds: 1, ended: 'done' });
  assert.match(shown.join(''), /epoch 1\/2 █+ 100 % {2}loss 0\.5000 {2}640 images\/s {2}0:0\d left/);
  assert.equal(lines.length, 1);
  // An error in the middle of an epoch: the bar has a timer, which would keep the process alive.
  const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const before = timers();
  await callback.onStep?.(stepReport(1, 1));
  assert.equal(timers(), before + 1);
  callback.stop();
  assert.equal(timers(), before);
});

test('what doctor finds missing comes with a remedy', () => {
  const findings = examine().flatMap((section) => section.findings);
  assert(findings.length > 10);
  for (const { name, ok, remedy } of findings) {
    if (ok === false) assert(remedy, `${name} is missing without a remedy`);
  }
});
