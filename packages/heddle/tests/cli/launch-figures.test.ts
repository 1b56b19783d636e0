/** What a profile says of launches on tensor cores, of plans for an H200: no time is measured. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { figuresOf, type LaunchFigures } from '../../src/cli/launch-figures.js';
import { bf16, type DType, f16, f32, i8 } from '../../src/core/dtype.js';
import { launchesOf } from '../../src/engine/program.js';
import * as b from '../../src/graph/build.js';
import type { GraphNode } from '../../src/graph/node.js';
import { H200 } from '../../src/kernel/ir/target.js';
import { matmulIntegerOp } from '../../src/ops/integers/op.js';
import { matmul } from '../../src/ops/matmul/op.js';
import { schedule } from '../../src/schedule/schedule.js';

const TARGET = { ...H200, libraries: new Set<string>() };
const MEASURED = { copy: 4000, products: { f32: 50_000, tf32: 400_000, bf16: 800_000, f16: 800_000 } };

/** As a profile in which each launch takes 1 ms. */
function figures(root: GraphNode): readonly LaunchFigures[] {
  const plan = schedule([root], TARGET);
  const leaves = new Set(
    plan.launches.flatMap(({ args }) => args.flatMap((a) => ('leaf' in a ? [a.leaf] : []))),
  );
  const profiles = launchesOf(plan, leaves.size).map((launch, i) => {
    const { level, bytes, call, origins = [] } = plan.launches[i]!;
    return { launch, level, bytes, call, origins, us: 1000 };
  });
  return figuresOf(profiles, MEASURED, TARGET).launches;
}

const leaf = (dtype: DType, ...shape: number[]): GraphNode => b.leaf(shape, dtype, false);
const product = (
  dtype: DType,
  m: number,
  k: number,
  n: number,
  precision: 'f32' | 'tf32' = 'f32',
): GraphNode => matmul(leaf(dtype, m, k), leaf(dtype, k, n), precision);

const KINDS: Readonly<Record<string, GraphNode>> = {
  bf16: product(bf16, 2048, 1024, 2048),
  f16: product(f16, 2048, 1024, 2048),
  tf32: product(f32, 2048, 1024, 2048, 'tf32'),
  i8: b.call(matmulIntegerOp, [leaf(i8, 2048, 1024), leaf(i8, 2048, 1024)], { positive: false }),
};

for (const [kind, root] of Object.entries(KINDS))
  test(`a product in ${kind} is compared with what products in ${kind} reach`, () => {
    const [launch, ...others] = figures(root);
    assert.deepEqual(others, []);
    assert.equal(launch!.precision, kind);
    assert.equal(launch!.flops, 2 * 2048 * 1024 * 2048);
    const rate = (launch!.flops! / 1e6 / (MEASURED.products as Record<string, number>)[kind]!) as number;
    const expected = kind === 'i8' ? 1 : rate;
    assert.ok(Math.abs(launch!.ofRoofline - expected) < 1e-3, `${launch!.ofRoofline}, not ${expected}`);
  });

test('of a product in parts, the parts have the operations, not their sum', () => {
  const launches = figures(product(bf16, 64, 65_536, 256));
  assert.ok(launches.length === 2, launches.map(({ name }) => name).join());
  const [parts, sum] = launches as [LaunchFigures, LaunchFigures];
  const all = 2 * 64 * 65_536 * 256;
  assert.ok(Math.abs(parts.flops! + sum.flops! - all) < 1);
  assert.ok(sum.flops! < all / 100, `${sum.flops} of ${all}`);
});
