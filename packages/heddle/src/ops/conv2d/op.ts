/** Convolution of images and its two gradients: three ops that are each other's derivatives. */
import { convolveChoice, reorderedBy, weightChoice } from '#ops/gpu-kernels.js';
import { integerFrom, type Rule, requireArgument } from '../../core/arguments.js';
import { f32, isFloat } from '../../core/dtype.js';
import { DTypeError, ShapeError } from '../../core/errors.js';
import type { Precision } from '../../core/precision.js';
import { formatShape, type Shape } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp, KernelChoice, KernelIo, Stage } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { conv2dOfBytes } from '../integers/dequantized.js';
import { matmul } from '../matmul/op.js';
import { SPREAD, stage } from '../stage.js';
import { type Conv2dArg, outputSize } from './arg.js';
import { convolve, packedWeights, packWeights } from './cpu.js';
import { convolveWeight, paddedSize, padImages } from './cpu-weight.js';
import { convolveProblem, weightGradientProblem } from './problem.js';

export { type Conv2dArg, outputSize } from './arg.js';

/** One number for both, or height and width. */
export type Pair = number | readonly [number, number];

/** Settings of a convolution. */
export interface Conv2dSettings {
  /** Default 1. */
  readonly stride?: Pair;
  /** Zeros around the image, on each side; default 0. */
  readonly padding?: Pair;
  /** Distance between the taps of the kernel; default 1. */
  readonly dilation?: Pair;
  /** Channels in as many separate groups; default 1. */
  readonly groups?: number;
  /** How exactly products are computed, default tf32; bf16 is computed as tf32. */
  readonly precision?: Precision;
}

const around = (rank: number, [h, w]: readonly [number, number]): number[] => [
  ...new Array<number>(rank - 2).fill(0),
  h,
  w,
];

/** (N, C, H, W) → (N, G, 1, C/G, outH, outW, kH, kW) */
function windows(x: GraphNode, arg: Conv2dArg): GraphNode {
  const by = around(4, arg.padding);
  const seen = b.window(b.pad(x, by, by), arg);
  const [n, c, ...rest] = seen.shape as [number, number, ...number[]];
  return b.reshape(seen, [n, arg.groups, 1, c / arg.groups, ...rest]);
}

/** (O, C/G, kH, kW) → (1, G, O/G, C/G, 1, 1, kH, kW) */
const weights = (w: GraphNode, { groups }: Conv2dArg): GraphNode =>
  b.reshape(w, [1, groups, w.shape[0]! / groups, w.shape[1]!, 1, 1, w.shape[2]!, w.shape[3]!]);

/** (N, O, outH, outW) → (N, G, O/G, 1, outH, outW, 1, 1) */
const outputs = (y: GraphNode, { groups }: Conv2dArg): GraphNode =>
  b.reshape(y, [y.shape[0]!, groups, y.shape[1]! / groups, 1, y.shape[2]!, y.shape[3]!, 1, 1]);

/** Each element of y (N, O, outH, outW) is a sum over one output's weights, of w (O, C/G, kH, kW). */
const flops = (y: GraphNode, w: GraphNode): number => 2 * y.size * (w.size / Math.max(1, w.shape[0]!));

/** The CPU's kernels take rows of at least one vector. */
const fitsCpu =
  (width: (arg: Conv2dArg) => number): KernelChoice<Conv2dArg>['when'] =>
  ({ model }, node, arg) =>
    model === 'blocks' && node.dtype === f32 && node.src.every((s) => s.size > 0) && width(arg) >= 4;

/** The stage of a convolution of `x` with `w`, or with `adjoint` of the outputs' gradient with it. */
function convolveStages(io: KernelIo, arg: Conv2dArg, adjoint: boolean): Stage[] {
  const problem = { ...convolveProblem(io, arg, adjoint), leastBlocks: SPREAD * io.target.units };
  const packed = { scratch: 'weights', bytes: 4 * packedWeights(problem) };
  return [
    stage(packWeights(problem), { input: 1 }, packed),
    stage(convolve(problem), { input: 0 }, packed, { output: true }),
  ];
}

