/** Results that are written over what they are made of: memory is saved, nothing else changes, and faults are found. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { bf16, type DType, f32, i32 } from '../../src/core/dtype.js';
import { InternalError } from '../../src/core/errors.js';
import { launchesOf, resultBytes } from '../../src/engine/program.js';
import { encode } from '../../src/engine/realize.js';
import * as b from '../../src/graph/build.js';
import type { GraphNode } from '../../src/graph/node.js';

import { crossEntropy, crossEntropyGradientOp } from '../../src/ops/cross-entropy/op.js';
import { matmul } from '../../src/ops/matmul/op.js';
import { softmax } from '../../src/ops/softmax/op.js';
import { standardize } from '../../src/ops/standardize/op.js';
import type { Device } from '../../src/runtime/device.js';
import { openDevice } from '../../src/runtime/registry.js';
import type { Schedule } from '../../src/schedule/launch.js';
import { fingerprint } from '../../src/schedule/passes/canonical.js';
import type { Plan, PlanPass } from '../../src/schedule/plan.js';
import { PASSES, schedule } from '../../src/schedule/schedule.js';
import { property } from '../property.js';

process.env.HEDDLE_CHECK = '1';

const APART = PASSES.filter(({ name }) => name !== 'overwrites');

/** The passes, one of which makes something else. */
const changed = (name: string, change: (made: Partial<Plan>, plan: Plan) => Partial<Plan>): PlanPass[] =>
  PASSES.map((pass) =>
    pass.name === name ? { ...pass, run: (plan, ...more) => change(pass.run(plan, ...more), plan) } : pass,
  );

/** Of a leaf: numbers that repeat late, or labels, the last of them outside. */
function valuesOf({ dtype, size }: GraphNode, classes: number): Uint8Array {
  const number = (i: number): number => Math.sin(i * 1.7 + size) * 2;
  const label = (i: number): number => (i === size - 1 ? classes : (i * 7) % classes);
  return encode(
    Float64Array.from({ length: size }, (_, i) => (dtype === i32 ? label(i) : number(i))),
    dtype,
  );
}

/** The bytes of all results of a schedule on a device. */
async function run(
  made: Schedule,
  roots: readonly GraphNode[],
  device: Device,
  classes: number,
): Promise<Uint8Array[]> {
  const { leaves } = fingerprint(roots);
  const inputs = leaves.map((leaf) => {
    const own = device.allocate(Math.max(4, leaf.size * leaf.dtype.bytes), 'leaf');
    device.write(own, valuesOf(leaf, classes));
    return own;
  });
  const results = resultBytes(made).map((bytes) => device.allocate(bytes, 'result'));
  const arena = device.allocate(Math.max(4, made.arenaBytes), 'arena');
  const all = [...inputs, ...results, arena];
  const program = device.compile(launchesOf(made, leaves.length));
  program.run(all);
  const read: Uint8Array[] = [];
  for (const result of results) read.push((await device.read(result)).slice());
  program.dispose();
  for (const own of all) device.free(own);
  return read;
}

/** What a step makes of a matrix, and what else it makes, which is a result. */
type Step = (x: GraphNode, labels: GraphNode, first: GraphNode) => readonly [GraphNode, ...GraphNode[]];

const flipped = (x: GraphNode, axis: 0 | 1): GraphNode =>
  b.slice(
    x,
    x.shape.map((d, i) => (i === axis ? d - 1 : 0)),
    x.shape,
    x.shape.map((_, i) => (i === axis ? -1 : 1)),
  );
const ofRow = (x: GraphNode, row: GraphNode): GraphNode =>
  b.expand(b.reshape(row, [x.shape[0]!, 1]), x.shape);
const scaled = (x: GraphNode, by: number): GraphNode => b.mul(x, b.like(x, by));
const picked = (x: GraphNode, labels: GraphNode): GraphNode =>
  b.gather(x, b.reshape(labels, [labels.size, 1]), 1);

