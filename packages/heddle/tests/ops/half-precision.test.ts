/**
 * Where 16-bit floats are rounded: after every op, whose own arithmetic is in f32. What is fused with what changes
 * nothing: ops computed one by one, together and by jit give the same bits, and so do their gradients.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { DType } from '../../src/core/dtype.js';
import * as H from '../../src/index.js';
import { bf16, buffer, f16, f32, jit, kernel, type Tensor, tensor, useDevice } from '../../src/index.js';
import { openDevice } from '../../src/runtime/registry.js';
import { schedule } from '../../src/schedule/schedule.js';
import { DEVICES } from '../cases/case-runner.js';
import { property } from '../property.js';

const SHAPE = [3, 3] as const;

/** Of (3, 3) to (3, 3): primitives, compositions, reductions, movement, and what has kernels of its own in f32. */
const OPS: readonly ((x: Tensor) => Tensor)[] = [
  (x) => x.mul(1.1),
  (x) => x.add(0.3),
  (x) => x.div(3),
  (x) => x.mul(x),
  (x) => x.add(x.transpose()),
  (x) => x.exp().add(1).log(),
  (x) => x.abs().sqrt(),
  (x) => x.sin(),
  (x) => x.tanh(),
  (x) => x.sigmoid(),
  (x) => x.relu(),
  (x) => x.clamp(-1, 1),
  (x) => H.gelu(x),
  (x) => H.silu(x),
  (x) => H.elu(x),
  (x) => H.softplus(x),
  (x) => x.square().add(1).rsqrt(),
  (x) => x.cast(f32).mul(1.01).cast(x.dtype),
  (x) => x.flip(0).sub(0.7),
  (x) => x.softmax(),
  (x) => x.logSoftmax(),
  (x) => x.mean(1, { keepdim: true }).add(x),
  (x) => x.std(1, { keepdim: true }).mul(x),
  (x) => x.max(0, { keepdim: true }).sub(x),
  (x) => x.matmul(x),
];

/** What has kernels of its own, by their name, with the shapes it takes. */
const KERNELS: readonly (readonly [
  string,
  readonly (readonly number[])[],
  (inputs: readonly Tensor[]) => Tensor,
])[] = [
  [
    'matmul',
    [
      [5, 6],
      [6, 7],
    ],
    ([x, w]) => x!.matmul(w!),
  ],
  [
    'conv2d',
    [
      [2, 4, 5, 6],
      [4, 2, 3, 3],
    ],
    ([x, w]) => H.conv2d(x!, w!, undefined, { padding: 1, groups: 2 }),
  ],
  ['maxPool2d', [[1, 2, 4, 10]], ([x]) => H.maxPool2d(x!, 2)],
  ['maxPool2d', [[1, 2, 5, 6]], ([x]) => H.maxPool2d(x!, 3, { stride: 2, padding: 1 })],
];

const bits = async (...tensors: readonly Tensor[]): Promise<number[]> =>
  (await Promise.all(tensors.map((t) => t.data()))).flatMap((data) => Array.from(data, Number));

const inverseRoot = kernel('inverseRoot', { x: buffer(f16), y: buffer(f16) }, ({ x, y }, { rsqrt }) => {
  y[0] = rsqrt(x[0]!);
});

