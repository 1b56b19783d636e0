/** On which level each launch runs, and that it needs no others than it says. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import { crossEntropy, jit, manualSeed, nn, optim, tensor, useDevice } from '../../src/index.js';
import type { Target } from '../../src/kernel/ir/target.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { defineKernel } from '../../src/kernel/language/language.js';
import type { Launch } from '../../src/runtime/device.js';
import { openDevice } from '../../src/runtime/registry.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import type { LaunchStep, Work } from '../../src/schedule/launch.js';
import { levelsOf } from '../../src/schedule/passes/levels.js';

const GPU: Target = { ...SIM_TARGET, units: 132 };
const CPU: Target = { ...SIM_TARGET, model: 'blocks' };

/** A step that takes about so many instructions a thread. */
function step(rounds: number, blocks: number, ...needs: LaunchStep[]): LaunchStep {
  const kernel = defineKernel(
    'loop',
    { y: buffer(f32) },
    ({ y }, { threadIdx, ROUNDS }) => {
      for (let i = 0; i < ROUNDS; i++) y[threadIdx.x] = y[threadIdx.x] * 2 + 1;
    },
    { ROUNDS: rounds },
  );
  const launch = { kernel, grid: [blocks, 1, 1], block: [256, 1, 1] } as const;
  const work = { stages: [{ work: launch, slots: [{}] }] } as unknown as Work;
  return { work, stage: 0, needs: new Set(needs) };
}

/** A chain whose third step is long, and beside it what only needs the first. */
function chainWith(
  blocks: number,
  longBlocks = 64,
): { readonly steps: readonly LaunchStep[]; readonly beside: LaunchStep } {
  const first = step(1, 64);
  const second = step(10, 64, first);
  const long = step(5000, longBlocks, second);
  const last = step(10, 64, long);
  const beside = step(1000, blocks, first);
  return { steps: [last, beside, long, second, first], beside };
}

test('what nobody waits for runs beside a long launch that leaves room', () => {
  const { steps, beside } = chainWith(64);
  const levels = levelsOf(steps, GPU);
  assert.deepEqual(
    steps.map((s) => levels.get(s)),
    [3, 2, 2, 1, 0],
  );
  assert.equal(levels.get(beside), 2);
});

test('beside one that fills the GPU a large launch gains nothing, and on a CPU each runs as soon as it can', () => {
  const full = chainWith(4000, 100_000);
  assert.equal(levelsOf(full.steps, GPU).get(full.beside), 1);
  const small = chainWith(64);
  assert.equal(levelsOf(small.steps, CPU).get(small.beside), 1);
});

test('on a CPU what a kernel makes for its next launch is made right before it, and before it is written over', () => {
  const first = step(1, 64);
  const third = step(1, 64, step(1, 64, first));
  const work = { ...third.work, stages: [third.work.stages[0]!, third.work.stages[0]!] };
  const prepare: LaunchStep = { work, stage: 0, needs: new Set([first]) };
  const compute: LaunchStep = { work, stage: 1, needs: new Set([prepare, third]) };
  const levels = levelsOf([first, ...third.needs, third, prepare, compute], CPU);
  assert.deepEqual([levels.get(prepare), levels.get(compute)], [2, 3]);
  const overwriting = step(1, 64, prepare);
  const bounded = levelsOf([first, ...third.needs, third, prepare, compute, overwriting], CPU);
  assert.deepEqual([bounded.get(prepare), bounded.get(overwriting), bounded.get(compute)], [1, 2, 3]);
});

test('nothing runs after what needs it: a side chain goes up as a whole', () => {
  const first = step(1, 64);
  const long = step(5000, 64, step(10, 64, first));
  const last = step(10, 64, step(10, 64, long));
  const side = step(1000, 64, first);
  const update = step(100, 64, side);
  const levels = levelsOf([update, last, long], GPU);
  assert.equal(levels.get(side), 2);
  assert.ok(levels.get(update)! > 2);
  for (const [s, level] of levels) for (const need of s.needs) assert.ok(levels.get(need)! < level);
});

/** Losses of a small network's steps on the simulator, launches in their order or in another. */
async function train(other: boolean): Promise<number[]> {
  useDevice('sim');
  const device = openDevice('sim');
  const compile = device.compile.bind(device);
  device.compile = (launches) => compile(other ? reordered(launches) : launches);
  try {
    manualSeed(3);
    const model = new nn.Sequential(
      new nn.Conv2d(1, 3, 3),
      new nn.ReLU(),
      new nn.MaxPool2d(2),
      new nn.Flatten(),
      new nn.Linear(27, 4),
    );
    const adam = new optim.Adam(model.parameters(), { lr: 0.01 });
    const x = tensor(
      Float32Array.from({ length: 5 * 64 }, (_, i) => Math.sin(i)),
      { shape: [5, 1, 8, 8] },
    );
    const y = tensor(Int32Array.of(0, 1, 2, 3, 0));
    const run = jit(() => {
      const loss = crossEntropy(model.forward(x), y);
      loss.backward();
      adam.step();
      return loss;
    });
    const losses: number[] = [];
    for (let i = 0; i < 3; i++) losses.push(await run().item());
    return losses;
  } finally {
    device.compile = compile;
  }
}

/** As late in the program as possible first, after what they need. */
function reordered(launches: readonly Launch[]): Launch[] {
  const left = new Set(launches.keys());
  const order: Launch[] = [];
  while (left.size > 0) {
    const next = [...left].findLast((i) => launches[i]!.needs!.every((n) => !left.has(n)))!;
    left.delete(next);
    order.push({ ...launches[next]!, needs: undefined });
  }
  return order;
}

test('launches give the same in any order in which each has what it needs', async () => {
  assert.deepEqual(await train(true), await train(false));
});