const STEPS: Readonly<Record<string, Step>> = {
  elementwise: (x, _, first) => [b.add(scaled(x, 0.5), b.cast(first, x.dtype))],
  softmax: (x) => [softmax(x, 1, false)],
  'scaled softmax': (x) => [scaled(softmax(scaled(x, 3), 1, false), 4)],
  norm: (x) => [standardize(x, [1], 1e-5)],
  'loss and gradient': (x, labels) => [
    scaled(b.call(crossEntropyGradientOp, [x, labels], null), 2),
    crossEntropy(x, labels),
  ],
  'row, and its sums': (x) => {
    const sums = b.sum(x, [1]);
    return [b.add(x, ofRow(x, scaled(sums, 0.01))), sums];
  },
  'with a gathered element': (x, labels) => [b.add(softmax(x, 1, false), ofRow(x, picked(x, labels)))],
  'less than its gathered probability': (x, labels) => {
    const p = softmax(x, 1, false);
    return [b.sub(p, ofRow(p, picked(p, labels)))];
  },
  'of columns': (x) => {
    const sums = b.reshape(b.sum(x, [0]), [1, x.shape[1]!]);
    return [b.sub(x, b.expand(scaled(sums, 0.1), x.shape))];
  },
  'from below': (x) => [b.add(x, scaled(flipped(x, 0), 0.5))],
  'from behind': (x) => [b.add(x, scaled(flipped(x, 1), 0.5))],
  turned: (x) => [b.add(x, b.reshape(b.permute(x, [1, 0]), x.shape))],
  product: (x) => [b.add(matmul(x, b.leaf([x.shape[1]!, x.shape[1]!], x.dtype)), x)],
  'in bf16': (x) => [b.cast(x, bf16)],
  'in f32': (x) => [b.cast(x, f32)],
};

interface Chain {
  readonly rows: number;
  readonly columns: number;
  readonly steps: readonly string[];
}

/** The last matrix, and all that steps make besides. */
function rootsOf({ rows, columns, steps }: Chain, dtype: DType = f32): GraphNode[] {
  const [first, labels] = [b.leaf([rows, columns], dtype), b.leaf([rows], i32)];
  const others: GraphNode[] = [];
  let x = first;
  for (const name of steps) {
    if (name === 'product' && columns > 100) continue;
    const [made, ...more] = STEPS[name]!(x, labels, first);
    x = made;
    others.push(...more);
  }
  return [x, ...others];
}

const chain: fc.Arbitrary<Chain> = fc.record({
  rows: fc.constantFrom(1, 3, 8, 17, 40),
  columns: fc.constantFrom(2, 5, 16, 33, 64, 100, 516, 1030),
  steps: fc.array(fc.constantFrom(...Object.keys(STEPS)), { minLength: 2, maxLength: 8 }),
});

for (const name of ['cpu', 'sim'])
  property(
    `${name}: results written over what they are made of are the same, bit for bit`,
    [chain],
    async (made) => {
      const device = openDevice(name);
      const roots = rootsOf(made);
      const [over, apart] = [PASSES, APART].map((passes) => schedule(roots, device.target, {}, passes)) as [
        Schedule,
        Schedule,
      ];
      assert.ok(over.arenaBytes <= apart.arenaBytes);
      if (over.arenaBytes === apart.arenaBytes) return;
      const expected = await run(apart, roots, device, made.columns);
      assert.deepEqual(await run(over, roots, device, made.columns), expected);
    },
    { runs: name === 'cpu' ? 60 : 40 },
  );

/** The loss of each row of logits, and the gradient of what these are made with. */
function lossAndGradient(rows: number, columns: number, dtype: DType): GraphNode[] {
  const [x, w, labels] = [b.leaf([rows, 4], dtype), b.leaf([4, columns], dtype), b.leaf([rows], i32)];
  const logits = matmul(x, w);
  const gradient = b.call(crossEntropyGradientOp, [logits, labels], null);
  return [crossEntropy(logits, labels), matmul(b.transpose(x), gradient)];
}

