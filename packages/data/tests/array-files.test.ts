import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { tensor } from 'heddle';
import { saveTensors } from 'heddle/io';
import { readArrays } from 'heddle-data';
import { temporaryFolder } from './image-files.js';

test('arrays of npy, npz and IDX files are data sets', async () => {
  const folder = temporaryFolder();
  const at = (name: string): string => join(folder, name);
  const x = tensor([1, 2, 3, 4, 5, 6], { shape: [3, 2] });
  const y = tensor(Int32Array.of(0, 2, 1));
  await saveTensors(at('all.npz'), { x, y, wrong: tensor([0.5, 1, 2]) });
  await saveTensors(at('y.npy'), { y });
  writeFileSync(at('x.idx'), Uint8Array.of(0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2, 0, 51, 102, 153, 204, 255));
  const floats = await readArrays(`${at('all.npz')}#x`, at('y.npy'));
  assert.deepEqual([floats.inputShape, floats.classes, [...floats.labels]], [[2], 3, [0, 2, 1]]);
  assert.deepEqual(floats.inputs, Float32Array.of(1, 2, 3, 4, 5, 6));
  const bytes = await readArrays(at('x.idx'), `${at('all.npz')}#y`, {
    classes: 5,
    normalize: { mean: 0.5, std: 2 },
  });
  const inputs = new Float32Array(2);
  bytes.batchInto([1], inputs, new Int32Array(1));
  assert.deepEqual(
    [...inputs],
    [102, 153].map((byte) => Math.fround((byte / 255 - 0.5) / 2)),
  );
  await assert.rejects(
    readArrays(at('all.npz'), at('y.npy')),
    /has no array 'array'\. Name one of these after #: /,
  );
  await assert.rejects(
    readArrays(at('x.idx'), `${at('all.npz')}#wrong`),
    /has the shape \(3\) and the value 0\.5, must be/,
  );
  await assert.rejects(
    readArrays(at('y.npy'), `${at('all.npz')}#x`),
    /has the shape \(3,2\), must be \(N\) whole/,
  );
  await assert.rejects(readArrays(at('none.npy'), at('y.npy')), { name: 'FileError' });
});
