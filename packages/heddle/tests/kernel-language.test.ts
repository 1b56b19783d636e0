import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buffer, defineKernel, f32, i32 } from '../src/kernel/index.js';

test('saxpy', () => {
  const ir = defineKernel(
    'saxpy',
    { a: f32, x: buffer(f32), y: buffer(f32), n: i32 },
    ({ a, x, y, n }, { globalId }) => {
      const i = globalId.x;
      if (i < n) y[i] = a * x[i] + y[i];
    },
  );
  assert.equal(ir.params.length, 4);
});
