/** What would be slow as the general case: which launches it is on a GPU. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32, i32 } from '../../src/core/dtype.js';
import * as b from '../../src/graph/build.js';
import { vjp } from '../../src/graph/grad.js';
import type { GraphNode } from '../../src/graph/node.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { type Conv2dSettings, conv2d } from '../../src/ops/conv2d/op.js';
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

const convolved = (shape: readonly number[], weight: readonly number[], options: Conv2dSettings) => {
  const node = conv2d(b.leaf(shape, f32, true), b.leaf(weight, f32, true), options);
  const gradients = vjp([node], [b.leaf(node.shape, f32, false)], node.src);
  return schedule([node, ...(gradients as GraphNode[])], H200).launches.flatMap(({ work }) =>
    'kernel' in work ? [{ name: work.kernel.name, blocks: work.grid[0] * work.grid[1] }] : [],
  );
};

test('a convolution of each channel by itself has its own kernels', () => {
  const launches = convolved([8, 96, 28, 28], [96, 1, 3, 3], { groups: 96, padding: 1 });
  const names = launches.map(({ name }) => name.replace(/_and_.*/, '')).sort();
  assert.deepEqual(names, [
    ...['conv2dDepthwise', 'conv2dInputDepthwise', 'conv2dWeightDepthwise', 'conv2dWeightSum'],
  ]);
});

test('a convolution along one long row reads its weights for more than 32 columns', () => {
  const launches = convolved([64, 128, 1, 1024], [128, 128, 1, 5], { padding: [0, 2] });
  const images = launches.filter(({ name }) => /^conv2d(Input)?Tensor$/.test(name));
  assert.equal(images.length, 2);
  for (const { blocks } of images) assert.ok(blocks <= 512, `${blocks} blocks`);
});
