/** Optimizers against PyTorch: twenty steps on a noisy bowl, step by step and as one jitted program. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DType, f32, f64 } from '../../src/core/dtype.js';
import { Adagrad, Adam, AdamW, type BaseSettings, type Optimizer, Lion, RMSprop, SGD } from '../../src/optim/index.js';
import { tensor } from '../../src/tensor/create.js';
import { jit } from '../../src/tensor/jit.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { assertClose } from '../close.js';
import { type GoldenArray, type GoldenCase, goldenCases } from './golden.js';

const OPTIMIZERS: Readonly<Record<string, (p: Tensor[], options: object) => Optimizer<BaseSettings>>> = {
  SGD: (p, options) => new SGD(p, options),
  Adam: (p, options) => new Adam(p, options),
  AdamW: (p, options) => new AdamW(p, options),
  Adagrad: (p, options) => new Adagrad(p, options),
  Lion: (p, options) => new Lion(p, options),
  RMSprop: (p, options) => new RMSprop(p, options),
};

/** In f64, rounding is all that may differ: 20 steps of it, on parameters of about 1. */
const TOLERANCE = { f32: undefined, f64: { absolute: 1e-14, relative: 1e-14 } };

async function check(c: GoldenCase, dtype: DType<'f32' | 'f64'>, jitted: boolean): Promise<void> {
  const toTensor = ({ shape, data }: GoldenArray, requiresGrad = false): Tensor =>
    tensor(data.slice(), { shape, dtype, requiresGrad });
  const [start, curvature, target, noise, steps] = [
    toTensor(c.inputs.start!, true),
    toTensor(c.inputs.curvature!),
    toTensor(c.inputs.target!),
    c.inputs.noise!,
    c.outputs.steps!,
  ];
  const optimizer = OPTIMIZERS[c.op]!([start], c.args);
  const step = (shift: Tensor): null => {
    const bowl = start.sub(target).square().mul(curvature).mul(0.5);
    bowl.add(start.mul(shift)).sum().backward();
    optimizer.step();
    return null;
  };
  const run = jitted ? jit(step) : step;
  for (let t = 0; t < 20; t++) {
    // Each shift is copied: a view at another offset would compile another program.
    const rowOf = ({ data }: GoldenArray): typeof data => data.subarray(t * start.size, (t + 1) * start.size);
    run(toTensor({ shape: start.shape, data: rowOf(noise) }));
    assert.equal(start.grad, undefined);
    const expected = rowOf(steps);
    assertClose(await start.data(), expected, `${c.name}, step ${t + 1}`, TOLERANCE[dtype.name]);
  }
}

for (const c of goldenCases('optimizers')) {
  for (const dtype of [f32, f64]) {
    test(`PyTorch's ${c.name} in ${dtype.name}`, () => check(c, dtype, false));
    test(`PyTorch's ${c.name} in ${dtype.name}, jitted`, () => check(c, dtype, true));
  }
}
