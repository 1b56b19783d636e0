/** Files with changed and missing bytes: each is read, or refused with an error that names it. */
import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { DataError, FileError, tensor } from 'heddle';
import { saveTensors } from 'heddle/io';
import { imageFolder, readArrays, readCsv, readImages, readParquet, readTokenizer } from 'heddle-data';
import sharp from 'sharp';
import { temporaryFolder, writePicture } from './image-files.js';
import { property } from './property.js';

const folder = temporaryFolder();
const golden = (name: string): string =>
  fileURLToPath(new URL(`../../tests/golden/${name}`, import.meta.url));

const share = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
/** Up to three bytes changed, by how far into the file they are and what they become. */
const edits = fc.array(fc.tuple(share, fc.nat(255)), { maxLength: 3 });
/** What is left of the file: half of them are cut. */
const keep = fc.oneof(fc.constant(1), share);

/** @param prepare writes the whole file to `path`; what it returns reads the file, which is damaged by then */
function damaged(
  what: string,
  path: string,
  runs: number,
  prepare: () => Promise<() => Promise<unknown>>,
): void {
  let prepared: Promise<{ readonly whole: Uint8Array; readonly read: () => Promise<unknown> }> | undefined;
  property(
    `damaged ${what} are read, or refused by name`,
    [edits, keep],
    async (edits, keep) => {
      prepared ??= prepare().then((read) => ({ whole: readFileSync(path), read }));
      const { whole, read } = await prepared;
      const bytes = Uint8Array.from(whole);
      for (const [at, byte] of edits) bytes[Math.floor(at * bytes.length)] = byte;
      writeFileSync(path, bytes.subarray(0, Math.floor(keep * bytes.length)));
      try {
        await read();
      } catch (error) {
        assert.ok(error instanceof DataError || error instanceof FileError, (error as Error).stack);
        assert.ok(error.message.includes(basename(path)), error.message);
      }
    },
    { runs },
  );
}

for (const ending of ['jpg', 'png', 'webp']) {
  const path = join(folder, ending, 'all', `x.${ending}`);
  damaged(`.${ending} images`, path, 120, async () => {
    mkdirSync(dirname(path), { recursive: true });
    const raw = { width: 48, height: 32, channels: 3 } as const;
    const pixels = Uint8Array.from({ length: 48 * 32 * 3 }, (_, i) => (i * i) % 251);
    await sharp(pixels, { raw }).webp({ force: false }).toFile(path);
    const images = await imageFolder(join(folder, ending), { size: 16 });
    return async () => {
      const [image] = await images.verify();
      if (image) throw image.error;
      assert.deepEqual((await readImages([path], images.format)).shape, [1, 3, 16, 16]);
    };
  });
}

test('the reason is the own one of each image, also when many fail at a time', async () => {
  const root = join(folder, 'cut');
  mkdirSync(join(root, 'all'), { recursive: true });
  for (const ending of ['jpg', 'png']) {
    const path = await writePicture(join(root, `whole.${ending}`), {
      width: 48,
      height: 32,
      at: (x, y) => x * y,
    });
    const whole = readFileSync(path);
    for (let i = 0; i < 30; i++)
      writeFileSync(join(root, 'all', `${i}.${ending}`), whole.subarray(0, whole.length - 20 - i));
  }
  const damaged = await (await imageFolder(root, { size: 16 })).verify();
  assert.equal(damaged.length, 60);
  for (const { path, error } of damaged)
    assert.match(error.message, path.endsWith('jpg') ? /premature end of JPEG image/ : /libpng read error/);
});

const csv = join(folder, 'x.csv');
damaged('CSV files', csv, 200, async () => {
  const rows = Array.from({ length: 20 }, (_, i) => `${i / 4},"${'ab'[i % 2]}",${i % 3}\n`);
  writeFileSync(csv, `x,kind,y\n${rows.join('')}`);
  return () => readCsv(csv);
});

for (const codec of ['snappy', 'zstd']) {
  const path = join(folder, `${codec}.parquet`);
  damaged(`Parquet files (${codec})`, path, 150, async () => {
    copyFileSync(golden(`houses-${codec}.parquet`), path);
    return () => readParquet(path);
  });
}

for (const ending of ['npz', 'npy', 'idx', 'idx.gz']) {
  const path = join(folder, `x.${ending}`);
  const labels = join(folder, `labels-${ending}.npy`);
  damaged(`.${ending} arrays`, path, 100, async () => {
    await saveTensors(labels, { y: tensor(Int32Array.of(0, 2, 1)) });
    const array = tensor([1, 2, 3, 4, 5, 6], { shape: [3, 2] });
    const idx = Uint8Array.of(0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2, 0, 51, 102, 153, 204, 255);
    if (ending.startsWith('np')) await saveTensors(path, { array });
    else writeFileSync(path, ending === 'idx' ? idx : gzipSync(idx));
    return () => readArrays(path, labels);
  });
}

const tokenizer = join(folder, 'tokenizer.json');
damaged('tokenizers', tokenizer, 60, async () => {
  const [{ file }] = JSON.parse(readFileSync(golden('tokenizers.json'), 'utf8')).sets;
  writeFileSync(tokenizer, JSON.stringify(file));
  return async () => (await readTokenizer(tokenizer)).encode('It was');
});
