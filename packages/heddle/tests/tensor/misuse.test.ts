/** What JavaScript lets through, and types do not: a message that says what and what to do, and no harm done. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import * as H from '../../src/index.js';
import {
  f16,
  f32,
  i32,
  i64,
  kernel,
  nn,
  ones,
  type Tensor,
  tensor,
  u8,
  u32,
  zeros,
} from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

const list = async (t: H.AnyTensor): Promise<unknown[]> => [...(await t.data())];
/** For arguments of types that are wrong. */
// biome-ignore lint/suspicious/noExplicitAny: what JavaScript may pass
const any = (v: unknown): any => v;

beforeEach(() => {
  H.useDevice(DEVICES[0]!);
});

test('no dtype, and what comes after it', async () => {
  const message = /dtype is 'i32', must be one of the dtypes f16, .*import \{ f32 \}/;
  assert.throws(() => zeros([1], { dtype: any('i32') }), message);
  assert.throws(() => tensor([1], { dtype: any('i32') }), message);
  assert.throws(() => H.rand([1], { dtype: any('i32') }), message);
  assert.throws(() => ones([1]).cast(any('i32')), message);
  assert.throws(() => ones([1]).cast(any(undefined)), /dtype is undefined/);
  assert.deepEqual(await list(tensor([1, 2]).add(1)), [2, 3]);
});

test('numbers that an integer type does not have', async () => {
  assert.throws(
    () => tensor([5, 6], { dtype: u32 }).add(-1),
    /-1 cannot be represented as u32 \(an integer from 0 to 4294967295\)/,
  );
  assert.throws(
    () => tensor([1], { dtype: u8 }).eq(300),
    /300 cannot be represented as u8 .* from 0 to 255.*cast\(i32\)/,
  );
  assert.throws(() => tensor([1], { dtype: i32 }).mul(1.5), /1.5 cannot be represented as i32.*cast\(f32\)/);
  assert.throws(
    () => tensor([300, -1], { dtype: u8 }),
    /300 cannot be represented as u8 .* tensor\(…\)\.cast\(u8\)/,
  );
  assert.throws(() => tensor([1, 1.7], { dtype: i32 }), /1.7 cannot be represented as i32/);
  assert.throws(() => tensor([Number.NaN], { dtype: i64 }), /NaN cannot be represented as i64/);
  assert.throws(() => tensor(new Float32Array([0.5]), { dtype: i32 }), /0.5 cannot be represented as i32/);
  assert.throws(
    () => zeros([2], { dtype: i32 }).write([1, 2 ** 31]),
    /2147483648 cannot be represented as i32/,
  );
  assert.throws(() => H.rand([3], { dtype: i32 }), /\[rand\] makes floats, not i32/);
  assert.throws(() => H.randn([3], { dtype: i32 }), /\[randn\] makes floats, not i32/);
  assert.deepEqual(await list(tensor([1.7, 3e9, -1, Number.NaN]).cast(i32)), [1, 2 ** 31 - 1, -1, 0]);
  assert.deepEqual(await list(tensor([0, 255], { dtype: u8 })), [0, 255]);
  assert.deepEqual(await list(tensor([2 ** 40], { dtype: i64 })), [BigInt(2 ** 40)]);
});

test('values that are no numbers', () => {
  const row = (v: unknown) => (): H.AnyTensor => tensor(any(v));
  assert.throws(row(['a', 1]), /\[tensor\] takes numbers and booleans, got 'a'/);
  assert.throws(row(null), /got null/);
  assert.throws(row(undefined), /got undefined/);
  assert.throws(row([tensor(1), tensor(2)]), /got a tensor. stack/);
  assert.throws(row(new BigUint64Array([1n])), /got a BigUint64Array/);
  assert.throws(row(new DataView(new ArrayBuffer(4))), /got a DataView/);
  assert.throws(row([1, [2]]), /nesting differs/);
  assert.throws(
    () => ones([1]).add(any(undefined)),
    /\[add\] the operand is undefined, must be a tensor or a number/,
  );
  assert.throws(() => ones([1]).add(any('2')), /operand is '2'/);
  assert.throws(() => ones([1]).add(any([2])), /operand is \[2\]/);
});

test('shapes and axes that are none', () => {
  assert.throws(() => zeros(any(3)), /shape is 3, must be a list/);
  assert.throws(
    () => (ones([4]) as { reshape(...s: unknown[]): Tensor }).reshape(2, 2),
    /\[reshape\] shape is 2, must/,
  );
  assert.throws(() => ones([4]).reshape([-2, -2]), /\[reshape\] shape is \[-2, -2\], must be/);
  assert.throws(() => ones([4]).sum(any('0')), /\[sum\] '0' is not an axis/);
  assert.throws(() => H.arange(0, Infinity), /\[arange\] stop is Infinity/);
  assert.throws(() => H.arange(Number.NaN), /\[arange\] stop is NaN/);
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
  const rule = /\[fill\] n is a scalar, i32: pass an integer from -2147483648 to 2147483647, got /;
  for (const n of [1.5, 3e9, Number.NaN, 'x', null]) await assert.rejects(given(n), rule);
  await assert.rejects(given(1, 1), /\[fill\] on is a scalar, bool: pass true or false, got 1/);
  await given(7);
  assert.deepEqual(await list(x), [7]);
});

