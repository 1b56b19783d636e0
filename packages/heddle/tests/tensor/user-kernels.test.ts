/** Kernels of users on tensors: barriers, warps, the way to the simulator, memory that others still see. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  allocate,
  bool,
  buffer,
  ceilDiv,
  f32,
  i32,
  i64,
  jit,
  kernel,
  rand,
  SimulatorError,
  stream,
  type Tensor,
  tensor,
  u32,
  useDevice,
  zeros,
} from '../../src/index.js';
import { closeDevices } from '../../src/runtime/registry.js';
import { DEVICES } from '../cases/case-runner.js';
import { assertClose } from '../close.js';

const list = async (t: Tensor): Promise<number[]> => Array.from(await t.data(), Number);

const saxpy = kernel(
  'saxpy',
  { a: f32, x: buffer(f32), y: buffer(f32), n: i32 },
  ({ a, x, y, n }, { globalId }) => {
    const i = globalId.x;
    if (i < n) y[i] = a * x[i]! + y[i]!;
  },
);

/** Sums of rows by halving: shared memory, and barriers in a loop. */
const rowSums = kernel(
  'rowSums',
  { x: buffer(f32), sums: buffer(f32), columns: i32 },
  ({ x, sums, columns }, { threadIdx, blockIdx, shared, barrier, f32, idiv, THREADS }) => {
    const partial = shared(f32, THREADS);
    const t = threadIdx.x;
    let sum = f32(0);
    for (let c = t; c < columns; c += THREADS) sum += x[blockIdx.x * columns + c]!;
    partial[t] = sum;
    for (let half = idiv(THREADS, 2); half > 0; half = idiv(half, 2)) {
      barrier();
      if (t < half) partial[t] = partial[t]! + partial[t + half]!;
    }
    if (t === 0) sums[blockIdx.x] = partial[0]!;
  },
  { THREADS: 64 },
);

/** Shuffles, votes and reductions of a warp. */
const warps = kernel(
  'warps',
  { x: buffer(i32), y: buffer(i32) },
  ({ x, y }, { globalId, laneId, warpSum, warpMax, shuffleXor, shuffleUp, any, all }) => {
    const v = x[globalId.x]!;
    const sum = warpSum(v);
    const most = warpMax(v);
    const other = shuffleXor(v, 1);
    const before = shuffleUp(v, 1);
    let r = sum + 1000 * most + other - before;
    if (any(v > 30)) r += 100000;
    if (all(v >= 0)) r += 200000;
    if (laneId === 3) r = -r;
    y[globalId.x] = r;
  },
);

const histogram = kernel(
  'histogram',
  { x: buffer(i32), bins: buffer(i32), n: i32 },
  ({ x, bins, n }, { globalId, atomicAdd }) => {
    if (globalId.x < n) atomicAdd(bins, x[globalId.x]!, 1);
  },
);

const exclusiveScan = kernel(
  'exclusiveScan',
  { x: buffer(u32), y: buffer(u32) },
  ({ x, y }, { threadIdx, blockDim, dynamicShared, barrier, u32 }) => {
    const s = dynamicShared(u32);
    const t = threadIdx.x;
    s[t] = x[t]!;
    barrier();
    for (let by = 1; by < blockDim.x; by = by * 2) {
      let add = u32(0);
      if (t >= by) add = s[t - by]!;
      barrier();
      s[t] = s[t]! + add;
      barrier();
    }
    y[t] = s[t]! - x[t]!;
  },
);

