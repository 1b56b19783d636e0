/** The simulator as a device: memory, programs, what it counts and prints. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeviceError, SimulatorError } from '../../src/core/errors.js';
import { buffer, defineKernel, f32, i32 } from '../../src/kernel/language/index.js';
import { SimDevice } from '../../src/runtime/sim/device.js';

const saxpy = defineKernel(
  'saxpy',
  { a: f32, x: buffer(f32), y: buffer(f32), n: i32 },
  ({ a, x, y, n }, { globalId }) => {
    const i = globalId.x;
    if (i < n) y[i] = a * x[i] + y[i];
  },
);

const bytes = (values: number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);
const floats = async (read: Promise<Uint8Array>): Promise<number[]> => [
  ...new Float32Array((await read).buffer),
];

test('a program runs its launches in order, again and again, on the slots it is given', async () => {
  const device = new SimDevice();
  const x = device.allocate(16, 'x');
  const y = device.allocate(16, 'y');
  device.write(x, bytes([1, 2, 3, 4]));
  device.write(y, bytes([10, 20, 30, 40]));
  const launch = (a: number, offset: number, n: number) => ({
    ...({ kernel: saxpy, grid: [2, 1, 1], block: [2, 1, 1] } as const),
    args: [{ value: a }, { slot: 0, offset }, { slot: 1, offset }, { value: n }],
  });
  const program = device.compile([launch(2, 0, 4), launch(1, 8, 2)]);
  program.run([x, y]);
  assert.deepEqual(await floats(device.read(y)), [12, 24, 39, 52]);
  assert.deepEqual(await floats(device.read(y, 8, 4)), [39]);
  program.run([x, y]);
  assert.deepEqual(await floats(device.read(y)), [14, 28, 48, 64]);
  device.copy(y, x, 8);
  device.write(x, bytes([5]), 4);
  assert.deepEqual(await floats(device.read(x)), [14, 5, 3, 4]);
  await device.close();
});

test('memory says what is held and by whom; a freed buffer is gone', async () => {
  const device = new SimDevice();
  const a = device.allocate(100, 'weights');
  device.allocate(20, 'weights');
  const c = device.allocate(50, 'input');
  assert.deepEqual(device.memory(), {
    ...{ used: 170, reserved: 170, peak: 170, buffers: 3 },
    holders: [
      { label: 'weights', bytes: 120, buffers: 2 },
      { label: 'input', bytes: 50, buffers: 1 },
    ],
  });
  device.free(a);
  device.free(a);
  assert.equal(device.memory().used, 70);
  assert.equal(device.memory().peak, 170);
  assert.throws(() => device.write(a, new Uint8Array(1)), DeviceError);
  device.free(c);
  await device.close();
  assert.equal(device.memory().used, 0);
});

test('a finding stops the program; launches before it do not race with those after', () => {
  const device = new SimDevice();
  const y = device.allocate(16, 'y');
  const turn = defineKernel('turn', { y: buffer(f32), by: i32 }, ({ y, by }, { threadIdx, f32 }) => {
    y[(threadIdx.x + by) % 4] = f32(by);
  });
  const launch = (by: number, block: number) => ({
    ...({ kernel: turn, grid: [1, 1, 1] } as const),
    ...({ block: [block, 1, 1], args: [{ slot: 0, offset: 0 }, { value: by }] } as const),
  });
  device.compile([launch(0, 4), launch(1, 4), launch(2, 4)]).run([y]);
  assert.throws(() => device.compile([launch(0, 5)]).run([y]), SimulatorError);
  device.compile([launch(0, 4)]).run([y]);
});

test('steps are counted, prints go to stdout', (t) => {
  const device = new SimDevice();
  const count = defineKernel('count', { n: i32 }, ({ n }, { threadIdx, print }) => {
    for (let i = 0; i < n; i++) if (i === 2 && threadIdx.x === 1) print('i = {}', i);
  });
  const lines: string[] = [];
  const write = t.mock.method(process.stdout, 'write', (line: string) => lines.push(line) > 0);
  try {
    device.compile([{ kernel: count, grid: [1, 1, 1], block: [2, 1, 1], args: [{ value: 3 }] }]).run([]);
  } finally {
    write.mock.restore();
  }
  assert.deepEqual(lines, ['[block (0,0,0) thread (1,0,0)] i = 2\n']);
  assert.equal(device.steps, 6);
});
