import assert from 'node:assert/strict';
import { cp, mkdir, mkdtemp, readFile, realpath, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { DataError, FileError } from '../../src/core/errors.js';
import { findImages, loadImages } from '../../src/data/index.js';
import { property } from '../property.js';

const place = await mkdtemp(join(tmpdir(), 'heddle-cifar-'));
const before = process.cwd();
process.chdir(place);
after(async () => {
  process.chdir(before);
  await rm(place, { recursive: true });
});

/** Image i has class i mod `classes`, and the pixels i, i + 1, …, modulo 256; the labels before it are 7, 7, …, its class. */
function rows(begin: number, count: number, labels: number, classes: number): Uint8Array {
  const row = labels + 3072;
  const bytes = new Uint8Array(count * row).fill(7);
  for (let i = 0; i < count; i++) {
    bytes[i * row + labels - 1] = (begin + i) % classes;
    for (let p = 0; p < 3072; p++) bytes[i * row + labels + p] = begin + i + p;
  }
  return bytes;
}

const CIFAR10 = {
  ...Object.fromEntries([0, 1, 2, 3, 4].map((i) => [`data_batch_${i + 1}.bin`, rows(3 * i, 3, 1, 10)])),
  'test_batch.bin': rows(100, 2, 1, 10),
};
const CIFAR100 = { 'train.bin': rows(0, 4, 2, 100), 'test.bin': rows(50, 2, 2, 100) };

async function write(folder: string, files: Readonly<Record<string, Uint8Array>>): Promise<string> {
  const path = join(place, folder);
  await mkdir(path, { recursive: true });
  for (const [name, bytes] of Object.entries(files)) await writeFile(join(path, name), bytes);
  return path;
}

/** As `tar` writes it. */
function archive(folder: string, files: Readonly<Record<string, Uint8Array>>): Uint8Array {
  const blocks = Object.entries({ '': new Uint8Array(0), ...files }).flatMap(([name, bytes]) => {
    const header = Buffer.alloc(512);
    header.write(`${folder}/${name}`, 0);
    header.write(`${bytes.length.toString(8).padStart(11, '0')}\0`, 124);
    header.write(' '.repeat(8), 148);
    header.write(name === '' ? '5' : '0', 156);
    header.write('ustar\x0000', 257);
    header.write(
      `${header
        .reduce((sum, byte) => sum + byte, 0)
        .toString(8)
        .padStart(6, '0')}\0 `,
      148,
    );
    return [header, bytes, new Uint8Array((512 - (bytes.length % 512)) % 512)];
  });
  return Buffer.concat([...blocks, new Uint8Array(1024)]);
}

test('CIFAR-10 and CIFAR-100, from a folder, by name, and from the archive', async () => {
  assert.equal(findImages('cifar10'), undefined);
  const folder = await write('data/cifar-10-batches-bin', CIFAR10);
  assert.equal(resolve(findImages('cifar10')!), await realpath(folder));
  const byName = await loadImages('cifar10');
  const { train, test: held, classes } = byName;
  assert.deepEqual([train.length, held.length, train.inputShape, classes[3]], [15, 2, [3, 32, 32], 'cat']);
  assert.deepEqual([...train.labels], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4]);
  for (const image of [0, 14])
    assert.deepEqual(
      [...(train.inputs as Uint8Array).subarray(3072 * image, 3072 * image + 3)],
      [image, image + 1, image + 2],
    );
  // Each channel by its own mean.
  const inputs = new Float32Array(3072);
  train.batchInto([0], inputs, new Int32Array(1));
  [0.4914, 0.4822, 0.4465].forEach((mean, channel) => {
    const std = [0.247, 0.2435, 0.2616][channel]!;
    assert.equal(inputs[1024 * channel + 5], Math.fround((5 / 255 - mean) / std));
  });
  await writeFile('cifar-10-binary.tar.gz', gzipSync(archive('cifar-10-batches-bin', CIFAR10)));
  const packed = await loadImages(join(place, 'cifar-10-binary.tar.gz'));
  assert.deepEqual([packed.train.inputs, packed.test.labels], [train.inputs, held.labels]);
  const hundred = await loadImages(await write('hundred', CIFAR100));
  assert.deepEqual([...hundred.train.labels, ...hundred.test.labels], [0, 1, 2, 3, 50, 51]);
  assert.deepEqual([hundred.classes.length, hundred.classes[99]], [100, 'worm']);
});

test('damaged files are named, and what is not here says how to get it', async () => {
  const good = await write('good', CIFAR10);
  const damaged = async (damage: (folder: string) => Promise<void>, message: RegExp): Promise<void> => {
    const folder = join(place, 'damaged');
    await rm(folder, { recursive: true, force: true });
    await cp(good, folder, { recursive: true });
    await damage(folder);
    await assert.rejects(loadImages(folder), { message });
  };
  await damaged(
    (folder) => truncate(join(folder, 'data_batch_3.bin'), 5000),
    /data_batch_3\.bin.*has 5000 bytes, must have 3073 for each image/,
  );
  await damaged(
    (folder) => writeFile(join(folder, 'data_batch_2.bin'), rows(8, 4, 1, 12)),
    /data_batch_2\.bin: label 10 of image 2 is outside the classes: expected 0 to 9/,
  );
  await assert.rejects(loadImages('cifar100'), {
    code: 'HEDDLE_FILE',
    message:
      /not found on this machine\. Get it with: curl -LO .*cifar-100-binary\.tar\.gz.*train\.bin, test\.bin/,
  });
  const packed = archive('x', CIFAR100);
  const path = join(place, 'cifar-100-binary.tar.gz');
  for (const [bytes, message] of [
    [packed.subarray(0, 6000), /ends within 'x\/train\.bin', after 6000 bytes/],
    [
      packed.map((byte, i) => (i === 530 ? 1 : byte)),
      /is not a whole tar archive: byte 512 begins no header/,
    ],
    [archive('x', { 'train.bin': CIFAR100['train.bin'] }), /has no test\.bin/],
    [(await readFile(join(good, 'test_batch.bin'))).subarray(1), /is not a whole tar archive: byte 0/],
  ] as const) {
    await writeFile(path, bytes);
    await assert.rejects(loadImages(path), { code: 'HEDDLE_FILE', message });
  }
});

const archived = archive('x', CIFAR100);
property(
  'an archive of CIFAR-100 that is cut, or has changed bytes, is read or refused by name',
  [
    fc.array(fc.tuple(fc.nat(archived.length - 1), fc.nat(255)), { maxLength: 3 }),
    fc.oneof(fc.constant(archived.length), fc.nat(archived.length)),
    fc.boolean(),
  ],
  async (edits, keep, isZipped) => {
    const path = join(place, 'cifar-100-binary.tar.gz');
    const bytes = Uint8Array.from(isZipped ? gzipSync(archived) : archived);
    for (const [at, byte] of edits) bytes[at % bytes.length] = byte;
    await writeFile(path, bytes.subarray(0, keep));
    try {
      const { train } = await loadImages(path);
      assert.equal(train.inputs.length, 3072 * train.length);
    } catch (error) {
      assert.ok(error instanceof FileError || error instanceof DataError, (error as Error).stack);
      assert.match((error as Error).message, /cifar-100-binary\.tar\.gz/);
    }
  },
);
