/** The CPU device above 2 GiB, where an address is no i32. What is held below is never touched. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { f32, i32 } from '../../src/core/dtype.js';
import { DeviceError, OutOfMemoryError } from '../../src/core/errors.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { defineKernel } from '../../src/kernel/language/language.js';
import { ABORT } from '../../src/runtime/cpu/control.js';
import { CpuDevice } from '../../src/runtime/cpu/device.js';
import type { DeviceBuffer, Launch } from '../../src/runtime/device.js';
import { registerHostRoutine } from '../../src/runtime/host-routines.js';

const HIGH = 2 ** 31;
const LITTLE = 'this machine gives a process less than 2 GiB of memory';

/** A device with workers, which hands out no address below 2 GiB; undefined if there is too little memory. */
async function highDevice(t: TestContext): Promise<CpuDevice | undefined> {
  const before = { ...process.env };
  Object.assign(process.env, { HEDDLE_THREADS: '3', HEDDLE_MEMORY_MB: '4096' });
  const device = new CpuDevice();
  process.env = before;
  t.after(() => device.close());
  try {
    device.allocate(HIGH, 'held');
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
    t.skip(LITTLE);
    return undefined;
  }
  device.workers.start();
  for (let i = 0; i < 3000 && !device.workers.ready; i++) await sleep(10);
  assert.ok(device.workers.ready, 'workers came up within 30 s');
  return device;
}

/** A worker that cannot begin a program leaves its part to the others: who looks at the results does not see that. */
function noneHasFailed({ heap, workers }: CpuDevice): void {
  workers.rest();
  const failed = Atomics.load(new Int32Array(heap.bytes.buffer, ABORT, 1), 0);
  assert.equal(failed, 0, `thread ${failed - 1} has failed`);
}

/** A buffer of these values, above 2 GiB. */
function put(device: CpuDevice, values: Float32Array | Int32Array): DeviceBuffer {
  const made = device.allocate(values.byteLength, 'high');
  assert.ok(device.addressOf(made) >= HIGH);
  device.write(made, new Uint8Array(values.buffer));
  return made;
}
const floats = async (device: CpuDevice, from: DeviceBuffer): Promise<number[]> => [
  ...new Float32Array((await device.read(from)).buffer),
];

const SIZE = 1 << 16;
const EACH = 64;
const count = (n: number): Float32Array => Float32Array.from({ length: n }, (_, i) => i % 1001);

/** Each block turns its elements round, by way of scratch memory; those of one block in four with a step more. */
const turned = defineKernel(
  'turned',
  { x: buffer(f32), out: buffer(f32), hits: buffer(i32) },
  ({ x, out, hits }, { atomicAdd, blockIdx, f32, shared }) => {
    const kept = shared(f32, 64);
    const first = blockIdx.x * 64;
    for (let i = 0; i < 64; i++) kept[63 - i] = x[first + i];
    for (let i = 63; i >= 0; i--) out[first + i] = kept[i] + (blockIdx.x % 4 === 0 ? 1 : 0);
    atomicAdd(hits, 0, 1);
  },
);
const turn = (x: Float32Array): number[] =>
  Array.from(x, (_, i) => {
    const first = i - (i % EACH);
    return x[first + EACH - 1 - (i - first)]! + ((first / EACH) % 4 === 0 ? 1 : 0);
  });

const launch = (slots: readonly number[]): Launch => ({
  kernel: turned,
  grid: [SIZE / EACH, 1, 1],
  block: [1, 1, 1],
  args: slots.map((slot) => ({ slot, offset: 0 })),
});

test('reads, writes and copies above 2 GiB', async (t) => {
  const device = await highDevice(t);
  if (!device) return;
  const x = put(device, count(100));
  const y = put(device, new Float32Array(100));
  device.write(x, new Uint8Array(Float32Array.of(-1, -2).buffer), 4 * 50);
  device.copy(x, y, 400);
  const expected = count(100).fill(-1, 50, 51).fill(-2, 51, 52);
  assert.deepEqual(await floats(device, y), [...expected]);
  assert.deepEqual(new Float32Array(device.peek(y).slice().buffer), expected);
  assert.deepEqual(new Float32Array((await device.read(y, 200, 8)).buffer), Float32Array.of(-1, -2));
});