for (const device of DEVICES) {
  const on = (name: string, body: () => Promise<void>): void => {
    test(`${device}: ${name}`, async () => {
      useDevice(device);
      await body();
    });
  };

  on('a launch changes its tensors in place', async () => {
    const n = 300;
    const [x, y] = [rand([n]), rand([n])];
    const [before, after] = [await list(x), await list(y)];
    await saxpy.launch({ grid: ceilDiv(n, 128), block: 128 }, { a: 2, x, y, n });
    assertClose(
      await list(y),
      after.map((v, i) => 2 * before[i]! + v),
      'saxpy',
    );
    assert.deepEqual(await list(x), before);
  });

  on('what was made from a tensor before a launch keeps the old values', async () => {
    const [x, y] = [tensor([1, 2, 3]), tensor([10, 20, 30])];
    const lazy = y.mul(2);
    const view = y.reshape([3, 1]);
    await saxpy.launch({ grid: 1, block: 32 }, { a: 1, x, y, n: 3 });
    assert.deepEqual(await list(y), [11, 22, 33]);
    assert.deepEqual(await list(lazy), [20, 40, 60]);
    assert.deepEqual(await list(view), [10, 20, 30]);
    assert.deepEqual(await list(y.add(0)), [11, 22, 33]);
  });

  on('arguments that are not computed yet are computed first', async () => {
    const [x, y] = [tensor([1, 2, 3]).add(1), zeros([3])];
    await saxpy.launch({ grid: 1, block: 32 }, { a: 1, x, y, n: 3 });
    assert.deepEqual(await list(y), [2, 3, 4]);
  });

  on('memory of its own, beside tensors', async () => {
    const x = allocate(f32, [1, 2, 3]);
    const y = allocate(f32, 4).write([10, 20]).write([30, 40], 2);
    await saxpy.launch({ grid: 1, block: 32 }, { a: 2, x, y, n: 3 });
    assert.deepEqual(Array.from(await y.read(), Number), [12, 24, 36, 40]);
    const t = zeros([3]);
    await saxpy.launch({ grid: 1, block: 32 }, { a: 1, x: y, y: t, n: 3 });
    assert.deepEqual(await list(t), [12, 24, 36]);
    assert.throws(() => y.write([1, 2], 3), {
      name: 'ArgumentError',
      message: '[write] 2 values from element 3 on do not fit: there are 4 elements.',
    });
    y.dispose();
    await assert.rejects(y.read(), { name: 'DeviceError', message: /disposed of/ });
    const whole = allocate(i32, [1]);
    await assert.rejects(
      saxpy.launch({ grid: 1, block: 32 }, { a: 1, x: whole, y: t, n: 1 }),
      /x is a buffer of f32, got memory of i32\. Use allocate\(f32, …\)/,
    );
    assert.throws(() => allocate(f32, 1.5), /length is 1\.5, must be an integer ≥ 0/);
  });

  on('streams: what follows a launch on one sees its result', async () => {
    const [first, second] = [stream(), stream()];
    const [x, y, z] = [tensor([1, 2, 3]).add(1), zeros([3]), allocate(f32, [0, 0, 0])];
    const one = { grid: 1, block: 32 };
    const before = first.record();
    await saxpy.launch({ ...one, stream: first }, { a: 10, x, y, n: 3 });
    const done = first.record();
    second.wait(done);
    await saxpy.launch({ ...one, stream: second }, { a: 1, x: y, y: z, n: 3 });
    assert.deepEqual(Array.from(await z.read(), Number), [20, 30, 40]);
    assert.deepEqual(await list(y.add(1)), [21, 31, 41]);
    await done.synchronize();
    assert.ok(done.happened);
    assert.ok((await done.since(before)) >= 0);
    // The tensor's own work, then the stream again
    const sum = y.sum();
    await saxpy.launch({ ...one, stream: first }, { a: -10, x, y, n: 3 });
    assert.equal(await sum.item(), 90);
    await first.synchronize();
    assert.deepEqual(await list(y), [0, 0, 0]);
    first.dispose();
    assert.throws(() => first.record(), { name: 'ArgumentError', message: /has been disposed of/ });
    second.dispose();
  });

  on('thread-block clusters: of whole blocks, whatever they are', async () => {
    const y = zeros([256]);
    const x = rand([256]);
    const grid = { grid: 4, block: 64, cluster: 2 };
    // The second launch is a graph on a GPU
    for (let i = 0; i < 2; i++) await saxpy.launch(grid, { a: 1, x, y, n: 256 });
    assertClose(await list(y), await list(x.mul(2)), 'y');
    await assert.rejects(saxpy.launch({ ...grid, cluster: 3 }, { a: 1, x, y, n: 256 }), {
      name: 'ArgumentError',
      message: '[saxpy] cluster (3, 1, 1) does not divide grid (4, 1, 1): round the grid up.',
    });
    await assert.rejects(
      saxpy.launch({ grid: 16, block: 64, cluster: 16 }, { a: 1, x, y, n: 256 }),
      /cluster \(16, 1, 1\) has 16 blocks: at most 8\./,
    );
  });

  on('barriers and shared memory', async () => {
    const x = rand([5, 150]);
    const sums = zeros([5]);
    await rowSums.launch({ grid: 5, block: 64 }, { x, sums, columns: 150 });
    assertClose(await list(sums), await list(x.sum(1)), 'sums');
  });

  on('shuffles, votes and reductions of warps', async () => {
    const values = Array.from({ length: 64 }, (_, i) => (i < 32 ? i : i - 40));
    const [x, y] = [tensor(Int32Array.from(values)), zeros([64], { dtype: i32 })];
    await warps.launch({ grid: 1, block: 64 }, { x, y });
    const expected = values.map((v, i) => {
      const warp = values.slice(i & ~31, (i & ~31) + 32);
      const lane = i & 31;
      const sum = warp.reduce((a, b) => a + b) + 1000 * Math.max(...warp);
      const votes = (warp.some((w) => w > 30) ? 100000 : 0) + (warp.every((w) => w >= 0) ? 200000 : 0);
      const r = sum + warp[lane ^ 1]! - (lane === 0 ? v : warp[lane - 1]!) + votes;
      return lane === 3 ? -r : r;
    });
    assert.deepEqual(await list(y), expected);
  });

  on('atomics', async () => {
    const x = tensor(Int32Array.from({ length: 200 }, (_, i) => (i * i) % 7));
    const bins = zeros([7], { dtype: i32 });
    await histogram.launch({ grid: 4, block: 64 }, { x, bins, n: 200 });
    const expected = new Array<number>(7).fill(0);
    for (let i = 0; i < 200; i++) expected[(i * i) % 7]!++;
    assert.deepEqual(await list(bins), expected);
  });

  on('dynamic shared memory', async () => {
    const x = tensor(Uint32Array.from({ length: 48 }, (_, i) => i % 5));
    const y = zeros([48], { dtype: u32 });
    await exclusiveScan.launch({ grid: 1, block: 48, sharedBytes: 48 * 4 }, { x, y });
    let sum = 0;
    assert.deepEqual(
      await list(y),
      Array.from({ length: 48 }, (_, i) => {
        const before = sum;
        sum += i % 5;
        return before;
      }),
    );
  });

  on('grids and blocks of three dimensions, booleans and i64', async () => {
    const fill = kernel(
      'fill',
      { y: buffer(i32), flip: bool, base: i64 },
      ({ y, flip, base }, { globalId, blockDim, gridDim, i32 }) => {
        const width = gridDim.x * blockDim.x;
        const height = gridDim.y * blockDim.y;
        const at = (globalId.z * height + globalId.y) * width + globalId.x;
        y[at] = flip ? -at : at + i32(base);
      },
    );
    const y = zeros([24], { dtype: i32 });
    await fill.launch({ grid: [2, 1, 2], block: [1, 3, 2] }, { y, flip: false, base: 5n });
    assert.deepEqual(
      await list(y),
      Array.from({ length: 24 }, (_, i) => i + 5),
    );
    await fill.launch({ grid: [2, 1, 2], block: [1, 3, 2] }, { y, flip: true, base: 5n });
    assert.deepEqual(
      await list(y),
      Array.from({ length: 24 }, (_, i) => (i === 0 ? 0 : -i)),
    );
  });

  on('other scalars, grids and tensors, one after the other', async () => {
    const y = zeros([64]);
    const x = tensor(new Float32Array(64).fill(1));
    for (let i = 0; i < 70; i++) await saxpy.launch({ grid: 2, block: 32 }, { a: i, x, y, n: 64 - (i % 3) });
    const all = (70 * 69) / 2;
    const part = (rest: number): number =>
      Array.from({ length: 70 }, (_, i) => i).reduce((s, i) => s + (i % 3 > rest ? 0 : i), 0);
    assert.deepEqual((await list(y)).slice(61), [all, part(1), part(0)]);
  });

  on('a launched tensor goes on in graphs and in jit', async () => {
    const state = tensor([1, 2, 3]);
    const step = jit((t: Tensor) => {
      state.assign(state.add(t));
      return state.sum();
    });
    const ones = tensor([1, 1, 1]);
    assert.equal(await step(ones).item(), 9);
    await saxpy.launch({ grid: 1, block: 32 }, { a: 10, x: ones, y: state, n: 3 });
    assert.equal(await step(ones).item(), 42);
    assert.deepEqual(await list(state), [13, 14, 15]);
  });
}

