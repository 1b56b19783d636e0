/**
 * Writes beside programs, without a GPU: on a driver that runs what is queued in any order that streams and events allow.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { PhiloxStream } from '../../src/core/philox.js';
import type { Driver } from '../../src/runtime/cuda/driver/driver.js';
import { NativeMemory, viewNative } from '../../src/runtime/cuda/driver/native.js';
import { Timeline } from '../../src/runtime/cuda/driver/timeline.js';
import { CudaAllocator } from '../../src/runtime/cuda/memory/allocator.js';
import { Transfers } from '../../src/runtime/cuda/memory/transfers.js';
import { property } from '../property.js';

interface Queued {
  /** What must be done before. */
  readonly after: readonly Queued[];
  readonly run: () => void;
  done: boolean;
}

/** Runs nothing before it must, and then what comes up by chance. Handles of streams and events are numbers. */
class LazyDriver {
  readonly #memory: NativeMemory[] = [];
  /** Values that have come to the device. */
  readonly arrived: number[] = [];
  readonly #random: PhiloxStream;
  readonly #streams = new Map<number, Queued[]>();
  readonly #events = new Map<number, Queued | undefined>();
  readonly #out = new NativeMemory(16);
  #handles = 0;

  constructor(seed: number) {
    this.#random = new PhiloxStream(seed);
  }

  handle(call: (at: number) => void): number {
    call(this.#out.address);
    return this.#out.u64();
  }

  #give = (at: number, value: number): number => {
    assert.equal(at, this.#out.address);
    this.#out.setU64(0, value);
    return 0;
  };

  #allocate = (at: number, bytes: number): number => {
    const block = new NativeMemory(bytes);
    this.#memory.push(block);
    return this.#give(at, block.address);
  };

  readonly api = {
    cuMemHostAlloc: this.#allocate,
    cuMemAlloc_v2: this.#allocate,
    cuMemFree_v2: () => this.finish(),
    cuMemFreeHost: () => this.finish(),
    cuStreamCreate: (at: number) => {
      this.#streams.set(++this.#handles, []);
      return this.#give(at, this.#handles);
    },
    cuEventCreate: (at: number) => this.#give(at, ++this.#handles),
    cuEventDestroy_v2: () => 0,
    cuStreamDestroy_v2: () => 0,
    cuEventRecord: (event: number, stream: number) => {
      this.#events.set(event, this.#streams.get(stream)!.at(-1));
    },
    cuStreamWaitEvent: (stream: number, event: number) => {
      const queued = this.#events.get(event);
      this.queue(stream, () => undefined, queued ? [queued] : []);
    },
    cuEventSynchronize: (event: number) => {
      const queued = this.#events.get(event);
      while (queued && !queued.done) this.#runOne();
    },
    cuMemcpyHtoDAsync_v2: (to: number, from: number, bytes: number, stream: number) => {
      this.#copy(to, from, bytes, stream);
      this.queue(stream, () => this.arrived.push(new Float32Array(viewNative(to, 4).slice().buffer)[0]!));
    },
    cuMemcpyDtoDAsync_v2: (to: number, from: number, bytes: number, stream: number) =>
      this.#copy(to, from, bytes, stream),
  };
  readonly raw = this.api;

  #copy(to: number, from: number, bytes: number, stream: number): void {
    this.queue(stream, () => viewNative(to, bytes).set(viewNative(from, bytes)));
  }

  queue(stream: number, run: () => void, after: readonly Queued[] = []): void {
    const queue = this.#streams.get(stream)!;
    const last = queue.at(-1);
    queue.push({ run, after: last ? [...after, last] : after, done: false });
  }

  /** @param busy a stream that comes to nothing meanwhile */
  finish(busy?: number): void {
    while (this.#runOne(busy));
  }

  #runOne(busy?: number): boolean {
    const ready = [...this.#streams].flatMap(([stream, queue]) => {
      if (stream === busy) return [];
      const next = queue.find(({ done }) => !done);
      return next?.after.every(({ done }) => done) ? [next] : [];
    });
    if (ready.length === 0) return false;
    const next = ready[this.#random.below(ready.length)]!;
    next.run();
    next.done = true;
    return true;
  }
}

const FLOATS = 16 << 10;

/** A device that runs what is queued in any order, and copies to it. */
function openDevice(seed: number) {
  const driver = new LazyDriver(seed);
  const stream = driver.handle((at) => void driver.api.cuStreamCreate(at));
  const real = driver as unknown as Driver;
  const timeline = new Timeline(real, stream);
  const allocator = new CudaAllocator(real, 'cuda');
  return { driver, stream, timeline, allocator, transfers: new Transfers(real, allocator, stream, timeline) };
}

