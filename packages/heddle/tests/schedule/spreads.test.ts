/** Windows stored by the kernel that makes the elements they come from: the gradient of max pooling. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DType } from '../../src/core/dtype.js';
import {
  bf16,
  conv2d,
  f16,
  f32,
  type MaxPool2dOptions,
  manualSeed,
  maxPool2d,
  type Pair,
  randint,
  setPrecision,
  type Tensor,
  valueAndGrad,
} from '../../src/index.js';
import { agrees, kernelsOf, of } from '../simulated-gpu.js';

type Make = (leaves: readonly Tensor[]) => readonly Tensor[];

/** The sum of a function's values, and the gradients of all leaves. */
const withGradients =
  (f: (...leaves: Tensor[]) => Tensor): Make =>
  (leaves) => {
    const argnums = leaves.map((_, i) => i);
    const [value, gradients] = valueAndGrad((...x: Tensor[]) => f(...x).sum(), { argnums })(...leaves);
    return [value, ...(gradients as readonly Tensor[])];
  };

const launchesOf = (results: readonly Tensor[]): number =>
  kernelsOf(results).filter((name) => name.startsWith('maxPool2dGradient')).length;

/** Convolutions, each with a bias, ReLU and pooling, and a product with what they give. */
const network = (kernel: Pair, options: MaxPool2dOptions = {}): Make =>
  withGradients((x, w, bias, v, more, last) => {
    const pooled = (x: Tensor, w: Tensor, bias: Tensor): Tensor =>
      maxPool2d(conv2d(x, w, bias).relu(), kernel, options);
    const features = pooled(pooled(x!, w!, bias!), v!, more!);
    return features.reshape([x!.shape[0]!, -1]).matmul(last!).square();
  });

const leavesOf = (size: number, features: number, classes = 6): Tensor[] => [
  ...[of(3, 2, size, size), of(4, 2, 3, 3), of(4), of(5, 4, 3, 3), of(5), of(5 * features, classes)],
];

test('the product and the convolution behind a pooling store its gradient', async () => {
  manualSeed(1);
  // Rows of a chain, and products with more weights than one receives in time.
  const cases: readonly (readonly [Pair, number, number, number])[] = [
    [2, 14, 4, 6],
    [[1, 2], 14, 20, 6],
    [3, 35, 9, 6],
    [2, 30, 36, 256],
  ];
  for (const [kernel, size, features, classes] of cases) {
    const [make, leaves] = [network(kernel), leavesOf(size, features, classes)];
    assert.equal(launchesOf(make(leaves)), 0);
    await agrees(make, leaves);
  }
});

test('a convolution on tensor cores stores it, of integers exactly', async () => {
  setPrecision({ conv: 'tf32' });
  const integers = (most: number, ...shape: number[]): Tensor =>
    randint(-most, most + 1, shape)
      .cast(f32)
      .realize();
  for (const dtype of [f32, bf16, f16] as readonly DType[]) {
    const make = withGradients((...leaves) => {
      const [x, w, v, c] = leaves.map((leaf) => leaf.cast(dtype) as Tensor);
      return conv2d(maxPool2d(conv2d(x!, w!), 2), v!)
        .mul(c!)
        .cast(f32);
    });
    const leaves = [
      ...[integers(2, 3, 2, 18, 18), integers(1, 8, 2, 3, 3), integers(1, 8, 8, 3, 3)],
      integers(1, 3, 8, 6, 6),
    ];
    assert.ok(kernelsOf(make(leaves)).some((name) => name.startsWith('conv2dInputTensor')));
    assert.equal(launchesOf(make(leaves)), 0);
    await agrees(make, leaves);
  }
  setPrecision({ conv: 'f32' });
});

test('windows that leave pixels out, or overlap, are launches of their own', async () => {
  manualSeed(2);
  const cases: readonly (readonly [Pair, MaxPool2dOptions, number, number])[] = [
    [2, {}, 15, 4],
    [2, { stride: 1 }, 9, 9],
    [2, { padding: 1 }, 14, 9],
  ];
  for (const [kernel, options, size, features] of cases) {
    const [make, leaves] = [network(kernel, options), leavesOf(size, features)];
    assert.ok(launchesOf(make(leaves)) > 0);
    await agrees(make, leaves);
  }
});

test('elements in another order, and those that no such kernel makes', async () => {
  manualSeed(3);
  const turned = withGradients((x, w, v) =>
    maxPool2d(conv2d(x!, w!), 2).permute([0, 2, 3, 1]).reshape([3, -1]).matmul(v!).square(),
  );
  await agrees(turned, [of(3, 2, 10, 10), of(4, 2, 3, 3), of(64, 6)]);
  await agrees(turned, [of(3, 2, 10, 10), of(4, 2, 3, 3), of(64, 512)]);
  const plain = withGradients((x, w) => maxPool2d(conv2d(x!, w!), 2).square());
  const images = [of(3, 2, 10, 10), of(4, 2, 3, 3)];
  assert.equal(launchesOf(plain(images)), 1);
  await agrees(plain, images);
  // Pooled twice: the elements of the second gradient's windows are windows of the first.
  const twice = withGradients((x, w, v) =>
    maxPool2d(maxPool2d(conv2d(x!, w!), 2), 2)
      .reshape([3, -1])
      .matmul(v!)
      .square(),
  );
  await agrees(twice, [of(3, 2, 10, 10), of(4, 2, 3, 3), of(16, 6)]);
});
