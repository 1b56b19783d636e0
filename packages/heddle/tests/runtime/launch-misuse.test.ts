/** Launches that must be refused, by launch and simulate alike, with what to do instead. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ArgumentError,
  allocate,
  buffer,
  f32,
  i32,
  i64,
  jit,
  kernel,
  type Tensor,
  tensor,
  useDevice,
  zeros,
} from '../../src/index.js';

/** As JavaScript does, without types. */
// biome-ignore lint/suspicious/noExplicitAny: what TypeScript would refuse
const any = (value: unknown): any => value;

const saxpy = kernel(
  'saxpy',
  { a: f32, x: buffer(f32), y: buffer(f32), n: i32 },
  ({ a, x, y, n }, { globalId }) => {
    const i = globalId.x;
    if (i < n) y[i] = a * x[i]! + y[i]!;
  },
);

/** What a launch and a simulation say, which must be the same; with what `launch` returns, never thrown. */
async function refused(config: unknown, args: Record<string, unknown> = {}): Promise<string> {
  const memory = { x: new Float32Array(3), y: new Float32Array(3) };
  const launched = saxpy.launch(any(config), any({ a: 1, x: zeros([3]), y: zeros([3]), n: 3, ...args }));
  const error = await launched.then(
    () => undefined,
    (e: unknown) => e,
  );
  assert.ok(error instanceof Error, 'launch accepts it');
  // Only launch has streams.
  const message = error.message.replace(', stream', '');
  assert.throws(() => saxpy.simulate(any(config), any({ a: 1, ...memory, n: 3, ...args })), {
    name: error.name,
    message,
  });
  return `${error.name}: ${message}`;
}

