/** What the simulator finds of warp operations, asynchronous copies, and memory that is seen as two dtypes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type FindingKind, SimulatorError } from '../../src/core/errors.js';
import type { KernelIr } from '../../src/kernel/ir/ir.js';
import { bf16, buffer, defineKernel, f32, i32, u8 } from '../../src/kernel/language/index.js';
import type { Intrinsics, Memory } from '../../src/kernel/language/language.js';
import { type SimArguments, simulate } from '../../src/runtime/sim/launch.js';

type Kernel = (memory: { readonly x: Memory; readonly y: Memory }, context: Intrinsics) => void;

const define = (fn: Kernel): KernelIr => defineKernel('k', { x: buffer(f32), y: buffer(f32) }, fn);
const floats = (): SimArguments => ({ x: new Float32Array(256).fill(1), y: new Float32Array(256) });

/** A fault, and the thread and the text of the line that it must be found at. */
interface Fault {
  readonly kernel: KernelIr;
  readonly block: number;
  readonly kind: FindingKind;
  readonly thread: number;
  readonly line: RegExp;
  readonly message: RegExp;
  readonly args?: SimArguments;
}

function finds({ kernel, block, kind, thread, line, message, args = floats() }: Fault): void {
  assert.throws(
    () => simulate(kernel, { grid: 1, block }, args),
    (error: unknown) => {
      assert.ok(error instanceof SimulatorError, String(error));
      assert.equal(error.kind, kind, error.message);
      assert.match(error.message, message);
      assert.deepEqual(
        [error.block, error.thread],
        [
          [0, 0, 0],
          [thread, 0, 0],
        ],
        error.message,
      );
      assert.match(error.at?.file ?? '', /sim-warps\.test\.(ts|js)$/);
      assert.match(error.at?.text ?? '', line);
      return true;
    },
  );
}

const passes = (kernel: KernelIr, block: number, args = floats()): void => {
  simulate(kernel, { grid: 2, block }, args);
};

const divergent = { kind: 'divergent-barrier', block: 32 } as const;

