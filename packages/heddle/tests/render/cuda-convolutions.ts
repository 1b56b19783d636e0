/** The convolution and pooling kernels for GPUs for a few kinds of shapes. */
import { bf16, type DType, f16, f32, i8 } from '../../src/core/dtype.js';
import type { Precision } from '../../src/core/precision.js';
import type { Shape } from '../../src/core/shape.js';
import { call, full, leaf, map } from '../../src/graph/build.js';
import { callOf } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import type { KernelIr } from '../../src/kernel/ir/ir.js';
import type { Target } from '../../src/kernel/ir/target.js';
import { conv2dInputOp, conv2dOp, conv2dWeightOp, outputSize } from '../../src/ops/conv2d/op.js';
import {
  maxPool2dGradientOp,
  maxPool2dOp,
  maxPool2dPositionsOp,
  type PoolArg,
  pooledSize,
} from '../../src/ops/max-pool2d/op.js';
import { positionDtype } from '../../src/ops/max-pool2d/problem.js';
import { dequantizeOp, quantizeOp } from '../../src/ops/quantize/op.js';
import type { Tune } from '../../src/schedule/passes/tuning.js';
import { schedule } from '../../src/schedule/schedule.js';
import { identity, ioFor, kernelOf } from '../kernel/harness.js';
import {
  type ConvolutionCase,
  conv,
  LAST_CASES,
  LAST_DEPTHWISE,
  lastCall,
} from '../ops/convolution-cases.js';

const KINDS: readonly ConvolutionCase[] = [
  conv('few channels', [4, 3, 8], 30, 5, { padding: 2 }),
  conv('many channels', [4, 32, 64], 16, 3, { padding: 1 }),
  conv('strided, dilated, in groups', [2, 12, 20], [17, 23], [3, 2], {
    stride: [2, 3],
    dilation: 2,
    groups: 2,
  }),
  conv('depthwise', [300, 4, 4], [2, 8], 3, { padding: 1, groups: 4 }),
];

/** How each of them is computed. */
const WAYS: readonly (readonly (readonly [Precision, DType])[])[] = [
  [
    ['tf32', f32],
    ['tf32', bf16],
  ],
  [
    ['f32', f32],
    ['tf32', f32],
    ['tf32', f16],
  ],
  [['tf32', f32]],
  [['tf32', bf16]],
];

const WINDOWS: readonly PoolArg[] = [
  { size: [12, 12], kernel: [2, 2], stride: [2, 2], padding: [0, 0], dilation: [1, 1] },
  { size: [13, 11], kernel: [3, 3], stride: [2, 2], padding: [1, 1], dilation: [1, 1] },
];

/** The kernels of a convolution and both results of its pooling, in the first and the last way. */
function pooledKernels(y: GraphNode, target: Target, label: string): KernelIr[] {
  const [height, width] = y.shape.slice(2) as [number, number];
  const arg = {
    ...{ size: [height, width], kernel: [2, 2], stride: [2, 2], padding: [0, 0], dilation: [1, 1] },
  } satisfies PoolArg;
  const roots = [call(maxPool2dOp, [y], arg), call(maxPool2dPositionsOp, [y], arg)];
  return [0, -1].flatMap((at, way) => {
    const tune: Tune = (requests) => requests.map(({ variants }) => variants.at(at)?.name);
    return schedule(roots, target, { tune }).launches.flatMap(({ work }): KernelIr[] =>
      'kernel' in work ? [{ ...work.kernel, name: `${work.kernel.name}_${label}_${way}` }] : [],
    );
  });
}

/** The kernels of the first and of the last way to compute `node`. */
function kernelsOf(node: GraphNode, target: Target, label: string): KernelIr[] {
  const { op, arg } = callOf(node);
  const choice = kernelOf(node, target)!;
  const io = ioFor(
    node,
    node.src.map(() => ({ data: new Float32Array() })),
    target,
    identity,
  );
  const ways = choice.variants?.(io, arg) ?? [{ name: '', plan: () => choice.plan(io, arg) }];
  return [ways[0]!, ...ways.slice(1).slice(-1)].flatMap(({ plan }, way) =>
    plan().flatMap((stage): KernelIr[] =>
      'kernel' in stage ? [{ ...stage.kernel, name: `${stage.kernel.name}_${op.name}_${label}_${way}` }] : [],
    ),
  );
}