for (const device of DEVICES) {
  property<[(typeof OPS)[number][], typeof f16 | typeof bf16, number]>(
    `${device}: a chain of 16-bit ops has the same bits one by one, together and by jit`,
    [
      fc.array(fc.constantFrom(...OPS), { minLength: 2, maxLength: 6 }),
      fc.constantFrom<typeof f16 | typeof bf16>(f16, bf16),
      fc.integer({ min: 0, max: 2 ** 31 }),
    ],
    async (chain, dtype, phase) => {
      useDevice(device);
      const values = Float32Array.from({ length: 9 }, (_, i) => 2 * Math.sin(phase + 1.7 * i));
      const run = (x: Tensor, each: (t: Tensor) => Tensor): Tensor => chain.reduce((t, op) => each(op(t)), x);
      const results = [(t: Tensor) => t, (t: Tensor) => t.realize()].map((each) => {
        const x = tensor(values, { shape: SHAPE, dtype, requiresGrad: true });
        const y = run(x, each);
        y.cast(f32).sum().backward();
        return [y, x.grad!] as const;
      });
      const jitted = jit((x: Tensor) => run(x, (t) => t))(tensor(values, { shape: SHAPE, dtype }));
      const [together, single] = await Promise.all(results.map((pair) => bits(...pair)));
      assert.deepEqual(together, single, 'one by one');
      assert.deepEqual(await bits(jitted), together!.slice(0, 9), 'jit');
    },
    { runs: 8 },
  );

  test(`${device}: each op of a chain rounds, not the chain`, async () => {
    useDevice(device);
    // 1 + 2⁻⁸ is no bf16 and 1 + 2⁻¹¹ no f16: what is added twice, but rounded off each time, adds nothing.
    for (const [dtype, small] of [
      [bf16, 2 ** -8],
      [f16, 2 ** -11],
    ] as const) {
      const [one, part] = [tensor([1], { dtype }), tensor([small], { dtype })];
      assert.deepEqual(await bits(one.add(part).add(part)), [1]);
      assert.deepEqual(await bits(one.add(part.add(part))), [1 + 2 * small]);
      // A reduction is one op.
      assert.deepEqual(await bits(H.stack([one, part, part]).sum()), [1 + 2 * small]);
    }
  });

  test(`${device}: what is made of several ops rounds at its end only`, async () => {
    useDevice(device);
    const f16s = (...values: number[]): Tensor => tensor(values, { dtype: f16 });
    // 128.0625 is no f16, 90,000 too large for one, and 1e-12, which keeps the gradient of bce finite, too small.
    const apart = [f16s(128), f16s(-0.0625)] as const;
    assert.deepEqual(await bits(H.mse(...apart)), [16_400]);
    assert.deepEqual(await bits(H.huber(...apart)), [127.5625]);
    assert.deepEqual(await bits(f16s(-300, 0, 300).std()), [300]);
    const p = tensor([0, 1, 0, 1], { dtype: f16, requiresGrad: true });
    H.bce(p, f16s(0, 1, 1, 0), { reduction: 'sum' }).backward();
    assert.deepEqual(await bits(p.grad!), [0, 0, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]);
    // In kernels too
    const x = f16s(17 * 2 ** -24);
    const y = f16s(0);
    await inverseRoot.launch({ grid: 1, block: 1 }, { x, y });
    assert.deepEqual(await bits(y), [993.5]);
  });

  test(`${device}: what has a kernel for f32 runs on one in 16 bits, and rounds once`, async () => {
    useDevice(device);
    const { target } = openDevice(device);
    // Whole numbers, of which all sums are exact in f32, and too large for 16 bits.
    const whole = (shape: readonly number[], seed: number, dtype: DType = f32): Tensor => {
      const size = shape.reduce((n, d) => n * d, 1);
      const values = Array.from({ length: size }, (_, i) => ((i * 37 + seed * 11) % 61) - 30);
      return tensor(values, { shape, dtype, requiresGrad: true }) as Tensor;
    };
    for (const [name, shapes, run] of KERNELS) {
      const compute = (dtype: DType): Tensor[] => {
        const inputs = shapes.map((shape, i) => whole(shape, i, dtype));
        const y = run(inputs);
        y.cast(f32).mul(whole(y.shape, 7)).sum().backward();
        return [y, ...inputs.map((x) => x.grad!)];
      };
      for (const dtype of [f16, bf16]) {
        const [half, single] = [compute(dtype), compute(f32)];
        const names = schedule(
          half.map((t) => t.node),
          target,
        ).launches.map(({ work }) => ('kernel' in work ? work.kernel.name : work.library.name));
        assert.ok(
          names.some((n) => n.startsWith(name)),
          `${name}: ${names}`,
        );
        for (const [i, t] of half.entries())
          assert.deepEqual(
            await bits(t),
            await bits(single[i]!.cast(dtype)),
            `${name} in ${dtype.name}, result ${i}`,
          );
      }
    }
  });

  if (device !== 'cpu')
    test(`${device}: an epilogue runs at the kernel's store and rounds as a separate launch would`, async () => {
      useDevice(device);
      const { target } = openDevice(device);
      const of = (shape: readonly number[], seed: number, dtype: DType): Tensor => {
        const size = shape.reduce((n, d) => n * d, 1);
        const values = Array.from({ length: size }, (_, i) => (((i * 37 + seed * 11) % 61) - 30) / 16);
        return tensor(values, { shape, dtype }).realize() as Tensor;
      };
      for (const dtype of [f16, bf16]) {
        const [x, w, bias, other] = [
          of([20, 32], 0, dtype),
          of([32, 24], 1, dtype),
          of([24], 2, dtype),
          of([20, 24], 3, dtype),
        ];
        const [image, filter, channel] = [
          of([2, 4, 9, 8], 0, dtype),
          of([8, 4, 3, 3], 1, dtype),
          of([8, 1, 1], 2, dtype),
        ];
        const cases: readonly (readonly [Tensor, (y: Tensor) => Tensor])[] = [
          [x.matmul(w), (y) => H.gelu(y.add(bias)).add(other)],
          [H.conv2d(image, filter, undefined, { padding: 1 }), (y) => y.add(channel).relu()],
        ];
        for (const [y, after] of cases) {
          const fused = after(y);
          assert.equal(schedule([fused.node], target).launches.length, 1);
          const together = await bits(fused);
          assert.deepEqual(together, await bits(after(y.detach().realize())));
        }
      }
    });

  test(`${device}: products in 16 bits with two rows, columns or steps`, async () => {
    useDevice(device);
    const values = (size: number, seed: number): number[] =>
      Array.from({ length: size }, (_, i) => (((i * 7 + seed * 3) % 11) - 5) / 4);
    for (const [M, K, N] of [
      [3, 2, 4],
      [2, 4, 6],
      [4, 6, 2],
      [2, 2, 2],
      [6, 2, 1],
    ] as const)
      for (const [turned, dtype] of [0, 1, 2, 3].flatMap((t) => [[t, f16] as const, [t, bf16] as const])) {
        const [x, y] = [values(M * K, 1), values(K * N, 2)];
        const transposed = (data: number[], rows: number, columns: number): Tensor =>
          tensor(
            data.map((_, i) => data[(i % rows) * columns + Math.floor(i / rows)]!),
            { shape: [columns, rows], dtype },
          ).transpose();
        const a = turned & 1 ? transposed(x, M, K) : tensor(x, { shape: [M, K], dtype });
        const b = turned & 2 ? transposed(y, K, N) : tensor(y, { shape: [K, N], dtype });
        // All are multiples of 1/16 below 32: bf16 has them but for the last bit of the larger, f16 has them all.
        const wanted = Array.from({ length: M * N }, (_, at) => {
          const [m, n] = [Math.floor(at / N), at % N];
          return x.slice(m * K, (m + 1) * K).reduce((sum, v, k) => sum + v * y[k * N + n]!, 0);
        });
        assert.deepEqual(
          await bits(a.matmul(b)),
          await bits(tensor(wanted, { shape: [M, N], dtype })),
          `${M} × ${K} · ${K} × ${N} of ${dtype.name}, ${turned}`,
        );
      }
  });
}
