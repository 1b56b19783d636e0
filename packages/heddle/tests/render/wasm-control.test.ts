/** Statements, arrays, atomics, messages: kernels on the CPU device against plain JavaScript. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { f32, f64, i8, i32, i64, u8, u32 } from '../../src/core/dtype.js';
import { DeviceError, KernelError } from '../../src/core/errors.js';
import type { Scalar } from '../../src/kernel/ir/ops.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { defineKernel } from '../../src/kernel/language/language.js';
import { CpuDevice } from '../../src/runtime/cpu/device.js';
import { printed } from '../runtime/printed.js';
import { runKernel } from './wasm-harness.js';

const device = new CpuDevice();
after(() => device.close());

const count = (n: number): number[] => Array.from({ length: n }, (_, i) => i);
const zeros = (n: number): number[] => new Array(n).fill(0);

test('nested loops with break, continue and return', async () => {
  const ir = defineKernel('nested', { out: buffer(i32), n: i32 }, ({ out, n }, { blockIdx }) => {
    const i = blockIdx.x;
    if (i === 3) return;
    let sum = 0;
    for (let a = 0; a < n; a++) {
      if (a === 2) continue;
      let b = a;
      while (b > 0) {
        b = b - 1;
        if (b % 2 === 1) continue;
        if (b > 8) break;
        sum = sum + b + i;
      }
      if (sum > 200) break;
      if (sum > 100 && i === 5) {
        out[i] = -1;
        return;
      }
    }
    out[i] = sum;
  });
  const expected = (i: number, n: number): number => {
    if (i === 3) return 0;
    let sum = 0;
    for (let a = 0; a < n; a++) {
      if (a === 2) continue;
      let b = a;
      while (b > 0) {
        b--;
        if (b % 2 === 1) continue;
        if (b > 8) break;
        sum += b + i;
      }
      if (sum > 200) break;
      if (sum > 100 && i === 5) return -1;
    }
    return sum;
  };
  for (const n of [0, 1, 5, 12, 20]) {
    const [out] = await runKernel(device, ir, [9, 1, 1], [zeros(9), n]);
    assert.deepEqual(
      out,
      count(9).map((i) => expected(i, n)),
    );
  }
});

test('a loop counts as C does: negative starts, steps, bounds taken once', async () => {
  const ir = defineKernel(
    'steps',
    { out: buffer(i32), from: i32, to: i32, by: i32 },
    ({ out, from, to, by }) => {
      let rounds = 0;
      let last = -99;
      for (let i = from; i < to; i += by) {
        rounds = rounds + 1;
        last = i;
      }
      out[0] = rounds;
      out[1] = last;
    },
  );
  for (const [from, to, by] of [
    [-7, 8, 3],
    [0, 0, 1],
    [5, 2, 1],
    [0, 100, 7],
  ] as const) {
    let rounds = 0;
    let last = -99;
    for (let i = from as number; i < to; i += by) {
      rounds++;
      last = i;
    }
    const [out] = await runKernel(device, ir, [1, 1, 1], [zeros(2), from, to, by]);
    assert.deepEqual(out, [rounds, last]);
  }
});

test('only the chosen side of a select, && and || is evaluated', async () => {
  const far = 0x1fffffff;
  const ir = defineKernel(
    'lazy',
    { x: buffer(f32), out: buffer(f32), n: i32, far: i32 },
    ({ x, out, n, far }, { blockIdx, atomicAdd, f32 }) => {
      const i = blockIdx.x;
      const inside = i < n;
      out[i] = inside ? Math.log(x[i]) + x[i] : -1;
      if (i >= n && x[inside ? far : 0] > -1) out[i] = out[i] - 1;
      if (inside || x[far + i] > 0) out[i] = out[i] + (i === 1 ? atomicAdd(out, 7, 5) : 0);
      let j = i;
      while (j < n && x[j] > 0) j = j + 1;
      out[i + 8] = f32(j);
    },
  );
  const x = [1, 2, 3, 4];
  // x[far] lies beyond the memory: reading it would trap.
  const values = [...x, 0, 0, 0, 0];
  const [, out] = await runKernel(device, ir, [4, 1, 1], [values, zeros(16), 4, far]);
  x.forEach((v, i) => {
    assert.ok(Math.abs(Number(out![i]) - (Math.log(v) + v)) < 1e-6);
  });
  assert.equal(out![7], 5);
  assert.deepEqual(out!.slice(8, 12), [4, 4, 4, 4]);
});

test('a grid of three dimensions, from any block on', async () => {
  const ir = defineKernel('grid', { out: buffer(i32) }, ({ out }, { blockIdx, gridDim }) => {
    const at = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    out[at] = out[at] + blockIdx.x + 100 * blockIdx.y + 10000 * blockIdx.z + 1;
  });
  const [x, y, z] = [7, 5, 3];
  const [out] = await runKernel(device, ir, [x, y, z], [zeros(x * y * z)]);
  assert.deepEqual(
    out,
    count(x * y * z).map(
      (b) => (b % x) + 100 * (Math.floor(b / x) % y) + 10000 * Math.floor(b / (x * y)) + 1,
    ),
  );
});

test('negative and large constant parts of an index', async () => {
  const ir = defineKernel('offsets', { x: buffer(i32), out: buffer(i32) }, ({ x, out }, { blockIdx }) => {
    const i = blockIdx.x + 20000;
    const j = i - 20000;
    out[j] = x[i - 19999] + x[i - 20000] + x[j + 20000 - 19998];
  });
  const x = count(12).map((i) => i * i);
  const [, out] = await runKernel(device, ir, [10, 1, 1], [x, zeros(10)]);
  assert.deepEqual(
    out,
    count(10).map((i) => x[i + 1]! + x[i]! + x[i + 2]!),
  );
});

test('what is set in a loop is not taken for invariant, nor memory that is stored to', async () => {
  const ir = defineKernel(
    'changing',
    { x: buffer(f32), out: buffer(f32), n: i32 },
    ({ x, out, n }, { f32 }) => {
      let scale = f32(1);
      let last = f32(0);
      for (let i = 0; i < n; i++) {
        const twice = scale * 2 + 1;
        x[0] = x[0] + twice;
        if (i % 3 === 1) scale = scale + 0.5;
        last = x[0] * (scale * 2 + 1);
        for (let j = 0; j < 2; j++) last = last + (scale * 2 + 1) * x[0] + f32(i);
      }
      out[0] = last;
      out[1] = x[0];
    },
  );
  let scale = 1;
  let last = 0;
  let x0 = 1;
  for (let i = 0; i < 10; i++) {
    x0 += scale * 2 + 1;
    if (i % 3 === 1) scale += 0.5;
    last = x0 * (scale * 2 + 1);
    for (let j = 0; j < 2; j++) last += (scale * 2 + 1) * x0 + i;
  }
  const [, out] = await runKernel(device, ir, [1, 1, 1], [[1], zeros(2), 10]);
  assert.deepEqual(out, [last, x0]);
});

test('local arrays with computed indices, and of vectors', async () => {
  const ir = defineKernel(
    'locals',
    { x: buffer(f32), out: buffer(f32), n: i32 },
    ({ x, out, n }, { local, local4, load4, store4, lane, splat4, blockIdx, f32 }) => {
      const table = local(f32, 3, 5);
      const rows = local4(f32, 2);
      for (let i = 0; i < 15; i++) table[i % 3][i % 5] = x[i] + f32(blockIdx.x);
      for (let i = 0; i < n; i++) rows[i] = load4(x, i * 4) * splat4(2);
      let sum = f32(0);
      for (let i = 0; i < 3; i++) for (let j = 0; j < n; j++) sum = sum + table[i][j];
      out[blockIdx.x * 8] = sum;
      out[blockIdx.x * 8 + 1] = lane(rows[n - 1], 3);
      store4(out, blockIdx.x * 8 + 4, rows[n - 2]);
    },
  );
  const x = count(16).map((v) => v / 2);
  const [, out] = await runKernel(device, ir, [3, 1, 1], [x, zeros(24), 2]);
  for (const b of count(3)) {
    const table = count(3).map(() => zeros(5));
    for (const i of count(15)) table[i % 3]![i % 5] = x[i]! + b;
    const sum = table.reduce((n, row) => n + row[0]! + row[1]!, 0);
    assert.deepEqual(out!.slice(8 * b, 8 * b + 8), [
      sum,
      x[7]! * 2,
      0,
      0,
      ...x.slice(0, 4).map((v) => v * 2),
    ]);
  }
});

test('threads of a block with shared memory and barriers, one after another', async () => {
  const ir = defineKernel(
    'reverse',
    { x: buffer(f32), out: buffer(f32) },
    ({ x, out }, { shared, dynamicShared, barrier, threadIdx, blockIdx, blockDim, f32 }) => {
      const tile = shared(f32, 64);
      const more = dynamicShared(f32);
      const t = threadIdx.x;
      tile[t] = x[blockIdx.x * 64 + t];
      barrier();
      more[t] = tile[63 - t] * 2;
      barrier();
      out[blockIdx.x * 64 + t] = more[t] + more[0] + f32(blockDim.x);
    },
  );
  const x = count(256);
  const [, out] = await runKernel(device, ir, [4, 1, 1], [x, zeros(256)], {
    block: [64, 1, 1],
    sharedBytes: 256,
  });
  assert.deepEqual(
    out,
    x.map((v) => {
      const first = v - (v % 64);
      return (first + 63 - (v % 64)) * 2 + (first + 63) * 2 + 64;
    }),
  );
});

test('atomics on every dtype they take', async () => {
  const integers = defineKernel(
    'atomicInt',
    { a: buffer(i32), b: buffer(u32), c: buffer(i64), old: buffer(i32) },
    (
      { a, b, c, old },
      {
        blockIdx,
        u32,
        i64,
        atomicAdd,
        atomicSub,
        atomicMin,
        atomicMax,
        atomicAnd,
        atomicOr,
        atomicXor,
        atomicExchange,
        atomicCompareExchange,
      },
    ) => {
      const i = blockIdx.x;
      old[i] = atomicAdd(a, 0, i);
      atomicSub(a, 1, i);
      atomicMin(a, 2, 5 - i);
      atomicMax(a, 3, i);
      atomicAnd(a, 4, ~i);
      atomicOr(b, 0, u32(i));
      atomicXor(b, 1, u32(i * 3));
      atomicMax(b, 2, u32(-1 - i));
      atomicExchange(a, 5, i);
      atomicCompareExchange(a, 6, i, i + 1);
      atomicAdd(c, 0, i64(i) * i64(1 << 20) * i64(1 << 20));
      atomicMin(c, 1, i64(-i));
    },
  );
  const n = 10;
  const [a, b, c, old] = await runKernel(
    device,
    integers,
    [n, 1, 1],
    [[0, 0, 9, -3, -1, 0, 0], [0, 0, 0], [0n, 7n], zeros(n)],
  );
  assert.deepEqual(a, [45, -45, -4, 9, ~15, 9, 10]);
  assert.deepEqual(b, [15, count(n).reduce((x, i) => x ^ (i * 3), 0), 2 ** 32 - 1]);
  assert.deepEqual(c, [45n * 2n ** 40n, -9n]);
  assert.deepEqual(
    old,
    count(n).map((i) => Math.max(0, (i * (i - 1)) / 2)),
  );

  for (const t of [f32, f64]) {
    const floats = defineKernel(
      'atomicFloat',
      { x: buffer(t), v: buffer(t) },
      ({ x, v }, { blockIdx, atomicAdd, atomicMin, atomicExchange, atomicCompareExchange }) => {
        const i = blockIdx.x;
        atomicAdd(x, 0, v[i]);
        atomicMin(x, 1, -v[i]);
        atomicExchange(x, 2, v[i]);
        atomicCompareExchange(x, 3, v[i], v[i + 1]);
      },
    );
    const v = count(9).map((i) => i / 4);
    const [x] = await runKernel(device, floats, [8, 1, 1], [[0.5, 3, 0, 0], v]);
    assert.deepEqual(x, [7.5, -1.75, 1.75, 2]);
  }
});

test('bytes: u8 wraps, bools are masks in vectors', async () => {
  const ir = defineKernel(
    'bytes',
    { x: buffer(u8), out: buffer(u8), big: buffer(i32) },
    ({ x, out, big }, { blockIdx, load4, store4, splat4, select, u8, i32 }) => {
      const i = blockIdx.x * 4;
      const v = load4(x, i);
      store4(out, i, select(v > splat4(u8(100)), v + splat4(u8(200)), v * splat4(u8(3))));
      store4(big, i, i32(v) * splat4(1000));
    },
  );
  const x = [0, 1, 99, 100, 101, 200, 254, 255];
  const [, out, big] = await runKernel(device, ir, [2, 1, 1], [x, zeros(8), zeros(8)]);
  assert.deepEqual(
    out,
    x.map((v) => (v > 100 ? v + 200 : v * 3) & 255),
  );
  assert.deepEqual(
    big,
    x.map((v) => v * 1000),
  );
});

test('signed bytes are loaded with their sign and cut to it', async () => {
  const ir = defineKernel(
    'signedBytes',
    { x: buffer(i8), out: buffer(i8), big: buffer(i32) },
    ({ x, out, big }, { blockIdx, load4, store4, splat4, select, i8, i32 }) => {
      const i = blockIdx.x * 4;
      const v = load4(x, i);
      store4(out, i, select(v > splat4(i8(0)), v + splat4(i8(100)), v * splat4(i8(3))));
      store4(big, i, i32(v) * splat4(1000));
      for (let l = 0; l < 4; l++) x[i + l] = i8(x[i + l] - i8(1));
    },
  );
  const x = [-128, -127, -77, -1, 0, 1, 100, 127];
  const cut = (v: number): number => (v << 24) >> 24;
  const [less, out, big] = await runKernel(device, ir, [2, 1, 1], [x, zeros(8), zeros(8)]);
  assert.deepEqual(
    out,
    x.map((v) => cut(v > 0 ? v + 100 : v * 3)),
  );
  assert.deepEqual(
    big,
    x.map((v) => v * 1000),
  );
  assert.deepEqual(
    less,
    x.map((v) => cut(v - 1)),
  );
});

test('a failed assertion names kernel, message and line', async () => {
  const ir = defineKernel('checked', { x: buffer(f32) }, ({ x }, { blockIdx, assert }) => {
    assert(x[blockIdx.x] >= 0, 'x must not be negative');
    x[blockIdx.x] = Math.sqrt(x[blockIdx.x]);
  });
  const [fine] = await runKernel(device, ir, [3, 1, 1], [[1, 4, 9]]);
  assert.deepEqual(fine, [1, 2, 3]);
  await assert.rejects(runKernel(device, ir, [3, 1, 1], [[1, -4, 9]]), (error) => {
    assert.ok(error instanceof KernelError);
    assert.match(error.message, /\[checked\] assertion failed: x must not be negative/);
    assert.match(error.at!.text, /assert\(x\[blockIdx.x\] >= 0/);
    return true;
  });
  const [again] = await runKernel(device, ir, [1, 1, 1], [[16]]);
  assert.deepEqual(again, [4], 'the device goes on after a failure');
});

test('print writes lines, in the order of blocks on one thread', async () => {
  const ir = defineKernel(
    'printing',
    { x: buffer(f32), n: buffer(i64) },
    ({ x, n }, { blockIdx, load4, print }) => {
      print('block {}: x = {}, {} {}', blockIdx.x, load4(x, 0), x[1] > 1, n[0]);
    },
  );
  const lines = await printed('block', () =>
    runKernel(device, ir, [2, 1, 1], [[1, 2, 3, 4.5], [9007199254740993n]]),
  );
  assert.deepEqual(
    lines,
    [0, 1].map((b) => `block ${b}: x = (1, 2, 3, 4.5), true 9007199254740993\n`),
  );
});

test('an access far out of bounds is a DeviceError, not a crash', async () => {
  const ir = defineKernel('wild', { x: buffer(f32), i: i32 }, ({ x, i }) => {
    x[i] = 1;
  });
  await assert.rejects(runKernel(device, ir, [1, 1, 1], [[0], 0x1fffffff]), (error) => {
    assert.ok(error instanceof DeviceError);
    assert.match(error.message, /program of wild: memory access out of bounds.*HEDDLE_DEVICE=sim/);
    return true;
  });
});

test('parameters of every dtype', async () => {
  const ir = defineKernel(
    'params',
    { out: buffer(f64), a: f32, b: f64, c: i64, d: u8, e: u32 },
    ({ out, a, b, c, d, e }, { f64 }) => {
      out[0] = f64(a);
      out[1] = b;
      out[2] = f64(c);
      out[3] = f64(d);
      out[4] = f64(e);
    },
  );
  const args: Scalar[] = [1.5, Math.PI, 2n ** 40n, 200, 4e9];
  const [out] = await runKernel(device, ir, [1, 1, 1], [zeros(5), ...args]);
  assert.deepEqual(out, [1.5, Math.PI, 2 ** 40, 200, 4e9]);
});
