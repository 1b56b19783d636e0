/** NumPy's and PyTorch's files, as they write them (golden/files.py), and tensors by name in a file. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { DTYPES, type DTypeName } from '../../src/core/dtype.js';
import { FileError } from '../../src/core/errors.js';
import * as H from '../../src/index.js';
import { encodeNpy, encodeNpz, parseNpy, parseNpz, parseTorch } from '../../src/io/index.js';
import { property } from '../property.js';

const golden = (name: string): string =>
  new URL(`../../../tests/golden/files/${name}`, import.meta.url).pathname;
const bytesOf = (name: string): Uint8Array => new Uint8Array(readFileSync(golden(name)));
const folder = mkdtempSync(join(tmpdir(), 'heddle-files-'));
after(() => rmSync(folder, { recursive: true }));

const read = async (name: string): Promise<Record<string, unknown>> => {
  const { tensors } = await H.io.loadTensors(golden(name));
  const entries = Object.entries(tensors).map(async ([key, t]) => [key, [t.dtype.name, await t.array()]]);
  return Object.fromEntries(await Promise.all(entries)) as Record<string, unknown>;
};
const rows = [
  [-1, 0, 1],
  [2, 3, 4],
];

test('.npy files of each dtype, of a scalar, by columns and empty', async () => {
  for (const [name, dtype] of Object.entries({
    float16: 'f16',
    float32: 'f32',
    float64: 'f64',
    int32: 'i32',
  }))
    assert.deepEqual(await read(`${name}.npy`), { array: [dtype, rows] }, name);
  const bools = rows.map((row) => row.map((v) => v !== 0));
  assert.deepEqual(await read('bool.npy'), { array: ['bool', bools] });
  assert.deepEqual(await read('uint8.npy'), { array: ['u8', [[255, 0, 1], rows[1]]] });
  assert.deepEqual(await read('int64.npy'), { array: ['i64', rows] });
  assert.deepEqual(await read('scalar.npy'), { array: ['f32', 2.5] });
  assert.deepEqual(await read('empty.npy'), { array: ['f32', []] });
  const columns = (await H.io.loadTensors(golden('columns.npy'))).tensors.array!;
  assert.deepEqual(columns.shape, [2, 3, 4]);
  assert.deepEqual([...(await columns.data())].map(Number), [...Array(24).keys()]);
});

test('.npz files, plain and compressed', async () => {
  assert.deepEqual(await read('two.npz'), {
    a: ['f32', [0, 1, 2]],
    b: [
      'f64',
      [
        [1, 0],
        [0, 1],
      ],
    ],
  });
  assert.equal((await H.io.loadTensors(golden('compressed.npz'))).tensors.zeros!.size, 10000);
});

test('files of torch.save: views, dtypes and what lies beside the tensors', async () => {
  const found = await read('checkpoint.pt');
  const whole = [
    [0, 1, 2, 3],
    [4, 5, 6, 7],
    [8, 9, 10, 11],
  ];
  const expected = {
    rows: ['f32', whole],
    transposed: ['f32', [0, 1, 2, 3].map((j) => whole.map((row) => row[j]))],
    part: ['f32', [6, 10]],
    half: ['f16', [1.5, -2]],
    brain: ['bf16', [1.5, -2]],
    long: ['i64', [2 ** 40, -1]],
    bool: ['bool', [true, false]],
    scalar: ['f32', 7],
    empty: ['f32', []],
    parameter: ['f32', [1, 1]],
  };
  const named = Object.entries(expected).map(([name, value]) => [`state_dict.${name}`, value]);
  assert.deepEqual(found, Object.fromEntries(named));
});

test('a PyTorch model by its own names', async () => {
  class Model extends H.nn.Module {
    readonly 0 = new H.nn.Linear(3, 2);
    readonly 1 = new H.nn.BatchNorm1d(2);
    forward(): void {}
  }
  const model = new Model();
  await H.loadWeights(model, golden('model.pth'));
  const state = model.stateDict();
  assert.deepEqual(await state['1.runningVar']!.array(), [50, 51]);
  assert.deepEqual(await state['0.weight']!.array(2), [
    [0, 1, 2],
    [3, 4, 5],
  ]);
  const part = new H.nn.Sequential(new H.nn.Linear(3, 2));
  const rename = (name: string): string | undefined => (name.startsWith('0.') ? name : undefined);
  await H.loadWeights(part, golden('model.pth'), { rename });
  const bare = new H.nn.Linear(3, 2);
  await H.loadWeights(bare, golden('model.pth'), { prefix: '0.' });
  assert.deepEqual(await bare.bias!.array(), [10, 11]);
  await assert.rejects(
    H.loadWeights(bare, golden('model.pth')),
    /Missing: weight, bias\. Unexpected: 0\.weight/,
  );
});

test('nothing in a file is run, and what is not understood is refused', () => {
  const refused = (name: string, message: RegExp): void => {
    assert.throws(() => parseTorch(bytesOf(name), name), { name: 'FileError', message });
  };
  refused('evil.pth', /it calls (__builtin__|builtins)\.print, which is not a tensor or a dictionary/);
  refused('module.pth', /it calls .*Linear, which is not a tensor/);
  refused('old.pth', /not a zip file, as torch.save writes it since PyTorch 1.6/);
  refused('two.npz', /it has no data.pkl/);
  assert.throws(() => parseNpy(bytesOf('big-endian.npy')), /elements are '>f4', expected one of/);
  assert.throws(() => encodeNpy({ dtype: 'bf16', shape: [1], data: new Uint8Array(2) }), /NumPy has no bf16/);
});

test('shards of safetensors, and an index that leaves its folder', async () => {
  const tensors = { a: H.arange(4), b: H.ones([2, 3]), c: H.tensor(BigInt64Array.of(1n)) };
  const path = join(folder, 'model.safetensors');
  await H.io.saveTensors(path, tensors, { maxShardBytes: 20, metadata: { of: 'a test' } });
  assert.deepEqual(readdirSync(folder).sort(), [
    'model-00001-of-00003.safetensors',
    'model-00002-of-00003.safetensors',
    'model-00003-of-00003.safetensors',
    'model.safetensors.index.json',
  ]);
  const { tensors: found, metadata } = await H.io.loadTensors(`${path}.index.json`);
  assert.deepEqual(Object.keys(found), ['a', 'b', 'c']);
  assert.deepEqual(await found.b!.array(), await tensors.b.array());
  assert.deepEqual(metadata, { of: 'a test' });
  const index = join(folder, 'evil.safetensors.index.json');
  for (const file of ['../model.safetensors', '..', 3]) {
    writeFileSync(index, JSON.stringify({ weight_map: { a: file } }));
    await assert.rejects(H.io.loadTensors(index), /expected a file name/);
  }
  writeFileSync(index, JSON.stringify({ weight_map: { z: 'model-00001-of-00003.safetensors' } }));
  await assert.rejects(H.io.loadTensors(index), /has no tensor "z"/);
  await assert.rejects(H.io.loadTensors(join(folder, 'x.h5')), /'x.h5' must end in one of/);
});

const DTYPE_NAMES = (Object.keys(DTYPES) as DTypeName[]).filter((name) => name !== 'bf16');

property(
  '.npz gives back what was written',
  [
    fc.dictionary(
      fc.string({ minLength: 1, maxLength: 8 }).filter((name) => !/\/$|^__proto__$|\.npy$/.test(name)),
      fc.tuple(fc.constantFrom(...DTYPE_NAMES), fc.array(fc.nat(3), { maxLength: 3 })),
      { maxKeys: 4 },
    ),
  ],
  (described) => {
    const tensors = Object.fromEntries(
      Object.entries(described).map(([name, [dtype, shape]]) => {
        const size = shape.reduce((n, d) => n * d, 1) * DTYPES[dtype].bytes;
        return [name, { dtype, shape, data: new Uint8Array(size).map((_, i) => i % 2) }];
      }),
    );
    assert.deepEqual(parseNpz(encodeNpz(tensors)), tensors);
  },
);

const files = ['float32.npy', 'columns.npy', 'two.npz', 'compressed.npz', 'checkpoint.pt', 'model.pth'];
property(
  'damaged files of NumPy and PyTorch are FileErrors, never anything else',
  [
    fc.constantFrom(...files),
    fc.array(fc.tuple(fc.nat(5000), fc.nat(255)), { minLength: 1, maxLength: 4 }),
    fc.option(fc.nat(5000)),
  ],
  (name, flips, cut) => {
    const bytes = bytesOf(name);
    for (const [at, value] of flips) bytes[at % bytes.length] = value;
    const damaged = cut === null ? bytes : bytes.subarray(0, cut % bytes.length);
    const parse = name.endsWith('.npy') ? parseNpy : name.endsWith('.npz') ? parseNpz : parseTorch;
    try {
      parse(damaged);
    } catch (error) {
      assert.ok(error instanceof FileError, `${name}: ${(error as Error).stack}`);
    }
  },
);
