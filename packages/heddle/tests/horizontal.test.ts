/** Small launches of one level side by side in one kernel, on the simulator, which watches every access. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32 } from '../src/core/dtype.js';
import { defineKernel } from '../src/kernel/language.js';
import { buffer } from '../src/kernel/types.js';
import { SimDevice } from '../src/runtime/sim/device.js';
import { SIM_TARGET } from '../src/runtime/sim/launch.js';
import { mergeLaunches } from '../src/schedule/horizontal.js';
import type { ScheduledLaunch } from '../src/schedule/schedule.js';

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
): ScheduledLaunch => ({
  work: { kernel, grid, block },
  args: results.map((result) => ({ result })),
  level,
  bytes: 8,
});

async function run(launches: readonly ScheduledLaunch[], sizes: readonly number[]): Promise<Float32Array[]> {
  const device = new SimDevice();
  const slots = sizes.map((n) => {
    const slot = device.allocate(4 * n, 'test');
    device.write(slot, new Uint8Array(Float32Array.from({ length: n }, (_, i) => i + 0.5).buffer));
    return slot;
  });
  const compiled = launches.map((l) => ({
    ...(l.work as Extract<typeof l.work, { kernel: unknown }>),
    args: l.args.map((place) => ({ slot: (place as { result: number }).result, offset: 0 })),
    independent: false,
  }));
  device.compile(compiled).run(slots);
  return Promise.all(slots.map(async (s) => new Float32Array((await device.read(s)).buffer)));
}

test('launches of any grid and block find their coordinates in the merged kernel', async () => {
  const parts = [
    launch(where, [2, 3, 2], [4, 2, 1], [0]),
    launch(reverse, [3, 1, 1], [64, 1, 1], [1, 2]),
    launch(where, [1, 1, 1], [7, 1, 1], [3]),
    launch(reverse, [2, 1, 1], [64, 1, 1], [4, 5]),
    launch(where, [5, 1, 1], [32, 2, 1], [6]),
  ];
  const sizes = [96, 192, 192, 7, 128, 128, 320];
  const merged = mergeLaunches(parts, SIM_TARGET);
  assert.equal(merged.length, 1);
  assert.equal(merged[0]!.bytes, 40);
  const work = merged[0]!.work as { grid: readonly number[]; block: readonly number[] };
  assert.deepEqual(
    [work.grid, work.block],
    [
      [23, 1, 1],
      [64, 1, 1],
    ],
  );
  assert.deepEqual(await run(merged, sizes), await run(parts, sizes));
});

test('launches of other levels, of large grids, and waiting ones of other sizes stay apart', () => {
  const small = launch(where, [1, 1, 1], [32, 1, 1], [0]);
  const later = launch(where, [1, 1, 1], [32, 1, 1], [1], 1);
  assert.equal(mergeLaunches([small, later], SIM_TARGET).length, 2);
  const large = launch(where, [1000, 1, 1], [32, 1, 1], [1]);
  assert.equal(mergeLaunches([small, large], SIM_TARGET).length, 2);
  const waiting = launch(reverse, [1, 1, 1], [64, 1, 1], [1, 2]);
  const wide = launch(where, [1, 1, 1], [128, 1, 1], [0]);
  assert.equal(mergeLaunches([waiting, wide], SIM_TARGET).length, 2);
  assert.equal(mergeLaunches([small, waiting], { ...SIM_TARGET, model: 'blocks' }).length, 2);
});

test('a dynamic shared array keeps a launch to itself', () => {
  const small = launch(where, [1, 1, 1], [32, 1, 1], [0]);
  const dynamic: ScheduledLaunch = { ...small, work: { ...small.work, sharedBytes: 1024 } };
  assert.equal(mergeLaunches([small, dynamic], SIM_TARGET).length, 2);
});
