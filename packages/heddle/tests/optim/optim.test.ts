/** Optimizers beside their formulas (golden-optim has those): groups, rates, state, conditions, and what they refuse. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f64 } from '../../src/core/dtype.js';
import { ArgumentError, ShapeError } from '../../src/core/errors.js';
import {
  Adagrad,
  Adam,
  AdamW,
  clipGradNorm,
  clipGradValue,
  ExponentialMovingAverage,
  GradientAccumulator,
  LBFGS,
  Lion,
  type LrSchedule,
  LrScheduler,
  Muon,
  RMSprop,
  SGD,
  schedules,
} from '../../src/optim/index.js';
import { tensor, zeros } from '../../src/tensor/create.js';
import { jit } from '../../src/tensor/jit.js';
import { engineStats } from '../../src/tensor/modes.js';
import { manualSeed, randn } from '../../src/tensor/random.js';
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
  Muon: (p: Tensor) => new Muon([p], { lr: 0.1 }),
  RMSprop: (p: Tensor) => new RMSprop([p], { lr: 0.1, momentum: 0.5, centered: true }),
})) {
  test(`${name}: state saved and loaded goes on as if nothing had happened`, async () => {
    const run = (p: Tensor, optimizer: { step(): void }): void => {
      p.square().sum().backward();
      optimizer.step();
    };
    const start = (values: number[]): Tensor => tensor([values], { requiresGrad: true });
    const p = start([1, -2]);
    const whole = make(p);
    for (let i = 0; i < 3; i++) run(p, whole);
    const q = start(Array.from(await p.data(), Number));
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

const span = { steps: 100, stepsPerEpoch: 10 };
const factors = (schedule: LrSchedule, ...steps: number[]): number[] =>
  steps.map((step) => schedule.factor(step, span));

test('a schedule without a length takes what is left of the training', () => {
  const { chain, cosine, polynomial, warmup } = schedules;
  assertClose(factors(cosine(), 0, 50, 100), [1, 0.5, 0], 'cosine');
  assertClose(factors(chain(warmup(20), cosine()), 0, 10, 20, 60, 100), [0, 0.5, 1, 0.5, 0], 'warm-up first');
  const late = chain(warmup(50), polynomial({ final: 0.2 }));
  assertClose(factors(late, 0, 25, 50, 75, 100), [0, 0.5, 1, 0.6, 0.2], 'the second half');
});

test('schedules count steps, epochs, or shares of the training', () => {
  const { chain, exponential, multiStep, step, warmup } = schedules;
  assertClose(factors(multiStep([0.5, 0.75], { unit: 'training' }), 49, 50, 90), [1, 0.1, 0.01], 'shares');
  assertClose(factors(step(3, { unit: 'epoch' }), 29, 30, 60), [1, 0.1, 0.01], 'epochs');
  // The second one begins in the middle of an epoch, and still changes only between epochs.
  const mixed = chain(warmup(0.15, { unit: 'training' }), exponential(0.5, { unit: 'epoch' }));
  assertClose(factors(mixed, 14, 15, 19, 20, 29, 30), [14 / 15, 1, 1, 0.5, 0.5, 0.25], 'both');
});

test('a schedule keeps its last factor', () => {
  const { cosine, oneCycle, polynomial } = schedules;
  assertClose(factors(cosine({ length: 50, final: 0.1 }), 50, 99), [0.1, 0.1], 'cosine');
  assertClose(factors(polynomial({ length: 5, unit: 'epoch' }), 49, 50, 99), [0.2, 0, 0], 'polynomial');
  assertClose(factors(oneCycle({ length: 50 }), 49, 60), [4e-6, 4e-6], 'one cycle');
});

test('schedules refuse what makes no sense', () => {
  const { chain, constant, cosine, plateau, warmup } = schedules;
  const endless = chain(constant(), warmup(5));
  assert.throws(() => endless.factor(0, span), /schedule 0 \(constant\) has no length.*\{ length \}/);
  assert.throws(() => chain(), /there are no schedules/);
  assert.throws(
    () => chain(warmup(5), Math.cos as never),
    /schedule 1 is the function cos, must be a schedule/,
  );
  assert.throws(
    () => cosine({ unit: 'epochs' as never }),
    /unit is 'epochs', must be 'step', 'epoch' or 'training'/,
  );
  assert.throws(
    () => chain(plateau(), plateau({ monitor: 'accuracy' })),
    /different figures: loss, accuracy/,
  );
});

test('an LrScheduler moves the rates of all groups, and resumes', async () => {
  const { chain, plateau, warmup } = schedules;
  const make = (): [SGD, LrScheduler] => {
    const [p, q] = [parameter(1), parameter(1)];
    const sgd = new SGD([{ params: [p] }, { params: [q], lr: 0.5 }], { lr: 0.1 });
    const schedule = chain(warmup(2, { startFactor: 0.5 }), plateau({ patience: 0, factor: 0.5 }));
    return [sgd, new LrScheduler(sgd, schedule, { steps: 8, stepsPerEpoch: 2 })];
  };
  const [sgd, scheduler] = make();
  const rates = (): number[] => sgd.groups.map(({ lr }) => lr);
  assertClose(rates(), [0.05, 0.25], 'before the first step');
  for (const loss of [1, 2]) {
    scheduler.step();
    scheduler.step();
    scheduler.observe(loss);
  }
  assertClose(rates(), [0.1, 0.5], 'the first epoch was before the plateau began to watch');
  scheduler.step();
  scheduler.step();
  scheduler.observe(3);
  assertClose(rates(), [0.05, 0.25], 'no better');
  const [resumed, other] = make();
  other.loadStateDict(JSON.parse(JSON.stringify(scheduler.stateDict())));
  assert.deepEqual(
    resumed.groups.map(({ lr }) => lr),
    rates(),
  );
  assert.throws(
    () => other.loadStateDict({ step: 1, baseRates: [1], observed: [] }),
    /whose optimizer has 2 groups/,
  );
});

test('clipping limits gradients within a jitted function', async () => {
  const [p, q, idle] = [parameter(1, 1), parameter(1), parameter(5)];
  const sgd = new SGD([p, q, idle], { lr: 1 });
  const step = jit((x: Tensor) => {
    p.mul(x).sum().add(q.mul(4).sum()).backward();
    const norm = clipGradNorm([p, q, idle], 1);
    sgd.step();
    return norm;
  });
  // The gradients are (0, 3) and 4, of norm 5.
  assertClose([await step(tensor([0, 3])).item()], [5], 'the norm before');
  assertClose((await p.data()) as Float32Array, [1, 1 - 3 / 5], 'a fifth');
  assertClose([await q.item(), await idle.item()], [1 - 4 / 5, 5], 'a fifth, and nothing');
  await step(tensor([0, 0])).item();
  clipGradValue([idle], 1);
  assert.equal(idle.grad, undefined);
  idle.mul(9).sum().backward();
  const late = jit(() => {
    clipGradValue([idle], 1);
  });
  assert.throws(() => late(), /the gradient of .* is from outside/);
  assert.throws(
    () => clipGradNorm(p as never, 1),
    /parameters is Tensor\(\(2\), f32.*must be a list of tensors/,
  );
});

test('gradients gathered over calls are those of one large batch', async () => {
  const make = (): [Tensor, Adam] => {
    const p = parameter(1, -2, 3);
    return [p, new Adam([p], { lr: 0.1 })];
  };
  const batches = [tensor([1, 2, 3]), tensor([0, -1, 2]), tensor([5, 0, 1]), tensor([2, 2, 2])];
  const [p, adam] = make();
  const frozen = parameter(1);
  const sums = new GradientAccumulator([p]);
  const gather = jit((x: Tensor) => {
    p.mul(x).square().mul(frozen).sum().backward();
    sums.add();
  });
  const update = jit(() => {
    sums.take(0.5);
    adam.step();
  });
  for (const pair of [batches.slice(0, 2), batches.slice(2)]) {
    for (const x of pair) gather(x);
    update();
  }
  assert.equal(p.grad, undefined);
  const [q, other] = make();
  for (const [x, y] of [batches.slice(0, 2), batches.slice(2)]) {
    q.mul(x!).square().add(q.mul(y!).square()).mul(0.5).sum().backward();
    other.step();
  }
  assertClose((await p.data()) as Float32Array, (await q.data()) as Float32Array, 'two steps');
});

test('an optimizer may have some of the parameters; one of another model is refused', async () => {
  const [body, head] = [parameter(1), parameter(2)];
  const sgd = new SGD([head], { lr: 1 });
  const step = jit((x: Tensor) => {
    body.mul(head).mul(x).sum().backward();
    sgd.step();
  });
  step(tensor([3]));
  assertClose([await body.item(), await head.item()], [1, -1], 'only the head moves');
  assert.equal(body.grad, undefined);
  const elsewhere = new SGD([parameter(1)]);
  const wrong = jit((x: Tensor) => {
    head.mul(x).sum().backward();
    elsewhere.step();
  });
  assert.throws(() => wrong(tensor([1])), /no parameter of this optimizer has a gradient.*another model/);
  assert.equal(head.grad, undefined);
});

test('averages of weights are put into the model, taken back, and saved', async () => {
  const p = parameter(0, 8);
  const make = (): ExponentialMovingAverage => new ExponentialMovingAverage([p], { decay: 0.5 });
  const average = make();
  const value = async (t: Tensor): Promise<number[]> => Array.from(await t.data(), Number);
  const update = jit((x: Tensor) => {
    p.assign(p.detach().add(x));
    average.update();
  });
  for (let i = 0; i < 3; i++) update(tensor([4, 4]));
  // The first update takes the weights as they are: 4, then (4 + 8) / 2, then (6 + 12) / 2.
  average.swap();
  assert.deepEqual(await value(p), [9, 17]);
  assert.ok(p.requiresGrad);
  assert.throws(() => average.update(), /averages are in the model: call restore/);
  assert.throws(() => average.swap(), /already/);
  average.restore();
  assert.deepEqual(await value(p), [12, 20]);
  assert.throws(() => average.restore(), /call swap\(\) first/);
  average.update({ when: tensor(false) });
  const other = make();
  other.loadStateDict(average.stateDict());
  other.update();
  assert.deepEqual(await value(other.stateDict()['0']!), [10.5, 18.5]);
  assert.throws(
    () => other.loadStateDict({ 0: zeros([2]) }),
    /not the state of these averages. Missing: begun/,
  );
});

test('the columns of an update by Muon are nearly orthogonal, of nearly the same length', async () => {
  manualSeed(7);
  const start = randn([24, 6]).realize();
  const p = tensor(await start.array(), { requiresGrad: true }) as Tensor;
  const optimizer = new Muon([p], { lr: 1, weightDecay: 0 });
  p.mul(randn([24, 6]))
    .sum()
    .backward();
  optimizer.step();
  const update = start.sub(p.detach()).div(2); // √(24 / 6) is the factor of the shape
  const gram = (await update.transpose().matmul(update).array()) as number[][];
  for (const [i, row] of gram.entries())
    for (const [j, v] of row.entries())
      assert.ok(i === j ? v > 0.4 && v < 1.6 : Math.abs(v) < 0.6, `${i},${j}: ${v}`);
});

test('Muon refuses what is not a matrix', () => {
  assert.throws(
    () => new Muon([parameter(1)]),
    (e) => e instanceof ShapeError && /\(1\) is not a matrix/.test(e.message),
  );
});

test('L-BFGS finds the minimum of a narrow valley, resumed halfway', async () => {
  const make = (x: number[]): [Tensor, LBFGS] => {
    const p = tensor(x, { dtype: f64, requiresGrad: true });
    return [p, new LBFGS([p], { maxIter: 6, toleranceChange: 1e-15, lineSearchFn: 'strongWolfe' })];
  };
  // H. Rosenbrock, An automatic method for finding the greatest or least value of a function (1960)
  const closure = (p: Tensor) => (): Tensor => {
    const loss = p.at(1).sub(p.at(0).square()).square().mul(100).add(p.at(0).sub(1).square());
    loss.backward();
    return loss;
  };
  const [p, whole] = make([-1.2, 1]);
  assert.ok(Math.abs((await whole.step(closure(p))) - 24.2) < 1e-9);
  const [q, resumed] = make(Array.from(await p.data(), Number));
  await resumed.loadStateDict(whole.stateDict());
  for (let i = 0; i < 8; i++) {
    await whole.step(closure(p));
    await resumed.step(closure(q));
  }
  assert.deepEqual(await q.data(), await p.data());
  assertClose((await p.data()) as Float64Array, [1, 1], 'the minimum');
  await assert.rejects(
    whole.step(() => 1 as never),
    /what the closure returns is 1, must be a tensor/,
  );
  await assert.rejects(
    resumed.loadStateDict({ direction: zeros([3]) }),
    /'direction' of the state is Tensor\(\(3\)/,
  );
});
