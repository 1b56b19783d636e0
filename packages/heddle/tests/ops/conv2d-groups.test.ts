/** Grouped convolutions as Hopper computes them: groups in bundles, and what stands for the op with channels last, in every way. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bf16, type DType, f16, f32, i8 } from '../../src/core/dtype.js';
import { toBf16, toF16 } from '../../src/core/float16.js';
import { call, leaf, permute } from '../../src/graph/build.js';
import { callOf, type FusedOp } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import { bundleOf } from '../../src/ops/conv2d/group-bundles.js';
import {
  type Conv2dArg,
  conv2dInputOp,
  conv2dOp,
  conv2dWeightOp,
  outputSize,
} from '../../src/ops/conv2d/op.js';
import { convolveIntegerOp } from '../../src/ops/integers/op.js';
import { interpret } from '../cases/reference.js';
import { checkInSimulator, kernelOf, noise, type Source } from '../kernel/harness.js';
import { type ConvolutionCase, conv, LAST_GROUPED, lastCall } from './convolution-cases.js';

const target: Target = { ...H200, libraries: new Set<string>(), units: 4 };

/** The op with the sources of each direction. */
function callsOf({ n, c, o, arg }: ConvolutionCase, dtype: DType) {
  const x = leaf([n, c, ...arg.size], dtype);
  const w = leaf([o, c / arg.groups, ...arg.kernel], dtype);
  const y = leaf([n, o, ...outputSize(arg)], dtype);
  const calls: [FusedOp<Conv2dArg>, readonly GraphNode[]][] = [
    [conv2dOp, [x, w]],
    [conv2dInputOp, [y, w]],
    [conv2dWeightOp, [x, y]],
  ];
  return calls;
}

/** Whole numbers, so that sums are exact in any order. */
const whole = (size: number, seed: number): Float32Array => noise(size, seed).map((v) => Math.round(3 * v));

test('bundles fill tiles, and only as many groups are together as that takes', () => {
  const bundle = (groups: number, inputs: number, outputs = inputs, dtype: DType = bf16): number =>
    bundleOf({ shape: [groups * outputs, inputs, 3, 3], dtype }, groups);
  // ResNeXt's.
  assert.deepEqual(
    [4, 8, 16, 32, 64].map((c) => bundle(32, c)),
    [16, 8, 4, 2, 1],
  );
  assert.deepEqual(
    [4, 8, 16, 32].map((c) => bundle(32, c, c, f32)),
    [16, 8, 4, 2],
  );
  // 7 divides no number of groups but all; of 37 groups of 3, none but all together can be copied; of 112, each by itself.
  assert.deepEqual([bundle(7, 8), bundle(37, 3), bundle(11, 112)], [7, 37, 1]);
  assert.deepEqual([bundle(8, 8, 16), bundle(8, 48), bundle(6, 24)], [8, 1, 2]);
});

for (const shape of LAST_GROUPED)
  test(`what stands for ${shape.name} is the same`, () => {
    for (const dtype of [bf16, f32])
      for (const [op, sources] of callsOf(shape, dtype)) {
        const way = op.reordered!(target, call(op, sources, shape.arg), shape.arg)!;
        const made = way.make(sources.map((s) => permute(s, way.order)));
        const given = new Map(sources.map((s, i) => [s, Array.from(whole(s.size, i))]));
        const plain = interpret(permute(op.compose(sources, shape.arg), way.order), given);
        assert.deepEqual(interpret(made, given), plain, `${op.name}, ${dtype.name}`);
      }
  });

function sourceOf({ size, dtype }: GraphNode, seed: number): Source {
  const values = whole(size, seed);
  if (dtype === i8) return { data: Int8Array.from(values) };
  return { data: dtype === f32 ? values : Uint16Array.from(values, dtype === f16 ? toF16 : toBf16) };
}

/** The call on sources that are given. */
function onLeaves(node: GraphNode): GraphNode {
  const { op, arg } = callOf(node);
  return call(
    op,
    node.src.map(({ shape, dtype }) => leaf(shape, dtype)),
    arg,
  );
}

// Marks count the elements of the result: those of f16 as far as images have them here, those of bf16 roughly.
for (const shape of LAST_GROUPED)
  for (const [way, { name }] of [conv2dOp, conv2dInputOp, conv2dWeightOp].entries())
    for (const dtype of [name === conv2dWeightOp.name ? bf16 : f16, f32])
      test(`${name} of ${shape.name}, ${dtype.name}, in every way`, () => {
        const [op, sources] = callsOf(shape, dtype)[way]!;
        const node = onLeaves(lastCall(op, sources, shape.arg, target));
        assert.match(kernelOf(node, target)!.name, /-last$/);
        // A mark on a result rounds it up to four times.
        const unit = { f16: 2 ** -11, bf16: 2 ** -8 }[dtype.name as string] ?? 0;
        checkInSimulator(node, node.src.map(sourceOf), 4 * unit, target);
      });

test('bytes in groups, in every way', () => {
  const { arg } = conv('', [2, 64, 96], [5, 7], 3, { padding: 1, stride: [1, 2], groups: 2 });
  const sources = [leaf([2, 64, 5, 7], i8), leaf([96, 32, 3, 3], i8)];
  const node = onLeaves(lastCall(convolveIntegerOp, sources, { ...arg, positive: false }, target));
  checkInSimulator(node, node.src.map(sourceOf), 0, target);
});

test('groups are left to others where nothing copies their channels, and on GPUs without warpgroups', () => {
  const reorders = (shape: ConvolutionCase, dtype: DType, on: Target): boolean =>
    callsOf(shape, dtype).some(([op, sources]) =>
      Boolean(op.reordered!(on, call(op, sources, shape.arg), shape.arg)),
    );
  const shape = conv('', [1, 64, 64], 4, 3, { padding: 1, groups: 16 });
  assert.ok(reorders(shape, bf16, target) && reorders(shape, f32, target));
  for (const capability of [80, 100]) assert.ok(!reorders(shape, bf16, { ...target, capability }));
  assert.ok(!reorders({ ...shape, arg: { ...shape.arg, precision: 'f32' } }, f32, target));
});

test('a bundle is one group of the op that stands for it', () => {
  const shape = conv('', [1, 128, 128], 4, 3, { padding: 1, groups: 32 });
  for (const [op, sources] of callsOf(shape, bf16)) {
    const { arg } = callOf(lastCall(op, sources, shape.arg, target));
    assert.equal((arg as Conv2dArg).groups, 2);
  }
});