test('layers and parameters given in another way', () => {
  assert.throws(
    () => new nn.Sequential(any([new nn.ReLU()])),
    /layer 0 is \[a ReLU\], must be a module: .*\.\.\.layers/,
  );
  assert.throws(
    () => new nn.Sequential(new nn.Linear(1, 1), any(H.relu)),
    /layer 1 is the function relu, must be a module/,
  );
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
  assert.throws(
    () => tensor([1], { dtype: u8 }).pad([[1, 0]], { value: 300 }),
    /300 cannot be represented as u8/,
  );
  assert.throws(
    () => tensor([true]).where(1.5, tensor([1], { dtype: i32 })),
    /1.5 cannot be represented as i32/,
  );
  assert.throws(() => H.full([1], 1.5, { dtype: i64 }), /\[full\] 1.5 cannot be represented as i64/);
  assert.throws(() => tensor([1, 2], { dtype: i32, requiresGrad: true }), /a tensor of i32 has no gradient/);
  assert.throws(() => tensor([1]).expand([2.5]), /\[expand\] shape is \[2.5\], must be/);
  assert.throws(() => H.maxPool2d(zeros([1, 1, 0, 4]), 2, { padding: 1 }), /does not fit into 0×4/);
});

test('bigints are numbers of i64', async () => {
  const x = tensor(any([1n, 2n]), { dtype: i64 });
  assert.deepEqual(await list(x.add(any(5n))), [6n, 7n]);
  assert.throws(() => ones([1]).add(any(5n)), /5n cannot be represented as f32/);
  assert.throws(() => tensor([1, 2], { dtype: u8 }).mean(), /\[mean\] x must be floats, got u8/);
});

test('f16 and bf16 scalars are numbers', async () => {
  assert.deepEqual(await list(ones([1], { dtype: f16 }).mul(0.5)), [0.5]);
});

