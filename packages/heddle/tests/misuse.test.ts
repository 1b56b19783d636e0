/** What JavaScript lets through, and types do not: a message that says what and what to do, and no harm done. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import * as H from '../src/index.js';
import { f16, f32, i32, i64, kernel, nn, ones, type Tensor, tensor, u8, u32, zeros } from '../src/index.js';
import { DEVICES } from './case-runner.js';

const list = async (t: Tensor): Promise<unknown[]> => [...(await t.data())];
/** For arguments of types that are wrong. */
// biome-ignore lint/suspicious/noExplicitAny: what JavaScript may pass
const any = (v: unknown): any => v;

beforeEach(() => {
  H.useDevice(DEVICES[0]!);
});

test('no dtype, and what comes after it', async () => {
  const message = /'i32' is no dtype. There are: f16, .*import \{ f32 \}/;
  assert.throws(() => zeros([1], { dtype: any('i32') }), message);
  assert.throws(() => tensor([1], { dtype: any('i32') }), message);
  assert.throws(() => H.rand([1], { dtype: any('i32') }), message);
  assert.throws(() => ones([1]).cast(any('i32')), message);
  assert.throws(() => ones([1]).cast(any(undefined)), /undefined is no dtype/);
  assert.deepEqual(await list(tensor([1, 2]).add(1)), [2, 3]);
});

test('numbers that an integer type does not have', async () => {
  assert.throws(
    () => tensor([5, 6], { dtype: u32 }).add(-1),
    /-1 does not fit u32, whose values are a whole number from 0 to 4294967295/,
  );
  assert.throws(
    () => tensor([1], { dtype: u8 }).eq(300),
    /300 does not fit u8, .* from 0 to 255.*cast\(i32\)/,
  );
  assert.throws(() => tensor([1], { dtype: i32 }).mul(1.5), /1.5 does not fit i32.*cast\(f32\)/);
  assert.throws(() => tensor([300, -1], { dtype: u8 }), /300 is no u8, .* tensor\(…\)\.cast\(u8\)/);
  assert.throws(() => tensor([1, 1.7], { dtype: i32 }), /1.7 is no i32/);
  assert.throws(() => tensor([Number.NaN], { dtype: i64 }), /NaN is no i64/);
  assert.throws(() => tensor(new Float32Array([0.5]), { dtype: i32 }), /0.5 is no i32/);
  assert.throws(() => zeros([2], { dtype: i32 }).write([1, 2 ** 31]), /2147483648 is no i32/);
  assert.throws(() => H.rand([3], { dtype: i32 }), /\[rand\] makes floats, not i32/);
  assert.throws(() => H.randn([3], { dtype: i32 }), /\[randn\] makes floats, not i32/);
  assert.deepEqual(await list(tensor([1.7, 3e9, -1, Number.NaN]).cast(i32)), [1, 2 ** 31 - 1, -1, 0]);
  assert.deepEqual(await list(tensor([0, 255], { dtype: u8 })), [0, 255]);
  assert.deepEqual(await list(tensor([2 ** 40], { dtype: i64 })), [BigInt(2 ** 40)]);
});

test('values that are no numbers', () => {
  const row = (v: unknown) => (): Tensor => tensor(any(v));
  assert.throws(row(['a', 1]), /\[tensor\] takes numbers and booleans, got 'a'/);
  assert.throws(row(null), /got null/);
  assert.throws(row(undefined), /got undefined/);
  assert.throws(row([tensor(1), tensor(2)]), /got a tensor. stack/);
  assert.throws(row(new BigUint64Array([1n])), /got a BigUint64Array/);
  assert.throws(row(new DataView(new ArrayBuffer(4))), /got a DataView/);
  assert.throws(row([1, [2]]), /nesting differs/);
  assert.throws(() => ones([1]).add(any(undefined)), /an operand is a tensor or a number, got undefined/);
  assert.throws(() => ones([1]).add(any('2')), /got '2'/);
  assert.throws(() => ones([1]).add(any([2])), /got \[ 2 \]/);
});

