/** Products of matrices whose rows are not aligned, and what is made of them: planned for an H200. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, type DType, f32, i32 } from '../../src/core/dtype.js';
import { PhiloxStream } from '../../src/core/philox.js';
import { crossEntropy, linear, Tensor, tensor, useDevice, valueAndGrad, zeros } from '../../src/index.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { matmul, matmulOp } from '../../src/ops/matmul/op.js';
import { schedule } from '../../src/schedule/schedule.js';
import { cudaReason } from '../cases/case-runner.js';

/** Sums of products of these are exact in f32, in whatever order. */
function integers(rows: number, columns: number, seed: number): Tensor {
  const random = new PhiloxStream(seed);
  return tensor(
    Float32Array.from({ length: rows * columns }, () => random.below(9) - 4),
    { shape: [rows, columns] },
  );
}

for (const [left, right, [M, N, K]] of [
  ['as it is', 'as it is', [1024, 1025, 1027]],
  ['transposed', 'transposed', [1027, 1025, 1025]],
  ['as it is', 'transposed', [1027, 1025, 1024]],
  ['transposed', 'as it is', [1025, 1024, 1027]],
] as const)
  test(`a matrix ${left} by one ${right} for ${M}, ${N} and ${K} is the same of aligned rows`, async () => {
    useDevice('cpu');
    const operand = (rows: number, columns: number, way: string, seed: number): Tensor =>
      (way === 'transposed'
        ? integers(columns, rows, seed).cast(bf16).transpose(0, 1)
        : integers(rows, columns, seed).cast(bf16)) as Tensor;
    const [x, y] = [operand(M, K, left, 1), operand(K, N, right, 2)];
    const made = matmulOp.faster!([x.node, y.node], { precision: 'f32' }, H200);
    const product = made?.op === 'slice' ? made.src[0]! : made;
    assert.ok(made && product?.op === 'call');
    const again = matmulOp.faster!(product.src, { precision: 'f32' }, H200);
    assert.equal(again, undefined, 'its own sources are aligned');
    const [got, wanted] = [new Tensor(made), new Tensor(matmul(x.node, y.node))];
    assert.deepEqual(got.shape, [M, N]);
    assert.deepEqual(await got.cast(f32).data(), await wanted.cast(f32).data());
  });

/** The loss of 2048 rows of features for a vocabulary, and its gradients: of features, weight and bias. */
function head(vocabulary: number): Tensor[] {
  useDevice('cpu');
  const [x, weight] = [integers(2048, 256, 1), integers(vocabulary, 256, 2)];
  const bias = integers(1, vocabulary, 3).reshape([vocabulary]);
  const labels = zeros([2048], { dtype: i32 });
  const loss = (x: Tensor, weight: Tensor, bias: Tensor): Tensor => {
    const logits = linear(x.cast(bf16), weight.cast(bf16), bias.cast(bf16));
    return crossEntropy(logits, labels).mean() as Tensor;
  };
  const [value, gradients] = valueAndGrad(loss, { argnums: [0, 1, 2] })(x, weight, bias);
  return [value as Tensor, ...gradients];
}

const launchesOf = (results: readonly Tensor[]): { name: string; bytes: number }[] =>
  schedule(
    results.map(({ node }) => node),
    H200,
  ).launches.map(({ work, bytes }) => ({
    name: 'kernel' in work ? work.kernel.name : work.library.name,
    bytes,
  }));

test('logits and their gradient are in memory once, and all of their products are by warpgroups', () => {
  const launches = launchesOf(head(3001));
  const products = launches.filter(({ name }) => name.startsWith('matmul'));
  assert.deepEqual(
    products.map(({ name }) => name),
    Array(3).fill('matmulWarpgroups'),
  );
  // The rows of the weight that are missing, and the columns of the gradient, which its kernel leaves out.
  const more = launches.filter(({ name }) => /pad_|detach_2048/.test(name));
  assert.deepEqual(
    more.map(({ name }) => name),
    ['pad_3008x256', 'detach_2048x7'],
  );
  const bytesOf = (list: readonly { bytes: number }[]): number => list.reduce((n, l) => n + l.bytes, 0);
  const aligned = bytesOf(launchesOf(head(3008)));
  const weight = 3008 * 256 * 2;
  assert.ok(bytesOf(launches) <= aligned * 1.03 + 2 * weight, `${bytesOf(launches)} of ${aligned} bytes`);
});

test('products that gain less than a copy takes stay as they are', () => {
  const small = [integers(64, 65, 1), integers(65, 65, 2)].map((t) => t.cast(bf16).node);
  assert.equal(matmulOp.faster!(small, { precision: 'f32' }, H200), undefined);
  const slim = [integers(8, 4095, 1), integers(4095, 4099, 2)].map((t) => t.cast(bf16).node);
  assert.equal(matmulOp.faster!(slim, { precision: 'f32' }, H200), undefined);
});

/** A product of operands that are computed: copies of leaves would take longer than they gain. */
function unaligned(dtype: DType): Tensor {
  const [x, y] = [integers(519, 1027, 1), integers(3073, 1027, 2)].map((t) =>
    t.neg().cast(dtype as typeof f32),
  );
  return x!.matmul(y!.transpose(0, 1), { precision: 'f32' });
}

for (const dtype of [bf16, f32]) {
  test(`a product of ${dtype.name} with sides of 519, 3073 and 1027 is by warpgroups`, () => {
    useDevice('cpu');
    const names = launchesOf([unaligned(dtype)]).map(({ name }) => name);
    assert.equal(names.filter((name) => /^matmulWarpgroups/.test(name)).length, 1, names.join(' '));
  });

  test(`cuda: that product of ${dtype.name} is exact`, { skip: cudaReason() }, async () => {
    const product = async (device: string): Promise<Float32Array> => {
      useDevice(device);
      return unaligned(dtype).cast(f32).data();
    };
    assert.deepEqual(await product('cuda'), await product('cpu'));
  });
}