test('calls that used to end in a TypeError, or to be accepted', async () => {
  const x = ones([2, 2]);
  const model = new nn.Sequential(new nn.Linear(2, 2));
  const params = model.parameters();
  const set = (n: number): H.ArrayDataset =>
    new H.ArrayDataset({
      inputs: new Float32Array(2 * n),
      inputShape: [2],
      labels: new Int32Array(n),
      classes: 2,
    });
  const rows: readonly (readonly [call: () => unknown, message: RegExp])[] = [
    [() => any(x).permute(1, 0), /\[permute\] axes is 1, must be an array\. Write permute\(\[1, 0\]\)/],
    [() => H.cat([x, any(3)]), /\[cat\] tensors\[1\] is 3, must be a tensor\. Make one of it/],
    [() => any(H.cat)(x, x), /\[cat\] tensors is Tensor.*as in cat\(\[a, b\]\)/],
    [() => H.where(any(1), x, x), /\[where\] condition is 1, must be a tensor/],
    [() => x.pad(any([1, 1])), /\[pad\] amounts is \[1, 1\], must be \[before, after\]/],
    [() => x.assign(any(3)), /\[assign\] value is 3, must be a tensor/],
    [() => model.forward(any([[1, 2]])), /x is \[\[1, 2\]\], must be a tensor/],
    [
      () => model.loadStateDict(any(null)),
      /\[loadStateDict\] the state is null, must be an object of tensors/,
    ],
    [() => new H.Loader(set(3), any(undefined)), /\[Loader\] options is undefined, must be an object/],
    [() => new H.Loader(any([1, 2, 3]), { batchSize: 1 }), /dataset is \[1, 2, 3\], must be a dataset/],
    [() => any(H.full)([2]), /\[full\] value is undefined, must be a number or a boolean/],
    [() => H.full([2], any(x)), /\[full\] value is Tensor/],
    [() => H.full([2], any('3')), /\[full\] value is '3'/],
    [() => H.full([2], any(null)), /\[full\] value is null/],
    [() => new H.optim.SGD(params, any(0.1)), /\[optim\] options is 0.1, must be an object\. Options: lr, /],
    [
      () => new H.optim.AdamW(params, any({ learningRate: 3 })),
      /\[optim\] unknown option 'learningRate'\. Did you mean 'lr'\? Options: lr, betas, eps, weightDecay\./,
    ],
    [
      () => H.setPrecision(any({ conv2d: 'f32' })),
      /\[setPrecision\] unknown option 'conv2d'\. Did you mean 'conv'\?/,
    ],
    [
      () => H.crossEntropy(x, zeros([2], { dtype: i32 }), any({ label_smoothing: 0.1 })),
      /\[crossEntropy\] unknown option 'label_smoothing'\. Did you mean 'labelSmoothing'\?/,
    ],
    [
      () => new nn.Conv2d(1, 1, 3, any({ strides: 2 })),
      /\[Conv2d\] unknown option 'strides'\. Did you mean 'stride'\?/,
    ],
    [
      () =>
        new H.ArrayDataset({
          inputs: new Float32Array(4),
          inputShape: [2],
          labels: any(Float32Array.of(0, 0.5)),
          classes: 2,
        }),
      /labels is a Float32Array, must be an Int32Array or a Uint8Array/,
    ],
    [() => ones([2], { dtype: i32 }).relu(), /\[relu\] x must be floats, got i32/],
    [() => new H.Tensor(any(3)), /tensors are made by tensor\(/],
  ];
  for (const [call, message] of rows)
    assert.throws(call, (e) => e instanceof H.HeddleError && message.test(e.message), String(message));
  assert.equal([...new H.Loader(set(3), { batchSize: 99_999_999 }).batches()][0]!.size, 3);
});

test('what fit is given in another way', async () => {
  const data = new H.ArrayDataset({
    inputs: new Float32Array(8),
    inputShape: [2],
    labels: new Int32Array(4),
    classes: 2,
  });
  const train = new H.Loader(data, { batchSize: 2 });
  const body = new nn.Linear(2, 2);
  const head = new nn.Linear(2, 2);
  const model = new nn.Sequential(body, head);
  const good = {
    train,
    optimizer: new H.optim.SGD(model.parameters()),
    loss: H.crossEntropy,
    epochs: 1,
  };
  const others: readonly (readonly [options: unknown, message: RegExp])[] = [
    [undefined, /\[fit\] options is undefined, must be an object/],
    [{ ...good, loss: undefined }, /\[fit\] loss is missing, must be a function/],
    [{ ...good, optimizer: undefined }, /\[fit\] optimizer is missing, must be an optimizer, such as/],
    [{ ...good, train: [[1, 2]] }, /\[fit\] train is \[\[1, 2\]\], must be a Loader/],
    [{ ...good, epoch: 3 }, /\[fit\] unknown option 'epoch'\. Did you mean 'epochs'\?/],
    [
      { ...good, callbacks: [{ onEpochend() {} }] },
      /unknown option 'onEpochend'\. Did you mean 'onEpochEnd'\?/,
    ],
    [
      {
        ...good,
        callbacks: [
          new (class Log {
            onEnd = 1;
          })(),
        ],
      },
      /callback is a Log, must be an object with some/,
    ],
    [{ ...good, loss: async (x: Tensor) => x.sum() }, /\[fit\] loss is async: it is traced/],
    [{ ...good, loss: (x: Tensor) => x }, /\[fit\] loss returns a tensor of shape \(2,2\), must return one/],
    [
      { ...good, optimizer: new H.optim.SGD(new nn.Linear(2, 2).parameters()) },
      /\[fit\] the optimizer has none of the model's parameters: it was made for another model/,
    ],
  ];
  for (const [options, message] of others)
    await assert.rejects(H.fit(model, any(options)), (e: Error) => {
      assert.match(e.message, message);
      return e instanceof H.HeddleError;
    });
  // An optimizer of a part of the model trains that part.
  const weights = (of: nn.Linear): Promise<unknown> => of.weight.data();
  const before = [await weights(body), await weights(head)];
  await H.fit(model, { ...good, optimizer: new H.optim.SGD(head.parameters()) });
  assert.deepEqual(await weights(body), before[0]);
  assert.notDeepEqual(await weights(head), before[1]);
  const decoding = {
    length: 4,
    inputShape: [2],
    classes: 2,
    async batchInto() {
      throw new Error('not decoded');
    },
  };
  const waiting = new H.Loader(decoding, { batchSize: 2 });
  assert.throws(() => [...waiting.batches()], /batchInto is async, and cannot be awaited here/);
  await assert.rejects(H.fit(model, { ...good, train: waiting, resident: true }), /batchInto is async/);
  await assert.rejects(H.fit(model, { ...good, train: waiting }), /not decoded/);
});

test('gradients that a jitted function does not use are named', () => {
  const [body, head] = [new nn.Linear(2, 2), new nn.Linear(2, 1)];
  const model = new nn.Sequential(body, head);
  model.parameters();
  const step = H.jit((x: Tensor) => {
    model.forward(x).sum().backward();
  });
  assert.throws(
    () => step(ones([1, 2])),
    /gave gradients to 4 parameters that no optimizer\.step\(\).* used: 0\.weight \(2,2\), 0\.bias \(2\), 1\.weight/,
  );
});
