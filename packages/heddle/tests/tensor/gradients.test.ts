/** What `backward` does beyond each op's rule: where it starts and stops, how gradients add up, ties, second uses. */
import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import * as H from '../../src/index.js';
import { f16, f32, jit, nn, noGrad, ones, optim, type Tensor, tensor, useDevice } from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

const list = async (t: Tensor | undefined): Promise<number[]> => {
  assert.ok(t, 'there is a gradient');
  return Array.from(await t.data(), Number);
};
const parameter = (values: readonly number[]): Tensor => tensor(values, { requiresGrad: true });

beforeEach(() => {
  useDevice(DEVICES[0]!);
});

test('gradients of several backwards add up until they are cleared', async () => {
  const w = parameter([1, 2]);
  w.mul(3).sum().backward();
  w.square().sum().backward();
  assert.deepEqual(await list(w.grad), [5, 7]);
  w.grad = undefined;
  w.sum().backward();
  assert.deepEqual(await list(w.grad), [1, 1]);
});

test('a tensor used many times gets the sum over its uses', async () => {
  const w = parameter([2, 3]);
  w.mul(w)
    .add(w)
    .add(w.at('::-1'))
    .mul(tensor([1, 10]))
    .sum()
    .backward();
  // d/dw0: (2w0 + 1)·1 + 1·10, d/dw1: (2w1 + 1)·10 + 1·1
  assert.deepEqual(await list(w.grad), [15, 71]);
});

test('where several elements are the largest, max shares its gradient among them', async () => {
  const x = parameter([3, 1, 3, 3]);
  x.max().backward();
  assert.deepEqual(
    (await list(x.grad)).map((v) => Math.round(v * 3e6) / 3e6),
    [1, 0, 1, 1].map((v) => Math.round((v / 3) * 3e6) / 3e6),
  );
  const y = parameter([5, 5]);
  y.min().backward();
  assert.deepEqual(await list(y.grad), [0.5, 0.5]);
});

test('the gradient at NaN: to both of maximum and minimum, through relu, not through clamp', async () => {
  // As in PyTorch; where values tie, the golden numbers are the test.
  const of = async (f: (a: Tensor, c: Tensor) => Tensor): Promise<unknown[]> => {
    const [a, c] = [parameter([Number.NaN, 1]), parameter([1, 2])];
    f(a, c).sum().backward();
    return [await list(a.grad), c.grad && (await list(c.grad))];
  };
  assert.deepEqual(await of((a, c) => a.maximum(c)), [
    [1, 0],
    [1, 1],
  ]);
  assert.deepEqual(await of((a, c) => c.minimum(a)), [
    [1, 1],
    [1, 0],
  ]);
  assert.deepEqual(await of((a) => H.relu(a)), [[1, 1], undefined]);
  assert.deepEqual(await of((a) => a.clamp(-1, 1)), [[0, 1], undefined]);
});

test('detach, comparisons, rounding and integers stop gradients', async () => {
  const w = parameter([1.5, -2]);
  w.mul(w.detach()).sum().backward();
  assert.deepEqual(await list(w.grad), [1.5, -2]);
  w.grad = undefined;
  w.mul(w.gt(0).cast(f32)).add(w.round()).sum().backward();
  assert.deepEqual(await list(w.grad), [1, 0]);
  assert.equal(w.argmax(0).requiresGrad, false);
  assert.equal(w.cast(H.i32).requiresGrad, false);
  assert.equal(w.gt(0).requiresGrad, false);
});

test('noGrad makes nothing that requires a gradient, also when it throws', () => {
  const w = parameter([1]);
  noGrad(() => {
    assert.equal(w.mul(2).requiresGrad, false);
    assert.throws(() =>
      noGrad(() => {
        throw new Error('inside');
      }),
    );
    assert.equal(w.mul(2).requiresGrad, false);
  });
  assert.equal(w.mul(2).requiresGrad, true);
});

test('tensors that do not require a gradient, or are not reached, get none', async () => {
  const [w, other, x] = [parameter([1, 2]), parameter([3]), tensor([4, 5])];
  w.mul(x).sum().backward();
  assert.deepEqual(await list(w.grad), [4, 5]);
  assert.equal(x.grad, undefined);
  assert.equal(other.grad, undefined);
});

