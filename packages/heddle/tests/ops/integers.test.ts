/** Products and convolutions of dequantized bytes: that they are of the bytes, and that their sums are exact. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { topological } from '../../src/core/node.js';
import { callOf } from '../../src/graph/fused-op.js';
import {
  conv2d,
  f32,
  i8,
  i32,
  maxPool2d,
  relu,
  type Shape,
  type Tensor,
  tensor,
  u8,
  useDevice,
} from '../../src/index.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { isPositive } from '../../src/ops/integers/positive.js';
import { dequantizeLinear, quantizeLinear, type ZeroPoint } from '../../src/quantization/index.js';
import { openDevice } from '../../src/runtime/registry.js';
import { inIntegers } from '../../src/schedule/integers.js';
import { schedule } from '../../src/schedule/schedule.js';

// Every pass of the scheduler is verified.
process.env.HEDDLE_CHECK = '1';

const { target } = openDevice('cpu');
const sim = openDevice('sim').target;

/** Has the simulator run what a GPU of that compute capability would. */
function simulating(capability: number): Target {
  const value = { ...sim, capability };
  Object.defineProperty(openDevice('sim'), 'target', { value, configurable: true });
  useDevice('sim');
  return value;
}

/** Bytes from `low` to 127. */
function bytes(shape: Shape, seed: number, low = -127): Tensor<Shape, 'i8'> {
  let state = seed;
  const values = new Int8Array(shape.reduce((n, d) => n * d, 1));
  for (let i = 0; i < values.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    values[i] = low + Math.floor((state / 2 ** 32) * (128 - low));
  }
  return tensor(values, { shape: [...shape], dtype: i8 });
}

const scales = (n: number): Tensor => tensor(Array.from({ length: n }, (_, i) => 2 ** (i % 5) / 8));
const launchesOf = (y: Tensor, on: Target = target): string[] =>
  schedule([y.node], on).launches.map(({ work }) => ('kernel' in work ? work.kernel.name : ''));
const list = async (t: Tensor): Promise<number[]> => Array.from(await t.data());

/** The same values without how they came about. */
const fresh = async (t: Tensor): Promise<Tensor> =>
  tensor(Float32Array.from(await t.data()), { shape: [...t.shape] });

interface Convolution {
  readonly name: string;
  readonly x: Shape;
  readonly w: Shape;
  readonly stride?: number;
  readonly padding?: number;
  readonly dilation?: number;
  readonly groups?: number;
}

// Sums of products below 2^24, which f32 holds exactly.
const CONVOLUTIONS: readonly Convolution[] = [
  { name: 'one channel, taps as words', x: [2, 1, 28, 28], w: [6, 1, 5, 5], padding: 2 },
  { name: 'six channels', x: [2, 6, 14, 14], w: [16, 6, 5, 5] },
  { name: 'eight channels, padded', x: [1, 8, 9, 13], w: [12, 8, 3, 3], padding: 1 },
  { name: 'depthwise', x: [2, 8, 8, 8], w: [8, 1, 3, 3], padding: 1, groups: 8 },
  { name: 'three channels with stride', x: [2, 3, 11, 12], w: [5, 3, 3, 3], stride: 2, padding: 1 },
  { name: 'groups with stride', x: [1, 16, 10, 10], w: [8, 8, 3, 3], stride: 2, padding: 1, groups: 2 },
  { name: '1×1 of five channels', x: [3, 5, 7, 7], w: [4, 5, 1, 1] },
  { name: '2×2 of seven channels', x: [1, 7, 6, 9], w: [4, 7, 2, 2], padding: 1 },
  { name: 'dilated taps', x: [1, 2, 12, 15], w: [3, 2, 3, 3], padding: 2, dilation: 2 },
  { name: '7×7 of colours with stride', x: [2, 3, 18, 20], w: [10, 3, 7, 7], stride: 2, padding: 3 },
  { name: '1×1 with stride', x: [2, 20, 9, 9], w: [13, 20, 1, 1], stride: 2 },
  { name: 'wide', x: [1, 4, 4, 33], w: [9, 4, 1, 7], padding: 3 },
];

