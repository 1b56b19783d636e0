/**
 * Values that are used twice, 60 times in a row: walked once for each use, such a chain is 2⁶⁰ values long, and planning would not end.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as H from '../../src/index.js';
import { bf16, type Tensor, zeros } from '../../src/index.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { schedule } from '../../src/schedule/schedule.js';

const CPU: Target = { ...H200, name: 'cpu', model: 'blocks', units: 2, fma: false, capability: 0 };

function chain(x: Tensor): Tensor {
  let y = x;
  for (let i = 0; i < 60; i++) y = y.exp().add(y).mul(0.5);
  return y;
}

const matrix = (rows: number, columns: number): Tensor => zeros([rows, columns], { requiresGrad: true });

const images = (x: Tensor): Tensor => x.reshape([8, 8, 32, 32]) as Tensor;

/** What takes the values of a matrix of 512 × 128. */
const USERS: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  'a sum of rows': (x) => x.sum(1),
  'a sum of columns': (x) => x.sum(0),
  'a variance': (x) => x.variance(0),
  'a softmax of rows': (x) => x.softmax(1),
  'a softmax of columns': (x) => x.softmax(0),
  'a product': (x) => x.matmul(matrix(128, 512)),
  'a product of unaligned rows': (x) => x.cast(bf16).matmul(matrix(128, 2051).cast(bf16)).cast(H.f32),
  'a convolution': (x) => H.conv2d(images(x), zeros([8, 8, 3, 3])),
  'max pooling': (x) => H.maxPool2d(images(x), 2),
  'a concatenation': (x) => H.cat([x, x.neg(), x.at(':', '1:5') as Tensor], 1),
  'a running sum': (x) => x.cumsum(1),
};

for (const [name, use] of Object.entries(USERS))
  for (const target of [H200, CPU])
    test(`${target.name}: a chain of values that are used twice, and ${name}`, () => {
      const x = matrix(512, 128);
      const result = use(chain(x));
      result.sum().backward();
      assert.ok(schedule([result.node], target).launches.length > 0);
      assert.ok(schedule([x.grad!.node], target).launches.length > 0);
      assert.ok(schedule([chain(use(x)).node], target).launches.length > 0);
    });
