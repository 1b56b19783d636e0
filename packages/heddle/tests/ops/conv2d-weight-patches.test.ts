/** Weight gradients by warpgroups that take pixels in patches: of all shapes in the simulator, larger ones on a GPU. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { bf16, type DType, f16, f32 } from '../../src/core/dtype.js';
import { H200, type Target } from '../../src/kernel/ir/target.js';
import {
  convolveWeightPatches,
  type StepPatchWay,
  weightPatchWay,
} from '../../src/ops/conv2d/warpgroup-weight-patch.js';
import { gridStage } from '../../src/ops/stage.js';
import type { Device } from '../../src/runtime/device.js';
import { closeDevices, openDevice } from '../../src/runtime/registry.js';
import { cudaReason } from '../cases/case-runner.js';
import { runOnDevice } from '../kernel/harness.js';
import { type ConvolutionCase, conv } from './convolution-cases.js';
import { exactly, mustBe, problemOf, stored } from './convolution-check.js';

after(closeDevices);

/** The sum of its parts, beside the exact one. */
async function check(shape: ConvolutionCase, dtype: DType, way: StepPatchWay, on: Device): Promise<void> {
  const exact = exactly(shape, 'weight', dtype);
  const { splits } = way.tile;
  const made = convolveWeightPatches(problemOf(shape, 'weight', dtype), way, 2);
  const size = exact.sums.length;
  const parts = new Float32Array(size * splits).fill(Number.NaN);
  const given = [exact.b, exact.a].map((v) => stored(v, dtype));
  await runOnDevice(on, [gridStage(made, { input: 0 }, { input: 1 }, { output: true })], given, parts);
  const sum = (i: number): number => {
    let total = 0;
    for (let part = 0; part < splits; part++) total += parts[part * size + i]!;
    return total;
  };
  mustBe(exact, sum, 2 ** -22);
}

/** The way that the model takes for a GPU of fewer multiprocessors, with another tile. */
function wayOf(shape: ConvolutionCase, dtype: DType, tile: Partial<StepPatchWay['tile']>): StepPatchWay {
  const target: Target = { ...H200, units: 4 };
  const way = weightPatchWay(problemOf(shape, 'weight', dtype), target)!;
  return { patch: way.patch, tile: { ...way.tile, stages: 2, ...tile } };
}

const padded = { padding: 1 };
const SMALL: readonly (readonly [ConvolutionCase, Partial<StepPatchWay['tile']>])[] = [
  [conv('3×3 with padding', [1, 24, 16], [9, 11], 3, padded), {}],
  [conv('3×3 without padding', [2, 16, 72], [10, 18], 3), {}],
  [conv('more inputs than a tile has', [1, 136, 16], [4, 8], 3, padded), { splits: 1 }],
  [conv('more outputs than a tile has', [1, 16, 136], [4, 8], 3, padded), { splits: 1 }],
  [conv('5×3, dilated', [1, 16, 16], [17, 9], [5, 3], { padding: [2, 1], dilation: [2, 1] }), { splits: 2 }],
  [conv('2×1', [2, 8, 8], [7, 16], [2, 1]), { splits: 3 }],
  [conv('7×2, in pieces', [1, 8, 16], [12, 8], [7, 2], { padding: [3, 0] }), {}],
  [conv('2 groups', [2, 48, 80], [6, 8], 3, { padding: 1, groups: 2 }), { groups: 1 }],
];

for (const [shape, tile] of SMALL)
  for (const dtype of [bf16, f32])
    test(`sim: ${shape.name}, ${dtype.name}`, () =>
      check(shape, dtype, wayOf(shape, dtype, tile), openDevice('sim')));

test('patches reach over the edges of images no farther than they must', () => {
  for (const [height, width] of [
    [16, 8],
    [16, 16],
    [8, 24],
    [32, 32],
    [28, 56],
  ] as const)
    for (const dtype of [bf16, f32]) {
      const { patch } = wayOf(conv('', [4, 64, 64], [height, width], 3, padded), dtype, {});
      assert.equal(patch.down, Math.ceil(height / patch.height));
      assert.equal(patch.across, Math.ceil(width / patch.width));
      assert.ok(patch.down * patch.height * patch.across * patch.width <= 1.15 * height * width);
    }
});

test('one tap in a column, or a stride, has no patches', () => {
  const way = (shape: ConvolutionCase) => weightPatchWay(problemOf(shape, 'weight', bf16), H200);
  assert.equal(way(conv('', [4, 64, 64], 16, 1)), undefined);
  assert.equal(way(conv('', [4, 64, 64], 16, [1, 3])), undefined);
  assert.equal(way(conv('', [4, 64, 64], 16, 3, { stride: 2 })), undefined);
});

const reason = cudaReason();
for (const shape of [
  conv('3×3 of 64', [8, 64, 64], 32, 3, padded),
  conv('3×3 of 24 and 96', [5, 96, 24], [30, 34], 3, padded),
  conv('3×3 of 32', [2, 32, 32], 128, 3, padded),
  conv('3×3 of 128', [9, 128, 136], 16, 3, padded),
  conv('5×5', [3, 48, 200], 21, 5, { padding: 2 }),
  conv('3×3, 4 groups, dilated', [3, 160, 96], 19, 3, { padding: 2, dilation: 2, groups: 4 }),
])
  for (const dtype of [bf16, f16, f32])
    test(`cuda: ${shape.name}, ${dtype.name}`, { skip: reason ? `not run: ${reason}` : false }, () => {
      const on = openDevice('cuda');
      return check(shape, dtype, weightPatchWay(problemOf(shape, 'weight', dtype), on.target)!, on);
    });