for (const { name, x: shape, w: weights, ...options } of CONVOLUTIONS)
  for (const positive of [false, true])
    test(`convolution of ${positive ? 'positive' : 'signed'} bytes: ${name}`, async () => {
      useDevice('cpu');
      const x = bytes(shape, 1);
      const w = bytes(weights, 2);
      const scale = scales(weights[0]!);
      const exact = (positive ? relu(x.cast(f32)) : x.cast(f32)).mul(0.25);
      const q = positive ? quantizeLinear(exact, 0.25) : x;
      const y = conv2d(
        dequantizeLinear(q, 0.25),
        dequantizeLinear(w, scale, 0, { axis: 0 }),
        undefined,
        options,
      );
      assert.ok(
        launchesOf(y).some((launch) => launch.startsWith('conv2dBytes')),
        launchesOf(y).join(),
      );
      const scaled = w.cast(f32).mul(scale.reshape([-1, 1, 1, 1]));
      assert.deepEqual(await list(y), await list(conv2d(exact, scaled, undefined, options)));
    });

for (const device of ['cpu', 'sim'] as const)
  for (const [M, N, K] of [
    [1, 7, 16],
    [2, 9, 20],
    [5, 24, 36],
    [17, 3, 400],
    [32, 37, 1024],
  ] as const)
    for (const positive of [false, true])
      test(`${device}: product of ${positive ? 'positive' : 'signed'} bytes: ${M} × ${K} × ${N}`, async () => {
        useDevice(device);
        const x = bytes([M, K], 3);
        const w = bytes([N, K], 4);
        const scale = scales(N);
        const exact = (positive ? relu(x.cast(f32)) : x.cast(f32)).mul(0.5);
        const q = positive ? quantizeLinear(exact, 0.5) : x;
        const y = dequantizeLinear(q, 0.5).matmul(dequantizeLinear(w, scale, 0, { axis: 0 }).transpose());
        const names = launchesOf(y, openDevice(device).target);
        assert.ok(names.includes(device === 'cpu' ? 'matmulDotBytes' : 'matmulI8'), names.join());
        const scaled = w.cast(f32).mul(scale.unsqueeze(1)).transpose();
        assert.deepEqual(await list(y), await list(exact.matmul(scaled, { precision: 'f32' })));
        const rounded = quantizeLinear(y.relu(), 500);
        assert.deepEqual(
          await list(rounded as never),
          await list(quantizeLinear((await fresh(y)).relu(), 500) as never),
        );
      });

test('an H200 has a tile for every product of bytes', () => {
  useDevice('cpu');
  for (const [M, N, K] of [
    [32, 1000, 2048],
    [1, 1000, 2048],
    [4096, 10, 4096],
    [32, 5, 84],
    [1, 1, 4],
  ] as const) {
    const [x, w] = [bytes([M, K], 3), bytes([N, K], 4)].map((q) => dequantizeLinear(q, 0.5)) as [
      Tensor,
      Tensor,
    ];
    assert.deepEqual(launchesOf(x.matmul(w.transpose()), H200), ['matmulI8']);
  }
});

for (const { name, x: shape, w: weights, ...options } of CONVOLUTIONS.filter(
  ({ groups = 1 }) => groups === 1,
))
  for (const [capability, kernel] of [
    [80, 'conv2dBytesLast'],
    [90, 'conv2dWarpgroups'],
  ] as const)
    test(`sim: convolution of signed bytes, compute capability ${capability / 10}: ${name}`, async () => {
      const on = simulating(capability);
      const [x, w] = [bytes(shape, 1), bytes(weights, 2)];
      const scale = scales(weights[0]!);
      const y = conv2d(
        dequantizeLinear(x, 0.25),
        dequantizeLinear(w, scale, 0, { axis: 0 }),
        undefined,
        options,
      );
      const names = launchesOf(y, on);
      assert.ok(names.includes(kernel), names.join());
      const scaled = w.cast(f32).mul(scale.reshape([-1, 1, 1, 1])) as Tensor;
      const exact = conv2d(x.cast(f32).mul(0.25), scaled, undefined, { ...options, precision: 'f32' });
      assert.deepEqual(await list(y), await list(exact));
    });

