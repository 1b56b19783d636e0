/** Lines of a part of a matrix stay on the chip as those of a whole one do: planned for an H200, run in the simulator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import * as b from '../../src/graph/build.js';
import { randn, softmax, Tensor } from '../../src/index.js';
import { schedule } from '../../src/schedule/schedule.js';
import { agrees, of, target } from '../simulated-gpu.js';

const leaf = (...shape: number[]): Tensor => new Tensor(b.leaf(shape, f32));

const first = (x: Tensor, rows: number, columns: number): Tensor => x.at(`:${rows}`, `:${columns}`) as Tensor;

const sharedBytes = (result: Tensor): number[] =>
  schedule([result.node], target).launches.map(({ work }) =>
    'kernel' in work ? (work.sharedBytes ?? 0) : 0,
  );

for (const columns of [16_400, 16_402, 16_403])
  test(`rows of ${columns} of 16408 columns are kept in shared memory, which is as large as for a whole`, async () => {
    const whole = softmax(of(2, columns), 1);
    const part = softmax(first(of(2, 16_408), 2, columns), 1);
    const [bytes, ...others] = sharedBytes(part);
    assert.deepEqual(others, []);
    assert.ok(bytes! > 0);
    assert.deepEqual([bytes], sharedBytes(whole));
    await agrees(([x]) => [softmax(first(x!, 2, columns), 1)], [of(2, 16_408)]);
  });

test('rows at places where vectors are not aligned are read as they are', async () => {
  const part = (x: Tensor): Tensor => softmax(first(x, 2, 16_400), 1);
  assert.deepEqual(sharedBytes(part(of(2, 16_401))), [0]);
  await agrees(([x]) => [part(x!)], [randn([2, 16_401]).realize() as Tensor]);
});

test('rows whose last dimension is of size 1 are read where they begin', async () => {
  const part = ([x]: readonly Tensor[]): Tensor[] => [softmax(x!.at(':', ':16400', ':') as Tensor, 1)];
  await agrees(part, [of(2, 16_401, 1)]);
});

test('columns of a part are kept as those of a whole', async () => {
  const part = (x: Tensor, rows: number, columns: number): Tensor => softmax(first(x, rows, columns), 0);
  const [bytes, ...others] = sharedBytes(part(leaf(8192, 1032), 8192, 1024));
  assert.deepEqual(others, []);
  assert.ok(bytes! > 0);
  assert.deepEqual([bytes], sharedBytes(softmax(leaf(8192, 1024), 0)));
  await agrees(([x]) => [part(x!, 1000, 100)], [of(1000, 104)]);
});
