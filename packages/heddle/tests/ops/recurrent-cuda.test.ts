/** The GPU's kernels of recurrent networks against their composition, in the simulator: all cells, edges, all ways to cut. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import { call, leaf } from '../../src/graph/build.js';
import { callOf } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import type { Target } from '../../src/kernel/ir/target.js';
import { CELLS, type CellName } from '../../src/ops/recurrent/cells.js';
import { recurrentGradientOp, recurrentOp } from '../../src/ops/recurrent/op.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import { checkInSimulator, identity, ioFor, kernelOf, noise } from '../kernel/harness.js';

/** All steps of a layer, and its gradient. */
function nodesOf(cell: CellName, steps: number, rows: number, size: number): GraphNode[] {
  const { gates, states } = CELLS[cell];
  const of = (...shape: number[]): GraphNode => leaf(shape, f32);
  const products = (): GraphNode => of(steps, rows, gates * size);
  const all = (): GraphNode => of(steps, rows, states * size);
  const first = [of(rows, size), of(rows, size)];
  return [
    call(recurrentOp, [products(), of(size, gates * size), of(gates * size), ...first], { cell }),
    call(recurrentGradientOp, [all(), all(), products(), products(), of(gates * size, size), ...first], {
      cell,
    }),
  ];
}

const check = (node: GraphNode, target: Target): void =>
  checkInSimulator(
    node,
    node.src.map(({ size }, i) => ({ data: noise(size, i + 1) })),
    1e-5,
    target,
  );

/** Too little shared memory for all of K: copies follow each other. */
const narrow: Target = { ...SIM_TARGET, limits: { ...SIM_TARGET.limits, sharedBytesPerBlock: 12 * 1024 } };

for (const cell of ['tanh', 'relu', 'gru', 'lstm'] as const) {
  test(`${cell}, 3 steps of 5 rows of 6 features`, () => {
    for (const node of nodesOf(cell, 3, 5, 6)) check(node, SIM_TARGET);
  });
}
test('lstm, 2 steps of 3 rows of 100 features, one copy after the other', () => {
  for (const node of nodesOf('lstm', 2, 3, 100)) check(node, narrow);
});

test('tanh, 2 steps of 3 rows of 184 features, two rows and some of the weights in shared memory of a block', () => {
  for (const node of nodesOf('tanh', 2, 3, 184)) check(node, { ...SIM_TARGET, units: 2 });
});

test('all steps are launches of one kernel', () => {
  for (const node of nodesOf('lstm', 40, 64, 256)) {
    const sources = node.src.map(() => ({ data: new Float32Array() }));
    const io = ioFor(node, sources, SIM_TARGET, identity);
    const stages = kernelOf(node, SIM_TARGET)!.plan(io, callOf(node).arg);
    assert.equal(new Set(stages.map((stage) => 'kernel' in stage && stage.kernel)).size, 1);
  }
});
