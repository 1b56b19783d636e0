/** What the service and its workers send each other, and how a worker splits a batch over the programs of an engine. */
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import fc from 'fast-check';
import { manualSeed, nn, tensor, useDevice } from 'heddle';
import { compile } from 'heddle/inference';
import { closeDevices } from 'heddle/internal/runtime/registry.js';
import { cheapestSplit, engineRun } from '../src/worker/engine-model.js';
import { FrameReader, sendFrame, type WorkerRequest } from '../src/worker/frames.js';
import { property } from './property.js';

property(
  'frames arrive whole and in order, however their bytes are cut',
  [
    fc.array(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 4 }), { maxLength: 5 }),
    fc.infiniteStream(fc.integer({ min: 1, max: 60 })),
  ],
  async (bodies, sizes) => {
    const wire = new PassThrough({ highWaterMark: 2 ** 20 });
    bodies.forEach((parts, rows) => {
      sendFrame(wire as unknown as Socket, { rows, shapes: [] }, parts);
    });
    wire.end();
    const bytes = Buffer.concat(await wire.toArray());
    const found: { rows: number; body: number[] }[] = [];
    const reader = new FrameReader<WorkerRequest>((head, body) => {
      found.push({ rows: head.rows, body: [...body] });
      assert.equal(body.byteOffset % 8, 0, 'aligned for every dtype');
    });
    for (let at = 0; at < bytes.length; ) {
      const size = sizes.next().value!;
      // The memory of a piece is used again for the next one.
      const piece = Uint8Array.from(bytes.subarray(at, at + size));
      reader.push(piece);
      piece.fill(255);
      at += size;
    }
    assert.deepEqual(
      found,
      bodies.map((parts, rows) => ({ rows, body: [...Buffer.concat(parts)] })),
    );
  },
);

test('a batch is padded where a further run would take longer, and split where it would not', () => {
  // In proportion to the rows: no row is computed for nothing.
  const even = cheapestSplit([1, 2, 4, 8].map((rows) => ({ rows, ms: 0.01 + rows })));
  assert.deepEqual(even(1), [1]);
  assert.deepEqual(even(5).toSorted(), [1, 4]);
  assert.deepEqual(even(8), [8]);
  assert.deepEqual(even(19).toSorted(), [1, 2, 8, 8]);
  // The same for any number of rows: as few runs as possible.
  const flat = cheapestSplit([1, 2, 4, 8].map((rows) => ({ rows, ms: 1 + 0.001 * rows })));
  assert.deepEqual(flat(5), [5]);
  assert.deepEqual(
    flat(19).reduce((a, b) => a + b),
    19,
  );
  assert.equal(flat(19).length, 3);
});

property(
  'no other split takes less time',
  [
    fc.array(fc.double({ min: 0.01, max: 10, noNaN: true }), { minLength: 1, maxLength: 3 }),
    fc.integer({ min: 1, max: 9 }),
  ],
  (list, rows) => {
    const times = list.map((ms, i) => ({ rows: 2 ** i, ms }));
    const timeOf = (count: number): number =>
      Math.min(...times.filter((own) => own.rows >= count).map(({ ms }) => ms));
    const least = (left: number): number =>
      left <= 0 ? 0 : Math.min(...times.map((own) => own.ms + least(left - own.rows)));
    const parts = cheapestSplit(times)(rows);
    assert.equal(
      parts.reduce((a, b) => a + b, 0),
      rows,
    );
    assert.ok(parts.reduce((sum, count) => sum + timeOf(count), 0) <= least(rows) * (1 + 1e-12));
  },
);

test('an engine in parts gives what it gives at once', async () => {
  useDevice('cpu');
  manualSeed(1);
  const model = new nn.Sequential(new nn.Linear(3, 4), new nn.Tanh(), new nn.Linear(4, 2));
  const engine = await compile(model, { shapes: [[3]], batchSizes: [1, 2, 4] });
  const run = await engineRun(engine);
  for (const rows of [1, 3, 4, 5, 11]) {
    const values = Float32Array.from({ length: 3 * rows }, (_, i) => Math.sin(i));
    const [found] = await run([{ shape: [rows, 3], values }]);
    assert.deepEqual(found!.shape, [rows, 2]);
    const expected = await model.forward(tensor(values, { shape: [rows, 3] })).data();
    expected.forEach((value, i) => {
      assert.ok(Math.abs(value - Number(found!.values[i])) < 1e-6, `${rows} rows, at ${i}`);
    });
  }
  engine.dispose();
  await closeDevices();
});