test('sizes that no GPU takes are refused everywhere', async () => {
  useDevice('cpu');
  const rows: readonly (readonly [unknown, RegExp])[] = [
    [undefined, /\[saxpy\] options is undefined, must be an object\. Options: grid, block/],
    [{ grid: 1 }, /\[saxpy\] block is missing: pass \{ grid: 4, block: 256 \}/],
    [{ block: 32 }, /\[saxpy\] grid is missing/],
    [
      { grid: 0, block: 32 },
      /grid \(0, 1, 1\): one to three whole numbers ≥ 1\. Where there is nothing to do/,
    ],
    [{ grid: 1, block: 1.5 }, /block \(1\.5, 1, 1\): one to three whole numbers ≥ 1\./],
    [{ grid: '4', block: 32 }, /grid \('4', 1, 1\): one to three whole numbers/],
    [{ grid: [1, 2, 3, 4], block: 32 }, /grid \(1, 2, 3, 4\): one to three whole numbers/],
    [
      { grid: 1, block: 2048 },
      /block \(2048, 1, 1\) has 2048 threads: a GPU's has at most 1024, and 64 along z/,
    ],
    [{ grid: 1, block: [1, 1, 65] }, /at most 1024, and 64 along z/],
    [{ grid: [1, 65536], block: 1 }, /grid \(1, 65536, 1\): a GPU's is at most 2147483647 × 65535 × 65535/],
    [{ grid: 4, block: 1, cluster: 3 }, /cluster \(3, 1, 1\) does not divide grid \(4, 1, 1\)/],
    [{ grid: 1, block: 32, sharedBytes: 64 }, /has no dynamicShared array, which sharedBytes is the size of/],
    [{ grid: 1, block: 32, sharedBytes: -1 }, /sharedBytes is -1, must be an integer ≥ 0/],
    [{ grid: 1, blocks: 32 }, /\[saxpy\] unknown option 'blocks'\. Did you mean 'block'\?/],
  ];
  for (const [config, message] of rows)
    assert.match(await refused(config), new RegExp(`^ArgumentError: .*${message.source}`));
});

test('dynamic shared memory: missing, or more than a block has', async () => {
  const k = kernel('dynamic', { y: buffer(f32) }, ({ y }, { dynamicShared, f32, threadIdx }) => {
    const tile = dynamicShared(f32);
    tile[threadIdx.x] = 1;
    y[threadIdx.x] = tile[threadIdx.x]!;
  });
  for (const [sharedBytes, message] of [
    [0, /\[dynamic\] tile is a dynamicShared array: give its size at launch as sharedBytes/],
    [300_000, /\[dynamic\] takes 300000 bytes of shared memory per block \(tile 300000\): at most 232448/],
  ] as const) {
    const config = { grid: 1, block: 1, sharedBytes };
    await assert.rejects(k.launch(config, { y: zeros([1]) }), { name: 'ArgumentError', message });
    assert.throws(() => k.simulate(config, { y: new Float32Array(1) }), { name: 'ArgumentError', message });
  }
});

test('scalars and names', async () => {
  useDevice('cpu');
  const good = { grid: 1, block: 32 };
  const rows: readonly (readonly [Record<string, unknown>, RegExp])[] = [
    [{ n: undefined }, /ArgumentError: \[saxpy\] the argument n is missing\./],
    [{ m: 1 }, /ArgumentError: \[saxpy\] unknown parameter 'm'\..* Parameters: a, x, y, n\./],
    [{ a: '1' }, /DTypeError: \[saxpy\] a is a scalar, f32: pass a number, got '1'\./],
    [{ a: [1] }, /a is a scalar, f32: pass a number, got \[1\]/],
    [{ n: 1.5 }, /n is a scalar, i32: pass an integer from .*, got 1\.5\./],
  ];
  for (const [args, message] of rows) assert.match(await refused(good, args), message);
  await assert.rejects(saxpy.launch(good, any(undefined)), /\[saxpy\] the argument a is missing/);
  assert.throws(() => saxpy.simulate(good, any(null)), /\[saxpy\] the argument a is missing/);
  // A whole number is an i64 as well as a bigint is.
  const wide = kernel('wide', { y: buffer(i64), n: i64 }, ({ y, n }) => {
    y[0] = n;
  });
  const y = new BigInt64Array(1);
  wide.simulate({ grid: 1, block: 1 }, any({ y, n: 7 }));
  assert.equal(y[0], 7n);
});

test('buffers: of the wrong kind or dtype', async () => {
  useDevice('cpu');
  const config = { grid: 1, block: 32 };
  const launch = (x: unknown): Promise<void> =>
    saxpy.launch(config, { a: 1, x: any(x), y: zeros([3]), n: 3 });
  const rows: readonly (readonly [unknown, RegExp])[] = [
    [
      new Float32Array(3),
      /x is a buffer of f32: pass a tensor, or memory from allocate\(f32, …\), got a Float32Array\. Typed arrays are for simulate: pass allocate\(f32, values\) or tensor\(values\) here\./,
    ],
    [[1, 2], /x is a buffer of f32: pass a tensor.*got \[1, 2\]\.$/],
    [1, /x is a buffer of f32: pass a tensor.*got 1\.$/],
    [null, /x is a buffer of f32: pass a tensor.*got null\.$/],
    [zeros([3], { dtype: i32 }), /x is a buffer of f32, got a tensor of i32\. Convert with \.cast\(f32\)\./],
    [allocate(i32, 3), /x is a buffer of f32, got memory of i32\. Use allocate\(f32, …\)\./],
  ];
  for (const [x, message] of rows) await assert.rejects(launch(x), { name: 'DTypeError', message });
  const simulate = (x: unknown) => () =>
    saxpy.simulate(config, { a: 1, x: any(x), y: new Float32Array(3), n: 3 });
  assert.throws(
    simulate(zeros([3])),
    /x is a buffer of f32, which simulate takes as a Float32Array; got a Tensor/,
  );
  assert.throws(simulate([1]), /takes as a Float32Array; got a Array|got an? Array/);
});

test('a kernel writes to what is seen by others only where they see it', async () => {
  useDevice('cpu');
  const put = kernel('put', { y: buffer(f32) }, ({ y }, { globalId }) => {
    y[globalId.x] = 7;
  });
  const config = { grid: 1, block: 2 };
  const x = tensor([
    [1, 2],
    [3, 4],
  ]);
  const lazy = zeros([2, 2]);
  for (const view of [x.at(0), x.reshape([4]), lazy.reshape([4]), x.transpose().reshape([4]), x.detach()])
    await assert.rejects(put.launch(config, { y: view }), {
      name: 'ArgumentError',
      message: /\[put\] writes to y, which is a view \(\w+\) of another tensor/,
    });
  const copy = x.at(0).realize();
  await put.launch(config, { y: copy });
  assert.deepEqual([await copy.data(), await x.data()], [Float32Array.of(7, 7), Float32Array.of(1, 2, 3, 4)]);
  await saxpy.launch({ grid: 1, block: 2 }, { a: 1, x: x.at(1), y: copy, n: 2 });
  assert.deepEqual(await copy.data(), Float32Array.of(10, 11));

  // A parameter is written to as by write(); what is computed from it is not.
  const w = tensor([1, 2], { requiresGrad: true });
  for (const y of [w.mul(2), w.mul(2).realize()])
    await assert.rejects(put.launch(config, { y }), {
      name: 'ArgumentError',
      message: /\[put\] writes to y, which requires a gradient/,
    });
  const before = w.mul(w);
  await put.launch(config, { y: w });
  assert.deepEqual([await w.data(), await before.data()], [Float32Array.of(7, 7), Float32Array.of(1, 4)]);
  const values = w.mul(2).detach().realize();
  await put.launch(config, { y: values });
  assert.deepEqual(await values.data(), Float32Array.of(7, 7));
});

test('a launch inside jit is an error of the jitted function, at once', async () => {
  useDevice('cpu');
  const outside = zeros([3]);
  const step = jit((x: Tensor) => {
    void saxpy.launch({ grid: 1, block: 32 }, { a: 1, x, y: outside, n: 3 });
    return x.add(1);
  });
  const rejections: unknown[] = [];
  const note = (error: unknown): void => void rejections.push(error);
  process.on('unhandledRejection', note);
  try {
    assert.throws(() => step(zeros([3])), {
      name: 'ArgumentError',
      message: /\[saxpy\] a kernel cannot be launched inside a jitted function/,
    });
    let awaited: Promise<void> | undefined;
    const other = jit((x: Tensor) => {
      awaited = saxpy.launch({ grid: 1, block: 32 }, { a: 1, x, y: x, n: 3 });
      return x.add(1);
    });
    assert.throws(() => other(zeros([3])), ArgumentError);
    await assert.rejects(awaited!, ArgumentError);
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off('unhandledRejection', note);
  }
  assert.deepEqual(rejections, []);
  assert.deepEqual(await outside.data(), new Float32Array(3));
});

test("the simulator's device finds a write slightly out of bounds", async () => {
  useDevice('sim');
  for (const y of [zeros([3]), zeros([3]).realize(), allocate(f32, [1, 2, 3])])
    await assert.rejects(saxpy.launch({ grid: 1, block: 32 }, { a: 1, x: zeros([4]), y, n: 4 }), {
      name: 'SimulatorError',
      message: /y\[3\] is outside 0 to 2\./,
    });
  useDevice('cpu');
});

test('languages of the source, and blocks of info and ptx', () => {
  assert.throws(() => saxpy.source(any('hlsl')), {
    name: 'ArgumentError',
    message: "[saxpy] 'hlsl' is not a language of a kernel's source. Expected one of: cuda, wasm, js, ir.",
  });
  assert.throws(() => saxpy.source(any('toString')), ArgumentError);
  // The same with a GPU, with NVRTC and without.
  const rows: readonly (readonly [unknown, RegExp])[] = [
    [{}, /\[saxpy\] block is missing/],
    [{ block: 32, unknown: 1 }, /\[saxpy\] unknown option 'unknown'/],
    [{ block: 32, grid: 1 }, /\[saxpy\] unknown option 'grid'/],
    [{ block: 2048 }, /\[saxpy\] block \(2048, 1, 1\) has 2048 threads/],
    [{ block: 1.5 }, /\[saxpy\] block \(1\.5, 1, 1\): one to three whole numbers/],
  ];
  for (const [config, message] of rows) {
    assert.throws(() => saxpy.ptx(any(config)), { name: 'ArgumentError', message });
    assert.throws(() => saxpy.info(any(config)), { name: 'ArgumentError', message });
  }
  assert.throws(() => saxpy.ptx(any({ block: 32, sharedBytes: 0 })), /unknown option 'sharedBytes'/);
  assert.throws(() => saxpy.info({ block: 32, sharedBytes: 64 }), /\[saxpy\] has no dynamicShared array/);
});

/** What TypeScript refuses; never run. */
export function typed(): void {
  const [x, y] = [new Float32Array(3), new Float32Array(3)];
  saxpy.simulate({ grid: 1, block: 32 }, { a: 1, x, y, n: 3 });
  // @ts-expect-error: n is missing
  saxpy.simulate({ grid: 1, block: 32 }, { a: 1, x, y });
  // @ts-expect-error: m is not a parameter
  saxpy.simulate({ grid: 1, block: 32 }, { a: 1, x, y, n: 3, m: 1 });
  // @ts-expect-error: memory of f32 is a Float32Array
  saxpy.simulate({ grid: 1, block: 32 }, { a: 1, x: new Int32Array(3), y, n: 3 });
  // @ts-expect-error: tensors are for launch
  saxpy.simulate({ grid: 1, block: 32 }, { a: 1, x: zeros([3]), y, n: 3 });
}