test('the gradient of the logits is written over the logits: rows of registers, of a block, of a cluster', async () => {
  const device = openDevice('sim');
  const target = { ...device.target, units: 1 };
  const blocks: number[] = [];
  for (const [rows, columns, dtype] of [
    [5, 516, f32],
    [2, 3000, bf16],
    [2, 17_000, bf16],
  ] as const) {
    const roots = lossAndGradient(rows, columns, dtype);
    const [over, apart] = [schedule(roots, target), schedule(roots, target, {}, APART)];
    const bytes = rows * columns * dtype.bytes;
    assert.ok(apart.arenaBytes >= 2 * bytes && over.arenaBytes < 2 * bytes, `${rows} × ${columns}`);
    assert.equal(over.launches.length, apart.launches.length);
    const { work } = over.launches[1]!;
    blocks.push('kernel' in work ? (work.cluster?.[0] ?? 1) : 0);
    assert.deepEqual(await run(over, roots, device, columns), await run(apart, roots, device, columns));
  }
  assert.ok(blocks[0] === 1 && blocks[2]! > 1, `blocks of a row: ${blocks}`);
});

/** A matrix that is made of a product and of its rows from below: over that product, a block would read what another has stored. */
function racing(): GraphNode[] {
  const y = matmul(b.leaf([40, 8], f32), b.leaf([8, 64], f32));
  const z = softmax(b.add(y, flipped(y, 0)), 1, false);
  return [matmul(z, b.leaf([64, 8], f32))];
}

const claimed = (plan: Plan): Partial<Plan> => {
  const matrices = plan.work.flatMap(({ group }) =>
    group.roots.filter(({ shape }) => shape.join() === '40,64'),
  );
  return { overwrites: new Map([[matrices[1]!, matrices[0]!]]) };
};

test('memory of what a launch reads elsewhere than it stores is its own: a wrong claim is a race', async () => {
  const device = openDevice('sim');
  const roots = racing();
  const right = schedule(roots, device.target);
  assert.equal(right.arenaBytes, 2 * 40 * 64 * 4);
  await run(right, roots, device, 64);
  const wrong = schedule(
    roots,
    device.target,
    {},
    changed('overwrites', (_, plan) => claimed(plan)),
  );
  assert.equal(wrong.arenaBytes, 40 * 64 * 4);
  await assert.rejects(run(wrong, roots, device, 64), /a race on/);
});

test('HEDDLE_CHECK=1 finds a launch that writes over what it uses and may not', () => {
  const passes = changed('place', (made) => ({
    ...made,
    launches: made.launches!.map((l) => ({
      ...l,
      touches: l.touches.map(({ over: _, ...touch }) => touch),
    })),
  }));
  const roots = lossAndGradient(40, 3000, f32);
  const target = openDevice('sim').target;
  assert.ok(schedule(roots, target).arenaBytes < schedule(roots, target, {}, APART).arenaBytes);
  assert.throws(
    () => schedule(roots, target, {}, passes),
    (error) => error instanceof InternalError && /after place: .* over what it uses/.test(error.message),
  );
});

test('HEDDLE_CHECK=1 finds what is written over and still read', () => {
  const y = matmul(b.leaf([40, 8], f32), b.leaf([8, 64], f32));
  const z = softmax(b.add(y, flipped(y, 0)), 1, false);
  const roots = [matmul(z, b.leaf([64, 8], f32)), matmul(b.add(flipped(z, 1), y), b.leaf([64, 8], f32))];
  assert.throws(
    () =>
      schedule(
        roots,
        openDevice('sim').target,
        {},
        changed('overwrites', (_, plan) => claimed(plan)),
      ),
    (error) => error instanceof InternalError && /which holds something else/.test(error.message),
  );
});
