/** The GPU's convolution kernels against their compositions, in the simulator. */
import { test } from 'node:test';
import { f32 } from '../../src/core/dtype.js';
import type { Precision } from '../../src/core/precision.js';
import { call, leaf } from '../../src/graph/build.js';
import type { FusedOp, KernelIo, Stage } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import {
  addParts,
  convolveWeight,
  partsOf,
  type WeightTile,
} from '../../src/ops/conv2d/cuda-weight-gradient.js';
import {
  type Conv2dArg,
  conv2dInputOp,
  conv2dOp,
  conv2dWeightOp,
  outputSize,
} from '../../src/ops/conv2d/op.js';
import { convolveProblem, weightGradientProblem } from '../../src/ops/conv2d/problem.js';
import { type ConvolveTensorTile, convolveTensor } from '../../src/ops/conv2d/tensor-core.js';
import {
  convolveWeightTensor,
  tensorParts,
  type WeightTensorTile,
} from '../../src/ops/conv2d/tensor-core-weight-gradient.js';
import { gridStage } from '../../src/ops/stage.js';
import { SIM_TARGET } from '../../src/runtime/sim/launch.js';
import { checkInSimulator, noise } from '../kernel/harness.js';
import { CASES, type ConvolutionCase, conv } from './convolution-cases.js';

const WINOGRAD = [
  conv('3×3 of many channels', [2, 9, 17], [6, 7], 3, { padding: 1 }),
  conv('3×3 of many channels in groups', [1, 32, 32], [5, 4], 3, { padding: [0, 2], groups: 2 }),
];

/** Values that tf32 holds exactly, so that all ways must agree. */
const coarse = (n: number, seed: number): Float32Array =>
  noise(n, seed).map((v) => Math.round(v * 256) / 256);

function check({ name, n, c, o, arg: exact }: ConvolutionCase, precision: Precision): void {
  const arg = { ...exact, precision };
  const x = leaf([n, c, ...arg.size], f32);
  const w = leaf([o, c / arg.groups, ...arg.kernel], f32);
  const y = leaf([n, o, ...outputSize(arg)], f32);
  const ops: [FusedOp<Conv2dArg>, GraphNode, GraphNode][] = [
    [conv2dOp, x, w],
    [conv2dInputOp, y, w],
    [conv2dWeightOp, x, y],
  ];
  for (const [op, a, b] of ops) {
    const sources = [{ data: coarse(a.size, 3) }, { data: coarse(b.size, 4) }];
    test(`${op.name} ${name} ${precision}`, () =>
      checkInSimulator(call(op, [a, b], arg), sources, 1e-5, SIM_TARGET));
  }
}

/** The op with one kernel. */
const planned = (
  op: FusedOp<Conv2dArg>,
  plan: (io: KernelIo, arg: Conv2dArg) => Stage[],
): FusedOp<Conv2dArg> => ({
  ...op,
  kernels: [{ name: op.name, when: () => true, finishes: true, plan }],
});

/** Tiles whose channels come in several pieces, and blocks that sum several tiles: the next is copied meanwhile. */
function checkPieces(
  { name, n, c, o, arg }: ConvolutionCase,
  tile: ConvolveTensorTile,
  weight: WeightTensorTile,
): void {
  const x = leaf([n, c, ...arg.size], f32);
  const w = leaf([o, c / arg.groups, ...arg.kernel], f32);
  const y = leaf([n, o, ...outputSize(arg)], f32);
  const sources = (a: GraphNode, b: GraphNode) => [{ data: coarse(a.size, 3) }, { data: coarse(b.size, 4) }];
  const args = [{ input: 0 }, { input: 1 }] as const;
  for (const adjoint of [false, true]) {
    const op = planned(adjoint ? conv2dInputOp : conv2dOp, (io, of) => [
      gridStage(convolveTensor(convolveProblem(io, of, adjoint), tile), ...args, { output: true }),
    ]);
    const from = adjoint ? y : x;
    test(`${op.name} ${name}, in pieces`, () =>
      checkInSimulator(call(op, [from, w], arg), sources(from, w), 1e-5, SIM_TARGET));
  }
  const op = planned(conv2dWeightOp, (io, of) => {
    const problem = weightGradientProblem(io, of);
    const layout = tensorParts(problem, weight);
    const parts = { scratch: 'parts', bytes: 4 * partsOf(problem, weight.splits, layout) };
    return [
      gridStage(convolveWeightTensor(problem, weight), ...args, parts),
      gridStage(addParts(problem, weight.splits, layout), parts, { output: true }),
    ];
  });
  test(`${op.name} ${name}, in pieces`, () =>
    checkInSimulator(call(op, [x, y], arg), sources(x, y), 1e-5, SIM_TARGET));
}

checkPieces(
  conv('many channels', [3, 20, 24], [6, 5], 3, { padding: 1 }),
  { images: 2, rows: 4, columns: 5, channels: 8, warps: [1, 2, 2], each: [1, 2], stages: 3 },
  { images: 1, rows: 4, columns: 5, channels: 8, warps: [2, 1, 2], each: [1, 2], splits: 2, stages: 2 },
);
checkPieces(
  conv('few channels', [3, 5, 7], [6, 5], [3, 2], { stride: [1, 2], padding: 1 }),
  { images: 1, rows: 3, columns: 5, channels: 2, warps: [1, 1, 3], each: [1, 1], stages: 2 },
  { images: 1, rows: 4, columns: 4, channels: 3, warps: [1, 1, 2], each: [1, 2], splits: 2, stages: 3 },
);

test('the weight gradient of more pixels than an accumulator takes', () => {
  const { arg } = conv('long', [1, 1, 2], [80, 64], 1);
  const op = planned(conv2dWeightOp, (io, of) => {
    const problem = weightGradientProblem(io, of);
    const tile: WeightTile = {
      ...{ images: 1, rows: 4, columns: 32, channels: 1, threads: [2, 16], each: [1, 1], splits: 1 },
    };
    const parts = { scratch: 'parts', bytes: 4 * partsOf(problem, 1) };
    return [
      gridStage(convolveWeight(problem, tile), { input: 0 }, { input: 1 }, parts),
      gridStage(addParts(problem, 1), parts, { output: true }),
    ];
  });
  const [x, y] = [leaf([1, 1, 80, 64], f32), leaf([1, 2, 80, 64], f32)];
  const sources = [{ data: coarse(x.size, 3) }, { data: coarse(y.size, 4) }];
  checkInSimulator(call(op, [x, y], arg), sources, 1e-5, SIM_TARGET);
});

for (const each of CASES) check(each, 'tf32');
for (const each of [...CASES.slice(-2), ...WINOGRAD]) check(each, 'f32');
