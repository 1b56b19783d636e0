import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { DTYPES, type DTypeName } from '../../src/core/dtype.js';
import { FileError } from '../../src/core/errors.js';
import {
  encodeSafetensors,
  parseSafetensors,
  readSafetensors,
  type StoredTensors,
  writeSafetensors,
} from '../../src/io/safetensors.js';
import { property } from '../property.js';

const join1 = (parts: readonly Uint8Array[]): Uint8Array =>
  Uint8Array.from(parts.flatMap((part) => [...part]));

/** A file with this header and this many bytes of data. */
function file(header: unknown, dataBytes = 0): Uint8Array {
  const json = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header));
  const bytes = new Uint8Array(8 + json.length + dataBytes);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(json.length), true);
  bytes.set(json, 8);
  return bytes;
}

const entry = (shape: unknown, begin: unknown, end: unknown, dtype = 'F32'): object => ({
  dtype,
  shape,
  data_offsets: [begin, end],
});

const two: StoredTensors = {
  bytes: { dtype: 'u8', shape: [3], data: Uint8Array.of(7, 8, 9) },
  'fc.weight': { dtype: 'f32', shape: [1, 2], data: new Uint8Array(Float32Array.of(1.5, -2).buffer) },
};

test('the bytes are those of the format', () => {
  const bytes = join1(encodeSafetensors(two, { format: 'heddle' }));
  const json =
    '{"__metadata__":{"format":"heddle"},"fc.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},' +
    '"bytes":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}}';
  const length = Math.ceil(json.length / 8) * 8;
  assert.equal(new DataView(bytes.buffer).getBigUint64(0, true), BigInt(length));
  assert.equal(new TextDecoder().decode(bytes.subarray(8, 8 + length)), json.padEnd(length));
  assert.deepEqual([...bytes.subarray(8 + length)], [0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0, 7, 8, 9]);
});

const storedTensors = fc
  .dictionary(
    fc.string({ minLength: 1, maxLength: 12 }).filter((name) => name !== '__metadata__'),
    fc.tuple(fc.constantFrom(...(Object.keys(DTYPES) as DTypeName[])), fc.array(fc.nat(3), { maxLength: 4 })),
    { maxKeys: 6 },
  )
  .map((described) =>
    Object.fromEntries(
      Object.entries(described).map(([name, [dtype, shape]]) => {
        const bytes = shape.reduce((n, d) => n * d, 1) * DTYPES[dtype].bytes;
        const data = Uint8Array.from({ length: bytes }, (_, i) =>
          dtype === 'bool' ? i & 1 : (i * 37) & 255,
        );
        return [name, { dtype, shape, data }];
      }),
    ),
  );

property(
  'what is written is read: every dtype, any name, scalars and empty tensors',
  [storedTensors, fc.dictionary(fc.string(), fc.string())],
  (tensors, metadata) => {
    const read = parseSafetensors(join1(encodeSafetensors(tensors, metadata)));
    const plain = (record: object): object => Object.fromEntries(Object.entries(record));
    assert.deepEqual(plain(read.tensors), plain(tensors));
    assert.deepEqual(plain(read.metadata), plain(metadata));
  },
  { runs: 300 },
);

