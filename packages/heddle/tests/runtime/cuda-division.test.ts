/** What kernels ask for as shared memory in a CUDA graph. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { H200 } from '../../src/kernel/ir/target.js';
import { sharedPercents } from '../../src/runtime/cuda/graph/division.js';

const { units } = H200;
const KIB = 1024;

/** A kernel of that many blocks of 128 threads. @param shared bytes of each, of which 1 KiB are in fixed arrays */
const kernel = (needs: readonly number[], blocks: number, shared = 2 * KIB, registers = 32) => ({
  needs,
  fn: { name: 'test', handle: 1, module: 1, registers, fixedShared: KIB, allowedShared: 48 * KIB },
  ...{ grid: [blocks, 1, 1] as const, block: [128, 1, 1] as const, sharedBytes: shared - KIB },
});

const shareOf = (bytes: number): number => Math.ceil((100 * bytes) / (228 * KIB));

test('a kernel that runs alone asks for what its blocks need, with the KiB that CUDA takes for each', () => {
  const asked = (blocks: number, shared: number, registers?: number): number =>
    sharedPercents([kernel([], blocks, shared, registers)], H200)[0]!;
  assert.equal(asked(1, 20 * KIB), shareOf(21 * KIB));
  assert.equal(asked(units, 85 * KIB), shareOf(86 * KIB));
  assert.equal(asked(units + 1, 85 * KIB), shareOf(2 * 86 * KIB));
  // No more than there is room for: of shared memory, of threads, of registers.
  assert.equal(asked(100 * units, 85 * KIB), shareOf(2 * 86 * KIB));
  assert.equal(asked(100 * units, 56 * KIB), 100);
  assert.equal(asked(100 * units, 5 * KIB), shareOf(16 * 6 * KIB));
  assert.equal(asked(100 * units, 29 * KIB, 128), shareOf(4 * 30 * KIB));
  assert.equal(asked(units, 227 * KIB), 100);
});

/** What a kernel asks for that leaves to the cache what it can. */
const LEAST = 8;

test('a kernel asks for 8 % at least, and for no more for blocks without shared memory', () => {
  assert.deepEqual(sharedPercents([kernel([], 1)], H200), [LEAST]);
  assert.deepEqual(sharedPercents([kernel([], 100 * units, KIB)], H200), [LEAST]);
});

test('kernels that may run side by side ask for half, or for what they need, if one has shared memory', () => {
  const fork = [kernel([], 64), kernel([0], 64, KIB), kernel([0], 64, 150 * KIB), kernel([1, 2], 64)];
  assert.deepEqual(sharedPercents(fork, H200), [LEAST, 50, shareOf(151 * KIB), LEAST]);
  const without = [kernel([], 64), kernel([0], 64, KIB), kernel([0], 64, KIB), kernel([1, 2], 64)];
  assert.deepEqual(sharedPercents(without, H200), [LEAST, LEAST, LEAST, LEAST]);
});

test('a library call asks for nothing, and is among those that others run beside', () => {
  assert.deepEqual(sharedPercents([kernel([], 64), { needs: [] }], H200), [50, 0]);
});

test('what runs before a kernel is known through others, for more launches than fit one word of bits', () => {
  const chain = Array.from({ length: 100 }, (_, i) => kernel(i === 0 ? [] : [i - 1], 64));
  const expected = chain.map((_, i) => (i > 40 ? 50 : LEAST));
  assert.deepEqual(sharedPercents([...chain, kernel([40], 64)], H200), [...expected, 50]);
});