test('a warp operation that other lanes of the warp run past', () => {
  const faults: Fault[] = [
    {
      ...divergent,
      kernel: define(({ x }, { threadIdx, shuffleDown }) => {
        const t = threadIdx.x;
        let v = x[t];
        if (t < 20) v = shuffleDown(v, 1);
        x[t] = v;
      }),
      ...{ thread: 0, line: /shuffleDown\(v, 1\)/ },
      message:
        /shuffleDown\(\) is reached by 20 of the warp's 32 running threads: thread \(20,0,0\) has run past it to its end/,
    },
    {
      ...divergent,
      kernel: define(({ x, y }, { threadIdx, warpSum }) => {
        const t = threadIdx.x;
        let sum = 0;
        for (let k = 0; k < t; k++) sum += warpSum(x[t]);
        y[t] = sum;
      }),
      ...{ thread: 1, line: /warpSum/ },
      message: /is reached by 31 of the warp's 32 running threads: thread \(0,0,0\)/,
    },
    {
      ...divergent,
      kernel: define(({ x, y }, { threadIdx, any }) => {
        const t = threadIdx.x;
        let found = false;
        let k = t;
        while (!found && k < 40) {
          found = any(x[k] > 1);
          k++;
        }
        if (!found) y[t] = 1;
        else return;
        y[t] += 1;
      }),
      ...{ thread: 0, line: /any\(/ },
      message: /any\(\) is reached by 31 .* thread \(31,0,0\) has run past it/,
    },
    {
      ...divergent,
      kernel: define(({ x, y }, { threadIdx, ballot, f32 }) => {
        const t = threadIdx.x;
        if (t < 8) y[t] = f32(ballot(x[t] > 0));
        // Returns after the other threads have gone on, not before.
        if (t >= 8) return;
        y[t] += 1;
      }),
      ...{ thread: 0, line: /ballot/ },
      message: /reached by 8 of the warp's 32 running threads/,
    },
    {
      ...divergent,
      kernel: define(({ x }, { threadIdx, mma, splat2, splat4, lane }) => {
        const t = threadIdx.x;
        if (t < 16) x[t] = lane(mma(splat4(x[t]), splat2(x[t]), splat4(0)), 0);
        x[t + 32] = 1;
      }),
      ...{ thread: 0, line: /mma\(/ },
      message: /mma\(\) is reached by 16 of the warp's 32 running threads/,
    },
  ];
  for (const fault of faults) finds(fault);
});

test('returned lanes take no part: reductions and votes are of the others', () => {
  // Three ways to write the same control flow.
  const early = define(({ x, y }, { threadIdx, warpSum, all }) => {
    const t = threadIdx.x;
    if (t >= 20) return;
    const sum = warpSum(x[t]);
    y[t] = all(sum > 1) ? sum : 0;
  });
  const inside = define(({ x, y }, { threadIdx, warpSum }) => {
    const t = threadIdx.x;
    if (t < 20) y[t] = warpSum(x[t]);
  });
  const beside = define(({ x, y }, { threadIdx, warpSum }) => {
    const t = threadIdx.x;
    if (t < 20) {
      y[t] = warpSum(x[t]);
    } else {
      y[t] = 0;
      return;
    }
    y[t] += 0;
  });
  for (const kernel of [early, inside, beside]) {
    const args = { x: new Float32Array(32).fill(1), y: new Float32Array(32) };
    simulate(kernel, { grid: 1, block: 32 }, args);
    assert.deepEqual(
      [...args.y],
      Array.from({ length: 32 }, (_, t) => (t < 20 ? 20 : 0)),
    );
  }
  // Lanes leave a loop around the operation one after the other, by a return.
  passes(
    define(({ x, y }, { threadIdx, blockIdx, warpSum }) => {
      const t = threadIdx.x;
      for (let k = 0; k < 40; k++) {
        if (k > t) return;
        y[blockIdx.x * 32 + t] = warpSum(x[t]);
      }
    }),
    32,
  );
});

test('a shuffle from a lane that has returned, or that the block does not have', () => {
  const faults: Fault[] = [
    {
      kernel: define(({ x, y }, { threadIdx, shuffle }) => {
        y[threadIdx.x] = shuffle(x[threadIdx.x], 31);
      }),
      ...{ kind: 'inactive-lane', block: 20, thread: 0, line: /shuffle\(/ },
      message: /shuffle\(\) reads lane 31, whose value is undefined: this warp of the block has 20 threads/,
    },
    {
      kernel: define(({ x, y }, { threadIdx, shuffleDown }) => {
        const t = threadIdx.x;
        if (t >= 20) return;
        y[t] = shuffleDown(x[t], 1);
      }),
      ...{ kind: 'inactive-lane', block: 32, thread: 19, line: /shuffleDown\(/ },
      message: /shuffleDown\(\) reads lane 20, .*: thread \(20,0,0\) has returned/,
    },
    {
      kernel: define(({ x, y }, { threadIdx, shuffleXor }) => {
        y[threadIdx.x] = shuffleXor(x[threadIdx.x], 16);
      }),
      ...{ kind: 'inactive-lane', block: 52, thread: 36, line: /shuffleXor\(/ },
      message: /shuffleXor\(\) reads lane 20, .*: this warp of the block has 20 threads/,
    },
  ];
  for (const fault of faults) finds(fault);
  // Lanes outside of the warp are defined: a lane gets its own value.
  passes(
    define(({ x, y }, { threadIdx, blockIdx, shuffleUp }) => {
      y[blockIdx.x * 20 + threadIdx.x] = shuffleUp(x[threadIdx.x], 1);
    }),
    20,
  );
});

test('tensor cores need all 32 lanes of a warp', () => {
  const product = define(({ x, y }, { threadIdx, blockIdx, mma, splat2, splat4, lane }) => {
    const v = x[threadIdx.x];
    y[blockIdx.x * 64 + threadIdx.x] = lane(mma(splat4(v), splat2(v), splat4(0)), 0);
  });
  finds({
    ...{ kernel: product, kind: 'inactive-lane', block: 16, thread: 0, line: /mma\(/ },
    message: /mma\(\) needs all 32 lanes of a warp: this warp of the block has 16 threads/,
  });
  passes(product, 64);
  const rows = (threads: number): KernelIr =>
    defineKernel(
      'rows',
      { y: buffer(i32) },
      ({ y }, { threadIdx, shared, bf16, barrier, loadMatrix4, lane, i32, THREADS }) => {
        const t = threadIdx.x;
        const tile = shared(bf16, 256);
        for (let k = 0; k < 8; k++) tile[t * 8 + k] = bf16(k);
        barrier();
        if (t >= THREADS) return;
        y[t] = i32(lane(loadMatrix4(tile, t * 8), 0));
      },
      { THREADS: threads },
    );
  const args = { y: new Int32Array(32) };
  finds({
    ...{ kernel: rows(24), kind: 'inactive-lane', block: 32, thread: 0, line: /loadMatrix4\(/, args },
    message: /loadMatrix4\(\) needs all 32 lanes of a warp: thread \(24,0,0\) has returned/,
  });
  simulate(rows(32), { grid: 1, block: 32 }, args);
});

test('what an asynchronous copy still reads must not be written', () => {
  const copying = (write: 'before' | 'unordered' | 'after'): KernelIr =>
    defineKernel(
      'copying',
      { x: buffer(f32), y: buffer(f32) },
      ({ x, y }, { threadIdx, shared, f32, copyAsync, commitCopies, waitCopies, barrier, WRITE }) => {
        const t = threadIdx.x;
        const tile = shared(f32, 32);
        copyAsync(tile, t, x, t, t < 31);
        commitCopies();
        if (WRITE === 'before') x[t] = 2;
        waitCopies(0);
        if (WRITE === 'unordered') x[31 - t] = 2;
        barrier();
        if (WRITE === 'after') x[31 - t] = 2;
        y[t] = tile[t];
      },
      { WRITE: write },
    );
  finds({
    ...{ kernel: copying('before'), kind: 'race', block: 32, thread: 0, line: /x\[t\] = 2/ },
    message:
      /a race on x\[0\]: thread \(0,0,0\) writes what the asynchronous copy of thread \(0,0,0\) \(line \d+\) may still read/,
  });
  finds({
    ...{ kernel: copying('unordered'), kind: 'race', block: 32, thread: 16, line: /copyAsync\(tile/ },
    message: /a race on x\[16\]: thread \(16,0,0\) reads what thread \(15,0,0\) wrote/,
  });
  const args = floats();
  simulate(copying('after'), { grid: 1, block: 32 }, args);
  // Where its condition is false a copy reads nothing.
  assert.deepEqual((args.y as Float32Array).slice(0, 33), Float32Array.from([...Array(31).fill(1), 0, 0]));
});

test('two parameters of different dtypes on the same memory', () => {
  const memory = new ArrayBuffer(64);
  const bytes = (index: number): KernelIr =>
    defineKernel(
      'bytes',
      { b: buffer(u8), w: buffer(i32) },
      ({ b, w }, { threadIdx, u8, INDEX }) => {
        const t = threadIdx.x;
        if (t === 0) w[1] = 7;
        else b[INDEX] = u8(1);
      },
      { INDEX: index },
    );
  const args = { b: new Uint8Array(memory), w: new Int32Array(memory) };
  finds({
    ...{ kernel: bytes(6), kind: 'race', block: 2, thread: 1, line: /b\[INDEX\]/, args },
    message: /a race on b\[6\]: thread \(1,0,0\) writes what thread \(0,0,0\) wrote \(line \d+\)/,
  });
  simulate(bytes(8), { grid: 1, block: 2 }, args);
  // Views that begin elsewhere, an atomic against a plain read, and vectors.
  finds({
    kernel: defineKernel(
      'mixed',
      { h: buffer(bf16), w: buffer(i32) },
      ({ h, w }, { threadIdx, atomicAdd, load4, store4 }) => {
        if (threadIdx.x === 0) store4(h, 8, load4(h, 0));
        else atomicAdd(w, 1, 1);
      },
    ),
    ...{ kind: 'race', block: 2, thread: 1, line: /atomicAdd\(w, 1, 1\)/ },
    message: /a race on w\[1\]: thread \(1,0,0\) atomically updates what thread \(0,0,0\) wrote/,
    args: { h: new Uint16Array(memory), w: new Int32Array(memory, 16) },
  });
});