test('sim: between convolutions on tensor cores are bytes with channels last', async () => {
  const on = simulating(80);
  const [x, v] = [bytes([2, 20, 6, 7], 1), bytes([32, 20, 3, 3], 2)];
  const w = dequantizeLinear(bytes([9, 32, 1, 1], 3), scales(9), 0, { axis: 0 });
  const bias = tensor(Array.from({ length: 32 }, (_, i) => i - 12));
  const rounded = (y: Tensor): Tensor => dequantizeLinear(quantizeLinear(relu(y), 64), 64);
  const inner = conv2d(dequantizeLinear(x, 0.5), dequantizeLinear(v, 0.25), bias, { padding: 1 });
  const y = conv2d(rounded(inner), w);
  const { launches } = schedule([y.node], on);
  const kernels = launches.flatMap(({ work }) => ('kernel' in work ? [work.kernel] : []));
  const [first, second] = kernels.filter((k) => k.name === 'conv2dBytesLast');
  assert.ok(first && second);
  const stored = first.params.find(({ name }) => name === 'y')!.schema;
  assert.equal(stored.kind === 'buffer' && stored.dtype.name, 'i8');
  const plain = conv2d(x.cast(f32).mul(0.5), v.cast(f32).mul(0.25), bias, { padding: 1, precision: 'f32' });
  const exact = conv2d(rounded(await fresh(plain)), await fresh(w), undefined, { precision: 'f32' });
  assert.deepEqual(await list(y), await list(exact));
});

/** What bytes stand for, without quantization. */
const values = (q: Tensor<Shape, 'i8' | 'u8'>, zero: number | readonly number[]): Tensor => {
  const by = typeof zero === 'number' ? tensor(zero) : tensor([...zero]);
  return q.cast(f32).sub(by.reshape(by.ndim === 0 ? [] : [-1, ...new Array<number>(q.ndim - 1).fill(1)]));
};
const unsigned = (shape: Shape, seed: number): Tensor<Shape, 'u8'> =>
  bytes(shape, seed, -128).cast(i32).add(128).cast(u8);

/** Of i8, of u8 as they lie, and of u8 that are rounded to here; and a weight's zero points. */
const ZERO_POINTS = ['i8', 'u8', 'rounded u8'].flatMap((x) =>
  (['none', 'one', 'each'] as const).map((w) => [x, w] as const),
);

for (const [kind, ofWeights] of ZERO_POINTS) {
  const q = (shape: Shape) => {
    if (kind === 'i8') return { x: bytes(shape, 1, -128), zero: -7 };
    const x = unsigned(shape, 1);
    return { x: kind === 'u8' ? x : quantizeLinear(values(x, 77), 1, 77, { dtype: u8 }), zero: 77 };
  };
  const zerosOf = (n: number): { readonly zeros: number | number[]; readonly given: ZeroPoint } => {
    if (ofWeights !== 'each')
      return { zeros: ofWeights === 'none' ? 0 : 9, given: ofWeights === 'none' ? 0 : 9 };
    const zeros = Array.from({ length: n }, (_, i) => (i % 5) - 2);
    return { zeros, given: tensor(zeros, { dtype: i8 }) };
  };
  const name = `of ${kind} with a zero point, weights with ${ofWeights === 'each' ? 'one each' : ofWeights}`;

  for (const { name: of, x: shape, w: weights, ...options } of CONVOLUTIONS)
    test(`convolution ${name}: ${of}`, async () => {
      useDevice('cpu');
      const { x, zero } = q(shape);
      const w = bytes(weights, 2);
      const { zeros, given } = zerosOf(weights[0]!);
      const scale = ofWeights === 'each' ? scales(weights[0]!) : 0.5;
      const y = conv2d(
        dequantizeLinear(x, 0.25, zero),
        dequantizeLinear(w, scale, given, { axis: 0 }),
        undefined,
        options,
      );
      const names = launchesOf(y);
      assert.ok(names.includes('conv2dBytes') && !names.includes('conv2d'), names.join());
      const factor = typeof scale === 'number' ? scale : scale.reshape([-1, 1, 1, 1]);
      const scaled = values(w, zeros).mul(factor) as Tensor;
      assert.deepEqual(
        await list(y),
        await list(conv2d(values(x, zero).mul(0.25), scaled, undefined, options)),
      );
    });

  for (const device of ['cpu', 'sim'] as const)
    test(`${device}: product ${name}`, async () => {
      useDevice(device);
      const { x, zero } = q([5, 36]);
      const w = bytes([24, 36], 4);
      const { zeros, given } = zerosOf(24);
      const scale = ofWeights === 'each' ? scales(24) : 0.5;
      const y = dequantizeLinear(x, 0.5, zero).matmul(
        dequantizeLinear(w, scale, given, { axis: 0 }).transpose(),
      );
      const names = launchesOf(y, openDevice(device).target);
      assert.ok(names.includes(device === 'cpu' ? 'matmulDotBytes' : 'matmulI8'), names.join());
      const factor = typeof scale === 'number' ? scale : scale.unsqueeze(1);
      const scaled = values(w, zeros).mul(factor).transpose() as Tensor;
      assert.deepEqual(
        await list(y),
        await list(values(x, zero).mul(0.5).matmul(scaled, { precision: 'f32' })),
      );
    });
}

