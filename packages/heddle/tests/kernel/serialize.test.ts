/** Kernels for blocks of many threads, split at their barriers into loops, compute the same. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type TypedArray, viewAs } from '../../src/core/dtype.js';
import type { KernelIr, Node } from '../../src/kernel/ir/ir.js';
import type { Scalar } from '../../src/kernel/ir/ops.js';
import type { BufferSchema } from '../../src/kernel/ir/types.js';
import { verify } from '../../src/kernel/ir/verify.js';
import { buffer, defineKernel, f32, i32, u32 } from '../../src/kernel/language/index.js';
import { NotSerialized, serialize } from '../../src/kernel/serialize/serialize.js';
import { CpuDevice } from '../../src/runtime/cpu/device.js';
import type { DeviceBuffer } from '../../src/runtime/device.js';
import { simulate } from '../../src/runtime/sim/launch.js';

type Size = [number, number, number];
type Args = Record<string, TypedArray | Scalar>;

const clone = (args: Args): Args =>
  Object.fromEntries(Object.entries(args).map(([k, v]) => [k, typeof v === 'object' ? v.slice() : v]));

function some(n: Node, what: (n: Node) => boolean): boolean {
  return what(n) || n.src.some((s) => some(s, what));
}

/**
 * Serializes, checks that no thread is left, runs both in the simulator and the CPU device too, and gives the
 * arguments after the run.
 */
async function same(ir: KernelIr, grid: Size, block: Size, args: Args): Promise<Args> {
  const threads = clone(args);
  const loops = clone(args);
  const serial = serialize(ir, block);
  assert.ok(
    !some(serial.body, (n) => n.op === 'special' && !/^(blockIdx|gridDim)/.test(n.arg)),
    'thread indices are left',
  );
  assert.ok(!some(serial.body, (n) => n.op === 'effect' && n.arg === 'barrier'), 'barriers are left');
  verify(serial, 'serialize');
  simulate(ir, { grid, block }, threads);
  simulate(serial, { grid, block: 1 }, loops);
  assert.deepEqual(loops, threads);
  assert.deepEqual(await onCpu(ir, grid, block, args), threads, 'on the CPU device');
  return loops;
}

const cpu = new CpuDevice();
after(() => cpu.close());

/** The arguments after a launch on the CPU device. */
async function onCpu(ir: KernelIr, grid: Size, block: Size, given: Args): Promise<Args> {
  const slots: DeviceBuffer[] = [];
  const args = ir.params.map(({ name }) => {
    const arg = given[name]!;
    if (typeof arg !== 'object') return { value: arg };
    const buffer = cpu.allocate(arg.byteLength, name);
    cpu.write(buffer, new Uint8Array(arg.buffer, arg.byteOffset, arg.byteLength));
    return { slot: slots.push(buffer) - 1, offset: 0 };
  });
  cpu.compile([{ kernel: ir, grid, block, args }]).run(slots);
  const results: Args = { ...given };
  for (const buffer of slots) {
    const { dtype } = ir.params.find((p) => p.name === buffer.label)!.schema as BufferSchema;
    const bytes = await cpu.read(buffer);
    results[buffer.label] = viewAs(dtype, bytes.buffer, 0, bytes.byteLength / dtype.bytes);
    cpu.free(buffer);
  }
  return results;
}

function refused(ir: KernelIr, why: RegExp): void {
  assert.throws(
    () => serialize(ir, [32, 1, 1]),
    (error) => error instanceof NotSerialized && why.test(error.reason),
  );
}

const waves = (n: number, by: number): Float32Array =>
  Float32Array.from({ length: n }, (_, i) => Math.sin(i * by + 1));

test('a kernel without barriers is one loop', async () => {
  const saxpy = defineKernel(
    'saxpy',
    { a: f32, x: buffer(f32), y: buffer(f32), n: i32 },
    ({ a, x, y, n }, { globalId }) => {
      const i = globalId.x;
      if (i < n) y[i] = a * x[i] + y[i];
    },
  );
  const { y } = await same(saxpy, [3, 1, 1], [32, 1, 1], { a: 2, x: waves(80, 1), y: waves(80, 2), n: 80 });
  assert.equal((y as Float32Array)[79], Math.fround(Math.fround(2 * waves(80, 1)[79]!) + waves(80, 2)[79]!));
});

