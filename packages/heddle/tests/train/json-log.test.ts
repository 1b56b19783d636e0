/** A training as lines of JSON: what they say, and how they survive an end at any moment. */
import assert from 'node:assert/strict';
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { FileError } from '../../src/core/errors.js';
import {
  type Callback,
  crossEntropy,
  data,
  type FitOptions,
  fit,
  jsonLog,
  Loader,
  type LogReport,
  manualSeed,
  nn,
  optim,
} from '../../src/index.js';

const place = await mkdtemp(join(tmpdir(), 'heddle-log-'));
after(() => rm(place, { recursive: true }));

/** Two epochs of 11 steps, the last of 4 examples. */
const train = (more: Partial<FitOptions>): ReturnType<typeof fit> => {
  manualSeed(0);
  const model = new nn.Linear(2, 2);
  const { train: examples, test: validation } = data.separablePoints({ trainLength: 104, testLength: 20 });
  return fit(model, {
    train: new Loader(examples, { batchSize: 10, shuffle: true }),
    validation: new Loader(validation, { batchSize: 20 }),
    optimizer: new optim.SGD(model.parameters(), { lr: 0.5 }),
    schedule: optim.schedules.cosine(),
    loss: crossEntropy,
    epochs: 2,
    logEvery: 4,
    ...more,
  });
};

const linesOf = async (path: string): Promise<Record<string, unknown>[]> =>
  (await readFile(path, 'utf8'))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
/** Without what the clock says. */
const timeless = (lines: readonly Record<string, unknown>[]): object[] =>
  lines.map(({ elapsed: _, seconds: __, examplesPerSecond: ___, ...line }) => line);

for (const resident of [false, true])
  test(`a line for every 4 steps and every epoch; resident ${resident}`, async () => {
    const path = join(place, `new-${resident}`, 'folder', 'log.jsonl');
    const all: LogReport[] = [];
    const watch: Callback = { onLog: (report) => void all.push(report) };
    const { epochs } = await train({ resident, callbacks: [watch], logEvery: 1 });
    await train({ resident, callbacks: [jsonLog(path)] });
    const lines = await linesOf(path);
    assert.deepEqual(
      lines.map((l) => [l.event, l.epoch, l.step ?? null, l.totalSteps ?? null, l.examples ?? null]),
      [
        ...[
          [4, 40],
          [8, 80],
        ].map(([step, seen]) => ['step', 1, step, step, seen]),
        ['epoch', 1, null, null, null],
        ...[
          [1, 10],
          [5, 50],
          [9, 90],
        ].map(([step, seen]) => ['step', 2, step, step! + 11, seen]),
        ['epoch', 2, null, null, null],
      ],
    );
    const near = (a: unknown, b: number): void =>
      assert.ok(Math.abs((a as number) - b) < 1e-12, `${a}, ${b}`);
    const mean = (first: number, last: number): number =>
      all.slice(first, last).reduce((sum, { loss }) => sum + loss, 0) / (last - first);
    near(lines[0]!.loss, mean(0, 4));
    near(lines[1]!.loss, mean(4, 8));
    near(lines[3]!.loss, all[11]!.loss);
    near(lines[4]!.loss, mean(12, 16));
    assert.deepEqual(
      all.map(({ totalSteps }) => totalSteps),
      Array.from({ length: 22 }, (_, i) => i + 1),
    );
    near(lines[1]!.lr, 0.5 * (0.5 + 0.5 * Math.cos((Math.PI * 7) / 22)));
    assert.deepEqual(lines[2]!.loss, epochs[0]!.loss);
    assert.deepEqual(lines[2]!.validation, { loss: epochs[0]!.validation!.loss });
    for (const line of lines)
      assert.ok((line.examplesPerSecond as number) > 0 && (line.elapsed as number) > 0);
  });

test('a resumed training goes on after the lines of its checkpoint, whatever follows them', async () => {
  const [whole, path] = [join(place, 'whole.jsonl'), join(place, 'cut.jsonl')];
  await train({ callbacks: [jsonLog(whole)] });
  const stop = new AbortController();
  const until = {
    onStep: ({ epoch, step }: { epoch: number; step: number }) =>
      epoch === 1 && step === 7 ? stop.abort() : undefined,
  };
  const folder = join(place, 'checkpoints');
  const cut = { folder, signal: stop.signal, resident: false } as const;
  await train({ ...cut, callbacks: [jsonLog(path), until] });
  assert.equal((await linesOf(path)).length, 5);
  await appendFile(path, '{"event":"step","epoch":2,"step":9}\n{"event":"st');
  await train({ folder, resume: true, callbacks: [jsonLog(path)] });
  assert.deepEqual(timeless(await linesOf(path)), timeless(await linesOf(whole)));
  // A file that has lost its end keeps its whole lines.
  const text = await readFile(path, 'utf8');
  await rm(path);
  await appendFile(path, text.slice(0, text.length - 5));
  await train({ folder, resume: true, callbacks: [jsonLog(path)], epochs: 2 });
  assert.equal((await linesOf(path)).length, 6);
  // Begun anew, it has its own lines alone.
  await train({ callbacks: [jsonLog(path)], epochs: 1 });
  assert.equal((await linesOf(path)).length, 3);
});

test('a path that cannot be written is an error', async () => {
  await assert.rejects(train({ callbacks: [jsonLog(place)] }), (e) => e instanceof FileError);
});
