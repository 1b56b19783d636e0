import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { examine } from '../../src/cli/doctor.js';
import { clock, percent, table, whole } from '../../src/cli/format.js';
import { progress } from '../../src/cli/progress.js';
import { RunFolder } from '../../src/cli/run-folder.js';
import { folded, StatusLine, styled, wrapped } from '../../src/cli/terminal.js';
import { positiveNumber, wholeNumber, wholeNumbers, words } from '../../src/cli/values.js';
import type { EpochReport, StepReport } from '../../src/train/index.js';

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

test('runs of the same second get folders of their own', () => {
  const now = new Date(2026, 0, 31, 9, 5, 0);
  const [first, second, third] = [1, 2, 3].map(() => RunFolder.create('cnn', undefined, now)) as [
    RunFolder,
    RunFolder,
    RunFolder,
  ];
  assert.equal(first.path, join('runs', '2026-01-31T09-05-00-cnn'));
  assert.deepEqual([second.path, third.path], [`${first.path}-2`, `${first.path}-3`]);
});

test('a folder of one’s own must be new or empty', async () => {
  const run = RunFolder.create('cnn', join('a', 'b'));
  await run.addMetrics({ epoch: 1 });
  await run.addMetrics({ epoch: 2 });
  assert.equal(await readFile(join('a', 'b', 'metrics.jsonl'), 'utf8'), '{"epoch":1}\n{"epoch":2}\n');
  assert.throws(() => RunFolder.create('cnn', join('a', 'b')), {
    code: 'HEDDLE_ARGUMENT',
    message: /never overwritten/,
  });
  await writeFile('file', '');
  assert.throws(() => RunFolder.create('cnn', 'file'), {
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
  elapsed: 12.2,
  lr: 0.1,
};

test('without a terminal: plain lines now and then, and one per epoch', async () => {
  const lines: string[] = [];
  const callback = progress({ noun: 'images', out: (line) => lines.push(line), interval: -1 });
  await callback.onStart?.({ epochs: 2, steps: 4, epoch: 0, step: 0, reports: [] });
  await callback.onProgress?.(stepReport(0, 1));
  await callback.onProgress?.(stepReport(0, 2));
  await callback.onEpochEnd?.(epochReport);
  assert.equal(lines.length, 3);
  assert.match(lines[0]!, /^ {2}epoch 1\/2, step 1\/4: loss –, 640 images\/s, 0:0\d left$/);
  assert.match(lines[1]!, /^ {2}epoch 1\/2, step 2\/4: loss 0\.5000, 640 images\/s, 0:0\d left$/);
  assert.equal(
    lines[2],
    'epoch 1/2   loss 0.2500   test loss 0.1250   test accuracy 97.46 %   12.0 s   5,012 images/s',
  );
});

test('between lines there is an interval', async () => {
  const lines: string[] = [];
  const callback = progress({ noun: 'images', out: (line) => lines.push(line), interval: 60 });
  await callback.onStart?.({ epochs: 2, steps: 4, epoch: 0, step: 0, reports: [] });
  for (let step = 1; step <= 4; step++) await callback.onProgress?.(stepReport(0, step));
  assert.deepEqual(lines, []);
});

test('on a terminal: a bar of its width, over which nothing is left, and a line per epoch that fits', async () => {
  const shown: string[] = [];
  const terminal = { isTTY: true, columns: 100, write: (text: string) => shown.push(text) };
  const status = new StatusLine(terminal);
  const lines: string[] = [];
  let columns = 100;
  const callback = progress({
    noun: 'images',
    out: (line) => {
      status.clear();
      lines.push(line);
    },
    columns: () => columns,
    status: (text) => status.show(text),
  });
  await callback.onStart?.({ epochs: 2, steps: 4, epoch: 0, step: 0, reports: [] });
  await callback.onProgress?.(stepReport(0, 2));
  await callback.onProgress?.(stepReport(0, 3));
  assert.equal(shown.length, 1, 'drawn at most ten times a second');
  assert.match(shown[0]!, /^\repoch 1\/2 █{12}░{12} 50 % {2}loss 0\.5000 {2}640 images\/s {2}0:0\d left/);
  await callback.onEpochEnd?.(epochReport);
  assert.deepEqual(shown.slice(1), ['\r\x1b[K']);
  assert.equal(lines[0]!.length, 92);
  for (columns of [80, 60, 20]) {
    terminal.columns = columns;
    shown.length = 0;
    await callback.onProgress?.(stepReport(1, 1));
    assert.ok(shown[0]!.length - '\r\x1b[K'.length < columns, shown[0]);
    await callback.onEpochEnd?.(epochReport);
    assert.ok(lines.at(-1)!.length <= columns, lines.at(-1));
  }
  shown.length = 0;
  status.replace('a notice');
  assert.deepEqual(shown, ['\r\x1b[Ka notice\n'], 'also over what was typed while nothing was drawn');
  assert.equal(lines[1], 'epoch 1/2   loss 0.2500   test loss 0.1250   test accuracy 97.46 %   12.0 s');
});

test('lines break between words, and later ones are indented', () => {
  assert.equal(wrapped('  a bcd efgh', 7, 3), '  a bcd\n   efgh');
  assert.equal(wrapped('fits', 4), 'fits');
  assert.equal(folded('  a b   one two\nthree four', 11), '  a b   one\n        two\nthree four');
  assert.equal(wrapped('name   /a/long/path then more', 12, 2), 'name\n  /a/long/path\n  then more');
});

test('colours: on a terminal, not under NO_COLOR, and wherever FORCE_COLOR says so', () => {
  const terminal = { isTTY: true, write: () => true };
  const pipe = { write: () => true };
  const { NO_COLOR, FORCE_COLOR, TERM, ...rest } = process.env;
  const before = process.env;
  const coloured = (env: Record<string, string>, output: { write(text: string): unknown }): boolean => {
    process.env = { ...rest, ...env };
    return styled('x', 'bold', output) !== 'x';
  };
  try {
    assert.ok(coloured({}, terminal));
    assert.ok(!coloured({}, pipe));
    assert.ok(!coloured({ NO_COLOR: '1' }, terminal));
    assert.ok(coloured({ NO_COLOR: '' }, terminal));
    assert.ok(!coloured({ TERM: 'dumb' }, terminal));
    assert.ok(coloured({ FORCE_COLOR: '1', NO_COLOR: '1' }, pipe));
    assert.ok(!coloured({ FORCE_COLOR: '0' }, terminal));
  } finally {
    process.env = before;
  }
});

test('what doctor finds missing comes with a remedy', () => {
  const findings = examine().flatMap((section) => section.findings);
  assert(findings.length > 10);
  for (const { name, ok, remedy } of findings) {
    if (ok === false) assert(remedy, `${name} is missing without a remedy`);
  }
});