test('an assigned parameter is a new start: gradients do not reach what it was made of', async () => {
  const [w, base] = [parameter([1, 2]), parameter([3, 4])];
  w.assign(base.mul(2));
  assert.equal(w.requiresGrad, true);
  w.square().sum().backward();
  assert.deepEqual(await list(w.grad), [12, 16]);
  assert.equal(base.grad, undefined);
});

test('a loss that was looked at before backward has the same gradient', async () => {
  const w = parameter([1, 2]);
  const loss = w.exp().sum();
  const value = await loss.item();
  loss.backward();
  const g = await list(w.grad);
  assert.ok(Math.abs(value - g[0]! - g[1]!) < 1e-5);
  assert.ok(Math.abs(g[1]! - Math.exp(2)) < 1e-5);
});

test('gradients pass through casts, in the dtype of each side', async () => {
  const w = parameter([1, 2]);
  w.cast(f16)
    .mul(tensor([3, 4], { dtype: f16 }))
    .cast(H.f64)
    .sum()
    .backward();
  assert.equal(w.grad!.dtype, f32);
  assert.deepEqual(await list(w.grad), [3, 4]);
});

test('gradients have the shape of their tensor after broadcasting', async () => {
  const [row, column, scalar] = [
    tensor([[1, 2, 3]], { requiresGrad: true }),
    tensor([[1], [2]], { requiresGrad: true }),
    tensor(2, { requiresGrad: true }),
  ];
  row.mul(column).mul(scalar).sum().backward();
  assert.deepEqual(await row.grad!.array(), [[6, 6, 6]]);
  assert.deepEqual(await column.grad!.array(), [[12], [12]]);
  assert.equal(await scalar.grad!.item(), 18);
});

test('a gradient of 0 is there where the loss does not depend on an element', async () => {
  const w = tensor(
    [
      [1, 2],
      [3, 4],
    ],
    { requiresGrad: true },
  );
  w.at(0, '1:').sum().backward();
  assert.deepEqual(await w.grad!.array(), [
    [0, 1],
    [0, 0],
  ]);
});

test('a scalar parameter of one element can be the loss itself', async () => {
  const w = parameter([3]);
  w.backward();
  assert.deepEqual(await list(w.grad), [1]);
});

test('deep chains differentiate, in jit too', async () => {
  const w = parameter([1, -1]);
  const deep = (): Tensor => {
    let y: Tensor = w;
    for (let i = 0; i < 700; i++) y = y.mul(0.99).add(0.01);
    return y.sum();
  };
  deep().backward();
  const plain = await list(w.grad);
  assert.ok(Math.abs(plain[0]! - 0.99 ** 700) < 1e-6);
  const step = jit(() => {
    w.grad = undefined;
    deep().backward();
    const g = w.grad!;
    w.grad = undefined;
    return g;
  });
  assert.deepEqual(await list(step()), plain);
});

test('an unrolled recurrence of matrix products differentiates', async () => {
  const w = tensor(
    [
      [0.5, -0.25],
      [0.125, 0.75],
    ],
    { requiresGrad: true },
  );
  let h: Tensor = ones([3, 2]);
  for (let t = 0; t < 30; t++) h = h.matmul(w).tanh().add(0.1);
  h.sum().backward();
  const analytic = await w.grad!.data();
  const at = async (k: number, shift: number): Promise<number> => {
    const values = [0.5, -0.25, 0.125, 0.75].map((v, i) => (i === k ? v + shift : v));
    const other = tensor(Float64Array.from(values), { shape: [2, 2] });
    let y: Tensor = ones([3, 2], { dtype: H.f64 });
    for (let t = 0; t < 30; t++) y = y.matmul(other).tanh().add(0.1);
    return y.sum().item();
  };
  for (let k = 0; k < 4; k++) {
    const numeric = ((await at(k, 1e-6)) - (await at(k, -1e-6))) / 2e-6;
    assert.ok(Math.abs(Number(analytic[k]) - numeric) < 1e-4 * (1 + Math.abs(numeric)), `element ${k}`);
  }
});

