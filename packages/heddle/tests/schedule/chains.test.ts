/** Rows that a block takes through several groups: planned for an H200, and run in the simulator, which finds races. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { i32 } from '../../src/core/dtype.js';
import {
  crossEntropy,
  layerNorm,
  manualSeed,
  softmax,
  type Tensor,
  tensor,
  valueAndGrad,
} from '../../src/index.js';
import { agrees, kernelsOf, of } from '../simulated-gpu.js';

const labels = (rows: number, classes: number): Tensor =>
  tensor(
    Int32Array.from({ length: rows }, (_, i) => (i * 7) % classes),
    { dtype: i32 },
  ) as unknown as Tensor;

/** A classifier of two layers, its loss, and the gradients of both weights and of what comes before. */
const classifier = ([x, w, bias, v, y]: readonly Tensor[]): readonly Tensor[] => {
  const loss = (x: Tensor, w: Tensor, bias: Tensor, v: Tensor): Tensor =>
    crossEntropy(x.matmul(w).add(bias).relu().matmul(v), y as unknown as Tensor<[number], 'i32'>);
  const [value, gradients] = valueAndGrad(loss, { argnums: [0, 1, 2, 3] })(x!, w!, bias!, v!);
  return [value, ...gradients];
};

test('the layers of a classifier, its loss and their gradients are one launch', async () => {
  manualSeed(1);
  for (const [rows, features, hidden, classes] of [
    [6, 12, 20, 10],
    [5, 7, 9, 3],
    [4, 64, 130, 40],
  ] as const) {
    const leaves = [
      of(rows, features),
      of(features, hidden),
      of(hidden),
      of(hidden, classes),
      labels(rows, classes),
    ];
    const kernels = kernelsOf(classifier(leaves));
    const chains = kernels.filter((name) => name.startsWith('rows_'));
    assert.deepEqual(chains, ['rows_matmul_map_matmul_map_matmul_matmul']);
    await agrees(classifier, leaves);
  }
});

test('a long product with few results comes in parts, and its loss joins their sum', async () => {
  manualSeed(6);
  const make = ([x, w, bias, y]: readonly Tensor[]): readonly Tensor[] => {
    const loss = (x: Tensor, w: Tensor, bias: Tensor): Tensor =>
      crossEntropy(x.matmul(w.transpose(0, 1)).add(bias), y as unknown as Tensor<[number], 'i32'>);
    const [value, gradients] = valueAndGrad(loss, { argnums: [0, 1, 2] })(x!, w!, bias!);
    return [value, ...gradients];
  };
  for (const [rows, features, classes] of [
    [6, 3072, 10],
    [17, 2310, 12],
  ] as const) {
    const leaves = [of(rows, features), of(classes, features), of(classes), labels(rows, classes)];
    const kernels = kernelsOf(make(leaves));
    assert.deepEqual(kernels.slice(0, 2), ['matmul', 'rows_reduce_map']);
    await agrees(make, leaves);
  }
  // Few terms, few weights, or enough tiles: as it is.
  for (const [rows, features, classes] of [
    [6, 512, 10],
    [17, 2310, 3],
    [600, 3072, 40],
  ] as const) {
    const product = of(rows, features).matmul(of(features, classes));
    assert.ok(!kernelsOf([product]).some((name) => name.startsWith('reduce')));
  }
});

test('rows of more dimensions, transposed weights, and norms behind them', async () => {
  manualSeed(2);
  const make = ([x, w, v]: readonly Tensor[]): readonly Tensor[] => {
    const y = layerNorm(x!.matmul(w!.transpose(0, 1)), [24])
      .reshape([6, 4, 6])
      .permute([0, 2, 1])
      .reshape([6, 24]);
    const z = softmax(y.matmul(v!), -1);
    return [z, z.sum(-1), y];
  };
  const leaves = [of(6, 16), of(24, 16), of(24, 8)];
  assert.equal(kernelsOf(make(leaves)).length, 1);
  await agrees(make, leaves);
});

test('what needs other rows, or waits for what is made beside, stays a launch of its own', async () => {
  manualSeed(3);
  const [x, w, v] = [of(8, 16), of(16, 16), of(16, 16)] as const;
  // Sums over rows, and a product with what the chain has made.
  const mixed = ([x, w]: readonly Tensor[]): readonly Tensor[] => {
    const y = x!.matmul(w!);
    return [y.sub(y.mean(0)).matmul(w!), y.matmul(y.transpose(0, 1)), y.flip(0).matmul(w!)];
  };
  assert.ok(kernelsOf(mixed([x, w])).length > 3);
  await agrees(mixed, [x, w]);
  // The second product adds what a chain of its own makes as late as the first.
  const beside = ([x, w, v]: readonly Tensor[]): readonly Tensor[] => [
    x!.matmul(w!).relu().matmul(v!).add(w!.matmul(v!).relu().sum(0)),
  ];
  await agrees(beside, [x, w, v]);
});

test('products of single terms, and with single columns', async () => {
  manualSeed(5);
  const make = ([x, v, w]: readonly Tensor[]): readonly Tensor[] => {
    const y = x!.matmul(v!);
    return [y.relu().matmul(w!), y.matmul(w!.transpose(0, 1)).sum(1)];
  };
  await agrees(make, [of(5, 8), of(8, 1), of(1, 1)]);
  await agrees(make, [of(5, 1), of(1, 6), of(6, 6)]);
  const flat = ([x, v]: readonly Tensor[]): readonly Tensor[] => [x!.reshape([5, 1, 1, 8]).matmul(v!).max(3)];
  await agrees(flat, [of(5, 8), of(8, 6)]);
  const narrow = ([x, v, w]: readonly Tensor[]): readonly Tensor[] => [x!.matmul(v!).tanh().matmul(w!)];
  const leaves = [of(6, 9), of(9, 7), of(7, 1)];
  assert.equal(kernelsOf(narrow(leaves)).length, 1);
  await agrees(narrow, leaves);
});

test('products with more weights than a block reads in the time of a launch are launches of their own', () => {
  const two = (features: number): number =>
    kernelsOf([of(64, features).matmul(of(features, features)).relu().matmul(of(features, features))]).length;
  assert.equal(two(64), 1);
  assert.equal(two(256), 2);
  // More rows than blocks that run at once.
  const many = of(8192, 32).matmul(of(32, 32)).relu().matmul(of(32, 32));
  assert.equal(kernelsOf([many]).length, 2);
});
