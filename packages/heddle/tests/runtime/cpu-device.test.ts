/** Programs on the CPU device: many launches, several threads, memory, failures. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { f32, i32 } from '../../src/core/dtype.js';
import { ArgumentError, DeviceError, KernelError, OutOfMemoryError } from '../../src/core/errors.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { defineKernel } from '../../src/kernel/language/language.js';
import { CpuDevice } from '../../src/runtime/cpu/device.js';
import { countersAt } from '../../src/runtime/cpu/render.js';
import type { DeviceBuffer, Dim3, KernelLaunch, ProgramArgument } from '../../src/runtime/device.js';
import { listDevices, openDevice } from '../../src/runtime/registry.js';

/** A device with as many threads as asked for, whatever the machine has. */
function deviceWith(settings: Readonly<Record<string, string>>): CpuDevice {
  const before = { ...process.env };
  Object.assign(process.env, settings);
  try {
    return new CpuDevice();
  } finally {
    process.env = before;
  }
}

async function ready(device: CpuDevice): Promise<void> {
  device.workers.start();
  for (let i = 0; i < 3000 && !device.workers.ready; i++) await sleep(10);
  assert.ok(device.workers.ready, 'workers came up within 30 s');
}

const launch = (
  kernel: KernelLaunch['kernel'],
  grid: Dim3,
  args: readonly (number | { value: number })[],
  needs?: readonly number[],
): KernelLaunch => ({
  kernel,
  grid,
  block: [1, 1, 1],
  args: args.map((a): ProgramArgument => (typeof a === 'number' ? { slot: a, offset: 0 } : a)),
  needs,
});

function floats(device: CpuDevice, values: ArrayLike<number>, label = 'test'): DeviceBuffer {
  const b = device.allocate(values.length * 4, label);
  device.write(b, new Uint8Array(Float32Array.from(values).buffer));
  return b;
}
const readFloats = async (device: CpuDevice, b: DeviceBuffer): Promise<Float32Array> =>
  new Float32Array((await device.read(b)).buffer);

/** out[i] = x[n - 1 - i] + step, 16 elements a block. */
const mirror = defineKernel(
  'mirror',
  { x: buffer(i32), out: buffer(i32), n: i32, step: i32 },
  ({ x, out, n, step }, { blockIdx }) => {
    for (let j = 0; j < 16; j++) {
      const i = blockIdx.x * 16 + j;
      if (i < n) out[i] = x[n - 1 - i] + step;
    }
  },
);

for (const threads of [2, 4]) {
  test(`${threads} threads: launches that need each other's results, thousands of runs`, async () => {
    const device = deviceWith({ HEDDLE_THREADS: String(threads) });
    after(() => device.close());
    await ready(device);
    let state = 12345;
    const random = (n: number): number => {
      state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
      return state % n;
    };
    for (let round = 0; round < 8; round++) {
      const n = 1 + random(16_000);
      const launches = Array.from({ length: 1 + random(9) }, (_, i) => {
        // Small launches are for one thread alone, large ones for all.
        const size = random(3) === 0 ? Math.min(n, 1 + random(64)) : n;
        return { size, step: 1 + random(5), from: i % 2, to: (i + 1) % 2 };
      });
      const program = device.compile(
        launches.map((l) =>
          launch(
            mirror,
            [Math.ceil(l.size / 16), 1, 1],
            [l.from, l.to, { value: l.size }, { value: l.step }],
          ),
        ),
      );
      const slots = [0, 1].map((s) => device.allocate(n * 4, `slot ${s}`));
      const model = [new Int32Array(n).map((_, i) => i), new Int32Array(n)];
      slots.forEach((s, i) => {
        device.write(s, new Uint8Array(model[i]!.buffer));
      });
      const repeats = 100;
      for (let r = 0; r < repeats; r++) program.run(slots);
      for (let r = 0; r < repeats; r++) {
        for (const l of launches) {
          const x = model[l.from]!;
          const out = model[l.to]!;
          for (let i = 0; i < l.size; i++) out[i] = x[l.size - 1 - i]! + l.step;
        }
      }
      for (const [i, s] of slots.entries()) {
        assert.deepEqual(new Int32Array((await device.read(s)).buffer), model[i]);
        device.free(s);
      }
      program.dispose();
    }
  });
}

