/** Device memory that is kept for reuse, without a GPU: on a driver that only counts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Driver } from '../../src/runtime/cuda/driver/driver.js';
import { type Block, CudaAllocator } from '../../src/runtime/cuda/memory/allocator.js';
import { property } from '../property.js';

const MIB = 2 ** 20;

function openAllocator() {
  let end = 256;
  const taken = new Map<number, number>();
  let address = 0;
  const api = {
    cuMemAlloc_v2: (_at: number, bytes: number): number => {
      address = end;
      taken.set(address, bytes);
      end += bytes;
      return 0;
    },
    cuMemFree_v2: (at: number): number => {
      assert.ok(taken.delete(at), `address ${at} is freed that is not held`);
      return 0;
    },
  };
  const handle = (call: (at: number) => void): number => {
    call(0);
    return address;
  };
  return { allocator: new CudaAllocator({ api, raw: api, handle } as unknown as Driver, 'cuda'), taken };
}

test('a large block has no more than a page that nothing uses', () => {
  const { allocator } = openAllocator();
  for (const bytes of [671.4e6, 5.1e9, 33 * MIB + 1]) {
    const before = allocator.report().reserved;
    allocator.allocate(bytes, 'arena');
    const more = allocator.report().reserved - before;
    assert.ok(more >= bytes && more < bytes + 2 * MIB, `${more} bytes for ${bytes}`);
  }
});

test('a freed large block serves what is a little smaller, and is counted whole', () => {
  const { allocator } = openAllocator();
  const first = allocator.allocate(100 * MIB, 'first');
  allocator.release(first, 'first');
  const second = allocator.allocate(90 * MIB, 'second');
  assert.equal(second.address, first.address);
  assert.equal(allocator.report().used, 100 * MIB);
  allocator.release(second, 'second');
  assert.equal(allocator.report().used, 0);
  assert.notEqual(allocator.allocate(60 * MIB, 'third').address, first.address, 'it is too large for that');
  assert.equal(allocator.allocate(100 * MIB, 'fourth').address, first.address);
});

property(
  'blocks that are held never overlap, and what is used is the sum of them',
  [
    fc.array(fc.record({ bytes: fc.integer({ min: 1, max: 200 * MIB }), drop: fc.nat(8) }), {
      maxLength: 60,
    }),
  ],
  (steps) => {
    const { allocator, taken } = openAllocator();
    const held: Block[] = [];
    for (const { bytes, drop } of steps) {
      const block = allocator.allocate(bytes, 'test');
      assert.ok(block.size >= bytes && block.address % 256 === 0);
      for (const other of held)
        assert.ok(other.address + other.size <= block.address || block.address + block.size <= other.address);
      held.push(block);
      for (const each of held.splice(0, drop)) allocator.release(each, 'test');
      assert.equal(
        allocator.report().used,
        held.reduce((sum, { size }) => sum + size, 0),
      );
    }
    for (const block of held) allocator.release(block, 'test');
    allocator.close();
    assert.equal(taken.size, 0);
  },
);