test('what max is taken of is the same number in the kernel of its gradient', async () => {
  const functions: Record<string, (x: Tensor) => Tensor> = {
    ...{ elu: H.elu, erf: H.erf, gelu: H.gelu, sigmoid: H.sigmoid, silu: H.silu, softplus: H.softplus },
    ...{
      exp: (x) => x.exp(),
      sin: (x) => x.sin(),
      tanh: (x) => x.tanh(),
      scaled: (x) => x.mul(0.3).add(0.1),
    },
  };
  // Rows that fit into vectors, and rows that do not
  for (const shape of [
    [200, 4],
    [300, 3],
  ] as const) {
    const values = Float32Array.from({ length: shape[0] * shape[1] }, (_, i) => 2 * Math.sin(i * i + i));
    for (const [name, f] of Object.entries(functions)) {
      const w = tensor(values, { shape, requiresGrad: true });
      f(w).max(1).sum().backward();
      const gradient = await list(w.grad);
      const rows = Array.from({ length: shape[0] }, (_, i) =>
        gradient.slice(i * shape[1], (i + 1) * shape[1]),
      );
      assert.equal(
        rows.filter((row) => row.filter((g) => g !== 0).length !== 1).length,
        0,
        `${name} of ${shape}`,
      );
    }
  }
});

test('requiresGrad can be set: a tensor becomes a parameter, and is frozen again', async () => {
  const x = tensor([1, 2]);
  const before = x.mul(5);
  x.requiresGrad = true;
  assert.throws(() => before.sum().backward(), /nothing here requires a gradient/);
  x.mul(x).sum().backward();
  assert.deepEqual(await list(x.grad), [2, 4]);
  const recorded = x.mul(3).sum();
  x.requiresGrad = false;
  assert.equal(x.mul(2).requiresGrad, false);
  recorded.backward();
  assert.deepEqual(
    await list(x.grad),
    [2, 4],
    'a frozen tensor gets no gradient, of what was recorded before neither',
  );
  // Of a value that is not computed yet, and of one tensor of several of the same values.
  const sum = x.add(1);
  const same = sum.mul(1);
  sum.requiresGrad = true;
  assert.equal(same.requiresGrad, false);
  sum.square().sum().backward();
  assert.deepEqual(await list(sum.grad), [4, 6]);
});

test('a parameter that is frozen is not trained, and is again when it is thawed', async () => {
  const model = new nn.Linear(2, 1);
  const optimizer = new optim.SGD(model.parameters(), { lr: 1 });
  const train = async (jitted: (x: Tensor) => void): Promise<boolean[]> => {
    const old = [await list(model.weight), await list(model.bias)];
    optimizer.zeroGrad();
    jitted(ones([1, 2]));
    const after = [await list(model.weight), await list(model.bias)];
    return old.map((values, i) => values.some((v, at) => v !== after[i]![at]));
  };
  const body = (x: Tensor): void => {
    model.forward(x).sum().backward();
    optimizer.step();
  };
  model.weight.requiresGrad = false;
  assert.deepEqual(await train(body), [false, true]);
  assert.deepEqual(await train(jit(body)), [false, true]);
  model.weight.requiresGrad = true;
  assert.deepEqual(await train(body), [true, true]);
  assert.deepEqual(await train(jit(body)), [true, true]);
});

test('requiresGrad cannot be set of integers, of results, or within a jitted function', () => {
  const refused = (make: () => Tensor, on: boolean, message: RegExp): void => {
    const t = make();
    assert.throws(() => {
      t.requiresGrad = on;
    }, message);
  };
  refused(() => tensor(Int32Array.of(1)), true, /a tensor of i32 has no gradient/);
  refused(() => parameter([1]).mul(2), false, /is a result of others that require gradients.*detach/);
  refused(() => tensor([1]), 1 as never, /\[requiresGrad\] the value is 1, must be/);
  const w = tensor([1]);
  const inside = jit(() => {
    w.requiresGrad = true;
    return w.mul(2);
  });
  assert.throws(() => inside(), /cannot be set within a jitted function/);
});
