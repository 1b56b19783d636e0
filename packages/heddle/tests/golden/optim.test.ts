/** Optimizers against PyTorch: twenty steps on a noisy bowl, step by step and as one jitted program. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type DType, f32, f64 } from '../../src/core/dtype.js';
import { Adagrad, Adam, AdamW, type BaseSettings, LBFGS, Lion, Muon, type Optimizer, RMSprop, SGD } from '../../src/optim/index.js';
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
  Muon: (p, options) => new Muon(p, { ...options, precision: 'f32' }),
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

/** Four steps; in f32 all but the directions is rounded, which are ill-conditioned. */
async function checkLbfgs(c: GoldenCase, dtype: DType<'f32' | 'f64'>): Promise<void> {
  const toTensor = ({ shape, data }: GoldenArray, requiresGrad = false): Tensor =>
    tensor(data.slice(), { shape, dtype, requiresGrad });
  const { start, curvature, target } = c.inputs;
  const [p, k, q] = [toTensor(start!, true), toTensor(curvature!), toTensor(target!)];
  const optimizer = new LBFGS([p], c.args);
  const steps = c.outputs.steps!;
  for (let t = 0; t < 4; t++) {
    await optimizer.step(() => {
      const bowl = p.sub(q).square().mul(k).mul(0.5).add(p.square().square().mul(0.25)).sum();
      const loss = bowl.add(p.sum().square().mul(0.5));
      loss.backward();
      return loss;
    });
    const tolerance = dtype === f64 ? 1e-11 : 1e-3;
    const expected = steps.data.subarray(t * p.size, (t + 1) * p.size);
    assertClose(await p.data(), expected, `${c.name}, step ${t + 1}`, { absolute: tolerance });
  }
}

for (const c of goldenCases('optimizers').filter(({ op }) => op === 'LBFGS'))
  for (const dtype of [f32, f64]) test(`PyTorch's ${c.name} in ${dtype.name}`, () => checkLbfgs(c, dtype));

for (const c of goldenCases('optimizers').filter(({ op }) => op !== 'LBFGS')) {
  for (const dtype of [f32, f64]) {
    test(`PyTorch's ${c.name} in ${dtype.name}`, () => check(c, dtype, false));
    test(`PyTorch's ${c.name} in ${dtype.name}, jitted`, () => check(c, dtype, true));
  }
}