test('shapes and axes that are none', () => {
  assert.throws(() => zeros(any(3)), /3 is not a shape: pass a list/);
  assert.throws(
    () => (ones([4]) as { reshape(...s: unknown[]): Tensor }).reshape(2, 2),
    /\[reshape\] 2 is not/,
  );
  assert.throws(() => ones([4]).reshape([-2, -2]), /\[reshape\] \(-2,-2\) is not a shape/);
  assert.throws(() => ones([4]).sum(any('0')), /\[sum\] '0' is no axis/);
  assert.throws(() => H.arange(0, Infinity), /\[arange\] from 0 to Infinity/);
  assert.throws(() => H.arange(Number.NaN), /\[arange\] from 0 to NaN/);
  assert.throws(() => H.cat([ones([1]), ones([1], { dtype: i32 })]), /\[cat\] dtypes differ: f32 and i32/);
  const mask = tensor([true, false]);
  assert.throws(() => ones([2]).at(mask), /\[at\] a mask of bool does not pick elements.*where/);
});

test('scalars of kernels', async () => {
  const fill = kernel('fill', { x: H.buffer(f32), n: i32, on: H.bool }, ({ x, n, on }, { globalId, f32 }) => {
    x[globalId.x] = on ? f32(n) : 0;
  });
  const x = zeros([1]);
  const given = (n: unknown, on: unknown = true): Promise<void> =>
    fill.launch({ grid: 1, block: 1 }, { x, n: any(n), on: any(on) });
  const rule = /\[fill\] n is a i32: pass a whole number from -2147483648 to 2147483647, got /;
  for (const n of [1.5, 3e9, Number.NaN, 'x', null]) await assert.rejects(given(n), rule);
  await assert.rejects(given(1, 1), /\[fill\] on is a bool: pass true or false, got 1/);
  await given(7);
  assert.deepEqual(await list(x), [7]);
});

test('layers and parameters given in another way', () => {
  assert.throws(() => new nn.Sequential(any([new nn.ReLU()])), /layer 0 is no module: .*\.\.\.layers/);
  assert.throws(() => new nn.Sequential(new nn.Linear(1, 1), any(H.relu)), /layer 1 is no module/);
  assert.throws(() => new H.optim.SGD(any(new nn.Linear(1, 1)), { lr: 1 }), /Pass model\.parameters\(\)/);
});

test('modules in plain objects are found', () => {
  class Net extends nn.Module {
    parts = { first: new nn.Linear(1, 2), rest: [new nn.Linear(2, 1)] };
    settings = { rate: 1 };
    forward(x: Tensor): Tensor {
      return this.parts.rest[0]!.forward(this.parts.first.forward(x));
    }
  }
  assert.deepEqual(Object.keys(new Net().stateDict()), [
    'parts.first.weight',
    'parts.first.bias',
    'parts.rest.0.weight',
    'parts.rest.0.bias',
  ]);
});

test('objects that hold themselves, and large ones, are walked once', () => {
  const settings: { self?: object; words: Record<string, number> } = { words: {} };
  settings.self = settings;
  for (let i = 0; i < 100_000; i++) settings.words[`w${i}`] = i;
  class Net extends nn.Module {
    layer = new nn.Linear(1, 1);
    settings = settings;
    forward(x: Tensor): Tensor {
      return this.layer.forward(x);
    }
  }
  assert.deepEqual(Object.keys(new Net().stateDict()), ['layer.weight', 'layer.bias']);
});

test('numbers that do not fit where they are put, gradients of integers, images of nothing', () => {
  assert.throws(() => tensor([1], { dtype: u8 }).pad([[1, 0]], 300), /300 does not fit u8/);
  assert.throws(() => tensor([true]).where(1.5, tensor([1], { dtype: i32 })), /1.5 does not fit i32/);
  assert.throws(() => H.full([1], 1.5, { dtype: i64 }), /\[full\] 1.5 is no i64/);
  assert.throws(() => tensor([1, 2], { dtype: i32, requiresGrad: true }), /a tensor of i32 has no gradient/);
  assert.throws(() => tensor([1]).expand([2.5]), /\[expand\] \[ 2.5 \] is not a shape/);
  assert.throws(() => H.maxPool2d(zeros([1, 1, 0, 4]), 2, { padding: 1 }), /does not fit into 0×4/);
});

test('bigints are numbers of i64', async () => {
  const x = tensor(any([1n, 2n]), { dtype: i64 });
  assert.deepEqual(await list(x.add(any(5n))), [6n, 7n]);
  assert.throws(() => ones([1]).add(any(5n)), /5 does not fit f32/);
  assert.throws(() => tensor([1, 2], { dtype: u8 }).mean(), /\[mean\] takes floats, got u8/);
});

test('f16 and bf16 scalars are numbers', async () => {
  assert.deepEqual(await list(ones([1], { dtype: f16 }).mul(0.5)), [0.5]);
});
