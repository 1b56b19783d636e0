/** The CUDA device by itself, on a GPU. The case list and the tests of jit and kernels run on it as well. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bool, f32, f64, i32, i64, u8 } from '../../src/core/dtype.js';
import { ArgumentError, DeviceError, KernelError, OutOfMemoryError } from '../../src/core/errors.js';
import { kernel, synchronize, tensor, time, useDevice } from '../../src/index.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { defineKernel } from '../../src/kernel/language/language.js';
import type { Device, DeviceBuffer, Launch, ProgramArgument } from '../../src/runtime/device.js';
import { openDevice } from '../../src/runtime/registry.js';
import { cudaReason } from '../cases/case-runner.js';
import { printed } from './printed.js';

const reason = cudaReason();
const on = (name: string, body: (device: Device) => Promise<void>): void => {
  test(name, { skip: reason ? `not run: ${reason}` : false }, () => body(openDevice('cuda')));
};

const floats = async (device: Device, b: DeviceBuffer): Promise<number[]> => [
  ...new Float32Array((await device.read(b)).buffer),
];
function upload(device: Device, values: readonly number[], label = 'values'): DeviceBuffer {
  const b = device.allocate(4 * values.length, label);
  device.write(b, new Uint8Array(Float32Array.from(values).buffer));
  return b;
}
const slot = (n: number, offset = 0): ProgramArgument => ({ slot: n, offset });

const addTo = defineKernel(
  'addTo',
  { x: buffer(f32), y: buffer(f32), n: i32 },
  ({ x, y, n }, { globalId }) => {
    if (globalId.x < n) y[globalId.x] = y[globalId.x]! + x[globalId.x]!;
  },
);
const add = (x: number, y: number, n: number, needs?: readonly number[]): Launch => ({
  kernel: addTo,
  grid: [1, 1, 1],
  block: [64, 1, 1],
  args: [slot(x), slot(y), { value: n }],
  needs,
});

on('an H200 has the limits that are taken where no GPU is asked', async ({ target, description }) => {
  if (description.includes('H200'))
    assert.deepEqual([target.limits, target.units], [H200.limits, H200.units]);
});

on('runs repeat, buffers change between them, levels keep their order', async (device) => {
  const [a, b, c, d] = [
    [1, 2, 3],
    [0, 0, 0],
    [0, 0, 0],
    [10, 10, 10],
  ].map((v) => upload(device, v)) as [DeviceBuffer, DeviceBuffer, DeviceBuffer, DeviceBuffer];
  // b += a beside d += a; then c += b.
  const program = device.compile([add(0, 1, 3), add(0, 3, 3, []), add(1, 2, 3)]);
  let [bs, cs, ds] = [0, 0, 10];
  const expect = async (buffers: DeviceBuffer[], times?: number): Promise<void> => {
    program.run(buffers, times);
    for (let i = 0; i < (times ?? 1); i++) {
      bs += 1;
      cs += bs;
      ds += 1;
    }
    assert.equal((await floats(device, buffers[1]!))[0], bs);
    assert.equal((await floats(device, buffers[2]!))[0], cs);
    assert.equal((await floats(device, buffers[3]!))[0], ds);
  };
  await expect([a, b, c, d]);
  await expect([a, b, c, d]);
  await expect([a, b, c, d], 5);
  await expect([a, b, c, d], 1500);
  await expect([a, b, c, d], 7);
  const other = upload(device, [100, 100, 100]);
  const kept = cs;
  cs = 100;
  await expect([a, b, other, d]);
  cs = kept;
  await expect([a, b, c, d], 5);
  assert.deepEqual(await floats(device, a), [1, 2, 3]);
  program.dispose();
  assert.throws(() => program.run([a, b, c, d]), /disposed/);
  for (const buffer of [a, b, c, d, other]) device.free(buffer);
});

on('a small write that waits for its turn is not overtaken by the large ones after it', async (device) => {
  const spin = defineKernel('spin', { x: buffer(f32), n: i32 }, ({ x, n }, { globalId }) => {
    let v = x[globalId.x]!;
    for (let i = 0; i < n; i++) v = v * 0.5 + 1;
    x[globalId.x] = v;
  });
  const x = upload(device, [1]);
  const program = device.compile([
    {
      kernel: spin,
      grid: [1, 1, 1],
      block: [1, 1, 1],
      args: [slot(0), { value: 20_000_000 }],
    },
  ]);
  const small = device.allocate(256, 'small');
  const large = device.allocate(8 << 20, 'large');
  const fill = new Uint8Array(8 << 20).fill(99);
  // Some 100 ms, for which the small write waits, as programs may still use its memory.
  program.run([x]);
  device.write(small, new Uint8Array(256).fill(7));
  for (let i = 0; i < 8; i++) device.write(large, fill);
  assert.deepEqual(await device.read(small), new Uint8Array(256).fill(7));
  program.dispose();
  for (const b of [x, small, large]) device.free(b);
});

on('scalars of every type arrive, and change without compiling', async (device) => {
  const scalars = defineKernel(
    'scalars',
    { out: buffer(f64), a: bool, b: u8, c: i32, d: i64, e: f32, f: f64 },
    ({ out, a, b, c, d, e, f }, { f64 }) => {
      out[0] = a ? 1 : 0;
      out[1] = f64(b);
      out[2] = f64(c);
      out[3] = f64(d);
      out[4] = f64(e);
      out[5] = f;
    },
  );
  const out = device.allocate(48, 'out');
  const values = [true, 200, -7, -(2n ** 40n), 0.5, 0.1] as const;
  const program = device.compile([
    {
      kernel: scalars,
      grid: [1, 1, 1],
      block: [1, 1, 1],
      args: [slot(0), ...values.map((value) => ({ value }))],
    },
  ]);
  const read = async (): Promise<number[]> => [...new Float64Array((await device.read(out)).buffer)];
  program.run([out]);
  assert.deepEqual(await read(), [1, 200, -7, -(2 ** 40), 0.5, 0.1]);
  program.run([out], 3);
  program.setScalar!(0, 3, 12);
  program.run([out], 3);
  assert.equal((await read())[2], 12);
  program.setScalar!(0, 1, false);
  program.run([out]);
  assert.deepEqual((await read()).slice(0, 3), [0, 200, 12]);
  assert.throws(() => program.setScalar!(0, 0, 1), /out is a buffer/);
});

on(
  'large writes and reads in pieces, small ones without waiting, the source reused at once',
  async (device) => {
    const bytes = 150 * 2 ** 20 + 12;
    const big = device.allocate(bytes, 'big');
    const words = new Uint32Array(bytes / 4).map((_, i) => Math.imul(i, 2654435761));
    device.write(big, new Uint8Array(words.buffer));
    words.fill(0);
    const back = new Uint32Array((await device.read(big)).buffer);
    assert.ok(back.every((v, i) => v === Math.imul(i, 2654435761) >>> 0));
    const source = new Uint8Array(4);
    const small = device.allocate(4000, 'small');
    for (let i = 0; i < 1000; i++) {
      source.fill(i & 255);
      device.write(small, source, 4 * i);
    }
    const all = await device.read(small);
    assert.ok(all.every((v, i) => v === ((i >> 2) & 255)));
    assert.deepEqual([...(await device.read(small, 3998))], [231, 231]);
    const copy = device.allocate(16, 'copy');
    device.copy(small, copy, 16);
    assert.equal((await device.read(copy))[15], 3);
    assert.equal((await device.read(device.allocate(0, 'empty'))).length, 0);
    assert.throws(() => device.write(copy, new Uint8Array(8), 12), ArgumentError);
  },
);

on('shared memory above 48 KB', async (device) => {
  const reverse = defineKernel(
    'reverse',
    { x: buffer(f32), n: i32 },
    ({ x, n }, { threadIdx, blockDim, dynamicShared, barrier, f32 }) => {
      const all = dynamicShared(f32);
      for (let i = threadIdx.x; i < n; i += blockDim.x) all[i] = x[i]!;
      barrier();
      for (let i = threadIdx.x; i < n; i += blockDim.x) x[i] = all[n - 1 - i]!;
    },
  );
  const n = 25_000;
  const x = upload(
    device,
    Array.from({ length: n }, (_, i) => i),
  );
  const launch = (sharedBytes: number): Launch => ({
    kernel: reverse,
    grid: [1, 1, 1],
    block: [256, 1, 1],
    sharedBytes,
    args: [slot(0), { value: n }],
  });
  device.compile([launch(4 * n)]).run([x]);
  assert.deepEqual((await floats(device, x)).slice(0, 3), [n - 1, n - 2, n - 3]);
  assert.throws(
    () => device.compile([launch(300_000)]),
    /300000 bytes of dynamic shared memory and 0 of shared arrays: .* at most \d+/,
  );
  const info = device.inspect!(reverse, [256, 1, 1], 4 * n);
  assert.ok(info.registers >= 8 && info.registers <= 64, `${info.registers} registers`);
  assert.equal(info.sharedBytes, 4 * n);
  assert.equal(info.localBytes, 0);
  assert.ok(info.blocksPerMultiprocessor >= 1 && info.occupancy > 0 && info.occupancy <= 1);
});

on(
  'what kernels print arrives with block and thread; a failed assertion names its line, and no more is lost',
  async (device) => {
    const checked = defineKernel(
      'checked',
      { x: buffer(f32), limit: f32 },
      ({ x, limit }, { globalId, threadIdx, assert, print }) => {
        const v = x[globalId.x]!;
        if (threadIdx.x === 1) print('x is {} of {}', v, limit);
        assert(v < limit, 'x is small');
        x[globalId.x] = v + 1;
      },
    );
    const x = upload(device, [0.5, 1.5, 2.5, 3.5]);
    const program = device.compile([
      {
        kernel: checked,
        grid: [2, 1, 1],
        block: [2, 1, 1],
        args: [slot(0), { value: 10 }],
      },
    ]);
    const lines = await printed('[block', async () => {
      program.run([x]);
      await device.synchronize();
    });
    assert.deepEqual(lines.sort(), [
      '[block (0,0,0) thread (1,0,0)] x is 1.5 of 10\n',
      '[block (1,0,0) thread (1,0,0)] x is 3.5 of 10\n',
    ]);
    program.setScalar!(0, 1, 4);
    await printed('[block', async () => {
      // At the launch itself under HEDDLE_CUDA_SYNC=1.
      const failing = async (): Promise<unknown> => {
        program.run([x]);
        return device.read(x);
      };
      await assert.rejects(failing, (error: unknown) => {
        assert.ok(error instanceof KernelError);
        assert.match(
          error.message,
          /^\[checked\] assertion failed: x is small\n {2}block \(1,0,0\), thread \(1,0,0\)\n {2}at .*cuda-device\.test\.[jt]s:\d+:\d+\n/,
        );
        return true;
      });
    });
    assert.deepEqual(
      await floats(device, x),
      [2.5, 3.5, 4.5, 4.5],
      'the other threads went on, and the device works',
    );
  },
);

on('memory that runs out names the holders, and freed memory is used again', async (device) => {
  const before = device.memory();
  const held = device.allocate(64 * 2 ** 20, 'the weights');
  const { reserved } = device.memory();
  assert.throws(
    () => device.allocate(2 ** 50, 'too much'),
    (error: unknown) => {
      assert.ok(error instanceof OutOfMemoryError);
      assert.match(
        error.message,
        /cannot get 1048576 GiB for 'too much': .* are held .*the weights 64 MiB in 1/,
      );
      return true;
    },
  );
  device.free(held);
  assert.equal(device.memory().used, before.used);
  const again = device.allocate(64 * 2 ** 20, 'again');
  assert.ok(device.memory().reserved <= reserved);
  device.free(again);
  assert.throws(() => device.write(again, new Uint8Array(4)), /has been freed/);
});

on('10,000 runs hold no more memory than one', async (device) => {
  const [a, b] = [upload(device, [1]), upload(device, [0])];
  const program = device.compile([add(0, 1, 1)]);
  program.run([a, b]);
  const { used, reserved } = device.memory();
  for (let i = 1; i < 10_000; i++) {
    const scratch = device.allocate(4096, 'scratch');
    program.run([a, b]);
    device.free(scratch);
  }
  assert.deepEqual(await floats(device, b), [10_000]);
  assert.equal(device.memory().used, used);
  assert.ok(device.memory().reserved <= reserved + 2 ** 20);
});

on('device time, and errors of use', async (device) => {
  const [a, b] = [upload(device, [1]), upload(device, [0])];
  const program = device.compile([add(0, 1, 1)]);
  const us = await device.time(() => {
    for (let i = 0; i < 100; i++) program.run([a, b]);
  });
  assert.ok(us > 20 && us < 1e6, `${us} µs`);
  assert.throws(() => program.run([a]), DeviceError);
  assert.throws(
    () => device.compile([{ ...add(0, 1, 1), block: [2048, 1, 1] } as Launch]),
    /2048 threads: .* at most 1024/,
  );
  assert.throws(
    () => device.compile([{ ...add(0, 1, 1), args: [slot(0)] } as Launch]),
    /takes 3 arguments, got 1/,
  );
  assert.throws(() => openDevice('cuda:99'), /'cuda:99' is not available: there are \d+, numbered from 0/);
});

on(
  'large writes beside the programs come before those queued later, and not before those queued earlier',
  async (device) => {
    const n = 1 << 20;
    const slow = defineKernel(
      'slow',
      { x: buffer(f32), y: buffer(f32), n: i32 },
      ({ x, y, n }, { globalId }) => {
        let sum = y[globalId.x]!;
        for (let i = 0; i < 200; i++) sum = sum + x[(globalId.x + i * 4096) % n]!;
        y[globalId.x] = sum;
      },
    );
    const inputs = [1, 2, 3].map((v) => upload(device, new Array<number>(n).fill(v)));
    const y = upload(device, new Array<number>(n).fill(0));
    const program = device.compile([
      {
        kernel: slow,
        grid: [n / 256, 1, 1],
        block: [256, 1, 1],
        args: [slot(0), slot(1), { value: n }],
      },
    ]);
    let expected = 0;
    for (let step = 0; step < 30; step++) {
      const x = inputs[step % (step < 15 ? 3 : 1)]!;
      device.write(x, new Uint8Array(new Float32Array(n).fill(step).buffer));
      program.run([x, y]);
      expected += 200 * step;
      if (step % 7 !== 0) continue;
      // Memory that is given back while it is in use, and taken for another input.
      device.free(inputs[step % 3]!);
      inputs[step % 3] = upload(device, new Array<number>(n).fill(-1));
    }
    const result = new Float32Array((await device.read(y)).buffer);
    assert.ok(
      result.every((v) => v === expected),
      `${result[0]}, expected ${expected}`,
    );
  },
);

on('a large write to memory that a program uses is under way while the program runs', async (device) => {
  const n = 8 << 20;
  const slow = defineKernel(
    'slowSum',
    { x: buffer(f32), y: buffer(f32), n: i32 },
    ({ x, y, n }, { globalId }) => {
      let sum = y[globalId.x]!;
      for (let i = 0; i < 300; i++) sum = sum + x[(globalId.x + i * 4096) % n]!;
      y[globalId.x] = sum;
    },
  );
  const [x, y] = [device.allocate(4 * n, 'x'), upload(device, new Array<number>(n).fill(0))];
  const args = [slot(0), slot(1), { value: n }];
  const program = device.compile([{ kernel: slow, grid: [n / 256, 1, 1], block: [256, 1, 1], args }]);
  const source = new Uint8Array(new Float32Array(n).fill(1).buffer);
  const took = async (work: () => void): Promise<number> => {
    await device.synchronize();
    const start = performance.now();
    for (let i = 0; i < 10; i++) work();
    await device.synchronize();
    return performance.now() - start;
  };
  const write = (): void => device.write(x, source);
  const run = (): void => program.run([x, y]);
  const both = (): void => {
    write();
    run();
  };
  await took(both);
  const rounds: number[] = [];
  for (let round = 0; round < 5; round++) {
    const [writes, runs] = [await took(write), await took(run)];
    // Of the shorter of the two, how much is hidden behind the other.
    rounds.push((writes + runs - (await took(both))) / Math.min(writes, runs));
  }
  const best = Math.max(...rounds);
  assert.ok(best > 0.5, `of the shorter, ${best.toFixed(2)} is hidden`);
});

on(
  "a user's kernel on the GPU: new scalars need no new program, figures of the compiler, device time",
  async () => {
    useDevice('cuda');
    const scale = kernel('scale', { x: buffer(f32), by: f32 }, ({ x, by }, { globalId }) => {
      x[globalId.x] = by * x[globalId.x]!;
    });
    const x = tensor([1, 2, 3, 4]);
    const config = { grid: 1, block: 4 };
    let product = 1;
    for (const by of [2, 0.5, -3, 1.5]) {
      await scale.launch(config, { x, by });
      product *= by;
    }
    assert.deepEqual(
      [...(await x.data())],
      [1, 2, 3, 4].map((v) => v * product),
    );
    const { registers, localBytes, occupancy } = scale.info({ block: 256 });
    assert.ok(registers > 0 && registers < 40 && localBytes === 0 && occupancy === 1);
    assert.match(scale.ptx({ block: 256 }), /\.entry scale\(/);
    const us = await time(() => {
      for (let i = 0; i < 10; i++) void scale.launch(config, { x, by: 1 });
    });
    assert.ok(us > 1 && us < 1e5, `${us} µs`);
    await synchronize();
  },
);
