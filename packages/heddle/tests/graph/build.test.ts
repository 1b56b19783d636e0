/** What nodes become when they are made. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, f16, f32 } from '../../src/core/dtype.js';
import * as b from '../../src/graph/build.js';
import { tensor, useDevice, zeros } from '../../src/index.js';
import { nodeOf } from '../../src/tensor/tracing.js';

useDevice('cpu');

test('constants are cast at once, rounded', () => {
  const ones = b.cast(b.expand(b.full([1], f32, 1), [3]), bf16);
  assert.deepEqual([ones.op, ones.dtype, ones.shape], ['full', bf16, [3]]);
  assert.equal(b.knownValue(b.cast(b.full([2], f32, 0.1), bf16)), 0.10009765625);
});

test('16-bit floats that were widened are what they were; what was rounded stays rounded', () => {
  const [half, single] = [b.leaf([3], bf16), b.leaf([3], f32)];
  assert.equal(b.cast(b.cast(half, f32), bf16), half);
  assert.equal(b.cast(b.cast(single, bf16), f32).op, 'map');
  assert.equal(b.cast(b.cast(half, f32), f16).op, 'map');
});

test('gradients flow through casts of constants that are trained', async () => {
  const w = zeros([2], { requiresGrad: true });
  w.cast(bf16).sum().backward();
  assert.deepEqual(Array.from(await w.grad!.data()), [1, 1]);
});

test('the gradient of a sum of 16-bit products is the other factor itself', () => {
  const x = tensor([1, 2, 3], { dtype: bf16, requiresGrad: true });
  const y = tensor([4, 5, 6], { dtype: bf16 });
  x.mul(y).sum().backward();
  assert.equal(nodeOf(x.grad!), nodeOf(y));
});