/** x (N, C, H, W), w (O, C/G, kH, kW) → (N, O, outH, outW) */
export const conv2dOp: FusedOp<Conv2dArg> = {
  name: 'conv2d',
  infer: ([x, w], arg) => ({ shape: [x!.shape[0]!, w!.shape[0]!, ...outputSize(arg)], dtype: x!.dtype }),
  compose: ([x, w], arg) =>
    b.widened(
      (x, w) => {
        const product = b.mul(windows(x, arg), weights(w, arg));
        return b.reshape(b.sum(product, [3, 6, 7]), [x.shape[0]!, w.shape[0]!, ...outputSize(arg)]);
      },
      x!,
      w!,
    ),
  grad: ({ src: [x, w] }, g, arg) => [
    x!.requiresGrad ? b.call(conv2dInputOp, [g, w!], arg) : undefined,
    w!.requiresGrad ? b.call(conv2dWeightOp, [x!, g], arg) : undefined,
  ],
  scaledBy: () => ({ source: 1, along: 0, axis: 1 }),
  flops: (node) => flops(node, node.src[1]!),
  ofIntegers: conv2dOfBytes,
  kernels: [
    {
      name: 'conv2d-cpu',
      when: fitsCpu((arg) => outputSize(arg)[1]),
      finishes: true,
      plan: (io, arg) => convolveStages(io, arg, false),
    },
    convolveChoice('conv2d-cuda', false),
  ],
  reordered: (target, node, arg) => forwardLast(target, node, arg),
};

/** The adjoint of conv2d in x: y (N, O, outH, outW), w (O, C/G, kH, kW) → (N, C, H, W) */
export const conv2dInputOp: FusedOp<Conv2dArg> = {
  name: 'conv2dInput',
  infer: ([y, w], arg) => ({
    shape: [y!.shape[0]!, w!.shape[1]! * arg.groups, ...arg.size],
    dtype: y!.dtype,
  }),
  compose: ([y, w], arg) =>
    b.widened(
      (y, w) => {
        const { size, padding, kernel, groups } = arg;
        const product = b.sum(b.mul(outputs(y, arg), weights(w, arg)), [2]);
        const seen = b.reshape(product, [y.shape[0]!, w.shape[1]! * groups, ...outputSize(arg), ...kernel]);
        const padded = b.fold(seen, [size[0] + 2 * padding[0], size[1] + 2 * padding[1]], arg);
        return b.slice(padded, around(4, padding), [...padded.shape.slice(0, 2), ...size]);
      },
      y!,
      w!,
    ),
  grad: ({ src: [y, w] }, g, arg) => [
    y!.requiresGrad ? b.call(conv2dOp, [g, w!], arg) : undefined,
    w!.requiresGrad ? b.call(conv2dWeightOp, [g, y!], arg) : undefined,
  ],
  scaledBy: (_, { groups }) => (groups === 1 ? { source: 1, along: 1, axis: 1 } : undefined),
  flops: (node) => flops(node.src[0]!, node.src[1]!),
  kernels: [
    {
      name: 'conv2dInput-cpu',
      when: fitsCpu((arg) => arg.size[1]),
      finishes: true,
      plan: (io, arg) => convolveStages(io, arg, true),
    },
    convolveChoice('conv2dInput-cuda', true),
  ],
  reordered: (target, node, arg) => inputLast(target, node, arg),
};

function weightStages(io: KernelIo, arg: Conv2dArg): Stage[] {
  const problem = { ...weightGradientProblem(io, arg), leastBlocks: SPREAD * io.target.units };
  const sums = convolveWeight(problem);
  const floats = paddedSize(problem);
  if (floats === 0) return [stage(sums, { input: 0 }, { input: 1 }, { output: true })];
  const padded = { scratch: 'padded', bytes: 4 * floats };
  return [
    stage(padImages(problem), { input: 0 }, padded),
    stage(sums, padded, { input: 1 }, { output: true }),
  ];
}

