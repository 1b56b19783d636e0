/** Streams on a GPU: they overlap, events hold them back, and memory that is freed is not given away too early. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import v8 from 'node:v8';
import vm from 'node:vm';
import { allocate, buffer, f32, i32, jit, kernel, stream, useDevice, zeros } from '../../src/index.js';
import type { Driver } from '../../src/runtime/cuda/driver/driver.js';
import { CudaStream, type StreamHost } from '../../src/runtime/cuda/driver/stream.js';
import { Timeline } from '../../src/runtime/cuda/driver/timeline.js';
import { cudaReason } from '../cases/case-runner.js';

const reason = cudaReason();
const on = (name: string, body: () => Promise<void>): void => {
  test(name, { skip: reason ? `not run: ${reason}` : false }, async () => {
    useDevice('cuda');
    await body();
  });
};

/** y[i] += 1, after `rounds` of a chain of divisions: milliseconds. */
const slowly = kernel(
  'slowly',
  { y: buffer(f32), rounds: i32, n: i32 },
  ({ y, rounds, n }, { globalId, f32 }) => {
    let v = f32(1);
    for (let i = 0; i < rounds; i++) v = 1 / (v + 0.5);
    if (globalId.x < n) y[globalId.x] = y[globalId.x]! + (v > 0 ? 1 : 0);
  },
);
const ROUNDS = 60_000;
const small = { grid: 1, block: 32 };

/** Says that it is here, and waits for the other to say so, up to `rounds` looks: met[2 + mine] is whether it did. */
const meet = kernel(
  'meet',
  { met: buffer(i32), mine: i32, rounds: i32 },
  ({ met, mine, rounds }, { threadIdx, atomicAdd, i32 }) => {
    if (threadIdx.x === 0) {
      atomicAdd(met, mine, 1);
      let seen = i32(0);
      for (let i = 0; i < rounds; i++) if (seen === 0) seen = atomicAdd(met, 1 - mine, 0);
      met[2 + mine] = seen;
    }
  },
);

on('kernels on two streams run side by side, unless an event holds one back', async () => {
  const [a, b] = [stream(), stream()];
  const met = allocate(i32, 4);
  const run = (s: typeof a, mine: number): void =>
    void meet.launch({ ...small, stream: s }, { met, mine, rounds: 400_000 });
  met.write(new Int32Array(4));
  run(a, 0);
  run(b, 1);
  assert.deepEqual([...(await met.read())], [1, 1, 1, 1], 'each found the other running');
  met.write(new Int32Array(4));
  run(a, 0);
  b.wait(a.record());
  run(b, 1);
  assert.deepEqual([...(await met.read())], [1, 1, 0, 1], 'the first waited in vain');
  const y = allocate(f32, new Float32Array(32));
  const start = a.record();
  await slowly.launch({ ...small, stream: a }, { y, rounds: ROUNDS, n: 32 });
  const end = a.record();
  assert.equal(end.happened, false);
  const took = await end.since(start);
  assert.ok(took > 500 && end.happened, `${took} µs between events`);
  assert.equal((await y.read())[0], 1);
  a.dispose();
  b.dispose();
});

on('a stream works beside tensors, and in order with them on the same memory', async () => {
  const s = stream();
  const [y, other] = [zeros([32]).realize(), zeros([32]).realize()];
  const step = jit(() => void other.assign(other.add(1)));
  step();
  for (let i = 0; i < 20; i++) {
    await slowly.launch({ ...small, stream: s }, { y, rounds: ROUNDS, n: 32 });
    y.assign(y.mul(2));
    y.realize();
  }
  // y ← 2 · (y + 1), twenty times
  assert.equal((await y.data())[7], 2 ** 21 - 2);
  await slowly.launch({ ...small, stream: s }, { y, rounds: 10 * ROUNDS, n: 32 });
  const slow = s.record();
  for (let i = 0; i < 50; i++) step();
  assert.equal((await other.data())[0], 51);
  assert.equal(slow.happened, false);
  await s.synchronize();
  assert.ok(slow.happened);
  s.dispose();
});

on('memory that a stream still writes is not anyone else’s yet', async () => {
  const s = stream();
  for (let i = 0; i < 10; i++) {
    const y = allocate(f32, new Float32Array(1000));
    await slowly.launch({ grid: 8, block: 128, stream: s }, { y, rounds: ROUNDS, n: 1000 });
    y.dispose();
    const taken = allocate(f32, new Float32Array(1000));
    const zero = zeros([1000]).realize();
    if (i === 9) s.dispose();
    assert.ok((await taken.read()).every((v) => Number(v) === 0));
    assert.ok((await zero.data()).every((v) => Number(v) === 0));
    taken.dispose();
    zero.dispose();
  }
});

test('an event lives as long as somebody waits for it, whatever the collector finds meanwhile', async () => {
  v8.setFlagsFromString('--expose-gc');
  const collect = vm.runInNewContext('gc') as () => void;
  // A driver that hands out numbers, and a wait in which garbage is collected.
  const destroyed: number[] = [];
  let handles = 0;
  const driver = {
    handle: () => ++handles,
    float: () => 0.5,
    api: { cuEventRecord: () => {} },
    raw: { cuEventDestroy_v2: (event: number) => destroyed.push(event) },
  } as unknown as Driver;
  const reached = async (event: number): Promise<void> => {
    for (let i = 0; i < 5; i++) {
      await new Promise((resolve) => setTimeout(resolve, 1));
      collect();
    }
    assert.ok(!destroyed.includes(event), `event ${event} is destroyed while somebody waits for it`);
  };
  const host: StreamHost = {
    device: {} as StreamHost['device'],
    driver,
    timeline: new Timeline(driver, 0),
    call: (work) => work(),
    reached,
    release: (work) => work(),
    forget: () => {},
  };
  const s = new CudaStream(host);
  await s.synchronize();
  assert.equal(await s.record().since(s.record()), 500);
  await reached(0);
  assert.equal(destroyed.length, 3, 'and is destroyed when nobody can wait for it any more');
});