/** A write to one of several buffers, then programs that use one of them. */
const step = fc.record({
  written: fc.nat(2),
  used: fc.nat(2),
  programs: fc.nat(3),
  floats: fc.constantFrom(100, FLOATS),
  pinned: fc.boolean(),
});

property(
  'every program sees what was written last before it, in whatever order streams come to run',
  [fc.array(step, { minLength: 1, maxLength: 14 }), fc.nat()],
  (steps, seed) => {
    const { driver, stream, timeline, transfers } = openDevice(seed);
    const buffers = [0, 1, 2].map(() => ({ memory: new NativeMemory(4 * FLOATS), lastUse: 0 }));
    const source = new NativeMemory(4 * FLOATS);
    const pages = source.address;
    const event = driver.handle((at) => void driver.api.cuEventCreate(at));
    const contents = buffers.map(() => new Float32Array(FLOATS));
    const seen: [found: number[], expected: number[]][] = [];
    // The ends, which pieces of a write would not reach together.
    const ends = (values: Float32Array): number[] => [values[0]!, values[99]!, values.at(-1)!];
    steps.forEach(({ written, used, programs, floats, pinned }, i) => {
      const values = new Float32Array(source.bytes.buffer, 0, floats).fill(i + 1);
      const target = buffers[written]!;
      const from = pinned ? { address: source.address, pages, event } : undefined;
      transfers.write(target.memory.address, source.bytes.subarray(0, 4 * floats), target.lastUse, from);
      target.lastUse = ++timeline.now;
      contents[written]!.set(values);
      if (pinned) driver.api.cuEventSynchronize(event);
      values.fill(-1);
      for (let p = 0; p < programs; p++) {
        const { memory } = buffers[used]!;
        const expected = ends(contents[used]!);
        buffers[used]!.lastUse = ++timeline.now;
        driver.queue(stream, () => seen.push([ends(new Float32Array(memory.bytes.buffer)), expected]));
      }
    });
    driver.finish();
    for (const [found, expected] of seen) assert.deepEqual(found, expected);
    for (const [i, { memory }] of buffers.entries())
      assert.deepEqual(ends(new Float32Array(memory.bytes.buffer)), ends(contents[i]!));
    transfers.close();
  },
  { runs: 60 },
);

test('large writes come to the device while a program runs, and to its memory when it has', () => {
  const { driver, stream, timeline, allocator, transfers } = openDevice(0);
  const memory = new NativeMemory(4 * FLOATS);
  const write = (value: number): void => {
    transfers.write(
      memory.address,
      new Uint8Array(new Float32Array(FLOATS).fill(value).buffer),
      timeline.now,
    );
    timeline.now++;
  };
  write(1);
  driver.finish();
  // Two more, as of the steps to come, while the program is still busy with the first.
  write(2);
  write(3);
  driver.finish(stream);
  assert.deepEqual(driver.arrived, [1, 2, 3]);
  assert.equal(new Float32Array(memory.bytes.buffer)[0], 1);
  // Where they land is memory of the device, which a tensor may need more.
  assert.equal(allocator.report().reserved, 2 << 20);
  assert.equal(transfers.clear(), true);
  assert.equal(allocator.report().reserved, 0);
  assert.equal(new Float32Array(memory.bytes.buffer)[0], 3);
  for (const value of [4, 5, 6]) write(value);
  driver.finish();
  assert.equal(new Float32Array(memory.bytes.buffer)[0], 6);
  transfers.close();
  assert.equal(allocator.report().reserved, 0);
});

test('writes land nowhere that HEDDLE_CUDA_MEMORY_MB does not allow: they wait for the program', (t) => {
  process.env.HEDDLE_CUDA_MEMORY_MB = '16';
  t.after(() => delete process.env.HEDDLE_CUDA_MEMORY_MB);
  const { driver, stream, timeline, allocator, transfers } = openDevice(0);
  allocator.reserve(15 << 20);
  const memory = new NativeMemory(4 * FLOATS);
  const source = new Uint8Array(new Float32Array(FLOATS).fill(1).buffer);
  for (let i = 0; i < 3; i++) transfers.write(memory.address, source, timeline.now++);
  assert.equal(allocator.report().reserved, 16 << 20);
  driver.finish(stream);
  driver.finish();
  assert.equal(driver.arrived.length, 3);
  transfers.close();
});
