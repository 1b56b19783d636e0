/** Gradients of functions, gradients of gradients, and functions whose gradients are said by hand. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as H from '../../src/index.js';
import {
  type AnyTensor,
  bf16,
  buffer,
  ceilDiv,
  customGradient,
  f16,
  f32,
  f64,
  grad,
  gradcheck,
  i32,
  jit,
  kernel,
  nn,
  noGrad,
  optim,
  type Tensor,
  tensor,
  useDevice,
  valueAndGrad,
} from '../../src/index.js';
import { DEVICES } from '../cases/case-runner.js';

const list = async (t: AnyTensor | undefined): Promise<number[]> => {
  assert.ok(t, 'there is a gradient');
  return Array.from(await t.data(), Number);
};
const parameter = (values: readonly number[]): Tensor => tensor(values, { requiresGrad: true });

const cubeKernel = kernel('cube', { x: buffer(f32), y: buffer(f32), n: i32 }, ({ x, y, n }, { globalId }) => {
  const i = globalId.x;
  if (i < n) y[i] = x[i] * x[i] * x[i];
});
const cubeSlopeKernel = kernel(
  'cubeSlope',
  { g: buffer(f32), x: buffer(f32), y: buffer(f32), n: i32 },
  ({ g, x, y, n }, { globalId }) => {
    const i = globalId.x;
    if (i < n) y[i] = 3 * g[i] * x[i] * x[i];
  },
);
const blocksFor = (n: number): { grid: number; block: number } => ({ grid: ceilDiv(n, 64), block: 64 });
const cube = customGradient(
  (x: Tensor) => cubeKernel.apply(blocksFor(x.size), { x, n: x.size }, { y: x.shape }),
  (g, [x]) => [cubeSlopeKernel.apply(blocksFor(x.size), { g, x, n: x.size }, { y: x.shape })],
);

for (const device of DEVICES) {
  const on = (name: string, body: () => Promise<void>): void => {
    test(`${device}: ${name}`, async () => {
      useDevice(device);
      await body();
    });
  };

  on('grad gives derivatives of any order', async () => {
    const x = tensor([1, 2, 3]);
    const f = (x: Tensor): Tensor => x.pow(3).sum();
    const slope = (x: Tensor): Tensor => grad(f)(x).sum();
    assert.deepEqual(await list(grad(f)(x)), [3, 12, 27]);
    assert.deepEqual(await list(grad(slope)(x)), [6, 12, 18]);
    assert.deepEqual(await list(grad((x: Tensor) => grad(slope)(x).sum())(x)), [6, 6, 6]);
    assert.deepEqual(await list(jit(grad(slope))(x)), [6, 12, 18]);
    // Of |x|, also where it has no derivative, and of what is linear.
    const kinks = tensor([-2, 0, 2]);
    assert.deepEqual(
      await list(grad((x: Tensor) => grad((x: Tensor) => x.abs().sum())(x).sum())(kinks)),
      [0, 0, 0],
    );
  });

  on('a kernel takes part in training, by customGradient', async () => {
    const w = parameter([1, 2, 3]);
    const y = cube(w.mul(2)).add(1);
    assert.deepEqual(await list(y), [9, 65, 217]);
    y.sum().backward();
    assert.deepEqual(await list(w.grad), [24, 96, 216]);
    w.grad = undefined;
    const optimizer = new optim.SGD([w], { lr: 0.125 });
    const step = jit((x: Tensor) => {
      const loss = cube(w.mul(x)).sum();
      loss.backward();
      optimizer.step();
      return loss;
    });
    assert.equal(await step(tensor([2, 1, 0])).item(), 16);
    assert.deepEqual(await list(w), [-2, 0.5, 3]);
    assert.equal(await step(tensor([1, 2, 0])).item(), -7);
    assert.deepEqual(await list(w), [-3.5, -0.25, 3]);
  });

  on('what a kernel does not write of a result is 0', async () => {
    const first = kernel('first', { x: buffer(i32), y: buffer(i32) }, ({ x, y }, { globalId }) => {
      y[globalId.x] = x[globalId.x];
    });
    const x = tensor(Int32Array.of(5, 6, 7, 8));
    const y = first.apply({ grid: 1, block: 2 }, { x }, { y: [2, 2] });
    assert.deepEqual([y.shape, y.dtype.name, await list(y.add(1))], [[2, 2], 'i32', [6, 7, 1, 1]]);
    const other = kernel('first', { x: buffer(i32), y: buffer(i32) }, ({ x, y }, { globalId }) => {
      y[globalId.x] = x[globalId.x] + 1;
    });
    const both = [first, other].map((k) => k.apply({ grid: 1, block: 2 }, { x }, { y: [2] }));
    assert.deepEqual(await list(H.cat(both)), [5, 6, 6, 7], 'two kernels of one name');
  });
}

test('second derivatives agree with differences of first ones', async () => {
  useDevice('cpu');
  const values = Float64Array.from({ length: 12 }, (_, i) => 1.5 * Math.sin(2 * i + 0.7));
  const x = tensor(values, { shape: [3, 4] });
  const w = tensor(
    values.map((v) => v * v - 0.4),
    { shape: [4, 3] },
  );
  const labels = tensor(Int32Array.of(0, 2, 3));
  const functions: Readonly<Record<string, (x: Tensor, w: Tensor) => AnyTensor>> = {
    'a layer': (x, w) => x.matmul(w).tanh().square(),
    'softmax and cross-entropy': (x) => H.crossEntropy(x, labels).mul(H.softmax(x).at(0, 0)),
    layerNorm: (x) => H.layerNorm(x, 4).square().mul(x),
    gelu: (x) => H.gelu(x).mul(H.silu(x)),
    huber: (x, w) => H.huber(x, w.transpose(), { reduction: 'none' }).mul(x),
    'max, min and norm': (x) => x.max(0).mul(x.min(0)).add(x.norm(0)),
    'prod, also with a 0': (x) =>
      x
        .sub(values[0]!)
        .prod(0)
        .mul(x)
        .add(x.prod([0, 1])),
    cumprod: (x) => x.cumprod(1).mul(x.cumsum(1)),
    conv2d: (x, w) =>
      H.maxPool2d(
        H.conv2d(x.reshape([1, 1, 3, 4]), w.reshape([3, 1, 2, 2]).sigmoid(), undefined),
        2,
      ).square(),
    'rows by position': (x) => x.at(labels.maximum(0).minimum(2)).square().sum(0).exp(),
  };
  for (const [name, f] of Object.entries(functions)) {
    const slopes = (x: Tensor, w: Tensor): AnyTensor => {
      const [gx, gw] = grad((x: Tensor, w: Tensor) => f(x, w).sum(), { argnums: [0, 1] })(x, w);
      return gx!.mul(x.sin()).sum().add(gw!.mul(w.cos()).sum());
    };
    await assert.doesNotReject(gradcheck(slopes as never, [x, w], { tolerance: 1e-5 }), name);
  }
});

test('views and casts hide no gradient from what is composed of them', async () => {
  useDevice('cpu');
  const values = Float32Array.from({ length: 12 }, (_, i) => 1 + 0.5 * Math.sin(2 * i + 0.7));
  const composed: Readonly<Record<string, (x: Tensor) => AnyTensor>> = {
    cumprod: (x) => x.cumprod(0),
    cumsum: (x) => x.cumsum(0),
    softmax: (x) => x.softmax(0),
    logSumExp: (x) => x.logSumExp(0),
    'the gradient of prod': (x) => grad((x: Tensor) => x.prod(0).sum())(x),
  };
  const views: Readonly<Record<string, (x: Tensor) => AnyTensor>> = {
    permute: (x) => x.permute([1, 0]),
    reshape: (x) => x.reshape([4, 3]),
    cast: (x) => x.cast(f32),
    'permute and cast': (x) => x.permute([1, 0]).cast(f32),
  };
  for (const dtype of [f32, f16, bf16])
    for (const [name, op] of Object.entries(composed))
      for (const [of, view] of Object.entries(views)) {
        const x = tensor(values, { shape: [3, 4] }).cast(dtype as typeof f32) as Tensor;
        const slope = (from: (x: Tensor) => AnyTensor) =>
          grad(
            (x: Tensor) =>
              op(from(x) as Tensor)
                .cast(f32)
                .square()
                .sum() as Tensor,
          )(x);
        // A product is no view; this one is exact.
        const [got, wanted] = [slope(view), slope((x) => view(x).mul(2).div(2))];
        const size = Math.max(...(await list(wanted)).map(Math.abs));
        const wide = await list(wanted);
        for (const [i, v] of (await list(got)).entries())
          assert.ok(
            Math.abs(v - wide[i]!) <= 0.01 * size,
            `${name} of ${of}, ${dtype.name}: ${v} for ${wide[i]}`,
          );
      }
});

test('what grad gives can be trained through: a penalty on the gradient', async () => {
  useDevice(DEVICES[0]!);
  const w = parameter([2, 3]);
  const x = tensor([1, 2]);
  const slope = grad((x: Tensor) => x.square().mul(w).sum())(x);
  assert.equal(slope.requiresGrad, true);
  slope.square().sum().backward();
  // (2xw)², in w
  assert.deepEqual(await list(w.grad), [16, 96]);
  assert.equal(x.grad, undefined);
});

test('grad: what it is taken of, the others are constants, also of the same tensor', async () => {
  useDevice(DEVICES[0]!);
  const x = parameter([1, 2]);
  const [value, gradient] = valueAndGrad((x: Tensor, y: Tensor) => x.mul(y).sum())(x, x);
  assert.equal(await value.item(), 5);
  assert.deepEqual(await list(gradient), [1, 2]);
  const both = grad((x: Tensor, y: Tensor) => x.mul(y).sum(), { argnums: [1, 0] })(x, tensor([5, 6]));
  assert.deepEqual(await Promise.all(both.map(list)), [
    [1, 2],
    [5, 6],
  ]);
  assert.deepEqual(await list(grad((_: Tensor) => tensor(3))(x)), [0, 0], 'of a constant');
  const ones = H.ones([2]);
  assert.deepEqual(
    await list(grad((x: Tensor) => x.mul(tensor([3, 4])).sum())(ones)),
    [3, 4],
    'of a known value',
  );
  assert.equal(x.grad, undefined);
});

test('grad keeps no graph where nothing requires a gradient, nor within noGrad', async () => {
  useDevice(DEVICES[0]!);
  const f = (x: Tensor): Tensor => x.square().sum();
  let x: Tensor = tensor([4]);
  for (let i = 0; i < 3; i++) x = x.sub(grad(f)(x).mul(0.25));
  assert.deepEqual([x.requiresGrad, await list(x)], [false, [0.5]]);
  const inside = noGrad(() => valueAndGrad(f)(parameter([3])));
  assert.deepEqual([inside.map((t) => t.requiresGrad), await list(inside[1])], [[false, false], [6]]);
});

test('backward may be called again, and adds the same gradients again', async () => {
  useDevice(DEVICES[0]!);
  const w = parameter([1, 2]);
  const loss = w.square().sum();
  loss.backward();
  await list(w.grad);
  loss.backward();
  assert.deepEqual(await list(w.grad), [4, 8]);
});

test('customGradient of tensor ops: several inputs, some without a gradient, and differentiated again', async () => {
  useDevice(DEVICES[0]!);
  let ran = 0;
  const scaled = customGradient(
    (x: Tensor, by: Tensor) => {
      ran++;
      return x.mul(by).exp();
    },
    (g, [, by], y) => [g.mul(y).mul(by), undefined],
  );
  const [x, by] = [parameter([0.5]), parameter([2])];
  const slope = grad((x: Tensor) => scaled(x, by).sum())(x);
  const curvature = grad((x: Tensor) => grad((x: Tensor) => scaled(x, by).sum())(x).sum())(x);
  assert.ok(Math.abs((await slope.item()) - 2 * Math.E) < 1e-5);
  assert.ok(Math.abs((await curvature.item()) - 4 * Math.E) < 1e-5);
  assert.equal(ran, 2, 'forward runs once for each call');
  // A straight-through estimator, before pooling: it stays where it is.
  const rounded = customGradient(
    (x: Tensor) => x.round(),
    (g, [x]) => {
      assert.deepEqual(g.shape, x.shape);
      return [g];
    },
  );
  const image = tensor([0.2, 0.4, 1.4, 0.1], { shape: [1, 1, 2, 2], requiresGrad: true });
  new nn.MaxPool2d(2).forward(rounded(image)).sum().backward();
  assert.deepEqual(await list(image.grad), [0, 0, 1, 0]);
});

test('to: a copy on another device, this tensor on its own', async () => {
  useDevice('cpu');
  const x = tensor([1, 2], { requiresGrad: true });
  assert.equal(await x.to('cpu'), x);
  const there = await x.mul(3).to('sim');
  assert.deepEqual([there.requiresGrad, await list(there.add(1))], [false, [4, 7]]);
  const w = await x.to('sim');
  w.square().sum().backward();
  assert.deepEqual([await list(w.grad), x.grad], [[2, 4], undefined]);
  await assert.rejects(x.to('tpu'), /tpu/);
  const half = await tensor([1, 2], { dtype: H.bf16 }).to('sim');
  assert.deepEqual([half.dtype.name, await list(half)], ['bf16', [1, 2]]);
  assert.deepEqual([(await H.zeros([0, 3], { dtype: f64 }).to('sim')).shape, x.numel()], [[0, 3], 2]);
});

test('misuse of grad, customGradient and apply', async () => {
  useDevice(DEVICES[0]!);
  const x = parameter([1, 2]);
  const refused = (body: () => unknown, message: RegExp): void => void assert.throws(body, message);
  refused(() => grad((x: Tensor) => x)(x), /\[grad\] the result of fn is \(2\), must be one element/);
  refused(() => grad((x: Tensor) => x.sum())(tensor(Int32Array.of(1))), /\[grad\] argument 0/);
  refused(() => grad((x: Tensor) => x.sum(), { argnums: 1 })(x), /\[grad\] argument 1 is undefined/);
  refused(() => grad((async () => x.sum()) as never)(x), /\[grad\] fn must not be async/);
  refused(() => grad((() => 3) as never)(x), /\[grad\] the result of fn is 3/);
  const wrong = (found: unknown): void =>
    customGradient(
      (x: Tensor) => x.mul(2),
      () => found as never,
    )(x)
      .sum()
      .backward();
  refused(() => wrong(undefined), /backward gave undefined, must give a list/);
  refused(() => wrong([]), /a gradient, or undefined, for each of the 1 inputs/);
  refused(() => wrong([tensor([1])]), /gradient 0 is \(1\), input 0 \(2\)/);
  refused(() => wrong([tensor([1, 2], { dtype: f64 })]), /gradient 0 is of f64, input 0 of f32/);
  const apply = (args: object, result: object): unknown =>
    cubeKernel.apply({ grid: 1, block: 32 }, args as never, result as never);
  refused(
    () => (apply({ x, n: 2 }, { y: [2] }) as Tensor).sum().backward(),
    /\[cube\] a kernel has no gradient/,
  );
  refused(() => apply({ x, n: 2 }, {}), /\[cube\] result is .*must be the buffer that is written/);
  refused(() => apply({ x, n: 2 }, { n: [2] }), /must be the buffer that is written/);
  refused(() => apply({ y: x, n: 2 }, { x: [2] }), /\[cube\] writes to y: apply gives the one result x/);
  refused(() => apply({ x: tensor([true]), n: 2 }, { y: [2] }), /x is a buffer of f32.*got one of bool/);
  refused(() => apply({ x: [1, 2], n: 2 }, { y: [2] }), /x is a buffer of f32: pass a tensor/);
  refused(() => apply({ n: 2 }, { y: [2] }), /\[cube\] the argument x is missing/);
  let inside: Promise<Tensor> | undefined;
  jit(() => {
    inside = x.to('cpu');
    return x.mul(1);
  })();
  await assert.rejects(inside!, /\[to\] is not for jitted functions/);
});
