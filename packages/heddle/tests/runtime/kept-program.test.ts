/** Programs of the CPU device on disk: what may share one, and that what is read works as what was rendered. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { f32, i32 } from '../../src/core/dtype.js';
import { kernelFingerprint } from '../../src/kernel/ir/fingerprint.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { defineKernel } from '../../src/kernel/language/language.js';
import { keptProgram } from '../../src/runtime/cpu/kept-program.js';
import type { ProgramModule } from '../../src/runtime/cpu/render.js';
import type { KernelLaunch } from '../../src/runtime/device.js';
import { cacheKey, DiskCache } from '../../src/runtime/disk-cache.js';

const folder = mkdtempSync(join(tmpdir(), 'heddle-kept-'));
process.env.HEDDLE_CACHE = folder;
after(() => rmSync(folder, { recursive: true }));

const schema = { x: buffer(f32), y: buffer(f32), n: i32 };
const scaled = (constants: { readonly FACTOR: number; readonly ROUNDS?: number }) =>
  defineKernel(
    'scaled',
    schema,
    ({ x, y, n }, { globalId, FACTOR, ROUNDS }) => {
      const i = globalId.x;
      let sum = 0;
      for (let k = 0; k < ROUNDS; k++) sum += x[i] * FACTOR;
      if (i < n) y[i] = sum;
    },
    { ROUNDS: 3, ...constants },
  );

test('equal kernels have equal fingerprints, wherever they were made', () => {
  assert.equal(kernelFingerprint(scaled({ FACTOR: 0.5 })), kernelFingerprint(scaled({ FACTOR: 0.5 })));
});

test('kernels that differ in one thing have other fingerprints', () => {
  const kernels = [
    scaled({ FACTOR: 0.5 }),
    scaled({ FACTOR: 0 }),
    scaled({ FACTOR: -0 }),
    scaled({ FACTOR: 0.5, ROUNDS: 4 }),
    defineKernel('scaled', schema, ({ x, y, n }, { globalId }) => {
      if (globalId.x < n) y[globalId.x] = x[globalId.x];
    }),
    defineKernel('scaled', schema, ({ x, y, n }, { globalId }) => {
      if (globalId.x < n) y[globalId.x] = x[globalId.y];
    }),
    defineKernel('scaled', schema, ({ x, y, n }, { globalId }) => {
      if (globalId.x < n) x[globalId.x] = y[globalId.x];
    }),
    defineKernel('other', schema, ({ x, y, n }, { globalId }) => {
      if (globalId.x < n) y[globalId.x] = x[globalId.x];
    }),
    defineKernel('scaled', { ...schema, x: buffer(i32), y: buffer(i32) }, ({ x, y, n }, { globalId }) => {
      if (globalId.x < n) y[globalId.x] = x[globalId.x];
    }),
  ];
  assert.equal(new Set(kernels.map(kernelFingerprint)).size, kernels.length);
});

const kernel = scaled({ FACTOR: 0.5 });
const launch: KernelLaunch = {
  kernel,
  grid: [4, 1, 1],
  block: [32, 1, 1],
  args: [{ slot: 0, offset: 0 }, { slot: 1, offset: 0 }, { value: 128 }],
};
const options = { fma: true, slots: 2, threads: 2 };

/** A clock that only `slowly` moves: how busy the machine is decides nothing. */
let clock = 0;
performance.now = () => clock;

/** A renderer that takes its time and counts. */
function slowly(ms = 25): { readonly render: () => ProgramModule; count: number } {
  const counted = {
    count: 0,
    render(): ProgramModule {
      counted.count++;
      clock += ms;
      const bytes = Uint8Array.of(0, 1, 2, 3, 4);
      return { bytes, text: () => 'text', messages: [], scratchBytes: 64, sections: [3, 1] };
    },
  };
  return counted;
}

test('a program is rendered once, and read as it was', () => {
  const renderer = slowly();
  const made = keptProgram([launch], options, renderer.render);
  const read = keptProgram([launch], options, renderer.render);
  assert.equal(renderer.count, 1);
  assert.deepEqual({ ...read, text: 0 }, { ...made, text: 0 });
  assert.equal(read.text(), 'text');
});

test('whatever a launch says is part of the key', () => {
  const renderer = slowly();
  keptProgram([launch], options, renderer.render);
  const before = renderer.count;
  const others: [KernelLaunch[], typeof options][] = [
    [[{ ...launch, grid: [4, 2, 1] }], options],
    [[{ ...launch, block: [64, 1, 1] }], options],
    [[{ ...launch, sharedBytes: 16 }], options],
    [[{ ...launch, needs: [] }], options],
    [[{ ...launch, args: [launch.args[1]!, launch.args[0]!, launch.args[2]!] }], options],
    [[{ ...launch, args: [{ slot: 0, offset: 16 }, launch.args[1]!, launch.args[2]!] }], options],
    [[{ ...launch, args: [launch.args[0]!, launch.args[1]!, { value: 127 }] }], options],
    [[launch, launch], options],
    [[launch], { ...options, fma: false }],
    [[launch], { ...options, threads: 3 }],
    [[launch], { ...options, slots: 3 }],
  ];
  for (const [launches, o] of others) keptProgram(launches, o, renderer.render);
  assert.equal(renderer.count - before, others.length);
});

test('programs with messages, and those rendered at once, are not kept', () => {
  let count = 0;
  const at = { file: 'a.ts', line: 1, column: 1, text: '' };
  const talking = { ...launch, grid: [5, 1, 1] } as const;
  const render = (): ProgramModule => {
    count++;
    const { render: slow } = slowly();
    return { ...slow(), messages: [{ kernel: 'scaled', text: 'no', at, values: [] }] as never };
  };
  for (let i = 0; i < 2; i++) keptProgram([talking], options, render);
  assert.equal(count, 2);
  const quick = slowly(0);
  for (let i = 0; i < 2; i++) keptProgram([{ ...launch, grid: [6, 1, 1] }], options, quick.render);
  assert.equal(quick.count, 2);
});

test('a damaged file is made again', () => {
  const renderer = slowly();
  const mine = { ...launch, grid: [7, 1, 1] } as const;
  const files = new Set(readdirSync(join(folder, 'cpu')));
  keptProgram([mine], options, renderer.render);
  const path = join(folder, 'cpu', readdirSync(join(folder, 'cpu')).find((f) => !files.has(f))!);
  const whole = readFileSync(path);
  writeFileSync(
    path,
    whole.map((byte, i) => (i === whole.length - 1 ? byte ^ 1 : byte)),
  );
  keptProgram([mine], options, renderer.render);
  assert.equal(renderer.count, 2);
  assert.deepEqual(readFileSync(path), whole);
});

test('of too many files the oldest half goes', () => {
  const cache = new DiskCache(join(folder, 'few'), { mostFiles: 4 });
  for (let i = 0; i < 4; i++) {
    cache.put(cacheKey(String(i)), Uint8Array.of(i));
    utimesSync(join(cache.folder, cacheKey(String(i))), i, i);
  }
  cache.put(cacheKey('4'), Uint8Array.of(4));
  const left = [0, 1, 2, 3, 4].filter((i) => cache.get(cacheKey(String(i))));
  assert.deepEqual(left, [2, 3, 4]);
});
