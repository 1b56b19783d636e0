/** What `console.log` shows of tensors and modules, against NumPy; and that tensors are not taken for numbers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { DTYPES } from '../../src/core/dtype.js';
import {
  bf16,
  bool,
  engineStats,
  jit,
  nn,
  ones,
  type Tensor,
  tensor,
  useDevice,
  zeros,
} from '../../src/index.js';
import { printed } from '../../src/tensor/print.js';
import { DEVICES } from '../cases/case-runner.js';
import { goldenPrints } from '../golden/golden.js';

test('values are printed as by NumPy', () => {
  for (const { dtype, shape, values, text } of goldenPrints()) {
    const numbers = values.map((v) =>
      dtype === 'i64' ? BigInt(v) : Number(v.replace('nan', 'NaN').replace('inf', 'Infinity')),
    );
    assert.equal(
      printed((i) => numbers[i]!, shape, DTYPES[dtype]),
      text,
      `${dtype} (${shape})`,
    );
  }
  assert.equal(
    printed((i) => i % 2, [3], bool),
    '[false,  true, false]',
  );
  assert.equal(
    printed((i) => [0.10009765625, 3][i]!, [2], bf16),
    '[0.1, 3. ]',
  );
});

for (const device of DEVICES.filter((name) => name !== 'cuda')) {
  test(`${device}: a tensor shows its type, and its values once they are computed`, async () => {
    useDevice(device);
    const w = tensor([[1, 2.5]], { requiresGrad: true });
    assert.equal(inspect(w), `Tensor((1,2), f32, ${device}, requiresGrad) [[1. , 2.5]]`);
    const lazy = tensor([3, 4], { dtype: bf16 }).reshape([2, 1]);
    const { runs } = engineStats();
    assert.equal(inspect(lazy), 'Tensor((2,1), bf16, not computed)');
    assert.equal(engineStats().runs, runs);
    await lazy.data();
    assert.equal(inspect(lazy), `Tensor((2,1), bf16, ${device})\n[[3.],\n [4.]]`);
    const all = { w: w.detach().realize(), lazy, big: ones([40]).realize(), none: [ones([2]).add(1)] };
    assert.equal(
      inspect(all),
      `{
  w: Tensor((1,2), f32, ${device}) [[1. , 2.5]],
  lazy: Tensor((2,1), bf16, ${device}) [[3.], [4.]],
  big: Tensor((40), f32, ${device}),
  none: [ Tensor((2), f32, not computed) ]
}`,
    );
    lazy.dispose();
    assert.equal(inspect(lazy), 'Tensor((2,1), bf16, disposed)');
    let inside = '';
    let leaked: Tensor = lazy;
    jit((x: Tensor) => {
      inside = inspect([x, w]);
      leaked = x.add(1);
      return leaked;
    })(ones([1]));
    assert.match(
      inside,
      /^\[\s+Tensor\(\(1\), f32, within jit\),\s+Tensor\(\(1,2\), f32, within jit, requiresGrad\)\s+\]$/,
    );
    assert.match(inspect(leaked), /^Tensor\(\(1\), f32, (not computed|within jit)\)$/);
  });
}

test('a tensor is not taken for a number, within jit or outside', () => {
  const refused = {
    name: 'ArgumentError',
    message: /^Tensor\(\(2\), f32\) is not a number.* x\.gt\(0\)….*await x\.item\(\)/,
  };
  const uses: ((x: never) => unknown)[] = [
    (x) => x > 0,
    (x) => +x,
    (x) => x + 1,
    (x) => x <= 1,
    (x) => Math.max(x, 1),
    (x) => Number.parseFloat(x) || Number(x),
  ];
  for (const use of uses) {
    assert.throws(() => use(ones([2]) as never), refused, String(use));
    assert.throws(() => jit((x) => use(x as never) as null)(ones([2])), refused, String(use));
  }
  assert.equal(`${zeros([2])}`, 'Tensor((2), f32)');
});

test('a module shows its layers, their parameters and settings', () => {
  class Net extends nn.Module {
    readonly scale = ones([1], { requiresGrad: true });
    readonly features = new nn.Sequential(new nn.Conv2d(1, 2, 3, { padding: [1, 0] }), new nn.ReLU());
    readonly drop = new nn.Dropout({ p: 0.3 });
    readonly self: nn.Module = this;
    forward = (x: Tensor): Tensor => x;
  }
  assert.equal(
    inspect(new Net()),
    `Net(
  scale (1)
  (features): Sequential(
    (0): Conv2d(weight (2,1,3,3), bias (2), padding: [1, 0])
    (1): ReLU()
  )
  (drop): Dropout(p: 0.3)
  (self): …
), 21 parameters`,
  );
  assert.equal(inspect({ net: new Net() }), '{ net: Net(21 parameters) }');
});