test('u8 between layers are in memory as i8 alone', async () => {
  useDevice('cpu');
  const rounded = (v: Tensor, scale: number, zero: number): Tensor =>
    dequantizeLinear(quantizeLinear(v, scale, zero, { dtype: u8 }), scale, zero);
  const x = rounded(
    tensor(
      Float32Array.from({ length: 256 }, (_, i) => Math.sin(i)),
      { shape: [1, 4, 8, 8] },
    ),
    0.02,
    120,
  );
  const w = dequantizeLinear(bytes([4, 4, 3, 3], 6), 0.01);
  const inner = rounded(conv2d(x, w, undefined, { padding: 1 }), 0.5, 100);
  const y = conv2d(inner, w, undefined, { padding: 1 }).add(inner);
  const roundings = topological(inIntegers([y.node], target), (n) => (n.isLeaf ? [] : n.src)).flatMap((n) =>
    n.op === 'call' && callOf(n).op.name === 'quantizeLinear' ? [n.dtype.name] : [],
  );
  assert.ok(roundings.length >= 2 && roundings.every((name) => name === 'i8'), roundings.join());
  const plain = conv2d(await fresh(inner), await fresh(w), undefined, { padding: 1, precision: 'f32' });
  const expected = await list(plain.add(await fresh(inner)));
  for (const [i, v] of (await list(y)).entries())
    assert.ok(Math.abs(v - expected[i]!) <= 1e-4, `${i}: ${v} is not ${expected[i]}`);
});

test('a quantized layer stores bytes: bias, activation and rounding are in its kernel', async () => {
  useDevice('cpu');
  const x = dequantizeLinear(bytes([2, 4, 8, 8], 5), 0.5);
  const w = dequantizeLinear(bytes([8, 4, 3, 3], 6), scales(8), 0, { axis: 0 });
  const bias = tensor(Array.from({ length: 8 }, (_, i) => i - 4));
  const y = quantizeLinear(relu(conv2d(x, w, bias, { padding: 1 })), 200);
  const launches = schedule([y.node], target).launches;
  const last = launches.at(-1)!.work;
  assert.ok('kernel' in last && last.kernel.name.startsWith('conv2dBytes'), launchesOf(y as never).join());
  const exact = conv2d(await fresh(x), await fresh(w), bias, { padding: 1 });
  assert.deepEqual(await list(y as never), await list(quantizeLinear(relu(exact), 200) as never));
});

test('what is no product of such bytes stays one of floats', () => {
  useDevice('cpu');
  const q = bytes([4, 8], 7);
  const w = bytes([4, 8], 8);
  const other = quantizeLinear(tensor([[1, 2]]), 1, 3, { dtype: u8 });
  const names = [
    dequantizeLinear(q, 0.5).matmul(w.cast(f32).transpose()),
    dequantizeLinear(q, scales(4), 0, { axis: 0 }).matmul(dequantizeLinear(w, 0.5).transpose()),
    dequantizeLinear(q, 0.5).matmul(dequantizeLinear(w, scales(8)).transpose()),
    dequantizeLinear(other, 0.5).matmul(dequantizeLinear(bytes([3, 2], 9), 0.5).transpose()),
  ].flatMap((y) => launchesOf(y as Tensor, target));
  assert.deepEqual(
    names.filter((name) => name.includes('Bytes')),
    [],
  );
});

test('bytes are known to be positive behind ReLU and what keeps its values, else not', () => {
  const x = tensor([[[[-1, 2, 3, 4]]]]);
  const after = (y: Tensor): boolean => isPositive(quantizeLinear(y, 0.5).node);
  assert.equal(after(x), false);
  assert.equal(after(relu(x)), true);
  assert.equal(after(maxPool2d(relu(x), [1, 2]).flatten(1)), true);
  assert.equal(
    after(
      relu(x).pad([
        [0, 0],
        [0, 0],
        [0, 0],
        [1, 1],
      ]),
    ),
    true,
  );
  assert.equal(
    after(
      relu(x).pad(
        [
          [0, 0],
          [0, 0],
          [0, 0],
          [1, 1],
        ],
        { value: -1 },
      ),
    ),
    false,
  );
  assert.equal(after(relu(x).sub(1)), false);
  assert.equal(isPositive(quantizeLinear(relu(x), 0.5, -3).node), false);
  assert.equal(after(x.maximum(0)), true);
});
