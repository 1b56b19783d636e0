/** Small launches of one level side by side in one kernel, on the simulator, which watches every access. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { defineKernel } from '../../src/kernel/language/language.js';
import { SimDevice } from '../../src/runtime/sim/device.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import type { PlacedLaunch } from '../../src/schedule/launch.js';
import { mergeLaunches } from '../../src/schedule/passes/horizontal.js';

process.env.HEDDLE_CHECK = '1';

/** y[grid position, thread position] says where the thread believes it is. */
const where = defineKernel(
  'where',
  { y: buffer(f32) },
  ({ y }, { blockIdx, blockDim, gridDim, threadIdx, f32 }) => {
    const block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    const thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    y[block * blockDim.x * blockDim.y * blockDim.z + thread] =
      f32(blockIdx.x) +
      10 * f32(blockIdx.y) +
      100 * f32(blockIdx.z) +
      1000 * f32(threadIdx.x) +
      1e5 * f32(threadIdx.y);
  },
);

/** Each block turns its elements around, through shared memory: threads wait for each other. */
const reverse = defineKernel(
  'reverse',
  { x: buffer(f32), y: buffer(f32) },
  ({ x, y }, { blockIdx, threadIdx, shared, barrier, f32, N }) => {
    const tile = shared(f32, N);
    const at = blockIdx.x * N;
    tile[threadIdx.x] = x[at + threadIdx.x];
    barrier();
    y[at + threadIdx.x] = tile[N - 1 - threadIdx.x];
  },
  { N: 64 },
);

const launch = (
  kernel: typeof where,
  grid: [number, number, number],
  block: [number, number, number],
  results: number[],
  level = 0,
): PlacedLaunch => ({
  work: { kernel, grid, block },
  args: results.map((result) => ({ result })),
  level,
  awaits: 0,
  bytes: 8,
  touches: [],
});

async function run(launches: readonly PlacedLaunch[], sizes: readonly number[]): Promise<Float32Array[]> {
  const device = new SimDevice();
  const slots = sizes.map((n) => {
    const slot = device.allocate(4 * n, 'test');
    device.write(slot, new Uint8Array(Float32Array.from({ length: n }, (_, i) => i + 0.5).buffer));
    return slot;
  });
  const compiled = launches.map((l) => ({
    ...(l.work as Extract<typeof l.work, { kernel: unknown }>),
    args: l.args.map((place) => ({ slot: (place as { result: number }).result, offset: 0 })),
  }));
  device.compile(compiled).run(slots);
  return Promise.all(slots.map(async (s) => new Float32Array((await device.read(s)).buffer)));
}

test('launches of any grid and block find their coordinates in the merged kernel', async () => {
  const parts = [
    launch(where, [2, 2, 2], [4, 2, 1], [0]),
    launch(reverse, [3, 1, 1], [64, 1, 1], [1, 2]),
    launch(where, [1, 1, 1], [7, 1, 1], [3]),
    launch(reverse, [2, 1, 1], [64, 1, 1], [4, 5]),
    launch(where, [5, 1, 1], [32, 2, 1], [6]),
  ];
  const sizes = [64, 192, 192, 7, 128, 128, 320];
  const merged = mergeLaunches(parts, SIM_TARGET);
  assert.equal(merged.length, 1);
  assert.equal(merged[0]!.bytes, 40);
  const work = merged[0]!.work as { grid: readonly number[]; block: readonly number[] };
  assert.deepEqual(
    [work.grid, work.block],
    [
      [19, 1, 1],
      [64, 1, 1],
    ],
  );
  assert.deepEqual(await run(merged, sizes), await run(parts, sizes));
});

/** The same through a dynamic shared array. */
const reverseDynamic = defineKernel(
  'reverseDynamic',
  { x: buffer(f32), y: buffer(f32) },
  ({ x, y }, { blockIdx, blockDim, threadIdx, dynamicShared, barrier, f32 }) => {
    const tile = dynamicShared(f32);
    const at = blockIdx.x * blockDim.x;
    tile[threadIdx.x] = x[at + threadIdx.x];
    barrier();
    y[at + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
  },
);

const dynamic = (threads: number, results: number[], sharedBytes = 4 * threads): PlacedLaunch => {
  const made = launch(reverseDynamic, [2, 1, 1], [threads, 1, 1], results);
  return { ...made, work: { ...made.work, sharedBytes } };
};

test('threads wait for those of their own part, and share one dynamic array', async () => {
  const parts = [
    launch(where, [3, 1, 1], [128, 1, 1], [0]),
    launch(reverse, [3, 1, 1], [64, 1, 1], [1, 2]),
    dynamic(96, [3, 4]),
    dynamic(32, [5, 6], 1000),
  ];
  const sizes = [384, 192, 192, 192, 192, 64, 64];
  const merged = mergeLaunches(parts, SIM_TARGET);
  assert.equal(merged.length, 1);
  assert.equal((merged[0]!.work as { sharedBytes?: number }).sharedBytes, 1000);
  assert.deepEqual(await run(merged, sizes), await run(parts, sizes));
});

test('launches stay apart: of other levels, of large grids, of part warps that wait, with too much memory', () => {
  const apart = (...launches: PlacedLaunch[]): void =>
    assert.equal(mergeLaunches(launches, SIM_TARGET).length, launches.length);
  const small = launch(where, [1, 1, 1], [32, 1, 1], [0]);
  apart(small, launch(where, [1, 1, 1], [32, 1, 1], [1], 1));
  apart(small, launch(where, [1000, 1, 1], [32, 1, 1], [1]));
  apart(launch(where, [9, 1, 1], [64, 1, 1], [0]), launch(where, [9, 1, 1], [32, 1, 1], [1]));
  apart(launch(where, [1, 1, 1], [128, 1, 1], [0]), dynamic(48, [1, 2]));
  apart(dynamic(64, [0, 1], 200_000), launch(where, [5, 1, 1], [64, 1, 1], [2]));
});
