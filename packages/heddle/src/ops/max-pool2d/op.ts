/** Max pooling of images and its gradient. */
import {
  maxPoolChoice,
  maxPoolGradientChoice,
  maxPoolPositionsChoice,
  poolingLast,
  windowsToPositions,
} from '#ops/gpu-kernels.js';
import type { Rules } from '../../core/arguments.js';
import { f32, i32, isFloat, requireFloats } from '../../core/dtype.js';
import { ShapeError } from '../../core/errors.js';
import { formatShape } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp } from '../../graph/fused-op.js';
import type { GraphNode, TensorType } from '../../graph/node.js';
import { aPair, type Pair, pair } from '../conv2d/op.js';
import { stage } from '../stage.js';
import * as cpu from './cpu.js';
import { positionDtype, problemOf } from './problem.js';
import {
  firstLargest,
  firstLargestOfWindows,
  isApart,
  largest,
  largestOfWindows,
  type PoolArg,
  pooledSize,
  toPositions,
} from './windows.js';

export { type PoolArg, pooledSize } from './windows.js';

/** Options of `maxPool2d`. */
export interface MaxPool2dOptions {
  /** Default: the kernel's size, so that windows do not overlap. */
  readonly stride?: Pair;
  /** −∞ around the image, on each side, at most half the kernel; default 0. */
  readonly padding?: Pair;
  /** Distance between the elements of a window; default 1. */
  readonly dilation?: Pair;
}

/** The rules of `MaxPool2dOptions`. */
export const MAX_POOL2D: Rules<MaxPool2dOptions> = {
  stride: aPair(1),
  padding: aPair(0),
  dilation: aPair(1),
};

const pooledShape = ({ shape }: TensorType, arg: PoolArg): number[] => [
  ...shape.slice(0, 2),
  ...pooledSize(arg),
];

/** (N, C, H, W) → (N, C, outH, outW): the largest of each window, NaN if it holds one. */
export const maxPool2dOp: FusedOp<PoolArg> = {
  name: 'maxPool2d',
  infer: ([x], arg) => ({ shape: pooledShape(x!, arg), dtype: x!.dtype }),
  compose: ([x], arg) => largest(x!, arg),
  windows: largestOfWindows,
  // A window with holes may lie in the padding altogether: it is −∞, not f(−∞).
  selects: ({ padding, dilation }) => padding.every((p, i) => p === 0 || dilation[i] === 1),
  grad: ({ src: [x] }, g, arg) => [
    b.call(maxPool2dGradientOp, [b.call(maxPool2dPositionsOp, [x!], arg), g], arg),
  ],
  reordered: (target, node, arg) => forwardLast(target, node, arg),
  kernels: [
    {
      name: 'maxPool2d-cpu',
      when: ({ model }, { dtype, size }) => model === 'blocks' && dtype === f32 && size > 0,
      finishes: true,
      plan: (io, arg) => [stage(cpu.maxPool(problemOf(io, arg)), { input: 0 }, { output: true })],
    },
    maxPoolChoice,
  ],
};

/**
 * (N, C, H, W) → u8 or i32 (N, C, outH, outW): where in its window, in row order, the first of the largest elements is,
 * as in PyTorch; kH·kW if the window holds NaN.
 */
export const maxPool2dPositionsOp: FusedOp<PoolArg> = {
  name: 'maxPool2dPositions',
  infer: ([x], arg) => ({ shape: pooledShape(x!, arg), dtype: positionDtype(arg) }),
  compose: ([x], arg) => b.cast(firstLargest(x!, arg), positionDtype(arg)),
  windows: firstLargestOfWindows,
  reordered: (target, node, arg) => positionsLast(target, node, arg),
  kernels: [maxPoolPositionsChoice],
};

/** positions, g (N, C, outH, outW) → (N, C, H, W): each g at its position of its window, summed; 0 elsewhere. */
export const maxPool2dGradientOp: FusedOp<PoolArg> = {
  name: 'maxPool2dGradient',
  infer: ([, g], arg) => ({ shape: [...g!.shape.slice(0, 2), ...arg.size], dtype: g!.dtype }),
  compose: ([positions, g], arg) => toPositions(b.cast(positions!, i32), g!, arg),
  spreads: windowsToPositions,
  reordered: (target, node, arg) => gradientLast(target, node, arg),
  kernels: [
    {
      name: 'maxPool2dGradient-cpu',
      when: ({ model }, { dtype, size }, arg) =>
        model === 'blocks' && isFloat(dtype) && size > 0 && isApart(arg),
      finishes: true,
      plan: (io, arg) => [
        stage(cpu.maxPoolGradient(problemOf(io, arg)), { input: 0 }, { input: 1 }, { output: true }),
      ],
    },
    maxPoolGradientChoice,
  ],
};

const forwardLast = poolingLast(maxPool2dOp);
const positionsLast = poolingLast(maxPool2dPositionsOp);
const gradientLast = poolingLast(maxPool2dGradientOp);

/**
 * The largest element of each kernel-sized window of x (N, C, H, W) → (N, C, outH, outW).
 * @throws ShapeError, DTypeError, ArgumentError
 */
export function maxPool2d(x: GraphNode, kernel: Pair, options: MaxPool2dOptions = {}): GraphNode {
  if (x.shape.length !== 4) throw new ShapeError(`[maxPool2d] takes (N,C,H,W), got ${formatShape(x.shape)}.`);
  requireFloats('maxPool2d', 'x', x);
  const window = pair('maxPool2d', 'kernel', kernel, 1);
  const arg: PoolArg = {
    size: [x.shape[2]!, x.shape[3]!],
    kernel: window,
    stride: pair('maxPool2d', 'stride', options.stride ?? window, 1),
    padding: pair('maxPool2d', 'padding', options.padding ?? 0, 0),
    dilation: pair('maxPool2d', 'dilation', options.dilation ?? 1, 1),
  };
  if (arg.padding.some((p, i) => p > window[i]! / 2)) {
    throw new ShapeError(
      `[maxPool2d] padding ${arg.padding.join('×')} is more than half the kernel ${window.join('×')}: ` +
        'windows of nothing but padding have no maximum. Pad less.',
    );
  }
  if (pooledSize(arg).some((n) => n < 1) || arg.size.some((n) => n < 1)) {
    throw new ShapeError(
      `[maxPool2d] a ${window.join('×')} window (dilation ${arg.dilation.join('×')}) does not fit into ` +
        `${arg.size.join('×')} with padding ${arg.padding.join('×')}.`,
    );
  }
  return b.call(maxPool2dOp, [x], arg);
}
