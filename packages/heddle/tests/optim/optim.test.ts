/** Optimizers beside their formulas (golden-optim has those): groups, rates, state, conditions, and what they refuse. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ArgumentError, ShapeError } from '../../src/core/errors.js';
import { Adagrad, Adam, AdamW, Lion, RMSprop, SGD, schedules } from '../../src/optim/index.js';
import { tensor, zeros } from '../../src/tensor/create.js';
import { jit } from '../../src/tensor/jit.js';
import { engineStats } from '../../src/tensor/modes.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { assertClose } from '../close.js';

const parameter = (...values: number[]): Tensor => tensor(values, { requiresGrad: true });
/** The gradient of the sum is 1 everywhere. */
const pull = (...parameters: Tensor[]): void => {
  for (const p of parameters) p.sum().backward();
};

test('gradients add up over several backward calls, and a step forgets them', async () => {
  const p = parameter(1, 2);
  const sgd = new SGD([p], { lr: 0.1 });
  pull(p, p, p);
  sgd.step();
  assertClose((await p.data()) as Float32Array, [0.7, 1.7], 'three gradients at once');
  assert.equal(p.grad, undefined);
  sgd.step();
  assertClose((await p.data()) as Float32Array, [0.7, 1.7], 'nothing left to apply');
});

test('parameters without a gradient are left alone, their state too', async () => {
  const [p, q] = [parameter(1), parameter(1)];
  const adam = new Adam([p, q], { lr: 0.1, weightDecay: 0.5 });
  pull(p);
  adam.step();
  assertClose([await p.item(), await q.item()], [0.9, 1], 'only p moved');
  assert.equal(await adam.stateDict()['0.1.mean']!.item(), 0);
});

test('groups have settings of their own, the rest from the optimizer', async () => {
  const [p, q] = [parameter(1), parameter(1)];
  const sgd = new SGD([{ params: [p] }, { params: [q], lr: 0.5 }], { lr: 0.1 });
  pull(p, q);
  sgd.step();
  assertClose([await p.item(), await q.item()], [0.9, 0.5], 'rates 0.1 and 0.5');
  sgd.groups[0]!.lr = 0.2;
  pull(p, q);
  sgd.step();
  assertClose([await p.item(), await q.item()], [0.7, 0], 'rates 0.2 and 0.5');
});

test('a new learning rate compiles nothing', async () => {
  const p = parameter(1);
  const sgd = new SGD([p], { lr: 0.1 });
  const step = jit((x: Tensor) => {
    p.mul(x).sum().backward();
    sgd.step();
    return null;
  });
  const one = tensor([1]);
  step(one);
  const { compiled } = engineStats();
  sgd.lr = 0.3;
  step(one);
  assert.equal(sgd.lr, 0.3);
  assertClose([await p.item()], [0.6], 'two steps of 0.1 and 0.3');
  assert.equal(engineStats().compiled, compiled);
});

test('where the condition is false, nothing changes', async () => {
  const p = parameter(1, -1);
  const adam = new Adam([p]);
  const apply = async (when: boolean): Promise<number[]> => {
    pull(p);
    adam.step({ when: tensor(when) });
    return Array.from(await p.data(), Number);
  };
  const before = Object.values(adam.stateDict());
  const values = await Promise.all(before.map((t) => t.data()));
  assert.deepEqual(await apply(false), [1, -1]);
  assert.deepEqual(await Promise.all(Object.values(adam.stateDict()).map((t) => t.data())), values);
  assert.notDeepEqual(await apply(true), [1, -1]);
});

test('a loop that never asks for a value does not grow', async () => {
  const p = parameter(1, 2);
  const adam = new Adam([p]);
  for (let i = 0; i < 300; i++) {
    pull(p);
    adam.step();
    assert.equal(p.ownNode.storage === undefined, false);
  }
  assert.ok((await p.data()).every((v) => Number.isFinite(Number(v))));
});