test('a kernel that cannot be split at its barriers runs in the simulator, and says so once', async () => {
  useDevice('cpu');
  const lines: string[] = [];
  const write = process.stderr.write.bind(process.stderr);
  process.stderr.write = ((text: string) => {
    lines.push(text);
    return true;
  }) as typeof process.stderr.write;
  const y = zeros([32], { dtype: i32 });
  const unsplittable = kernel('divergent', { y: buffer(i32) }, ({ y }, { threadIdx, barrier }) => {
    const t = threadIdx.x;
    // The same for all threads, but only the kernel's author knows
    let rounds = y[0]! + 2;
    while (rounds > 0) {
      barrier();
      y[t] = y[t]! + t;
      barrier();
      rounds = rounds - 1;
    }
  });
  try {
    await unsplittable.launch({ grid: 1, block: 32 }, { y });
    const alone = allocate(i32, new Int32Array(32));
    await unsplittable.launch({ grid: 1, block: 32 }, { y: alone });
    assert.equal((await alone.read())[31], 62);
  } finally {
    process.stderr.write = write;
  }
  assert.deepEqual(
    await list(y),
    Array.from({ length: 32 }, (_, i) => 2 * i),
  );
  assert.equal(lines.length, 1);
  assert.match(lines[0]!, /^\[heddle\] kernel divergent runs in the simulator, slowly: /);
});