test('a worker that ends in the middle of a program is an error, not a hang; the device goes on without it', async () => {
  const device = deviceWith({ HEDDLE_THREADS: '3' });
  after(() => device.close());
  await ready(device);
  const count = defineKernel('count', { out: buffer(i32), rounds: i32 }, ({ out, rounds }, { blockIdx }) => {
    let sum = 0;
    for (let r = 0; r < rounds; r++) sum = (sum * 5 + r) & 1023;
    out[blockIdx.x] = sum;
  });
  const slots = [device.allocate(12, 'counts')];
  const program = device.compile([launch(count, [3, 1, 1], [0, { value: 1e8 }])]);
  const inside = program as unknown as { table: number; execute: (...args: number[]) => number };
  const { workers } = device.workers as unknown as { workers: { terminate(): Promise<number> }[] };
  const { execute } = inside;
  inside.execute = (...args) => {
    // Two of the three blocks are the workers'; each takes some 200 ms.
    const claimed = new Int32Array(device.heap.bytes.buffer, inside.table + countersAt(slots.length), 1);
    while (Atomics.load(claimed, 0) < 2);
    void workers[0]!.terminate();
    return execute(...args);
  };
  assert.throws(
    () => program.run(slots),
    (e: Error) =>
      e instanceof DeviceError &&
      /a worker thread .* ended in the middle of a program of count/i.test(e.message),
  );
  inside.execute = execute;
  program.run(slots);
  const [first, ...others] = new Int32Array((await device.read(slots[0]!)).buffer);
  assert.ok(others.every((v) => v === first));
  program.dispose();
  assert.equal(device.workers.ready, false);
});

test('launches that do not need each other run concurrently and are all done before the next', async () => {
  const device = deviceWith({ HEDDLE_THREADS: '2' });
  after(() => device.close());
  await ready(device);
  const fill = defineKernel('fill', { out: buffer(f32), v: f32 }, ({ out, v }, { blockIdx }) => {
    out[blockIdx.x] = v;
  });
  const sum = defineKernel(
    'sum',
    { a: buffer(f32), b: buffer(f32), out: buffer(f32) },
    ({ a, b, out }, { blockIdx, gridDim }) => {
      const other = gridDim.x - 1 - blockIdx.x;
      out[blockIdx.x] = a[other] + b[other];
    },
  );
  const n = 50_000;
  const program = device.compile([
    launch(fill, [n, 1, 1], [0, { value: 1 }]),
    launch(fill, [n, 1, 1], [1, { value: 2 }], []),
    launch(fill, [8, 1, 1], [3, { value: 7 }], []),
    launch(sum, [n, 1, 1], [0, 1, 2]),
  ]);
  const slots = [0, 1, 2, 3].map(() => floats(device, new Float32Array(n)));
  for (let r = 0; r < 50; r++) {
    program.run(slots);
    assert.ok((await readFloats(device, slots[2]!)).every((v) => v === 3));
  }
});

test('the same program runs on other buffers, with offsets', async () => {
  const device = deviceWith({ HEDDLE_THREADS: '1' });
  const twice = defineKernel('twice', { x: buffer(f32) }, ({ x }, { blockIdx }) => {
    x[blockIdx.x] = x[blockIdx.x] * 2;
  });
  const program = device.compile([
    { kernel: twice, grid: [2, 1, 1], block: [1, 1, 1], args: [{ slot: 0, offset: 8 }] },
  ]);
  for (const start of [1, 10]) {
    const b = floats(device, [start, start, start, start, start]);
    program.run([b]);
    assert.deepEqual([...(await readFloats(device, b))], [start, start, 2 * start, 2 * start, start]);
    device.free(b);
    assert.throws(() => program.run([b]), DeviceError);
  }
  assert.throws(() => program.run([]), /uses 1 buffers, 0 were given/);
  program.dispose();
  assert.throws(() => program.run([]), /disposed/);
});

test('memory is used again, counted by label, and given back', async () => {
  const device = deviceWith({ HEDDLE_THREADS: '1' });
  const before = device.memory().used;
  const first = device.allocate(100_000, 'weights');
  const address = device.addressOf(first);
  assert.equal(address % 64, 0);
  assert.deepEqual(device.memory().holders[0]?.label, 'weights');
  device.free(first);
  device.free(first);
  assert.equal(device.memory().used, before);
  const { reserved } = device.memory();
  for (let i = 0; i < 1000; i++) {
    const b = device.allocate(100_000 - (i % 7), 'activations');
    assert.equal(device.addressOf(b), address);
    device.free(b);
  }
  assert.equal(device.memory().reserved, reserved);
  assert.ok(device.memory().peak >= 100_000);
  const grown = device.allocate(40 * 2 ** 20, 'large');
  device.write(grown, Uint8Array.of(1, 2, 3), grown.bytes - 3);
  assert.deepEqual([...(await device.read(grown, grown.bytes - 3))], [1, 2, 3]);
  const copy = device.allocate(grown.bytes, 'copy');
  device.copy(grown, copy, grown.bytes);
  assert.deepEqual([...(await device.read(copy, copy.bytes - 3, 2))], [1, 2]);
  assert.throws(() => device.write(grown, new Uint8Array(8), grown.bytes - 4), ArgumentError);
  assert.equal((await device.read(device.allocate(0, 'empty'))).length, 0);
});

