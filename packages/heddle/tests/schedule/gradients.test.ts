/** Gradients that would be slow as the adjoint of each step: which launches they are on a GPU. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32, i32 } from '../../src/core/dtype.js';
import * as b from '../../src/graph/build.js';
import { vjp } from '../../src/graph/grad.js';
import type { GraphNode } from '../../src/graph/node.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { schedule } from '../../src/schedule/schedule.js';
import { interpolate } from '../../src/tensor/functional-images.js';
import { Tensor } from '../../src/tensor/tensor.js';

/** The launches of the gradient of `fn`. */
function gradientOf(shape: readonly number[], fn: (x: Tensor) => { readonly node: GraphNode }): string[] {
  const x = b.leaf(shape, f32, true);
  const { node } = fn(new Tensor(x));
  const gradients = vjp([node], [b.leaf(node.shape, f32, false)], [x]);
  return schedule(gradients as GraphNode[], H200).launches.map(({ work }) =>
    'kernel' in work ? work.kernel.name : work.library.name,
  );
}

for (const axis of [0, 1])
  test(`the gradient of gather along axis ${axis} is added up by sorted positions`, () => {
    const index = new Tensor(b.leaf([1000, 1000], i32, false));
    assert.ok(gradientOf([1000, 1000], (x) => x.gather(axis, index)).includes('scatterAdd'));
  });

test('the gradient of nearest interpolation by whole factors is one sum over blocks', () => {
  const launches = gradientOf([4, 8, 32, 32], (x) => interpolate(x, { scaleFactor: [2, 3] }));
  assert.equal(launches.length, 1);
});