for (const [name, make] of Object.entries({
  SGD: (p: Tensor) => new SGD([p], { lr: 0.1, momentum: 0.9, dampening: 0.1 }),
  Adam: (p: Tensor) => new Adam([p], { lr: 0.1 }),
  AdamW: (p: Tensor) => new AdamW([p], { lr: 0.1 }),
  Adagrad: (p: Tensor) => new Adagrad([p], { lr: 0.1, lrDecay: 0.1 }),
  Lion: (p: Tensor) => new Lion([p], { lr: 0.1 }),
  RMSprop: (p: Tensor) => new RMSprop([p], { lr: 0.1, momentum: 0.5, centered: true }),
})) {
  test(`${name}: state saved and loaded goes on as if nothing had happened`, async () => {
    const run = (p: Tensor, optimizer: { step(): void }): void => {
      p.square().sum().backward();
      optimizer.step();
    };
    const p = parameter(1, -2);
    const whole = make(p);
    for (let i = 0; i < 3; i++) run(p, whole);
    const q = parameter(...Array.from(await p.data(), Number));
    const resumed = make(q);
    resumed.lr = 0.7;
    await resumed.loadStateDict(whole.stateDict());
    assert.equal(resumed.lr, Math.fround(0.1));
    for (let i = 0; i < 3; i++) {
      run(p, whole);
      run(q, resumed);
    }
    assert.deepEqual(await q.data(), await p.data());
  });
}

test('a state of another optimizer is refused', async () => {
  const p = parameter(1);
  const state = new SGD([p], { momentum: 0.9 }).stateDict();
  await assert.rejects(
    new Adam([p]).loadStateDict(state),
    (e) =>
      e instanceof ArgumentError &&
      /Missing: 0\.corrections, 0\.0\.mean.*Unexpected: 0\.0\.momentum/.test(e.message),
  );
  await assert.rejects(
    new SGD([p], { momentum: 0.9 }).loadStateDict({ ...state, '0.0.momentum': zeros([2]) }),
    (e) => e instanceof ShapeError && /0\.0\.momentum differ: \(1\) here, \(2\)/.test(e.message),
  );
});

const p = parameter(1);
const REFUSED: readonly [string, () => unknown, RegExp][] = [
  ['no parameters', () => new SGD([]), /no parameters/],
  ['a tensor without gradient', () => new SGD([tensor([1])]), /shape \(1\) does not require a gradient/],
  ['a parameter twice', () => new SGD([p, p]), /given twice/],
  ['a negative rate', () => new SGD([p], { lr: -1 }), /lr is -1, must be a finite number ≥ 0/],
  ['a rate that is no number', () => new SGD([p], { lr: Number.NaN }), /lr is NaN/],
  ['nesterov without momentum', () => new SGD([p], { nesterov: true }), /nesterov needs a momentum/],
  [
    'a beta of 1',
    () => new Adam([p], { betas: [0.9, 1] }),
    /betas is \[0.9, 1\], must be two numbers, each at least 0 and less than 1/,
  ],
  ['a negative decay', () => new AdamW([p], { weightDecay: -0.1 }), /weightDecay is -0.1/],
  ['an alpha above 1', () => new RMSprop([p], { alpha: 1.5 }), /alpha is 1.5/],
  ['a bad setting in a group', () => new SGD([{ params: [p], momentum: -1 }]), /momentum is -1/],
];
for (const [name, make, message] of REFUSED) {
  test(`refuses ${name}`, () => {
    assert.throws(make, (e) => e instanceof ArgumentError && message.test(e.message));
  });
}

test('schedules: factors from 0 to 1', () => {
  const half = schedules.cosine();
  assertClose([half(0), half(0.5), half(1)], [1, 0.5, 0], 'cosine');
  const warm = schedules.linear({ warmup: 0.5, final: 0.2 });
  assertClose([warm(0), warm(0.25), warm(0.5), warm(0.75), warm(1)], [0, 0.5, 1, 0.6, 0.2], 'linear');
  const steps = schedules.steps([0.5, 0.75]);
  assertClose([steps(0.4), steps(0.5), steps(0.9)], [1, 0.1, 0.01], 'steps');
  assert.throws(() => schedules.cosine({ warmup: 1 }), ArgumentError);
});
