/**
 * Convolution and its two gradients on channels-last operands, x (N, H, W, C), w (O, kH, kW, C) and y (N, outH, outW, O):
 * the values a tensor core multiplies lie side by side there. Tensors stay NCHW; schedule/orders.ts decides what is stored
 * so.
 */
import { isHalf } from '../../core/dtype.js';
import type { Shape } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp, KernelIo, Reordered, Stage, Variant } from '../../graph/fused-op.js';
import type { GraphNode, TensorType } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { matmulSum } from '../matmul/cuda-store.js';
import { gridStage } from '../stage.js';
import { cudnnChannelsLastVariants } from '../vendor.js';
import { type Conv2dArg, outputSize } from './arg.js';
import type { LastProblem } from './last-product.js';
import { lastKernel, lastTiles } from './last-tiles.js';

/** NCHW → NHWC, OIHW → OHWI */
const LAST = [0, 2, 3, 1] as const;
const FIRST = [0, 3, 1, 2] as const;

/** 16-bit elements of the 16 bytes that tensor cores' loads take: what channels must be a multiple of. */
const ALIGNED = 8;

type Direction = Parameters<typeof cudnnChannelsLastVariants>[2];

const reorder = (shape: Shape, order: readonly number[]): Shape => order.map((a) => shape[a]!);

/** `of` on channels-last operands. Its composition puts them first again. */
function channelsLast(of: FusedOp<Conv2dArg>, direction: Direction): FusedOp<Conv2dArg> {
  return {
    name: `${of.name}ChannelsLast`,
    infer: (src, arg) => {
      const first = src.map(({ shape, dtype }): TensorType => ({ shape: reorder(shape, FIRST), dtype }));
      const { shape, dtype } = of.infer(first, arg);
      return { shape: reorder(shape, LAST), dtype };
    },
    compose: (src, arg) => {
      const first = src.map((s) => b.permute(s, FIRST));
      return b.permute(b.call(of, first, arg), LAST);
    },
    ...(of.flops && {
      flops: (node, arg) => {
        const first = node.src.map((s) => b.leaf(reorder(s.shape, FIRST), s.dtype));
        return of.flops!(b.call(of, first, arg), arg);
      },
    }),
    kernels: [
      {
        name: `${of.name}-last`,
        when: isFor,
        finishes: true,
        plan: (io, arg) => ownWays(io, arg, direction)[0]!.plan(),
        variants: (io: KernelIo, arg) => [
          ...ownWays(io, arg, direction),
          ...(io.target.libraries.has('cudnn.convolution')
            ? cudnnChannelsLastVariants(io, arg, direction)
            : []),
        ],
      },
    ],
  };
}

const isFor = ({ model, capability }: Target, { dtype, size }: GraphNode): boolean =>
  model === 'threads' && capability >= 80 && isHalf(dtype) && size > 0;

/** What own kernels are given of a convolution with channels last. */
function problemOf(io: KernelIo, arg: Conv2dArg, direction: Direction): LastProblem {
  const [first, second] = io.inputs;
  const { kernel, stride, dilation, padding } = arg;
  const adjoint = direction === 'input';
  return {
    ...{ kernel, stride, dilation, padding, adjoint, groups: 1, dtype: io.node.dtype },
    images: first!.shape[0]!,
    inputs: first!.shape[3]!,
    outputs: direction === 'weight' ? second!.shape[3]! : io.output.shape[3]!,
    size: adjoint ? outputSize(arg) : arg.size,
    outSize: adjoint ? arg.size : outputSize(arg),
    imageOffset: first!.offset,
    secondOffset: second!.offset,
    finish: io.finish(io.output.shape),
  };
}

/** By own kernels, the best guess first. */
function ownWays(io: KernelIo, arg: Conv2dArg, direction: Direction): Variant[] {
  const problem = problemOf(io, arg, direction);
  const isWeight = direction === 'weight';
  const sources = [{ input: 0 }, { input: 1 }] as const;
  return lastTiles(problem, io.target, isWeight).map((way): Variant => {
    const { warps, each, splits } = way;
    const plan = (): Stage[] => {
      const kernel = lastKernel(problem, way, isWeight);
      if (!isWeight) return [gridStage(kernel, ...sources, { output: true })];
      const parts = { scratch: 'parts', bytes: 4 * splits * io.node.size };
      const [outputs, height, width, inputs] = io.node.shape as [number, number, number, number];
      const columns = height * width * inputs;
      const finish = io.finish([1, outputs, columns]);
      const matrix = { offset: 0, batch: [], batchStrides: [], rowStride: columns, columnStride: 1 };
      const sums = { batches: 1, M: outputs, N: columns, K: 1, a: matrix, b: matrix, finish };
      return [
        gridStage(kernel, ...sources, parts),
        gridStage(matmulSum(sums, splits, io.node.dtype), parts, { output: true }),
      ];
    };
    return { name: `last-${each.join('x')}-${warps.join('x')}${isWeight ? `-${splits}` : ''}`, plan };
  });
}

/**
 * Channels from which own kernels gain by it: on both sides, or on one if the other has few, as the colours of an image.
 * Those of their steps of 32 that are missing are zeros.
 */
const LEAST_CHANNELS = { both: 16, one: 64 } as const;

/** Whether it is faster so: by the library, or by own kernels. */
function gains(target: Target, node: GraphNode, direction: Direction): boolean {
  if (!isFor(target, node)) return false;
  const [outputs, inputs] = (direction === 'weight' ? node : node.src[1]!).shape as [number, number];
  const byOwn =
    Math.min(outputs, inputs) >= LEAST_CHANNELS.both || Math.max(outputs, inputs) >= LEAST_CHANNELS.one;
  return byOwn || target.libraries.has('cudnn.convolution');
}

/** With zeros after its values until the sizes along `axes` are aligned: they add nothing. */
function aligned(x: GraphNode, axes: readonly number[]): GraphNode {
  const missing = x.shape.map((d, i) => (axes.includes(i) ? (ALIGNED - (d % ALIGNED)) % ALIGNED : 0));
  return b.pad(
    x,
    missing.map(() => 0),
    missing,
  );
}

/** The first elements along every dimension. */
const cut = (x: GraphNode, shape: Shape): GraphNode =>
  b.slice(
    x,
    shape.map(() => 0),
    shape,
  );

/**
 * How `of` is computed with channels last: 16-bit floats on tensor cores.
 * @param channels of each source, the dimensions in its channels-last order that are channels
 */
export function reorderedBy(
  of: FusedOp<Conv2dArg>,
  direction: Direction,
  channels: readonly (readonly number[])[],
): NonNullable<FusedOp<Conv2dArg>['reordered']> {
  const op = channelsLast(of, direction);
  return (target, node, arg): Reordered | undefined => {
    if (arg.groups !== 1 || !gains(target, node, direction) || node.src.some((s) => s.size === 0))
      return undefined;
    return {
      order: LAST,
      make: (sources) =>
        cut(
          b.call(
            op,
            sources.map((s, i) => aligned(s, channels[i]!)),
            arg,
          ),
          reorder(node.shape, LAST),
        ),
    };
  };
}