/** Convolutions of bytes with a bias, a residual, ReLU and the rounding to the next bytes, and with the sums of zero points. */
function bytesKernels(target: Target): KernelIr[] {
  const bytes = (shape: Shape): GraphNode => leaf(shape, i8);
  const scale = leaf([], f32);
  const [x, w, residual] = [bytes([2, 24, 9, 7]), bytes([32, 24, 3, 3]), bytes([2, 32, 9, 7])];
  const of = (q: GraphNode, ...zero: GraphNode[]): GraphNode => call(dequantizeOp, [q, scale, ...zero], null);
  const { arg } = conv('bytes', [2, 24, 32], [9, 7], 3, { padding: 1 });
  const sums = map('add', call(conv2dOp, [of(x), of(w)], arg), of(residual));
  const rounded = call(quantizeOp, [map('max', sums, full(sums.shape, f32, 0)), scale], { dtype: 'i8' });
  const shifted = call(conv2dOp, [of(x, leaf([], i8)), of(w, leaf([], i8))], arg);
  return [rounded, shifted].flatMap((root, i) =>
    schedule([root], target).launches.flatMap(({ work }, j): KernelIr[] =>
      'kernel' in work ? [{ ...work.kernel, name: `${work.kernel.name}_bytes_${i}_${j}` }] : [],
    ),
  );
}

export function convolutionKernels(target: Target): KernelIr[] {
  const convolutions = KINDS.flatMap(({ n, c, o, arg: sizes }, kind) =>
    WAYS[kind]!.flatMap(([precision, dtype]) => {
      const arg = { ...sizes, precision };
      const x = leaf([n, c, ...arg.size], dtype);
      const w = leaf([o, c / arg.groups, ...arg.kernel], dtype);
      const y = leaf([n, o, ...outputSize(arg)], dtype);
      const label = `${kind}_${precision}_${dtype.name}`;
      return [
        ...kernelsOf(call(conv2dOp, [x, w], arg), target, label),
        ...kernelsOf(call(conv2dInputOp, [y, w], arg), target, label),
        ...kernelsOf(call(conv2dWeightOp, [x, y], arg), target, label),
        ...pooledKernels(call(conv2dOp, [x, w], arg), target, label),
      ];
    }),
  );
  const last = [...LAST_CASES.slice(0, 2), ...LAST_DEPTHWISE.slice(0, 3)].flatMap(
    ({ n, c, o, arg }, kind) => {
      const dtype = [bf16, f16, bf16, f32, f16][kind]!;
      const x = leaf([n, c, ...arg.size], dtype);
      const w = leaf([o, c / arg.groups, ...arg.kernel], dtype);
      const y = leaf([n, o, ...outputSize(arg)], dtype);
      return [
        ...kernelsOf(lastCall(conv2dOp, [x, w], arg, target), target, `last_${kind}`),
        ...kernelsOf(lastCall(conv2dInputOp, [y, w], arg, target), target, `last_${kind}`),
        ...kernelsOf(lastCall(conv2dWeightOp, [x, y], arg, target), target, `last_${kind}`),
      ];
    },
  );
  // Sums that are stored so often that they become variables.
  const many = conv('7×7 of 96 channels', [64, 96, 96], [56, 56], 7, { groups: 96, padding: 3 });
  const manyTaps = kernelsOf(
    lastCall(conv2dOp, [leaf([64, 96, 56, 56], bf16), leaf([96, 1, 7, 7], bf16)], many.arg, target),
    target,
    'last_many',
  );
  const pools = WINDOWS.flatMap((arg, kind) =>
    [f32, bf16, f16].flatMap((dtype) => {
      const label = `${kind}_${dtype.name}`;
      const x = leaf([2, 4, ...arg.size], dtype);
      const g = leaf([2, 4, ...pooledSize(arg)], dtype);
      const at = leaf(g.shape, positionDtype(arg));
      const pools = [
        [maxPool2dOp, [x]],
        [maxPool2dPositionsOp, [x]],
        [maxPool2dGradientOp, [at, g]],
      ] as const;
      return pools.flatMap(([op, sources]) => [
        ...kernelsOf(call(op, sources, arg), target, label),
        ...kernelsOf(lastCall(op, sources, arg, target), target, label),
      ]);
    }),
  );
  const ofBytes = WINDOWS.flatMap((arg, kind) =>
    kernelsOf(lastCall(maxPool2dOp, [leaf([2, 16, ...arg.size], i8)], arg, target), target, `${kind}_i8`),
  );
  return [...convolutions, ...last, ...manyTaps, ...bytesKernels(target), ...pools, ...ofBytes];
}
