/** Where numbers end: what 16 bits would round away or overflow, NaN, counts beyond 32 bits. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { philox4x32 } from '../../src/core/philox.js';
import * as H from '../../src/index.js';
import {
  bf16,
  conv2d,
  crossEntropy,
  f16,
  f32,
  full,
  Generator,
  i8,
  i32,
  ones,
  rand,
  relu,
  type Tensor,
  tensor,
  u8,
  useDevice,
  zeros,
} from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

const list = async (t: H.AnyTensor): Promise<number[]> => Array.from(await t.data(), Number);

for (const device of DEVICES) {
  const on = (name: string, body: () => Promise<void>): void => {
    test(`${device}: ${name}`, async () => {
      useDevice(device);
      await body();
    });
  };

  on('sums of 16-bit floats are rounded once, at the end', async () => {
    const many = new Int32Array(3000);
    for (const [dtype, expected] of [
      [bf16, 3008],
      [f16, 3000],
    ] as const) {
      const w = tensor([1, 2], { dtype, requiresGrad: true });
      w.at(tensor(many)).sum().backward();
      assert.deepEqual(await list(w.grad!), [expected, 0]);
    }
    const [row, column] = [tensor([[300, -300]], { dtype: f16 }), tensor([[300], [300]], { dtype: f16 })];
    assert.deepEqual(await list(row.matmul(column)), [0]);
    const image = tensor([300, -300], { dtype: f16 }).reshape([1, 2, 1, 1]);
    const weight = tensor([300, 300], { dtype: f16 }).reshape([1, 2, 1, 1]);
    assert.deepEqual(await list(conv2d(image, weight)), [0]);
    const half = ones([100_000], { dtype: f16 });
    assert.equal(await half.mean().item(), 1);
    assert.equal(await half.variance().item(), 0);
  });

  on('i8 is summed and multiplied in i32, and made from floats by saturating', async () => {
    const sum = full([300], -100, { dtype: i8 }).sum();
    assert.equal(sum.dtype, i32);
    assert.equal(await sum.item(), -30_000);
    assert.equal(await tensor([-20, 30], { dtype: i8 }).prod().item(), -600);
    assert.deepEqual(
      await list(tensor([-300, -128.9, 127.9, 300, Number.NaN]).cast(i8)),
      [-128, -128, 127, 127, 0],
    );
    assert.deepEqual(await list(tensor(Int8Array.of(-128, 127)).add(1)), [-127, -128]);
    assert.throws(() => tensor([200], { dtype: i8 }), /200 cannot be represented as i8 .* from -128 to 127/);
    assert.throws(() => tensor(Uint8Array.of(200), { dtype: i8 }), /200 cannot be represented as i8/);
  });

  on('u8 is summed and multiplied in i32', async () => {
    const sum = ones([300], { dtype: u8 }).sum();
    assert.equal(sum.dtype, i32);
    assert.equal(await sum.item(), 300);
    assert.equal(await tensor([20, 30], { dtype: u8 }).prod().item(), 600);
  });

  on('a NaN of any bits stays one in softmax and cross-entropy', async () => {
    const bits = Int32Array.of(0x7fffffff, 0, 0, 0, 0, 0, 0, 0x3f800000);
    const x = tensor(new Float32Array(bits.buffer), { shape: [1, 8] });
    assert.ok((await list(x.softmax(1))).every(Number.isNaN));
    assert.ok(Number.isNaN(await crossEntropy(x, tensor([1], { dtype: i32 })).item()));
  });

  on('argmax and argmin point at a NaN', async () => {
    const x = tensor([
      [1, Number.NaN, 3],
      [4, 5, 6],
      [Number.NaN, 0, Number.NaN],
    ]);
    assert.deepEqual(await list(x.argmax(1)), [1, 2, 0]);
    assert.deepEqual(await list(x.argmin(1)), [1, 0, 0]);
  });

  on('gradients at NaN, and of 0⁰', async () => {
    const at = async (values: number[], fn: (x: Tensor) => Tensor): Promise<number[]> => {
      const x = tensor(values, { requiresGrad: true });
      fn(x).sum().backward();
      return list(x.grad!);
    };
    assert.deepEqual(await at([Number.NaN, 2, -1, 0], relu), [1, 1, 0, 0]);
    assert.deepEqual(await at([Number.NaN, 2, -1, 0], (x) => x.abs()), [Number.NaN, 1, -1, 0]);
    assert.deepEqual(await at([0, 2], (x) => x.pow(tensor([0, 3]))), [0, 12]);
    assert.deepEqual(await at([0, 2, -1], (z) => tensor([0, 1, 0]).pow(z)), [0, 0, Number.NEGATIVE_INFINITY]);
  });

  on('a row that was computed is summed in parts as any other', async () => {
    const x = tensor(
      new Float32Array(196_608).map((_, i) => i % 2),
      { requiresGrad: true },
    );
    const deviation = x.sub(x.mean(0, { keepdim: true }));
    await deviation.data();
    assert.equal(await deviation.square().sum().item(), 196_608 / 4);
  });

  on('random numbers go on beyond 2³² blocks', async () => {
    const generator = new Generator(3);
    generator.counter.write([2 ** 32 - 1]);
    const uniform = (word: number): number => (word >>> 8) * 2 ** -24;
    const blocks = [
      [2 ** 32 - 1, 0],
      [0, 1],
      [1, 1],
    ] as const;
    const expected = blocks.flatMap(([low, high]) => philox4x32([low, high, 0, 0], [3, 0]).map(uniform));
    assert.deepEqual(await list(rand([8], { generator })), expected.slice(0, 8));
    assert.deepEqual(await list(rand([3], { generator })), expected.slice(8, 11));
    assert.deepEqual(await list(generator.counter), [2 ** 32 + 2]);
  });
}

test('a tensor of 2³¹ elements is refused, what is computed on the way may be as large', async () => {
  useDevice('cpu');
  const refused = /\(65536,32768\) has 2147483648 elements, a tensor in memory at most/;
  await assert.rejects(zeros([2 ** 16, 2 ** 15]).data(), refused);
  assert.throws(
    () =>
      ones([2 ** 16, 1])
        .add(ones([2 ** 15]))
        .realize(),
    refused,
  );
  assert.throws(() => rand([2 ** 16, 2 ** 15]), refused);
  // A loop counts as far: this sum was 0.
  assert.throws(
    () => ones([2 ** 16, 2 ** 15]).sum(),
    /\[sum\] \(65536,32768\) over axes 0,1 takes 2147483648 elements for each result, at most/,
  );
  // (1300, 1300, 1300) on the way
  const planned = ones([1300, 1300], { dtype: f16 }).matmul(ones([1300, 1300], { dtype: f16 }));
  assert.deepEqual(await list(planned.at('0:1', '0:2')), [1300, 1300]);
});

for (const device of DEVICES) {
  test(`${device}: functions of 16-bit floats are rounded once`, async () => {
    useDevice(device);
    const of = async (
      dtype: typeof f16 | typeof bf16,
      values: number[],
      fn: (x: Tensor) => Tensor,
      scale = 1,
    ): Promise<[value: number[], gradient: number[]]> => {
      const x = tensor(values, { dtype, requiresGrad: true });
      const y = fn(x);
      y.mul(scale).sum().backward();
      return [await list(y), await list(x.grad!)];
    };
    const near = (actual: readonly number[], expected: readonly number[], share: number): void => {
      actual.forEach((v, i) => {
        assert.ok(Math.abs(v - expected[i]!) <= share * Math.abs(expected[i]!), `${actual} ≉ ${expected}`);
      });
    };
    const ten = 2 ** -10;
    // torch.nn.functional
    near((await of(f16, [12, 16, 20, 64, 128], H.silu, 1024))[1], [1024, 1024, 1024, 1024, 1024], ten);
    near((await of(f16, [64, 128], H.gelu, 1024))[1], [1024, 1024], ten);
    near((await of(f16, [-12, -13], H.sigmoid))[0], [6.1e-6, 2.3e-6], 0.03);
    near((await of(f16, [0.001, -0.001, 0.01], H.erf))[0], [0.00113, -0.00113, 0.01128], 2e-3);
    near((await of(bf16, [-3, -3.5, -4], H.gelu))[0], [-0.00406, -0.00081, -0.00013], 0.04);
    const many = ones([1, 70_000], { dtype: f16 }).softmax();
    near((await list(many)).slice(0, 2), [1.43e-5, 1.43e-5], 0.01);
    near((await of(f16, [0, 0, 0, 0], (x) => x.logSoftmax(), 20_000))[1].map(Math.abs), [8, 8, 8, 8], 0.3);
    const large = H.full([1, 1, 8, 8], 2000, { dtype: f16 });
    for (const countIncludePad of [true, false])
      assert.deepEqual(await list(H.avgPool2d(large, 8, { countIncludePad })), [2000]);
  });

  test(`${device}: where a derivative has no finite value, what PyTorch gives`, async () => {
    useDevice(device);
    const x = tensor(
      [
        [1, 1, 1],
        [2, 3, 4],
      ],
      { requiresGrad: true },
    );
    x.std(1).sum().backward();
    assert.deepEqual(await list(x.grad!), [0, 0, 0, -0.5, 0, 0.5]);
    const huber = async (values: number[], delta: number): Promise<number[][]> => {
      const d = tensor(values, { requiresGrad: true });
      const loss = H.huber(d, tensor(values.map(() => 0)), { reduction: 'none', delta });
      loss.sum().backward();
      return [await list(loss), await list(d.grad!)];
    };
    assert.deepEqual(await huber([3, 1, -0.5], 1), [
      [2.5, 0.5, 0.125],
      [1, 1, -0.5],
    ]);
    assert.deepEqual(await huber([3, 1], Infinity), [
      [4.5, 0.5],
      [3, 1],
    ]);
    assert.deepEqual((await huber([Infinity, 1], 1))[1], [1, 1]);
  });

  test(`${device}: noGrad holds for what changes nothing, too`, async () => {
    useDevice(device);
    const a = tensor([3, 4], { requiresGrad: true });
    const same = H.noGrad(() => [a.mul(1), a.reshape([2]), a.cast(a.dtype)]);
    for (const t of same) assert.equal(t.requiresGrad, false);
    same[0]!.mul(a).sum().backward();
    assert.deepEqual(await list(a.grad!), [3, 4]);
    assert.equal(H.noGrad(() => tensor([1], { requiresGrad: true })).requiresGrad, true);
  });

  test(`${device}: arange of every type`, async () => {
    useDevice(device);
    assert.deepEqual(await list(H.arange(5, 0, { step: -1, dtype: u8 })), [5, 4, 3, 2, 1]);
    assert.deepEqual(await list(H.arange(2 ** 31, 2 ** 31 + 3, { dtype: H.u32 })), [
      2 ** 31,
      2 ** 31 + 1,
      2 ** 31 + 2,
    ]);
    assert.deepEqual(await list(H.arange(1, { step: 0.25 })), [0, 0.25, 0.5, 0.75]);
    assert.deepEqual(await list(H.arange(3, 3)), []);
    assert.throws(() => H.arange(2 ** 31, 2 ** 31 + 3), /2147483648 cannot be represented as i32/);
    assert.throws(() => H.arange(-1, 3, { dtype: u8 }), /-1 cannot be represented as u8/);
    assert.throws(() => H.arange(300, 600, { step: 300, dtype: u8 }), /300 cannot be represented as u8/);
  });
}

/** x, f(x) and f'(x): limits, and what PyTorch gives where there is none (NaN). */
type Point = readonly [x: number, value: number, slope: number];
const { POSITIVE_INFINITY: inf, NEGATIVE_INFINITY: less, NaN: nan } = Number;
const unknown: Point = [nan, nan, nan];
const POINTS: Readonly<Record<string, readonly [(x: Tensor) => Tensor, ...Point[]]>> = {
  sigmoid: [
    H.sigmoid,
    unknown,
    [0, 0.5, 0.25],
    [inf, 1, 0],
    [less, 0, 0],
    [-89, 2.2273635618e-39, 2.2273635618e-39],
  ],
  tanh: [H.tanh, unknown, [-0, -0, 1], [inf, 1, 0], [less, -1, 0], [1e-8, 1e-8, 1]],
  softplus: [
    H.softplus,
    unknown,
    [0, Math.LN2, 0.5],
    [inf, inf, 1],
    [less, 0, 0],
    [-89, 2.2273635618e-39, 2.2273635618e-39],
  ],
  elu: [
    H.elu,
    unknown,
    [-0, -0, 1],
    [inf, inf, 1],
    [less, -1, 0],
    [-1e-8, -1e-8, 1],
    [-30, -1, 9.357622969e-14],
  ],
  gelu: [
    H.gelu,
    unknown,
    [0, 0, 0.5],
    [-0, -0, 0.5],
    [less, nan, nan],
    [-6, -5.919525869e-9, -3.546870945e-8],
    [-13, -7.952313719e-38, -1.033730444e-36],
    [1e-8, 5e-9, 0.5],
  ],
  silu: [
    H.silu,
    unknown,
    [0, 0, 0.5],
    [less, nan, nan],
    [-88, -5.328049668e-37, -5.267503649e-37],
    [-100, -3.720075976e-42, -3.682875216e-42],
  ],
  expm1: [(x) => x.expm1(), unknown, [-0, -0, 1], [inf, inf, inf], [less, -1, 0], [-30, -1, 9.357622969e-14]],
  log1p: [
    (x) => x.log1p(),
    unknown,
    [-0, -0, 1],
    [-1, less, inf],
    [-2, nan, -1],
    [inf, inf, 0],
    [1e-8, 1e-8, 1],
  ],
  erf: [
    H.erf,
    unknown,
    [-0, -0, 1.1283791671],
    [inf, 1, 0],
    [less, -1, 0],
    [1e-8, 1.1283791671e-8, 1.1283791671],
  ],
};
/** Logit, target, loss and the gradients of both. */
const LOGITS: readonly (readonly [x: number, t: number, loss: number, dx: number, dt: number])[] = [
  [inf, 0.3, inf, 0.7, less],
  [less, 0.3, inf, -0.3, inf],
  [inf, 0, inf, 1, less],
  [less, 1, inf, -1, inf],
  [nan, 0, nan, nan, nan],
  [0, 0.5, Math.LN2, 0, -0],
  [89, 1, 2.2273635618e-39, -2.2273635618e-39, -89],
  [-89, 0, 2.2273635618e-39, 2.2273635618e-39, 89],
  [1e30, 1, 0, 0, -1e30],
];

