/** Functions on tensors: gradients, values at the ends of the range, dropout, and what bad arguments say. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f64, i32 } from '../../src/core/dtype.js';
import { ArgumentError, DTypeError, ShapeError } from '../../src/core/errors.js';
import * as F from '../../src/index.js';
import { tensor, zeros } from '../../src/tensor/create.js';
import { gradcheck } from '../../src/tensor/gradcheck.js';
import { noGrad } from '../../src/tensor/modes.js';
import { manualSeed, randn } from '../../src/tensor/random.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { assertClose } from '../close.js';

test('pooling does not carry gradients past where they were cut off', () => {
  const x = zeros([1, 1, 2, 2], { requiresGrad: true });
  assert.equal(
    F.maxPool2d(
      noGrad(() => F.relu(x)),
      2,
    ).requiresGrad,
    false,
  );
  assert.equal(F.maxPool2d(F.relu(x.detach()), 2).requiresGrad, false);
  assert.equal(F.maxPool2d(F.relu(x), 2).requiresGrad, true);
});

const labels = (...classes: number[]): Tensor => tensor(Int32Array.from(classes));

const SMOOTH: Readonly<Record<string, (x: Tensor) => Tensor>> = {
  sigmoid: F.sigmoid,
  silu: F.silu,
  softplus: F.softplus,
  elu: F.elu,
  tanh: F.tanh,
  'gelu, tanh': (x: Tensor) => F.gelu(x, { approximate: 'tanh' }),
  softmax: (x: Tensor) => F.softmax(x, 0).square(),
  logSoftmax: (x: Tensor) => F.logSoftmax(x, 1).square(),
};

for (const [name, f] of Object.entries(SMOOTH)) {
  test(`gradcheck: ${name}`, async () => {
    await gradcheck(f, [
      tensor([
        [-3.1, -0.4, 0.3, 2.2],
        [-0.9, 1.7, 0.01, -7],
      ]),
    ]);
  });
}

test('gradcheck: losses', async () => {
  const x = tensor([
    [0.3, -1.2, 0.7],
    [1.5, 0.2, -0.4],
  ]);
  const target = tensor(
    [
      [0.1, 0.9, 0.5],
      [1, 0, 0.25],
    ],
    { dtype: f64 },
  );
  const y = labels(2, 0);
  const weight = tensor([0.5, 2, 1.5], { dtype: f64 });
  const losses: Record<string, (logits: Tensor) => Tensor> = {
    crossEntropy: (logits) => F.crossEntropy(logits, y),
    smoothed: (logits) => F.crossEntropy(logits, y, { weight, labelSmoothing: 0.2, ignoreIndex: 0 }),
    nll: (logits) => F.nllLoss(F.logSoftmax(logits, 1), y, { weight }),
    bceWithLogits: (logits) => F.bceWithLogits(logits, target),
    bce: (logits) => F.bce(F.sigmoid(logits), target),
    mse: (logits) => F.mse(logits, target),
    huber: (logits) => F.huber(logits, target, { delta: 0.6 }),
    l1: (logits) => F.l1(logits, target),
    hinge: (logits) => F.hinge(logits, target.mul(2).sub(1)),
  };
  for (const loss of Object.values(losses)) await gradcheck(loss, [x]);
});

test('gradcheck: layers', async () => {
  manualSeed(3);
  const [x, weight, bias] = [randn([2, 4, 5, 6]), randn([6, 2, 3, 3]), randn([6])];
  await gradcheck(
    (a, w, b) => F.conv2d(a, w, b, { stride: [2, 1], padding: 1, groups: 2 }).square(),
    [x, weight, bias],
  );
  await gradcheck((a) => F.avgPool2d(a, 3, { stride: 2, padding: 1, countIncludePad: false }).square(), [x]);
  await gradcheck((a) => F.maxPool2d(a, [2, 3], { stride: 1 }).square(), [x]);
  await gradcheck((a, b) => F.maxPool2d(F.relu(a.add(b)).minimum(1), 2).square(), [x, randn([4, 1, 1])]);
  await gradcheck((a, w, b) => F.linear(a, w, b).square(), [randn([3, 2, 5]), randn([4, 5]), randn([4])]);
  const statistics = (): [Tensor, Tensor] => [zeros([4], { dtype: f64 }), zeros([4], { dtype: f64 }).add(1)];
  await gradcheck(
    (a, w, b) => F.batchNorm(a, ...statistics(), { weight: w, bias: b, training: true }).square(),
    [x, randn([4]), randn([4])],
    { tolerance: 1e-5 },
  );
});

test('nothing overflows at the ends of the range, forward or backward', async () => {
  const x = tensor([-1000, -100, -20, 0, 20, 100, 1000], { requiresGrad: true });
  const run = async (f: (x: Tensor) => Tensor): Promise<{ y: number[]; g: number[] }> => {
    x.grad = undefined;
    const y = f(x);
    y.sum().backward();
    return { y: Array.from(await y.data(), Number), g: Array.from(await x.grad!.data(), Number) };
  };
  const sigmoid = await run(F.sigmoid);
  assertClose(sigmoid.y, [0, 0, 2.0611536e-9, 0.5, 1, 1, 1], 'sigmoid', { absolute: 1e-14 });
  assertClose(sigmoid.g, [0, 0, 2.0611536e-9, 0.25, 0, 0, 0], "sigmoid'", { absolute: 1e-7 });
  const softplus = await run(F.softplus);
  assertClose(softplus.y, [0, 0, 2.0611536e-9, Math.LN2, 20, 100, 1000], 'softplus', { absolute: 1e-14 });
  assertClose(softplus.g, [0, 0, 2.0611536e-9, 0.5, 1, 1, 1], "softplus'", { absolute: 1e-14 });
  const ones = tensor(new Float32Array(7).fill(1));
  const bce = await run((v) => F.bceWithLogits(v, ones, { reduction: 'none' }));
  assertClose(bce.y, [1000, 100, 20, Math.LN2, 2.0611536e-9, 0, 0], 'bceWithLogits', { absolute: 1e-14 });
  const silu = await run(F.silu);
  assertClose(silu.y, [0, 0, -4.1223072e-8, 0, 20, 100, 1000], 'silu', { absolute: 1e-14 });
  assertClose((await run(F.elu)).g, [0, 0, 2.0611536e-9, 1, 1, 1, 1], "elu'", { absolute: 1e-14 });
});

test('relu, leakyRelu: the gradient at 0 is that of the left side', async () => {
  const x = tensor([-1, 0, 2], { requiresGrad: true });
  F.relu(x)
    .add(F.leakyRelu(x, { negativeSlope: 0.5 }))
    .sum()
    .backward();
  assert.deepEqual(await x.grad!.array(), [0.5, 0.5, 2]);
});

test('NaN passes through relu and is not hidden by a loss', async () => {
  assert.ok(
    Number.isNaN(
      await F.relu(tensor([Number.NaN]))
        .sum()
        .item(),
    ),
  );
  assert.ok(Number.isNaN(await F.crossEntropy(tensor([[1, Number.NaN]]), labels(0)).item()));
});

test('a label that is no class gives NaN, an ignored one nothing', async () => {
  const logits = tensor([
    [1, 2],
    [3, 1],
  ]);
  assert.ok(Number.isNaN(await F.crossEntropy(logits, labels(0, 2)).item()));
  assert.ok(Number.isNaN(await F.nllLoss(logits, labels(-1, 0)).item()));
  const kept = await F.crossEntropy(logits.at('0:1'), labels(0)).item();
  assertClose(
    [await F.crossEntropy(logits, labels(0, -100), { ignoreIndex: -100 }).item()],
    [kept],
    'ignored',
  );
});

test('oneHot', async () => {
  const hot = F.oneHot(tensor(Int32Array.of(2, 0, 5), { shape: [3, 1] }), 3);
  assert.deepEqual(hot.shape, [3, 1, 3]);
  assert.deepEqual(await hot.array(), [[[0, 0, 1]], [[1, 0, 0]], [[0, 0, 0]]]);
});

test('dropout keeps the mean, clears a share of p, and repeats with the seed', async () => {
  const x = tensor(new Float32Array(20000).fill(1), { requiresGrad: true });
  const draw = async (): Promise<Float32Array> => {
    manualSeed(5);
    return (await F.dropout(x, { p: 0.3 }).data()) as Float32Array;
  };
  const y = await draw();
  const cleared = y.filter((v) => v === 0).length / y.length;
  assert.ok(Math.abs(cleared - 0.3) < 0.02, `${cleared} cleared`);
  assert.ok(y.every((v) => v === 0 || Math.abs(v - 1 / 0.7) < 1e-6));
  assert.deepEqual(await draw(), y);
  assert.notDeepEqual(await F.dropout(x, { p: 0.3 }).data(), y);
  assert.equal(F.dropout(x, { p: 0.3, training: false }), x);
  assert.equal(await F.dropout(x, { p: 1 }).sum().item(), 0);
  manualSeed(5);
  const again = F.dropout(x, { p: 0.3 });
  again.sum().backward();
  assert.deepEqual(await x.grad!.data(), await again.data());
});

test('batchNorm: running statistics move by the momentum, towards the unbiased variance', async () => {
  const x = tensor([1, 2, 3, 4], { shape: [4, 1, 1, 1] });
  const [mean, variance] = [tensor([10]), tensor([1])];
  F.batchNorm(x, mean, variance, { training: true, momentum: 0.5 });
  assertClose((await mean.data()) as Float32Array, [6.25], 'mean');
  assertClose((await variance.data()) as Float32Array, [0.5 + 0.5 * (5 / 3)], 'variance');
});

const x4 = zeros([2, 3, 8, 8]);
const ERRORS: readonly [string, () => unknown, new (m: string) => Error, RegExp][] = [
  [
    'relu of integers',
    () => F.relu(labels(1)),
    DTypeError,
    /\[relu\] x must be floats, got i32.*\.cast\(f32\)/,
  ],
  [
    'linear sizes',
    () => F.linear(zeros([2, 4]) as Tensor, zeros([3, 5])),
    ShapeError,
    /x is \(2,4\), weight \(3,5\).*must be 5.*flatten/,
  ],
  [
    'linear bias',
    () => F.linear(zeros([2, 5]), zeros([3, 5]), zeros([5])),
    ShapeError,
    /bias is \(5\), must be \(3\)/,
  ],
  [
    'conv2d channels',
    () => F.conv2d(x4, zeros([4, 2, 3, 3])),
    ShapeError,
    /\[conv2d\] channels do not fit.*\(2,3,8,8\).*\(4,2,3,3\)/,
  ],
  [
    'conv2d stride',
    () => F.conv2d(x4, zeros([4, 3, 3, 3]), undefined, { stride: 0 }),
    ArgumentError,
    /stride is 0.*≥ 1/,
  ],
  ['conv2d kernel', () => F.conv2d(x4, zeros([4, 3, 9, 9])), ShapeError, /9×9 kernel.*8×8/],
  ['maxPool2d padding', () => F.maxPool2d(x4, 2, { padding: 2 }), ShapeError, /more than half/],
  [
    'avgPool2d padding',
    () => F.avgPool2d(x4, 2, { padding: 2 }),
    ArgumentError,
    /2×2 is more than half the kernel 2×2/,
  ],
  ['avgPool2d window', () => F.avgPool2d(x4, 9), ShapeError, /9×9 window does not fit into 8×8/],
  [
    'avgPool2d rank',
    () => F.avgPool2d(zeros([8, 8]), 2),
    ShapeError,
    /\(N,C,H,W\), 4 dimensions, got \(8,8\)/,
  ],
  ['dropout p', () => F.dropout(x4, { p: 1.5 }), ArgumentError, /p is 1.5, must be a number from 0 to 1/],
  [
    'batchNorm statistics',
    () => F.batchNorm(x4, zeros([4]), zeros([3])),
    ShapeError,
    /runningMean is \(4\).*must be \(3\)/,
  ],
  [
    'batchNorm of one',
    () => F.batchNorm(zeros([1, 3, 1, 1]), zeros([3]), zeros([3]), { training: true }),
    ShapeError,
    /one value per channel/,
  ],
  [
    'crossEntropy one-hot',
    () => F.crossEntropy(zeros([2, 3]), zeros([2, 3], { dtype: i32 })),
    ShapeError,
    /\(2,3\) and \(2,3\).*one-hot rows are for crossEntropy, as floats/,
  ],
  [
    'crossEntropy of other probabilities',
    () => F.crossEntropy(zeros([2, 3]), zeros([2, 4])),
    ShapeError,
    /logits is \(2,3\), targets \(2,4\)/,
  ],
  [
    'crossEntropy ignoring probabilities',
    () => F.crossEntropy(zeros([2, 3]), zeros([2, 3]), { ignoreIndex: 1 }),
    ArgumentError,
    /ignoreIndex is for class labels, the targets are probabilities/,
  ],
  [
    'crossEntropy dtype',
    () => F.crossEntropy(zeros([2, 3]), zeros([2])),
    DTypeError,
    /labels must be i32.*got f32/,
  ],
  [
    'crossEntropy smoothing',
    () => F.crossEntropy(zeros([2, 3]), labels(0, 1), { labelSmoothing: 2 }),
    ArgumentError,
    /labelSmoothing is 2/,
  ],
  [
    'crossEntropy weight',
    () => F.crossEntropy(zeros([2, 3]), labels(0, 1), { weight: zeros([2]) }),
    ShapeError,
    /weight is \(2\), must be \(3\)/,
  ],
  [
    'mse shapes',
    () => F.mse(zeros([2, 1]), zeros([2])),
    ShapeError,
    /x is \(2,1\), target \(2\).*nothing is broadcast/,
  ],
  ['mse dtypes', () => F.mse(zeros([2]), zeros([2], { dtype: f64 })), DTypeError, /x is f32, target f64/],
  [
    'reduction',
    () => F.mse(zeros([2]), zeros([2]), { reduction: 'max' as 'mean' }),
    ArgumentError,
    /'max', must be 'mean', 'sum' or 'none'/,
  ],
  ['huber delta', () => F.huber(zeros([2]), zeros([2]), { delta: 0 }), ArgumentError, /delta is 0/],
  ['softplus beta', () => F.softplus(zeros([2]), { beta: -1 }), ArgumentError, /beta is -1/],
  [
    'gelu approximate',
    () => F.gelu(zeros([2]), { approximate: 'erf' as 'none' }),
    ArgumentError,
    /'erf', must be 'none' or 'tanh'/,
  ],
  ['oneHot dtype', () => F.oneHot(zeros([2]), 3), DTypeError, /i32/],
  ['oneHot classes', () => F.oneHot(zeros([2], { dtype: i32 }), 0), ArgumentError, /classes is 0/],
];

for (const [name, run, type, message] of ERRORS) {
  test(`error: ${name}`, () => {
    assert.throws(run, (error) => {
      assert.ok(error instanceof type, `${String(error)} is not a ${type.name}`);
      assert.match(error.message, message);
      return true;
    });
  });
}