test('simulate runs on typed arrays and finds faults', () => {
  const [x, y] = [Float32Array.of(1, 2, 3), Float32Array.of(10, 20, 30)];
  saxpy.simulate({ grid: 1, block: 4 }, { a: 2, x, y, n: 3 });
  assert.deepEqual(Array.from(y), [12, 24, 36]);
  assert.throws(
    () => saxpy.simulate({ grid: 1, block: 4 }, { a: 2, x, y, n: 4 }),
    (error: unknown) => {
      assert.ok(error instanceof SimulatorError);
      assert.equal(error.kind, 'out-of-bounds');
      assert.deepEqual(error.thread, [3, 0, 0]);
      assert.match(error.at!.file, /user-kernels\.test\.(ts|js)$/);
      return true;
    },
  );
});

test('streams and events belong to their device', async () => {
  useDevice('sim');
  const other = stream();
  useDevice('cpu');
  const mine = stream();
  const [x, y] = [zeros([3]), zeros([3])];
  await assert.rejects(saxpy.launch({ grid: 1, block: 32, stream: other }, { a: 1, x, y, n: 3 }), {
    name: 'DeviceError',
    message: 'This stream belongs to the device sim, but the work is on cpu.',
  });
  assert.throws(() => mine.wait(other.record()), /This event belongs to the device sim/);
});

test('clusters in the simulator', () => {
  const args = { a: 1, x: new Float32Array(4), y: new Float32Array(4), n: 4 };
  saxpy.simulate({ grid: 4, block: 1, cluster: 2 }, args);
  assert.throws(() => saxpy.simulate({ grid: 5, block: 1, cluster: 2 }, args), /does not divide/);
});

test('source shows what each renderer writes', () => {
  assert.match(saxpy.source('cuda'), /extern "C" __global__[\s\S]*saxpy\(/);
  assert.match(saxpy.source('wasm'), /f32\.mul/);
  assert.match(saxpy.source('js'), /Math\.fround|fround/);
  assert.match(saxpy.source('ir'), /saxpy/);
  assert.equal(saxpy.name, 'saxpy');
});

test('scalars of 0 and −0 are not the same', async () => {
  const inverse = kernel('inverse', { a: f32, y: buffer(f32) }, ({ a, y }, { globalId }) => {
    y[globalId.x] = 1 / a;
  });
  for (const [a, expected] of [
    [0, Infinity],
    [-0, -Infinity],
    [0, Infinity],
  ] as const) {
    const y = zeros([1]);
    await inverse.launch({ grid: 1, block: 1 }, { a, y });
    assert.equal(await y.item(), expected);
  }
});

test('the CPU computes what the simulator computes, bit for bit', async () => {
  const run = async (device: string): Promise<number[][]> => {
    useDevice(device);
    const x = tensor(
      Float32Array.from({ length: 400 }, (_, i) => Math.sin(i)),
      { shape: [4, 100] },
    );
    const sums = zeros([4]);
    await rowSums.launch({ grid: 4, block: 64 }, { x, sums, columns: 100 });
    return [await list(sums)];
  };
  assert.deepEqual(await run('cpu'), await run('sim'));
});

test('a kernel goes on where a device was closed and opened again', async () => {
  for (let i = 0; i < 2; i++) {
    useDevice('cpu');
    const y = allocate(f32, [1, 2, 3]);
    await saxpy.launch({ grid: 1, block: 32 }, { a: 2, x: y, y, n: 3 });
    assert.deepEqual(Array.from(await y.read(), Number), [3, 6, 9]);
    await closeDevices();
  }
});
