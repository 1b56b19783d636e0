/** Updates of parameters of all sizes in one launch, on the simulator, which watches every access. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bool, f32 } from '../../src/core/dtype.js';
import { stats } from '../../src/engine/program.js';
import * as b from '../../src/graph/build.js';
import {
  type JitValue,
  jit,
  manualSeed,
  optim,
  randn,
  type Tensor,
  tensor,
  useDevice,
} from '../../src/index.js';
import { costOfThread, DURATION } from '../../src/kernel/ir/cost.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { compile } from '../../src/kernel/passes/pipeline.js';
import { renderCuda } from '../../src/render/cuda/render.js';
import { schedule } from '../../src/schedule/schedule.js';

process.env.HEDDLE_CHECK = '1';

const SHAPES = [[40, 30], [30], [7, 5], [3], [2, 1030], [40, 30]];

type Rule = Pick<optim.Optimizer<optim.BaseSettings>, 'step'>;
type When = NonNullable<optim.StepOptions['when']>;
type Make = (params: Tensor[]) => Rule;

/** The parameters after three steps, and how many launches a step has. */
async function trained(make: Make): Promise<{ values: unknown[]; launches: number }> {
  manualSeed(3);
  const params = SHAPES.map((shape) => randn(shape, { requiresGrad: true }).realize() as Tensor);
  const grads = SHAPES.map((shape) => randn(shape).realize() as Tensor);
  const rule = make(params);
  const step = jit((...applied: JitValue[]) => {
    params.forEach((p, i) => {
      p.mul(grads[i]!).sum().backward();
    });
    rule.step({ when: applied[0] as When });
    return [];
  });
  const when = (applied: boolean): When => tensor(applied, { dtype: bool });
  const given = [true, false, true].map(when);
  step(given[0]!);
  const before = stats().launches;
  for (const applied of given.slice(1)) step(applied);
  const launches = (stats().launches - before) / 2;
  return { values: await Promise.all(params.map((p) => p.data())), launches };
}

const half = SHAPES.length / 2;
const RULES: readonly [name: string, launches: number, make: Make][] = [
  ['SGD', 1, (p) => new optim.SGD(p, { lr: 0.1 })],
  ['SGD with momentum', 1, (p) => new optim.SGD(p, { lr: 0.1, momentum: 0.9, nesterov: true })],
  // What all parameters share is computed before, and moves on beside them.
  ['Adam', 3, (p) => new optim.Adam(p, { lr: 0.1 })],
  ['RMSprop', 1, (p) => new optim.RMSprop(p, { lr: 0.1 })],
  ['Adagrad', 1, (p) => new optim.Adagrad(p, { lr: 0.1 })],
  ['Lion', 1, (p) => new optim.Lion(p, { lr: 0.1 })],
];

for (const [name, launches, make] of RULES)
  test(`${name} updates all parameters by one launch, with the bits of one for each`, async () => {
    useDevice('sim');
    const together = await trained(make);
    assert.equal(together.launches, launches);
    const apart = await trained((params) => {
      const rules = params.map((p) => make([p]));
      return {
        step: (options) => {
          for (const rule of rules) rule.step(options);
        },
      };
    });
    assert.deepEqual(together.values, apart.values);
  });

/** Where parts of these sizes begin, one after the other. */
const startsOf = (sizes: readonly number[]): number[] =>
  sizes.map((_, i) => sizes.slice(0, i).reduce((sum, size) => sum + size, 0));

/** The parts of a flat tensor of 4,000 elements: all but the third and the fifth begin at multiples of 16 bytes. */
const PARTS = [1200, 33, 31, 37, 3, 2060];

test('parts of a flat tensor are read from where they begin, by one launch', () => {
  const starts = startsOf(PARTS);
  const lists = (isMade: boolean): unknown[] => {
    const sum = b.reshape(b.reduce('sum', b.leaf([3, 4000], f32, false), [0]), [4000]);
    const flat = isMade ? sum : b.leaf([4000], f32, false);
    const roots = PARTS.map((size, i) =>
      b.map('add', b.leaf([size], f32, false), b.slice(flat, [starts[i]!], [size])),
    );
    return schedule(roots, H200).launches.flatMap(
      ({ work }) => ('kernel' in work && work.kernel.lists) || [],
    );
  };
  assert.deepEqual(lists(true), [4]);
  // A program has an argument's beginning only.
  assert.deepEqual(lists(false), []);
});

test('parts of a flat tensor have the same values in a list', async () => {
  const starts = startsOf(PARTS);
  // Whole numbers, of which all devices make the same sums.
  const numbers = (n: number): Float32Array => Float32Array.from({ length: n }, (_, i) => (i * 7919) % 101);
  const moved = async (device: 'sim' | 'cpu'): Promise<unknown[]> => {
    useDevice(device);
    const x = tensor(numbers(3 * 4000), { shape: [3, 4000] });
    const params = PARTS.map((size) => tensor(numbers(size)));
    const step = jit((rows: Tensor) => {
      const flat = rows.sum(0);
      params.forEach((p, i) => {
        p.assign(p.add(flat.at(`${starts[i]}:${starts[i]! + PARTS[i]!}`)) as Tensor);
      });
      return [];
    });
    step(x);
    return Promise.all(params.map((p) => p.data()));
  };
  assert.deepEqual(await moved('sim'), await moved('cpu'));
});

test('parameters with other settings are another launch', async () => {
  useDevice('sim');
  const { launches } = await trained(
    (p) =>
      new optim.SGD([{ params: p.slice(0, half), weightDecay: 0.1 }, { params: p.slice(half) }], {
        lr: 0.1,
        momentum: 0.9,
      }),
  );
  assert.equal(launches, 2);
});

test('a list is as long as parameters may be, and the text of its kernel does not grow with it', () => {
  const planned = (count: number, parameterBytes: number) => {
    const roots = Array.from({ length: count }, (_, i) => {
      const [x, y] = [b.leaf([3 + i], f32, false), b.leaf([3 + i], f32, false)];
      return b.map('add', x, b.map('mul', y, b.like(y, 2)));
    });
    const target = { ...H200, limits: { ...H200.limits, parameterBytes } };
    return schedule(roots, target).launches.map(({ work }) => {
      assert.ok('kernel' in work);
      return work.kernel;
    });
  };
  // The first block, two sources, the result and the number of elements: 40 bytes each.
  const lists = (count: number, bytes: number) => planned(count, bytes).map((kernel) => kernel.lists);
  assert.deepEqual(lists(20, 4096), [20]);
  assert.deepEqual(lists(20, 330), [8, 8, 4]);
  assert.deepEqual(lists(9, 330), [8, undefined]);
  const text = (count: number): string =>
    renderCuda(compile(planned(count, 32764)[0]!, H200)).replaceAll(/\[\d+\]|step = \d+|< \d+ &&/g, '');
  assert.equal(text(600), text(20));
});

test('the work of a list is estimated by its first arguments', () => {
  const doubled = (size: number) => b.map('mul', b.leaf([size], f32, false), b.leaf([size], f32, false));
  const [launch] = schedule([doubled(40000), doubled(10)], H200).launches;
  assert.ok(launch && 'kernel' in launch.work && launch.work.kernel.lists === 2);
  const cost = costOfThread(launch.work.kernel, { ...launch.work, args: launch.args }, DURATION);
  assert.ok(cost > 10 && cost < 1000, `${cost}`);
});
