/** What kernels ask for as shared memory in a CUDA graph. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { H200 } from '../../src/kernel/ir/target.js';
import { sharedPercents } from '../../src/runtime/cuda/graph/division.js';

const { units } = H200;
const KIB = 1024;

/** A kernel of that many blocks of 128 threads. @param shared bytes of each, of which 1 KiB are in fixed arrays */
const kernel = (needs: readonly number[], blocks: number, shared = KIB, registers = 32) => ({
  needs,
  fn: { name: 'test', handle: 1, module: 1, registers, fixedShared: KIB, allowedShared: 48 * KIB },
  ...{ grid: [blocks, 1, 1] as const, block: [128, 1, 1] as const, sharedBytes: shared - KIB },
});

test('kernels that run one after the other ask for the same, in part also through others', () => {
  const chain = [kernel([], 1), kernel([0], 1000), kernel([1], 64), kernel([0, 2], 64)];
  assert.deepEqual(sharedPercents(chain, H200), [40, 40, 40, 40]);
});

test('kernels beside which others may run ask for more, those before and after them do not', () => {
  const fork = [kernel([], 64), kernel([0], 64), kernel([0], 64), kernel([1, 2], 64)];
  assert.deepEqual(sharedPercents(fork, H200), [40, 50, 50, 40]);
});

test('a library call asks for nothing, and is among those that others run beside', () => {
  assert.deepEqual(sharedPercents([kernel([], 64), { needs: [] }], H200), [50, 0]);
});

test('a kernel whose blocks need more asks for that', () => {
  const asked = (blocks: number, shared: number, registers?: number): number =>
    sharedPercents([kernel([], blocks, shared, registers)], H200)[0]!;
  // With the KiB that CUDA takes for each, of 228.
  assert.equal(asked(units, 113 * KIB), 50);
  assert.equal(asked(units, 119 * KIB), 53);
  assert.equal(asked(units + 1, 85 * KIB), Math.ceil((100 * 2 * 86) / 228));
  assert.equal(asked(100 * units, 85 * KIB), Math.ceil((100 * 2 * 86) / 228));
  assert.equal(asked(100 * units, 15 * KIB), Math.ceil((100 * 14 * 16) / 228));
  // Registers leave room for four blocks.
  assert.equal(asked(100 * units, 29 * KIB, 128), Math.ceil((100 * 4 * 30) / 228));
  assert.equal(asked(units, 227 * KIB), 100);
});

test('order is known over more launches than fit one word of bits', () => {
  const chain = Array.from({ length: 100 }, (_, i) => kernel(i === 0 ? [] : [i - 1], 64));
  const beside = [...chain, kernel([40], 64)];
  const expected = beside.map((_, i) => (i > 40 ? 50 : 40));
  assert.deepEqual(sharedPercents(beside, H200), expected);
});
