/**
 * Long sums are as exact as PyTorch's, wherever they are hidden and along whatever axes: within 4 × of its error, or of
 * the rounding of the result where PyTorch is closer than that by chance.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { i32 } from '../../src/core/dtype.js';
import * as F from '../../src/index.js';
import { arange, ones, setPrecision, type Tensor, tensor, useDevice, zeros } from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';
import { type GoldenSum, goldenStream, goldenSums } from '../golden/golden.js';

setPrecision({ matmul: 'f32', conv: 'f32' });

type Inputs = Readonly<Record<string, Tensor>>;

/** The gradient of `of`, where the result's is `g`. */
function gradient(result: Tensor, of: Tensor, { g }: Inputs): Tensor {
  result.mul(g!).sum().backward();
  return of.grad!;
}

const normalize = ({ x, w, b }: Inputs): Tensor =>
  F.batchNorm(x!, zeros([2]), ones([2]), { weight: w, bias: b, training: true });

/** The rows of x by turns: 0, 1, … and again from 0. */
const turns = (count: number, of: number): Tensor => arange(count, { dtype: i32 }).mod(of);

const RUNS: Readonly<Record<string, (inputs: Inputs) => Tensor>> = {
  sum: ({ x }) => x!.sum(),
  'sum of equal numbers': ({ x }) => x!.sum(),
  'sum of few': ({ x }) => x!.sum(),
  'sum of rows': ({ x }) => x!.sum(1),
  'sum of columns': ({ x }) => x!.sum(0),
  'sum of equal columns': ({ x }) => x!.sum(0),
  'sum of many columns': ({ x }) => x!.sum(0),
  'sum along the middle': ({ x }) => x!.sum(1),
  'sum along the outer and the inner': ({ x }) => x!.sum([0, 2]),
  mean: ({ x }) => x!.mean(),
  variance: ({ x }) => x!.variance(),
  'variance of columns': ({ x }) => x!.variance(0),
  norm: ({ x }) => x!.square().sum().sqrt(),
  mse: ({ x, target }) => F.mse(x!, target!),
  softmax: ({ x }) => x!.softmax(1),
  'softmax of columns': ({ x }) => x!.softmax(0),
  logSoftmax: ({ x }) => x!.logSoftmax(1),
  crossEntropy: ({ x }) => F.crossEntropy(x!, turns(x!.shape[0]!, x!.shape[1]!)),
  batchNorm: normalize,
  "gradient of batchNorm's weight": (inputs) => gradient(normalize(inputs), inputs.w!, inputs),
  "gradient of batchNorm's input": (inputs) => gradient(normalize(inputs), inputs.x!, inputs),
  'gradient of a bias': (inputs) => gradient(F.linear(inputs.x!, inputs.w!, inputs.b), inputs.b!, inputs),
  'gradient of a weight': (inputs) => gradient(F.linear(inputs.x!, inputs.w!), inputs.w!, inputs),
  'gradient of a large weight': (inputs) => gradient(F.linear(inputs.x!, inputs.w!), inputs.w!, inputs),
  'gradient of a filter': (inputs) => gradient(F.conv2d(inputs.x!, inputs.w!), inputs.w!, inputs),
  'gradient of a filter, few large images': (inputs) =>
    gradient(F.conv2d(inputs.x!, inputs.w!, undefined, { padding: 1 }), inputs.w!, inputs),
  matmul: ({ a, b }) => a!.matmul(b!),
  'matmul of a transpose': ({ a, b }) => a!.matmul(b!.transpose()),
  'matmul of equal numbers': ({ a, b }) => a!.matmul(b!.transpose()),
  avgPool2d: ({ x }) => F.avgPool2d(x!, [300, 200]),
  'gradient of at': (inputs) =>
    gradient(inputs.x!.at(turns(inputs.g!.shape[0]!, inputs.x!.shape[0]!)), inputs.x!, inputs),
  'gradient of gather': (inputs) => {
    const rows = turns(inputs.g!.shape[0]!, 2).unsqueeze(1).expand(inputs.g!.shape);
    return gradient(inputs.x!.gather(0, rows), inputs.x!, inputs);
  },
};

/** Elements of inputs that the simulator takes in a moment. */
const FEW = 110_000;
/** Half the distance between 1 and the next f32: how far a rounded result is off, relative to itself. */
const ROUNDING = 2 ** -24;

async function check({ name, inputs, samples, error }: GoldenSum): Promise<void> {
  const tensors = Object.fromEntries(
    Object.entries(inputs).map(([key, stream]) => {
      const { shape, data } = goldenStream(stream);
      return [key, tensor(data, { shape: [...shape], requiresGrad: true })];
    }),
  );
  const run = RUNS[name];
  assert.ok(run, 'not in this test');
  const found = (await run(tensors).data()) as Float32Array;
  const stride = Math.max(1, Math.floor(found.length / 16));
  const square = (of: (s: number, i: number) => number): number =>
    Math.sqrt(samples.reduce((sum, s, i) => sum + of(s, i) ** 2, 0));
  const off = square((s, i) => found[i * stride]! - s) / square((s) => s);
  assert.ok(
    off <= 4 * Math.max(error, ROUNDING / 2),
    `off by ${off.toExponential(1)}, PyTorch by ${error.toExponential(1)}`,
  );
}

const sizeOf = ({ inputs }: GoldenSum): number =>
  Object.values(inputs).reduce((sum, { shape }) => sum + shape.reduce((n, d) => n * d, 1), 0);

for (const device of DEVICES) {
  test(`${device}: long sums are as exact as PyTorch's`, async (t) => {
    for (const golden of goldenSums()) {
      if (device === 'sim' && sizeOf(golden) > FEW) continue;
      await t.test(golden.name, async () => {
        useDevice(device);
        await check(golden);
      });
    }
  });
}

test('column sums count beyond 2^24, where an f32 accumulator of ones stops', async () => {
  useDevice('cpu');
  assert.deepEqual(Array.from((await ones([20_000_000, 2]).sum(0).data()) as Float32Array), [2e7, 2e7]);
});

test('a long softmax is exact to a few roundings', async () => {
  useDevice('cpu');
  const n = 300_000;
  const total = 1 + (n - 1) * Math.exp(Math.fround(-0.3));
  const x = tensor(
    Float32Array.from({ length: n }, (_, i) => (i === 0 ? 0 : -0.3)),
    { shape: [1, n] },
  );
  const [found] = (await x.softmax(1).data()) as Float32Array;
  assert.ok(Math.abs(found! * total - 1) < 4e-6, `${found}, expected ${1 / total}`);
  const loss = await F.crossEntropy(x, tensor([0], { dtype: i32 })).item();
  assert.ok(Math.abs(Number(loss) - Math.log(total)) < 4e-6, `${loss}, expected ${Math.log(total)}`);
});

test('products of many equal terms are exact to a few roundings', async () => {
  useDevice('cpu');
  const [K, product] = [200_000, Math.fround(0.7) * Math.fround(0.3)];
  const full = (rows: number, columns: number, value: number): Tensor =>
    tensor(new Float32Array(rows * columns).fill(value), { shape: [rows, columns] });
  for (const [M, N] of [
    [3, 5],
    [16, 24],
  ] as const)
    for (const result of [
      full(M, K, 0.7).matmul(full(K, N, 0.3)),
      full(M, K, 0.7).matmul(full(N, K, 0.3).transpose()),
    ])
      for (const v of (await result.data()) as Float32Array)
        assert.ok(Math.abs(v / (K * product) - 1) < 4e-5, `${result}: ${v}, expected ${K * product}`);
});
