/** The GPU's convolution kernels against their compositions, in the simulator. */
import { test } from 'node:test';
import { bf16, type DType, f16, f32 } from '../../src/core/dtype.js';
import { toBf16, toF16 } from '../../src/core/float16.js';
import type { Precision } from '../../src/core/precision.js';
import { call, leaf } from '../../src/graph/build.js';
import type { FusedOp, KernelIo, Stage } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import type { Target } from '../../src/kernel/ir/target.js';
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
import { checkInSimulator, noise, type Source } from '../kernel/harness.js';
import {
  CASES,
  type ConvolutionCase,
  conv,
  LAST_CASES,
  LAST_DEPTHWISE,
  lastCall,
} from './convolution-cases.js';

const WINOGRAD = [
  conv('3×3 of many channels', [2, 9, 17], [6, 7], 3, { padding: 1 }),
  conv('3×3 of many channels in groups', [1, 32, 32], [5, 4], 3, { padding: [0, 2], groups: 2 }),
];

/** Values that tf32 and 16-bit floats hold exactly, so that all ways must agree. */
function coarse({ size, dtype }: GraphNode, seed: number): Source {
  const values = noise(size, seed).map((v) => Math.round(v * 256) / 256);
  if (dtype === f32) return { data: values };
  return { data: Uint16Array.from(values, dtype === f16 ? toF16 : toBf16) };
}

/** Of f32 what the order of sums changes; of 16-bit floats four roundings: of the sum, and of the marks on it. */
const toleranceOf = (dtype: DType): number =>
  dtype === f32 ? 1e-5 : 4 * (dtype === f16 ? 2 ** -11 : 2 ** -8);

function check(
  { name, n, c, o, arg: exact }: ConvolutionCase,
  precision: Precision,
  dtype: DType = f32,
  target: Target = SIM_TARGET,
): void {
  const arg = { ...exact, precision };
  const x = leaf([n, c, ...arg.size], dtype);
  const w = leaf([o, c / arg.groups, ...arg.kernel], dtype);
  const y = leaf([n, o, ...outputSize(arg)], dtype);
  const ops: [FusedOp<Conv2dArg>, GraphNode, GraphNode][] = [
    [conv2dOp, x, w],
    [conv2dInputOp, y, w],
    [conv2dWeightOp, x, y],
  ];
  for (const [op, a, b] of ops) {
    test(`${op.name} ${name} ${precision} of ${dtype.name}, ${target.capability}`, () =>
      checkInSimulator(call(op, [a, b], arg), [coarse(a, 3), coarse(b, 4)], toleranceOf(dtype), target));
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
  dtype: DType = f32,
): void {
  const x = leaf([n, c, ...arg.size], dtype);
  const w = leaf([o, c / arg.groups, ...arg.kernel], dtype);
  const y = leaf([n, o, ...outputSize(arg)], dtype);
  const compare = (op: FusedOp<Conv2dArg>, a: GraphNode, b: GraphNode): void => {
    test(`${op.name} ${name} of ${dtype.name}, in pieces`, () =>
      checkInSimulator(call(op, [a, b], arg), [coarse(a, 3), coarse(b, 4)], toleranceOf(dtype), SIM_TARGET));
  };
  const args = [{ input: 0 }, { input: 1 }] as const;
  for (const adjoint of [false, true]) {
    const op = planned(adjoint ? conv2dInputOp : conv2dOp, (io, of) => [
      gridStage(convolveTensor(convolveProblem(io, of, adjoint), tile), ...args, { output: true }),
    ]);
    compare(op, adjoint ? y : x, w);
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
  compare(op, x, y);
}

for (const dtype of [f32, bf16]) {
  checkPieces(
    conv('many channels', [3, 20, 24], [6, 5], 3, { padding: 1 }),
    { images: 2, rows: 4, columns: 5, channels: 8, warps: [1, 2, 2], each: [1, 2], stages: 3 },
    { images: 1, rows: 4, columns: 5, channels: 8, warps: [2, 1, 2], each: [1, 2], splits: 2, stages: 2 },
    dtype,
  );
  checkPieces(
    conv('few channels', [3, 5, 7], [6, 5], [3, 2], { stride: [1, 2], padding: 1 }),
    { images: 1, rows: 3, columns: 5, channels: 2, warps: [1, 1, 3], each: [1, 1], stages: 2 },
    { images: 1, rows: 4, columns: 4, channels: 3, warps: [1, 1, 2], each: [1, 2], splits: 2, stages: 3 },
    dtype,
  );
}

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
  checkInSimulator(call(op, [x, y], arg), [coarse(x, 3), coarse(y, 4)], 1e-5, SIM_TARGET);
});

const LAST: readonly (readonly [ConvolutionCase, DType])[] = [
  ...LAST_CASES.map((each, i) => [each, [bf16, f16][i % 2]!] as const),
  ...LAST_DEPTHWISE.map((each, i) => [each, [f32, bf16, f16][i % 3]!] as const),
];
for (const [{ name, n, c, o, arg }, dtype] of LAST) {
  const x = leaf([n, c, ...arg.size], dtype);
  const w = leaf([o, c / arg.groups, ...arg.kernel], dtype);
  const y = leaf([n, o, ...outputSize(arg)], dtype);
  for (const [op, a, b] of [
    [conv2dOp, x, w],
    [conv2dInputOp, y, w],
    [conv2dWeightOp, x, y],
  ] as const) {
    test(`${op.name} with channels last, ${name}, of ${dtype.name}`, () => {
      const node = lastCall(op, [a, b], arg, SIM_TARGET);
      const sources = node.src.map((s, i) => coarse(s, 3 + i));
      checkInSimulator(node, sources, toleranceOf(dtype), SIM_TARGET);
    });
  }
}

for (const each of CASES) check(each, 'tf32');
for (const each of [...CASES.slice(-1), ...WINOGRAD]) check(each, 'f32');
// 16-bit floats: on tensor cores whatever the precision, and on a GPU whose tensor cores have no tf32.
const TURING: Target = { ...SIM_TARGET, capability: 75 };
for (const each of CASES.slice(8, 10)) check(each, 'f32', bf16);
for (const each of CASES.slice(10, 12)) check(each, 'tf32', f16);
for (const each of [CASES[9]!, WINOGRAD[0]!]) check(each, 'f32', f16, TURING);
for (const each of CASES.filter(({ name }) => /depthwise, (rows|two)/.test(name))) check(each, 'tf32', bf16);
