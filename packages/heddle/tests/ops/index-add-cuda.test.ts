/** The GPU's kernels for rows added up by an index against their composition, in the simulator. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32, i32 } from '../../src/core/dtype.js';
import { call, leaf } from '../../src/graph/build.js';
import { embedding, randint, randn } from '../../src/index.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { type IndexArg, indexAddOp } from '../../src/ops/index-add/op.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import { schedule } from '../../src/schedule/schedule.js';
import { checkInSimulator, noise } from '../kernel/harness.js';

interface Case {
  readonly shape: readonly number[];
  readonly arg: IndexArg;
  readonly index: (i: number) => number;
  /** Long rows are added up in another order than the composition's. */
  readonly tolerance?: number;
}

const CASES: Readonly<Record<string, Case>> = {
  'one chunk, vectors': { shape: [300, 8], arg: { axis: 0, size: 40 }, index: (i) => (i * 7919) % 40 },
  'out of range are left out': { shape: [300, 4], arg: { axis: 0, size: 9 }, index: (i) => (i % 13) - 2 },
  'one for all': { shape: [400, 4], arg: { axis: 0, size: 5 }, index: () => 3 },
  'whole chunks': { shape: [2048, 1], arg: { axis: 0, size: 33 }, index: (i) => (i * 31) % 33 },
  'three chunks, an odd width': { shape: [2100, 3], arg: { axis: 0, size: 50 }, index: (i) => (i * i) % 50 },
  'five chunks, falling': { shape: [4500], arg: { axis: 0, size: 4500 }, index: (i) => 4499 - i },
  'some long rows, an odd width': {
    shape: [1500, 3],
    arg: { axis: 0, size: 4 },
    index: (i) => (i % 3 ? 2 : i % 4),
    tolerance: 5e-5,
  },
  'long rows along the middle': {
    shape: [2, 900, 36],
    arg: { axis: 1, size: 3 },
    index: (i) => (i % 9 ? 1 : 0),
    tolerance: 5e-5,
  },
  'a row longer than an accumulator takes': {
    shape: [600, 257],
    arg: { axis: 0, size: 1 },
    index: () => 0,
    tolerance: 5e-5,
  },
  'an axis in the middle': { shape: [2, 270, 5], arg: { axis: 1, size: 20 }, index: (i) => (i * 11) % 20 },
};

for (const [name, { shape, arg, index, tolerance = 1e-6 }] of Object.entries(CASES))
  test(`indexAdd: ${name}`, () => {
    const values = leaf(shape, f32);
    const positions = leaf([shape[arg.axis]!], i32);
    const data = Int32Array.from({ length: positions.size }, (_, i) => index(i));
    const node = call(indexAddOp, [values, positions], arg);
    checkInSimulator(node, [{ data: noise(values.size, 3) }, { data }], tolerance, SIM_TARGET);
  });

test('the gradient of an embedding adds up what comes back, without a masked copy of it', () => {
  const table = randn([1000, 8], { requiresGrad: true });
  const upstream = randn([600, 8]).realize();
  embedding(randint(0, 1000, [600]).realize(), table.realize())
    .mul(upstream)
    .sum()
    .backward();
  const { launches } = schedule([table.grad!.node], H200);
  assert.deepEqual(new Set(launches.map(({ call }) => call?.op)), new Set(['indexAdd']));
});