test('what is wrong with the bytes is said, with what was expected', () => {
  const huge = new Uint8Array(16).fill(0xff);
  const cases: [Uint8Array, RegExp][] = [
    [new Uint8Array(5), /truncated: 5 bytes, a safetensors file has at least 8/],
    [huge, /a header of 18446744073709551615 bytes, at most 100000000/],
    [file('{}').subarray(0, 9), /truncated: 9 bytes, its header alone ends at 10/],
    [file('[]'), /header does not start with "\{"/],
    [file(''), /header does not start with "\{"/],
    [file('{"a":'), /header is not valid JSON/],
    [file({ __metadata__: { epoch: 3 } }), /__metadata__ "epoch" is 3, expected a string/],
    [file({ __metadata__: [] }), /__metadata__ is not a JSON object/],
    [file({ w: 1 }), /tensor "w" is not described by a JSON object/],
    [file({ w: entry([1], 0, 1, 'F8_E4M3') }, 1), /dtype "F8_E4M3", expected one of F16 BF16 F32/],
    [file({ w: entry([-1], 0, 4) }, 4), /shape \[-1\], expected a list of sizes/],
    [file({ w: entry([1.5], 0, 4) }, 4), /shape \[1\.5\], expected/],
    [file({ w: { dtype: 'F32', shape: [1] } }, 4), /data_offsets undefined, expected \[begin, end\]/],
    [file({ w: entry([1], 4, 0) }, 4), /data_offsets \[4, 0\], outside the file's 4 bytes/],
    [file({ w: entry([2], 0, 8) }, 4), /data_offsets \[0, 8\], outside the file's 4 bytes/],
    [file({ w: entry([3], 0, 8) }, 8), /tensor "w" has 8 bytes, expected 12 for f32 \(3\)/],
    [
      file({ a: entry([2], 0, 8), b: entry([1], 4, 8) }, 8),
      /tensor "b" begins at 4, inside the one before it/,
    ],
    [file({ a: entry([1], 0, 4), b: entry([1], 8, 12) }, 12), /bytes 4 to 8 belong to no tensor/],
    [file({ a: entry([1], 0, 4) }, 6), /bytes 4 to 6 belong to no tensor/],
    [file({ a: entry([9007199254740991, 9007199254740991], 0, 4) }, 4), /has 4 bytes, expected 3\.\d+e\+32/],
    [
      Uint8Array.from([...file({ b: entry([1], 0, 1, 'BOOL') }), 2]),
      /"b" is BOOL and holds bytes other than 0 and 1/,
    ],
  ];
  for (const [bytes, message] of cases) {
    assert.throws(
      () => parseSafetensors(bytes, 'w.safetensors'),
      (error: unknown) => {
        assert(error instanceof FileError, String(error));
        assert.match(error.message, /^w\.safetensors: /);
        assert.match(error.message, message);
        return true;
      },
    );
  }
});

const valid = join1(encodeSafetensors(two, { format: 'heddle' }));
const damaged = fc
  .tuple(fc.nat(valid.length - 1), fc.nat(7), fc.boolean())
  .map(([at, bit, cut]) =>
    cut ? valid.slice(0, at) : Uint8Array.from(valid, (byte, i) => (i === at ? byte ^ (1 << bit) : byte)),
  );
const anyHeader = fc.json().map((json) => file(json, 8));
property(
  'any bytes, and any file with a flipped bit or cut short, give tensors or a FileError',
  [fc.oneof(damaged, anyHeader, fc.uint8Array({ maxLength: 64 }))],
  (bytes) => {
    try {
      for (const tensor of Object.values(parseSafetensors(bytes).tensors)) {
        assert.equal(
          tensor.data.length,
          tensor.shape.reduce((n, d) => n * d, 1) * DTYPES[tensor.dtype].bytes,
        );
      }
    } catch (error) {
      assert(error instanceof FileError, String(error));
    }
  },
  { runs: 2000 },
);

test('tensors that do not match their shape are not written', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'heddle-safetensors-'));
  try {
    const path = join(folder, 'w.safetensors');
    const wrong: StoredTensors = { w: { dtype: 'f32', shape: [2], data: new Uint8Array(4) } };
    await assert.rejects(writeSafetensors(path, wrong), {
      code: 'HEDDLE_FILE',
      message: /tensor "w" has 4 bytes, expected 8 for f32 \(2\)/,
    });
    await assert.rejects(
      writeSafetensors(path, { __metadata__: two.bytes! }),
      /may not be named __metadata__/,
    );
    assert.deepEqual(await readdir(folder), []);
    await writeSafetensors(path, two, { epoch: '3' });
    const { tensors, metadata } = await readSafetensors(path);
    assert.deepEqual(new Set(Object.keys(tensors)), new Set(['bytes', 'fc.weight']));
    assert.deepEqual(metadata, { epoch: '3' });
    assert.deepEqual(await readdir(folder), ['w.safetensors']);
  } finally {
    await rm(folder, { recursive: true });
  }
});