test('kernels on all threads, and routines of the host between them, above 2 GiB', async (t) => {
  const device = await highDevice(t);
  if (!device) return;
  registerHostRoutine('test.negate', (_, memory, [address = 0]) => {
    assert.ok(address >= HIGH);
    const values = new Float32Array(memory.buffer, address, SIZE);
    for (let i = 0; i < SIZE; i++) values[i] = -values[i]!;
  });
  const x = count(SIZE);
  const slots = [put(device, x), put(device, new Float32Array(SIZE)), put(device, new Int32Array(1))];
  const program = device.compile([
    launch([0, 1, 2]),
    {
      library: { name: 'test.negate', options: {} },
      args: [{ slot: 1, offset: 0 }],
    },
    launch([1, 0, 2]),
  ]);
  const once = Float32Array.from(turn(x), (v) => -v);
  const RUNS = 20;
  for (let run = 0; run < RUNS; run++) {
    device.write(slots[0]!, new Uint8Array(x.buffer));
    program.run(slots);
    assert.deepEqual(await floats(device, slots[0]!), turn(once));
  }
  const hits = new Int32Array((await device.read(slots[2]!)).buffer)[0];
  assert.equal(hits, (RUNS * 2 * SIZE) / EACH);
  noneHasFailed(device);
  program.dispose();
});

test('a failure on a worker is an error above 2 GiB, too', async (t) => {
  const device = await highDevice(t);
  if (!device) return;
  const far = defineKernel('far', { out: buffer(i32), rounds: i32 }, ({ out, rounds }, { blockIdx }) => {
    let sum = blockIdx.x;
    for (let r = 0; r < rounds; r++) sum = (sum * 5 + r) & 1023;
    out[blockIdx.x === 63 ? 500_000_000 : blockIdx.x] = sum;
  });
  const out = put(device, new Int32Array(64));
  const args = [{ slot: 0, offset: 0 }, { value: 10_000 }];
  const program = device.compile([{ kernel: far, grid: [64, 1, 1], block: [1, 1, 1], args }]);
  assert.throws(() => program.run([out]), DeviceError);
  assert.ok(device.workers.alive);
  noneHasFailed(device);
});

/** Initial values, a training step with dropout, and values to the host: a digest of all bits. */
const training = (held: number): string => `
  import { createHash } from 'node:crypto';
  import * as h from ${JSON.stringify(new URL('../../src/index.js', import.meta.url).href)};
  import { ABORT } from ${JSON.stringify(new URL('../../src/runtime/cpu/control.js', import.meta.url).href)};
  import { openDevice } from ${JSON.stringify(new URL('../../src/runtime/registry.js', import.meta.url).href)};
  const device = openDevice('cpu');
  try {
    if (${held} > 0) device.allocate(${held}, 'held');
  } catch (error) {
    if (!(error instanceof h.OutOfMemoryError)) throw error;
    console.log('little memory');
    process.exit(0);
  }
  device.workers.start();
  while (!device.workers.ready) await new Promise((done) => setTimeout(done, 5));
  h.manualSeed(1);
  const model = new h.nn.Sequential(new h.nn.Linear(300, 400), new h.nn.Dropout({ p: 0.3 }), new h.nn.Linear(400, 3));
  const optimizer = new h.optim.Adam(model.parameters(), { lr: 1e-2 });
  const step = h.jit((x, y) => {
    const loss = h.crossEntropy(model.forward(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  const x = h.randn([64, 300]);
  const y = h.randint(0, 3, [64], { dtype: h.i32 });
  const losses = [];
  for (let i = 0; i < 3; i++) losses.push(await step(x, y).item());
  const digest = createHash('sha256');
  for (const values of [x, y, ...model.parameters()]) digest.update(JSON.stringify(await values.array()));
  device.workers.rest();
  const failed = Atomics.load(new Int32Array(device.heap.bytes.buffer, ABORT, 1), 0);
  console.log(losses.join(' '), digest.digest('hex'), 'failed', failed);
`;

test('draws and a training step give the same bits above 2 GiB', async (t) => {
  const [low, high] = await Promise.all(
    [0, HIGH].map(async (held) => {
      const args = ['--input-type=module', '-e', training(held)];
      const env = { ...process.env, HEDDLE_DEVICE: 'cpu', HEDDLE_THREADS: '3', HEDDLE_MEMORY_MB: '4096' };
      return (await promisify(execFile)(process.execPath, args, { timeout: 120_000, env })).stdout.trim();
    }),
  );
  if (high === 'little memory') t.skip(LITTLE);
  else {
    assert.match(low!, / failed 0$/);
    assert.equal(high, low);
  }
});