/** Zeros have their sign; else to 10⁻⁴: below 10⁻³⁸ f32 has no more digits. */
function assertNear(got: number, wanted: number, what: string): void {
  const near = Object.is(got, wanted) || (wanted !== 0 && Math.abs(got - wanted) <= 1e-4 * Math.abs(wanted));
  assert.ok(near, `${what} is ${got}, not ${wanted}`);
}

for (const device of DEVICES) {
  test(`${device}: activations and their gradients where numbers end`, async () => {
    useDevice(device);
    for (const dtype of [f32, H.f64]) {
      for (const [name, [f, ...points]] of Object.entries(POINTS)) {
        const x = tensor(
          points.map((p) => p[0]),
          { dtype, requiresGrad: true },
        );
        const y = f(x);
        y.sum().backward();
        const [values, slopes] = [await list(y), await list(x.grad!)];
        points.forEach(([at, value, slope], i) => {
          assertNear(values[i]!, value, `${dtype.name} ${name}(${at})`);
          assertNear(slopes[i]! + 0, slope, `${dtype.name} ${name}'(${at})`);
        });
      }
    }
  });

  test(`${device}: the loss of logits is infinite where they are, or 0`, async () => {
    useDevice(device);
    const [x, t] = [0, 1].map((k) =>
      tensor(
        LOGITS.map((row) => row[k]!),
        { requiresGrad: true },
      ),
    ) as [Tensor, Tensor];
    const loss = H.bceWithLogits(x, t, { reduction: 'none' });
    loss.sum().backward();
    const got = await Promise.all([loss, x.grad!, t.grad!].map(list));
    LOGITS.forEach(([logit, target, ...wanted], i) => {
      wanted.forEach((w, k) => {
        // What is near 1 is subtracted from 1: its last digits are those of f32.
        if (k === 1 && Math.abs(w) < 1e-30) assert.ok(Math.abs(got[k]![i]!) < 1e-30);
        else
          assertNear(
            got[k]![i]! + 0,
            w + 0,
            `${['loss', 'gradient', 'gradient of the target'][k]} (${logit}, ${target})`,
          );
      });
    });
  });

  test(`${device}: softmax of f32 gives numbers below 2⁻¹²⁶, too`, async () => {
    useDevice(device);
    const logits = [0, -87, -88, -90, -100, -103, -104, -1000, less];
    const x = tensor([logits], { requiresGrad: true });
    const y = x.softmax(1);
    (await list(y)).forEach((v, i) => {
      assert.ok(
        Math.abs(v - Math.exp(logits[i]!)) <= 2 ** -149 + 1e-6 * v,
        `softmax of ${logits[i]} is ${v}`,
      );
    });
    crossEntropy(x, tensor([0], { dtype: i32 })).backward();
    (await list(x.grad!)).slice(1).forEach((v, i) => {
      const wanted = Math.exp(logits[i + 1]!);
      assert.ok(Math.abs(v - wanted) <= 2 ** -148 + 1e-6 * v, `gradient at ${logits[i + 1]} is ${v}`);
    });
  });
}