test('out of memory says how much was asked, held, free, and by whom; freed pieces are joined', () => {
  const device = deviceWith({ HEDDLE_THREADS: '1', HEDDLE_MEMORY_MB: '32' });
  const mib = 2 ** 20;
  const pieces = Array.from({ length: 7 }, (_, i) =>
    device.allocate(4 * mib, i < 5 ? 'activations' : 'weights'),
  );
  assert.throws(
    () => device.allocate(8 * mib, 'gradients'),
    (error) => {
      assert.ok(error instanceof OutOfMemoryError);
      assert.match(error.message, /\[gradients\] asked for 8\.0 MiB: of 32 MiB/);
      assert.match(error.message, /28 MiB are held in 7 buffers/);
      assert.match(error.message, /activations 20 MiB in 5, weights 8\.0 MiB in 2/);
      assert.match(error.message, /HEDDLE_MEMORY_MB/);
      return true;
    },
  );
  device.free(pieces[1]!);
  device.free(pieces[2]!);
  assert.equal(device.allocate(8 * mib, 'gradients').bytes, 8 * mib, 'two neighbours make one piece');
});

test('a failure on a worker is an error here, and the device goes on', async () => {
  const device = deviceWith({ HEDDLE_THREADS: '2' });
  after(() => device.close());
  await ready(device);
  const n = 60_000;
  const bad = defineKernel('bad', { x: buffer(f32), at: i32 }, ({ x, at }, { blockIdx }) => {
    const i = blockIdx.x;
    x[i === at ? 0x1fffffff : i] = 1;
  });
  const checked = defineKernel('checked', { x: buffer(f32), at: i32 }, ({ x, at }, { blockIdx, assert }) => {
    assert(blockIdx.x !== at, 'this block must not be');
    x[blockIdx.x] = 2;
  });
  const x = floats(device, new Float32Array(n));
  const run = (kernel: KernelLaunch['kernel'], at: number): void => {
    const last = launch(checked, [n, 1, 1], [0, { value: -1 }]);
    const program = device.compile([launch(kernel, [n, 1, 1], [0, { value: at }]), last]);
    program.run([x]);
  };
  for (const at of [5, n - 5]) {
    assert.throws(
      () => run(bad, at),
      (e) => e instanceof DeviceError && /out of bounds/.test(e.message),
    );
    assert.throws(
      () => run(checked, at),
      (e) => e instanceof KernelError && /this block must not be/.test(e.message),
    );
    run(checked, -1);
    assert.ok((await readFloats(device, x)).every((v) => v === 2));
  }
});

test('a process with workers ends by itself, and a closed device says so', async () => {
  const script = `
    const { CpuDevice } = await import(${JSON.stringify(new URL('../../src/runtime/cpu/device.js', import.meta.url).href)});
    const device = new CpuDevice();
    device.workers.start();
    while (!device.workers.ready) await new Promise((done) => setTimeout(done, 5));
    console.log('ready');
  `;
  const result = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, HEDDLE_THREADS: '3' },
    timeout: 60_000,
    encoding: 'utf8',
  });
  assert.equal(result.status, 0, result.stderr);
  assert.equal(result.stdout, 'ready\n');

  const device = deviceWith({ HEDDLE_THREADS: '2' });
  await ready(device);
  await device.close();
  assert.throws(() => device.allocate(4, 'late'), /closed/);
});

test('the registry lists devices and opens each once', () => {
  assert.deepEqual(
    listDevices().map((d) => d.name),
    ['cuda', 'cpu', 'sim'],
  );
  const cpu = openDevice('cpu');
  assert.equal(openDevice('cpu'), cpu);
  assert.equal(cpu.name, 'cpu');
  assert.match(cpu.description, /thread/);
  assert.throws(() => openDevice('tpu'), /'tpu' is not a device\. Expected one of: cuda, cpu, sim/);
});
