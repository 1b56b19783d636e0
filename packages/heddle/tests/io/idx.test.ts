import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { FileError } from '../../src/core/errors.js';
import { parseIdx, readIdx } from '../../src/io/idx.js';
import { property } from '../property.js';

/** The bytes of an IDX file. */
function idx(code: number, shape: readonly number[], data: readonly number[]): Uint8Array {
  const sizes = shape.flatMap((d) => [d >>> 24, (d >>> 16) & 255, (d >>> 8) & 255, d & 255]);
  return Uint8Array.from([0, 0, code, shape.length, ...sizes, ...data]);
}

const images = idx(0x08, [2, 2, 3], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255]);

async function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'heddle-idx-'));
  try {
    await use(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

test('bytes are read with their shape, without a copy', () => {
  const { shape, elements } = parseIdx(images);
  assert.deepEqual(shape, [2, 2, 3]);
  assert.deepEqual([...elements], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255]);
  assert.equal(elements.buffer, images.buffer);
});

test('every element type is read from big-endian', () => {
  assert.deepEqual([...parseIdx(idx(0x09, [2], [0xff, 0x80])).elements], [-1, -128]);
  assert.deepEqual([...parseIdx(idx(0x0b, [2], [0x01, 0x02, 0xff, 0xfe])).elements], [258, -2]);
  assert.deepEqual([...parseIdx(idx(0x0c, [1], [0xff, 0xff, 0xff, 0xfd])).elements], [-3]);
  assert.deepEqual([...parseIdx(idx(0x0d, [1], [0x3f, 0xc0, 0, 0])).elements], [1.5]);
  assert.deepEqual([...parseIdx(idx(0x0e, [1], [0xc0, 0x04, 0, 0, 0, 0, 0, 0])).elements], [-2.5]);
});

test('what is wrong with the bytes is said, with what was expected', () => {
  const cases: [Uint8Array, RegExp][] = [
    [new Uint8Array(3), /truncated: 3 bytes, an IDX file has at least 4/],
    [Uint8Array.from([0x89, 0x50, 0x4e, 0x47]), /starts with 89 50 4e 47, expected 00 00/],
    [new TextEncoder().encode('<html>'), /looks like a web page/],
    [idx(0x07, [1], [0]), /unknown IDX type code 07, expected one of 0x08 0x09/],
    [idx(0x08, [], []), /has 0 dimensions, expected 1 to 8/],
    [Uint8Array.from([0, 0, 8, 2, 0, 0, 0, 1]), /truncated: 8 bytes, its header alone has 12/],
    [images.subarray(0, 20), /truncated: 20 bytes, expected 28 for a header of 16 and shape \(2,2,3\)/],
    [Uint8Array.from([...images, 0]), /has trailing bytes: 29 bytes, expected 28/],
    [idx(0x0e, [0xffffffff, 0xffffffff, 0xffffffff], []), /truncated: 16 bytes, expected 6\.\d+e\+29/],
  ];
  for (const [bytes, message] of cases) {
    assert.throws(
      () => parseIdx(bytes, 'some/file'),
      (error: unknown) => {
        assert(error instanceof FileError);
        assert.equal(error.code, 'HEDDLE_FILE');
        assert.equal(error.path, 'some/file');
        assert.match(error.message, message);
        return true;
      },
    );
  }
});

test('files are read plain and gzipped, whatever their name', () =>
  inFolder(async (folder) => {
    const expected = parseIdx(images);
    for (const [name, bytes] of [
      ['plain', images],
      ['zipped.gz', gzipSync(images)],
      ['named-wrong', gzipSync(images)],
    ] as const) {
      const path = join(folder, name);
      await writeFile(path, bytes);
      assert.deepEqual(await readIdx(path), expected);
    }
  }));

test('missing files, folders and damaged gzip data are FileErrors', () =>
  inFolder(async (folder) => {
    await assert.rejects(readIdx(join(folder, 'nothing')), { code: 'HEDDLE_FILE', message: /no such file/ });
    await assert.rejects(readIdx(folder), { code: 'HEDDLE_FILE', message: /is a folder/ });
    const zipped = gzipSync(images);
    const path = join(folder, 'damaged.gz');
    const truncated = zipped.subarray(0, zipped.length - 9);
    const flipped = Uint8Array.from(zipped, (byte, i) => (i === zipped.length - 6 ? byte ^ 1 : byte));
    for (const bytes of [truncated, flipped]) {
      await writeFile(path, bytes);
      await assert.rejects(readIdx(path), {
        code: 'HEDDLE_FILE',
        message: /damaged gzip data \(.+get it again/s,
      });
    }
  }));

const header = fc.tuple(fc.constantFrom(0, 1), fc.constantFrom(0, 8, 9, 11, 12, 13, 14), fc.nat(9));
const plausible = fc
  .tuple(header, fc.uint8Array({ maxLength: 64 }))
  .map(([[zero, code, rank], rest]) => Uint8Array.from([zero, 0, code, rank, ...rest]));
property(
  'any bytes give an array or a FileError',
  [fc.oneof(fc.uint8Array({ maxLength: 64 }), plausible)],
  (bytes) => {
    try {
      const { shape, elements } = parseIdx(bytes);
      assert.equal(
        elements.length,
        shape.reduce((n, d) => n * d, 1),
      );
    } catch (error) {
      assert(error instanceof FileError, String(error));
    }
  },
  { runs: 1000 },
);

test('a file cut anywhere is refused', () => {
  for (let length = 0; length < images.length; length++) {
    assert.throws(() => parseIdx(images.subarray(0, length)), FileError);
  }
});

const zipped = gzipSync(images);
property(
  'a gzipped file cut or with a flipped bit anywhere is read whole or refused',
  [fc.nat(zipped.length - 1), fc.nat(7), fc.boolean()],
  (at, bit, cut) =>
    inFolder(async (folder) => {
      const path = join(folder, 'file.gz');
      const bytes = cut
        ? zipped.subarray(0, at)
        : Uint8Array.from(zipped, (b, i) => (i === at ? b ^ (1 << bit) : b));
      await writeFile(path, bytes);
      try {
        assert.deepEqual(await readIdx(path), parseIdx(images));
      } catch (error) {
        assert(error instanceof FileError, String(error));
      }
    }),
  { runs: 200 },
);
