/** Files with changed and missing bytes: each is read, or refused with a DataError that names it. */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { DataError } from 'heddle';
import { imageFolder, parseTokenizer, readCsv, readImages, readParquet, readTokenizer } from 'heddle-data';
import sharp from 'sharp';
import { temporaryFolder, writePicture } from './image-files.js';

const folder = temporaryFolder();
const golden = (name: string): string =>
  fileURLToPath(new URL(`../../tests/golden/${name}`, import.meta.url));

const share = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
/** Up to three bytes changed; half of the files are cut as well. */
const damages = fc.record({
  edits: fc.array(fc.tuple(share, fc.nat(255)), { maxLength: 3 }),
  keep: fc.oneof(fc.constant(1), share),
});

/** Each damaged file goes to `read`, under the name `path`. */
async function damage(
  whole: Uint8Array,
  path: string,
  count: number,
  read: () => Promise<unknown>,
): Promise<void> {
  let refusals = 0;
  for (const { edits, keep } of fc.sample(damages, { numRuns: count, seed: 1 })) {
    const bytes = Uint8Array.from(whole);
    for (const [at, byte] of edits) bytes[Math.floor(at * bytes.length)] = byte;
    writeFileSync(path, bytes.subarray(0, Math.floor(keep * bytes.length)));
    try {
      await read();
    } catch (error) {
      assert.ok(error instanceof DataError, `${JSON.stringify({ edits, keep })}: ${(error as Error).stack}`);
      assert.ok(error.message.includes(basename(path)), error.message);
      refusals++;
    }
  }
  assert.ok(refusals > count / 5 && refusals < count, `${refusals} of ${count} were refused`);
}

for (const ending of ['jpg', 'png', 'webp'])
  test(`damaged .${ending} images`, async () => {
    const path = join(folder, ending, 'all', `x.${ending}`);
    mkdirSync(join(folder, ending, 'all'), { recursive: true });
    const raw = { width: 48, height: 32, channels: 3 } as const;
    const pixels = Uint8Array.from({ length: 48 * 32 * 3 }, (_, i) => (i * i) % 251);
    await sharp(pixels, { raw }).webp({ force: false }).toFile(path);
    const whole = readFileSync(path);
    const images = await imageFolder(join(folder, ending), { size: 16 });
    await damage(whole, path, 120, async () => {
      const [damaged] = await images.verify();
      if (damaged) throw damaged.error;
      assert.deepEqual((await readImages([path], images.format)).shape, [1, 3, 16, 16]);
    });
  });

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

test('damaged CSV files', () => {
  const path = join(folder, 'x.csv');
  const rows = Array.from({ length: 20 }, (_, i) => `${i / 4},"${'ab'[i % 2]}",${i % 3}\n`);
  return damage(Buffer.from(`x,kind,y\n${rows.join('')}`), path, 200, () => readCsv(path));
});

for (const codec of ['snappy', 'zstd'])
  test(`damaged Parquet files, ${codec}`, () => {
    const path = join(folder, `${codec}.parquet`);
    return damage(readFileSync(golden(`houses-${codec}.parquet`)), path, 150, () => readParquet(path));
  });

test('damaged tokenizers', () => {
  const path = join(folder, 'tokenizer.json');
  const [{ file }] = JSON.parse(readFileSync(golden('tokenizers.json'), 'utf8')).sets;
  const text = JSON.stringify(file);
  parseTokenizer(file);
  return damage(Buffer.from(text), path, 60, async () => (await readTokenizer(path)).encode('It was'));
});