test('a tiled matmul: barriers in a loop, an accumulator across them', async () => {
  const matmul = defineKernel(
    'matmul',
    { a: buffer(f32), b: buffer(f32), c: buffer(f32), n: i32 },
    ({ a, b, c, n }, { threadIdx, blockIdx, shared, barrier, f32, TILE }) => {
      const as = shared(f32, TILE, TILE);
      const bs = shared(f32, TILE, TILE);
      const row = blockIdx.y * TILE + threadIdx.y;
      const col = blockIdx.x * TILE + threadIdx.x;
      let acc = f32(0);
      for (let t = 0; t < n; t += TILE) {
        as[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
        barrier();
        for (let k = 0; k < TILE; k++) acc += as[threadIdx.y][k] * bs[k][threadIdx.x];
        barrier();
      }
      c[row * n + col] = acc;
    },
    { TILE: 4 },
  );
  const args = { a: waves(144, 1), b: waves(144, 2), c: new Float32Array(144), n: 12 };
  const { c } = await same(matmul, [3, 3, 1], [4, 4, 1], args);
  assert.ok((c as Float32Array).every((v) => v !== 0));
});

test('a block reduction: a loop that all threads count alike', async () => {
  const sum = defineKernel(
    'sum',
    { x: buffer(f32), y: buffer(f32) },
    ({ x, y }, { threadIdx, blockIdx, blockDim, globalId, shared, barrier, f32 }) => {
      const s = shared(f32, 64);
      const t = threadIdx.x;
      s[t] = x[globalId.x];
      barrier();
      for (let by = blockDim.x >> 1; by > 0; by >>= 1) {
        if (t < by) s[t] += s[t + by];
        barrier();
      }
      if (t === 0) y[blockIdx.x] = s[0];
    },
  );
  const x = Float32Array.from({ length: 128 }, (_, i) => i);
  const { y } = await same(sum, [2, 1, 1], [64, 1, 1], { x, y: new Float32Array(2) });
  assert.deepEqual([...(y as Float32Array)], [2016, 6112]);
});

test('a stencil with early returns, some in a loop', async () => {
  const stencil = defineKernel(
    'stencil',
    { x: buffer(f32), y: buffer(f32), n: i32 },
    ({ x, y, n }, { globalId }) => {
      const i = globalId.x;
      if (i >= n) return;
      if (i === 0 || i === n - 1) {
        y[i] = x[i];
        return;
      }
      y[i] = x[i - 1] + x[i + 1];
      for (let k = 0; k < 4; k++) {
        for (let j = 0; j < 3; j++) {
          if (k * 3 + j === i) return;
          y[i] += x[k];
        }
        if (y[i] > 2) return;
      }
      y[i] = -y[i];
    },
  );
  await same(stencil, [2, 1, 1], [16, 1, 1], { x: waves(20, 1), y: new Float32Array(20), n: 20 });
});

test('returns before the last barrier-free part, and by all threads of a block', async () => {
  const kernel = defineKernel(
    'k',
    { x: buffer(f32), y: buffer(f32), n: i32 },
    ({ x, y, n }, { threadIdx, blockIdx, globalId, shared, barrier, f32 }) => {
      if (blockIdx.x === 1) return;
      const s = shared(f32, 16);
      s[threadIdx.x] = x[globalId.x];
      barrier();
      if (threadIdx.x > n) return;
      y[globalId.x] = s[15 - threadIdx.x];
    },
  );
  const args = { x: waves(48, 1), y: new Float32Array(48), n: 9 };
  const { y } = await same(kernel, [3, 1, 1], [16, 1, 1], args);
  assert.equal((y as Float32Array)[16], 0);
  assert.notEqual((y as Float32Array)[32], 0);
});

test('local arrays and vectors that live across barriers get an element per thread', async () => {
  const kernel = defineKernel(
    'k',
    { x: buffer(f32), y: buffer(f32) },
    ({ x, y }, { threadIdx, local, local4, load4, store4, shared, barrier, f32 }) => {
      const s = shared(f32, 8);
      const mine = local(f32, 2, 3);
      const wide = local4(f32, 2);
      const t = threadIdx.x;
      for (let i = 0; i < 3; i++) mine[1][i] = x[t * 4 + i];
      wide[0] = load4(x, t * 4);
      const four = load4(x, t * 4);
      for (let round = 0; round < 3; round++) {
        s[t] = mine[1][round];
        barrier();
        mine[1][round] = s[(t + 1) % 8] + f32(round);
        wide[0] = wide[0] + four;
        barrier();
      }
      store4(y, t * 4, wide[0]);
      y[t * 4] += mine[1][0] + mine[1][2];
    },
  );
  await same(kernel, [1, 1, 1], [8, 1, 1], { x: waves(32, 1), y: new Float32Array(32) });
});

test('a variable that all threads set alike stays one variable', async () => {
  const kernel = defineKernel(
    'k',
    { y: buffer(i32), n: i32 },
    ({ y, n }, { threadIdx, shared, barrier, i32 }) => {
      const s = shared(i32, 8);
      let round = i32(0);
      let scale = i32(1);
      s[threadIdx.x] = threadIdx.x;
      barrier();
      while (round < n) {
        const other = s[(threadIdx.x + 1) % 8];
        barrier();
        if (n > 2) {
          s[threadIdx.x] = other + scale;
          barrier();
          scale = scale * 2;
        } else {
          s[threadIdx.x] = other - scale;
          barrier();
        }
        round += 1;
        if (round === 5) break;
        if (round === 2) continue;
        scale += 1;
      }
      y[threadIdx.x] = s[threadIdx.x] * 100 + scale;
    },
  );
  const serial = serialize(kernel, [8, 1, 1]);
  assert.deepEqual(
    serial.arrays.map((a) => a.name),
    ['s', 'other'],
  );
  for (const n of [0, 2, 4, 9]) await same(kernel, [1, 1, 1], [8, 1, 1], { y: new Int32Array(8), n });
});

test('all axes of a block, lane and warp numbers', async () => {
  const kernel = defineKernel(
    'k',
    { y: buffer(i32) },
    ({ y }, { threadIdx, blockDim, laneId, warpId, shared, barrier, i32 }) => {
      const s = shared(i32, 96);
      const t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
      const kept = threadIdx.z * 100 + threadIdx.y * 10 + threadIdx.x;
      s[t] = laneId + 1000 * warpId;
      barrier();
      y[t] = s[95 - t] * 1000 + kept;
    },
  );
  await same(kernel, [1, 1, 1], [4, 6, 4], { y: new Int32Array(96) });
});

test('warp sums, shuffles and votes, on whole and partial warps', async () => {
  const schema = { x: buffer(f32), y: buffer(f32), z: buffer(i32), u: buffer(u32) };
  const define = (whole: boolean): KernelIr =>
    defineKernel(
      'k',
      schema,
      (
        { x, y, z, u },
        {
          WHOLE,
          threadIdx,
          warpSum,
          warpMax,
          warpMin,
          shuffle,
          shuffleUp,
          shuffleDown,
          shuffleXor,
          any,
          all,
          ballot,
          i32,
        },
      ) => {
        const t = threadIdx.x;
        const v = x[t];
        const total = warpSum(v);
        y[t] = total + warpMax(v) * warpMin(v) - v / shuffleUp(v * 2, t % 5);
        z[t] = shuffle(t, t & 1);
        u[t] = ballot(v > 0);
        const large = all(v > 0.3);
        if (any(t === 40) && !large) z[t] += i32(1000);
        if (WHOLE) {
          y[t] -= shuffleDown(v, 3);
          z[t] += shuffle(t, t * 7) + shuffleXor(t, 9) * 64;
          for (let by = 16; by > 0; by >>= 1) y[t] += shuffleXor(v, by);
        }
      },
      { WHOLE: whole },
    );
  for (const n of [32, 64, 50, 7]) {
    await same(define(n % 32 === 0), [1, 1, 1], [n, 1, 1], {
      ...{ x: waves(n, 1), y: new Float32Array(n), z: new Int32Array(n), u: new Uint32Array(n) },
    });
  }
});

test('a two-stage block sum with warp sums, the second by one warp of all threads', async () => {
  const kernel = defineKernel(
    'k',
    { x: buffer(f32), y: buffer(f32) },
    ({ x, y }, { threadIdx, blockIdx, globalId, laneId, warpId, warpSum, shared, barrier, f32 }) => {
      const s = shared(f32, 32);
      const mine = warpSum(x[globalId.x]);
      if (threadIdx.x < 32) s[threadIdx.x] = f32(0);
      barrier();
      if (laneId === 0) s[warpId] = mine;
      barrier();
      const all = warpSum(s[laneId]);
      if (threadIdx.x === 0) y[blockIdx.x] = all;
    },
  );
  await same(kernel, [2, 1, 1], [128, 1, 1], { x: waves(256, 1), y: new Float32Array(2) });
});

test('atomics into shared memory: a histogram', async () => {
  const kernel = defineKernel(
    'histogram',
    { x: buffer(i32), counts: buffer(i32), n: i32 },
    ({ x, counts, n }, { threadIdx, globalId, shared, barrier, atomicAdd, i32 }) => {
      const bins = shared(i32, 8);
      if (threadIdx.x < 8) bins[threadIdx.x] = i32(0);
      barrier();
      if (globalId.x < n) atomicAdd(bins, x[globalId.x] % 8, 1);
      barrier();
      if (threadIdx.x < 8) atomicAdd(counts, threadIdx.x, bins[threadIdx.x]);
    },
  );
  const x = Int32Array.from({ length: 100 }, (_, i) => (i * i) % 23);
  const { counts } = await same(kernel, [4, 1, 1], [32, 1, 1], { x, counts: new Int32Array(8), n: 100 });
  assert.equal(
    (counts as Int32Array).reduce((a, b) => a + b),
    100,
  );
});

test('what cannot be split says why', () => {
  const schema = { x: buffer(f32), n: i32 } as const;
  refused(
    defineKernel('k', schema, ({ x }, { threadIdx, barrier }) => {
      if (x[threadIdx.x] > 0) {
        x[threadIdx.x] = 0;
        barrier();
      }
    }),
    /threads may not agree on the if around a barrier\(\) \(.+:\d+:\d+\)/,
  );
  refused(
    defineKernel('k', schema, ({ x }, { threadIdx, barrier }) => {
      for (let i = 0; i < threadIdx.x; i++) {
        x[threadIdx.x] += 1;
        barrier();
      }
    }),
    /threads may not agree on the for around a barrier\(\)/,
  );
  refused(
    defineKernel('k', schema, ({ x, n }, { threadIdx, barrier }) => {
      if (threadIdx.x >= n) return;
      barrier();
      x[threadIdx.x] = 0;
    }),
    /some threads return before a barrier/,
  );
  refused(
    defineKernel('k', schema, ({ x, n }, { threadIdx, barrier }) => {
      for (let i = 0; i < n; i++) {
        barrier();
        if (x[threadIdx.x] > 0) break;
      }
    }),
    /threads may not agree on the if around a break/,
  );
  refused(
    defineKernel('k', schema, ({ x }, { threadIdx, warpSum }) => {
      if (threadIdx.x < 16) x[threadIdx.x] = warpSum(x[threadIdx.x]);
    }),
    /threads may not agree on the if around warpSum\(\)/,
  );
  refused(
    defineKernel('k', schema, ({ x }, { threadIdx, any }) => {
      while (any(x[threadIdx.x] > 0)) x[threadIdx.x] -= 1;
    }),
    /threads may not agree on the if around a break/,
  );
});
