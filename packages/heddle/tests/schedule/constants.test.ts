/** What depends on constants alone runs once, before; the rest reads what it made. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import * as b from '../../src/graph/build.js';
import type { GraphNode } from '../../src/graph/node.js';
import type { KernelIr } from '../../src/kernel/ir/ir.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { buffer } from '../../src/kernel/ir/types.js';
import { defineKernel } from '../../src/kernel/language/language.js';
import { conv2d } from '../../src/ops/conv2d/op.js';
import type { Schedule, StageWork, UnplacedArgument, Work } from '../../src/schedule/launch.js';
import { splitConstants } from '../../src/schedule/passes/constants.js';
import { type PlanSetting, planOf } from '../../src/schedule/plan.js';
import { schedule } from '../../src/schedule/schedule.js';

const cpu: Target = { ...H200, name: 'cpu', model: 'blocks', units: 2, capability: 0 };

const nameOf = (work: StageWork): string => ('kernel' in work ? work.kernel.name : work.library.name);
const names = ({ launches }: Schedule): string[] => launches.map(({ work }) => nameOf(work));

/** x ∗ w, of which w is constant. */
function graph(): { roots: GraphNode[]; constants: Set<number> } {
  const x = b.leaf([2, 3, 8, 8], f32);
  const w = b.leaf([5, 3, 3, 3], f32);
  const y = conv2d(x, w, { padding: 1 });
  return { roots: [y], constants: new Set([1]) };
}

test('weights are packed once', () => {
  const { roots, constants } = graph();
  const whole = schedule(roots, cpu);
  assert.deepEqual(names(whole), ['conv2dPack', 'conv2d']);
  assert.equal(whole.before, undefined);
  const split = schedule(roots, cpu, { constants });
  assert.deepEqual(names(split), ['conv2d']);
  assert.deepEqual(names(split.before!), ['conv2dPack']);
  assert.equal(split.arenaBytes, 0);
  // The packed weights are the leaf after those of the graph.
  assert.deepEqual(split.launches[0]!.args, [{ leaf: 0 }, { leaf: 2 }, { result: 0 }]);
  assert.deepEqual(split.before!.launches[0]!.args, [{ leaf: 1 }, { result: 0 }]);
});

test('nothing is split where nothing is constant, and results are made by each run', () => {
  const { roots } = graph();
  assert.equal(schedule(roots, cpu, { constants: new Set() }).before, undefined);
  const c = b.leaf([64], f32);
  const all = schedule([b.map('exp', c)], cpu, { constants: new Set([0]) });
  assert.equal(all.before, undefined);
  assert.equal(all.launches.length, 1);
});

test('a value that later kernels read is a further leaf, whatever it takes to make it', () => {
  const x = b.leaf([4, 64], f32);
  const c = b.leaf([64, 64], f32);
  const total = b.sum(b.map('exp', b.sum(c, [0])), [1]);
  const y = b.mul(x, b.expand(total, [4, 64]));
  const split = schedule([y], cpu, { constants: new Set([1]) });
  assert.equal(split.launches.length, 1);
  assert.ok(split.before!.launches.length >= 1);
  assert.deepEqual(split.launches[0]!.args.map((place) => Object.entries(place).flat().join(' ')).sort(), [
    'leaf 0',
    'leaf 2',
    'result 0',
  ]);
});

test('scratch memory is kept only if the launches that remain do no more than load from it', () => {
  const memory = { s: buffer(f32), t: buffer(f32) };
  const stage = (kernel: KernelIr, slots: readonly UnplacedArgument[]) => ({
    work: { kernel, grid: [1, 1, 1], block: [1, 1, 1] } as const,
    slots,
  });
  const clear = defineKernel('clear', { s: buffer(f32) }, ({ s }, { blockIdx }) => {
    s[blockIdx.x] = 0;
  });
  const add = defineKernel('add', memory, ({ s, t }, { blockIdx }) => {
    t[blockIdx.x] = t[blockIdx.x] + s[blockIdx.x];
  });
  const copy = defineKernel('copy', memory, ({ s, t }, { blockIdx }) => {
    t[blockIdx.x] = s[blockIdx.x];
  });
  const [x, y] = [b.leaf([1], f32), b.leaf([1], f32)];
  const remaining = (second: Work['stages'][number]): number => {
    const stages = [stage(clear, [{ scratch: 0 }]), second, stage(copy, [{ scratch: 0 }, { node: y }])];
    const work: Work = {
      group: { roots: [y] },
      reads: new Set([x]),
      stages,
      scratch: [{ bytes: 4, from: 0, to: 2 }],
    };
    const setting: PlanSetting = {
      target: cpu,
      updates: new Map(),
      constants: new Set(),
      kernels: true,
      tune: undefined,
    };
    return splitConstants({ ...planOf([y]), work: [work], leaves: [x] }, setting).work[0]!.stages.length;
  };
  assert.equal(remaining(stage(add, [{ node: x }, { scratch: 0 }])), 3);
  assert.equal(remaining(stage(add, [{ scratch: 0 }, { node: x }])), 2);
});