/** The adjoint of conv2d in w: x (N, C, H, W), y (N, O, outH, outW) → (O, C/G, kH, kW) */
export const conv2dWeightOp: FusedOp<Conv2dArg> = {
  name: 'conv2dWeight',
  infer: ([x, y], arg) => ({ shape: weightShape(x!.shape, y!.shape, arg), dtype: x!.dtype }),
  compose: ([x, y], arg) =>
    b.widened(
      (x, y) => {
        const product = b.mul(windows(x, arg), outputs(y, arg));
        return b.reshape(b.sum(product, [0, 4, 5]), weightShape(x.shape, y.shape, arg));
      },
      x!,
      y!,
    ),
  grad: ({ src: [x, y] }, g, arg) => [
    x!.requiresGrad ? b.call(conv2dInputOp, [y!, g], arg) : undefined,
    y!.requiresGrad ? b.call(conv2dOp, [x!, g], arg) : undefined,
  ],
  flops: (node) => flops(node.src[1]!, node),
  kernels: [
    {
      name: 'conv2dWeight-cpu',
      when: fitsCpu((arg) => outputSize(arg)[1]),
      finishes: true,
      plan: weightStages,
    },
    weightChoice('conv2dWeight-cuda'),
  ],
  reordered: (target, node, arg) => weightLast(target, node, arg),
};

// Of a weight, outputs and inputs are channels; of an image, the last dimension.
const forwardLast = reorderedBy(conv2dOp, 'forward', [[3], [0, 3]], { product: matmul });
const inputLast = reorderedBy(conv2dInputOp, 'input', [[3], [0, 3]], { product: matmul });
const weightLast = reorderedBy(conv2dWeightOp, 'weight', [[3], [3]], { product: matmul });

const weightShape = (x: Shape, y: Shape, arg: Conv2dArg): Shape => [y[1]!, x[1]! / arg.groups, ...arg.kernel];

/** An integer from `least` on, or two of them. */
export const aPair = (least: number): Rule => {
  const { must, holds } = integerFrom(least);
  return {
    must: `${must}, or two of them: [height, width]`,
    holds: (v) => (Array.isArray(v) ? v.length === 2 && v.every(holds) : holds(v)),
  };
};

/** A pair from an option. @throws ArgumentError unless integers from `least` on */
export function pair(op: string, name: string, given: Pair, least: number): readonly [number, number] {
  requireArgument(op, name, given, aPair(least));
  return typeof given === 'number' ? [given, given] : given;
}

/**
 * Cross-correlation of x (N, C, H, W) with w (O, C/groups, kH, kW) → (N, O, outH, outW).
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function conv2d(x: GraphNode, w: GraphNode, options: Conv2dSettings = {}): GraphNode {
  const { groups = 1 } = options;
  const both = `x ${formatShape(x.shape)}, w ${formatShape(w.shape)}`;
  if (x.shape.length !== 4 || w.shape.length !== 4) {
    throw new ShapeError(`[conv2d] takes x (N,C,H,W) and w (O,C/groups,kH,kW), got ${both}.`);
  }
  if (x.dtype !== w.dtype || !isFloat(x.dtype)) {
    throw new DTypeError(
      `[conv2d] takes two of the same float dtype, got ${x.dtype.name} and ${w.dtype.name}. Convert with .cast(f32).`,
    );
  }
  const [, channels, height, width] = x.shape as [number, number, number, number];
  const [out, perGroup, kernelHeight, kernelWidth] = w.shape as [number, number, number, number];
  if (out % groups !== 0 || channels !== perGroup * groups) {
    throw new ShapeError(
      `[conv2d] channels do not fit: ${both}, ${groups} group${groups === 1 ? '' : 's'}. w must be ` +
        `(O, ${channels}/groups, kH, kW) with O a multiple of groups.`,
    );
  }
  const arg: Conv2dArg = {
    size: [height, width],
    kernel: [kernelHeight, kernelWidth],
    stride: pair('conv2d', 'stride', options.stride ?? 1, 1),
    padding: pair('conv2d', 'padding', options.padding ?? 0, 0),
    dilation: pair('conv2d', 'dilation', options.dilation ?? 1, 1),
    groups,
    precision: options.precision ?? 'tf32',
  };
  if (outputSize(arg).some((n) => n < 1)) {
    throw new ShapeError(
      `[conv2d] a ${arg.kernel.join('×')} kernel (dilation ${arg.dilation.join('×')}) does not fit into ` +
        `${arg.size.join('×')} with padding ${arg.padding.join('×')}. Pad more, or use a smaller kernel.`,
    );
  }
  return b.call(conv2dOp, [x, w], arg);
}
