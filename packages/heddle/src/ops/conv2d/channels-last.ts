/**
 * Convolution and its two gradients on channels-last operands, x (N, H, W, C), w (O, kH, kW, C) and y (N, outH, outW, O):
 * the values a tensor core multiplies lie side by side there. Tensors stay NCHW; schedule/orders.ts decides what is stored
 * so.
 */
import { type DType, f32, i8, isHalf } from '../../core/dtype.js';
import type { Shape } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp, KernelIo, Reordered, Stage, StageArgument, Variant } from '../../graph/fused-op.js';
import type { GraphNode, TensorType } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { finishedAfter } from '../finish-cuda.js';
import { withWhole } from '../launch-rule.js';
import { outdoWarps } from '../matmul/choose-cuda.js';
import { matmulSum } from '../matmul/cuda-store.js';
import { warpgroupStage } from '../matmul/warpgroup.js';
import { depthOf, ROWS } from '../matmul/warpgroup-layout.js';
import {
  splitName,
  WARPGROUPS,
  warpgroupName,
  warpgroupTiles,
  warpgroupWays,
} from '../matmul/warpgroup-tiles.js';
import { gridStage } from '../stage.js';
import type { GridKernel } from '../tiled.js';
import { cudnnChannelsLastVariants } from '../vendor.js';
import { type Conv2dArg, outputSize } from './arg.js';
import { depthwiseLastChoice, suitsDepthwise } from './depthwise-last-choice.js';
import type { LastProblem } from './last-product.js';
import { lastKernel, lastTiles } from './last-tiles.js';
import { blocksOf, cut, fromBlocks, toBlocks } from './space-to-depth.js';
import {
  asProduct,
  convolveWarpgroups,
  convolveWeightWarpgroups,
  isWholeGradient,
  joined,
  suitsConvolution,
} from './warpgroup.js';

/** NCHW → NHWC, OIHW → OHWI */
const LAST = [0, 2, 3, 1] as const;
const FIRST = [0, 3, 1, 2] as const;
/** The dimension of an image's columns among them. */
const COLUMNS = 2;

/** Bytes that the tensor cores' loads take: channels are a multiple of them. */
const COPY = 16;

type Direction = Parameters<typeof cudnnChannelsLastVariants>[2];

/** OHWI → IHWO: the weights of an input gradient in f32, whose kernels take them along the sum over outputs. */
const TURNED = [3, 1, 2, 0] as const;
const isTurned = (direction: Direction, dtype: DType, { groups }: Conv2dArg): boolean =>
  direction === 'input' && dtype === f32 && groups === 1;

/** How the sources of an op on channels-last operands become those of the plain one. */
const ordersOf = (direction: Direction, dtype: DType, arg: Conv2dArg): readonly (readonly number[])[] =>
  isTurned(direction, dtype, arg) ? [FIRST, [3, 0, 1, 2]] : [FIRST, FIRST];

const reorder = (shape: Shape, order: readonly number[]): Shape => order.map((a) => shape[a]!);

/** `of` on channels-last operands. Its composition puts them first again. */
function channelsLast<Arg extends Conv2dArg>(
  of: FusedOp<Arg>,
  direction: Direction,
  storesAny: boolean,
): FusedOp<Arg> {
  return {
    name: `${of.name}ChannelsLast`,
    infer: (src, arg) => {
      const orders = ordersOf(direction, src[0]!.dtype, arg);
      const first = src.map(
        ({ shape, dtype }, i): TensorType => ({ shape: reorder(shape, orders[i]!), dtype }),
      );
      const { shape, dtype } = of.infer(first, arg);
      return { shape: reorder(shape, LAST), dtype };
    },
    compose: (src, arg) => {
      const orders = ordersOf(direction, src[0]!.dtype, arg);
      const first = src.map((s, i) => b.permute(s, orders[i]!));
      return b.permute(b.call(of, first, arg), LAST);
    },
    ...(of.flops && {
      flops: (node, arg) => {
        const orders = ordersOf(direction, node.dtype, arg);
        const first = node.src.map((s, i) => b.leaf(reorder(s.shape, orders[i]!), s.dtype));
        return of.flops!(b.call(of, first, arg), arg);
      },
    }),
    kernels: [
      {
        name: `${of.name}-last`,
        when: isFor,
        finishes: true,
        storesAny,
        sums: (target, node, arg) => (sumsRows(target, node, arg, direction) ? ROWS : undefined),
        plan: (io, arg) => ownWays(io, arg, direction)[0]!.plan(),
        variants: (io: KernelIo, arg) => [
          ...ownWays(io, arg, direction),
          ...(io.target.libraries.has('cudnn.convolution') && isHalf(io.node.dtype)
            ? cudnnChannelsLastVariants(io, arg, direction)
            : []),
        ],
      },
      depthwiseLastChoice(`${of.name}-last-depthwise`, direction),
    ],
  };
}

/** What warps multiply, by kernels that need no warpgroups. */
const isByWarps = (dtype: DType): boolean => isHalf(dtype) || dtype === i8;

/** 16-bit floats and bytes on tensor cores, and on those of warpgroups f32 as tf32. */
function isFor({ model, capability }: Target, { src, size }: GraphNode, arg: Conv2dArg): boolean {
  const { precision, groups } = arg;
  if (model !== 'threads' || groups > 1 || size === 0) return false;
  const { dtype } = src[0]!;
  if (isByWarps(dtype)) return capability >= 80;
  return capability === WARPGROUPS && dtype === f32 && precision !== 'f32';
}

/** A convolution of so many images, whose kernels read `inputs` channels of the first source. */
function geometryOf(
  arg: Conv2dArg,
  direction: Direction,
  sizes: Pick<LastProblem, 'images' | 'inputs' | 'outputs' | 'dtype'>,
): Omit<LastProblem, 'finish'> {
  const { kernel, stride, dilation, padding } = arg;
  const adjoint = direction === 'input';
  return {
    ...{ ...sizes, kernel, stride, dilation, padding, adjoint, groups: 1 },
    ...{ imageOffset: 0, secondOffset: 0 },
    size: adjoint ? outputSize(arg) : arg.size,
    outSize: adjoint ? arg.size : outputSize(arg),
  };
}

/** Whether warpgroups have rows of the result at hand: all but those of a weight gradient, and of the phases of a stride. */
function sumsRows(
  { capability }: Target,
  { src, shape }: GraphNode,
  arg: Conv2dArg,
  direction: Direction,
): boolean {
  const [{ shape: first, dtype }] = src as [GraphNode];
  if (capability !== WARPGROUPS || direction === 'weight' || dtype === i8) return false;
  const sizes = { images: first[0]!, inputs: first[3]!, outputs: shape[3]!, dtype };
  const p = geometryOf(arg, direction, sizes);
  return suitsConvolution(p) && asProduct(p, false).batches === 1;
}

/** What own kernels are given of a convolution with channels last. */
function problemOf(io: KernelIo, arg: Conv2dArg, direction: Direction): LastProblem {
  const [first, second] = io.inputs;
  const sizes = {
    images: first!.shape[0]!,
    inputs: first!.shape[3]!,
    outputs: direction === 'weight' ? second!.shape[3]! : io.output.shape[3]!,
    dtype: first!.dtype,
  };
  return {
    ...geometryOf(arg, direction, sizes),
    imageOffset: first!.offset,
    secondOffset: second!.offset,
    output: io.output.dtype,
    finish: io.finish(io.output.shape),
  };
}

/** The result as a matrix, (pixel or output, channel or tap and channel), with the epilogue on it. */
function matrixOf({ node, finish }: KernelIo, direction: Direction) {
  const [images, rows, columns, channels] = node.shape as [number, number, number, number];
  const [M, N] =
    direction === 'weight' ? [images, rows * columns * channels] : [images * rows * columns, channels];
  return { batches: 1, M, N, finish: finish([1, M, N]) };
}

type Sources = readonly [StageArgument, StageArgument];
const SOURCES: Sources = [{ input: 0 }, { input: 1 }];

/** A kernel that gives so many parts of the result, and their sum. */
function inParts(
  io: KernelIo,
  direction: Direction,
  kernel: GridKernel,
  splits: number,
  sources = SOURCES,
): Stage[] {
  const parts = { scratch: 'parts', bytes: 4 * splits * io.node.size };
  return [
    gridStage(kernel, ...sources, parts),
    gridStage(matmulSum(matrixOf(io, direction), splits, io.node.dtype, io.output.dtype), parts, {
      output: true,
    }),
  ];
}

/** With the blocks that share its sums. */
interface Way extends Variant {
  readonly splits: number;
}

/** By warpgroups, on GPUs that have them. */
function byWarpgroups(io: KernelIo, problem: LastProblem, direction: Direction): Way[] {
  const isWeight = direction === 'weight';
  const { target } = io;
  const { dtype } = problem;
  if (target.capability !== WARPGROUPS || !suitsConvolution(problem)) return [];
  const { beside, sums } = io;
  const p = joined({ ...problem, finish: matrixOf(io, direction).finish, beside, sums });
  const sizes = asProduct(p, isWeight);
  const best = warpgroupTiles(sizes, target);
  const tiles = isWeight ? best : withWhole(best, () => warpgroupTiles({ ...sizes, whole: true }, target, 1));
  return warpgroupWays(sizes, tiles, (tile, sums) => ({
    splits: tile.splits,
    name: `last-${warpgroupName(tile, dtype)}`,
    plan: () => {
      if (isWeight) {
        const kernel = convolveWeightWarpgroups(p, tile, target.units);
        const sources: Sources = [{ input: 1 }, { input: 0 }];
        if (isWholeGradient(p, tile)) return [gridStage(kernel, ...sources, { output: true })];
        return inParts(io, direction, kernel, tile.splits, sources);
      }
      const kernel = convolveWarpgroups({ ...p, sums }, tile, target.units);
      if (tile.splits > 1) return inParts(io, direction, kernel, tile.splits);
      return [warpgroupStage(kernel)];
    },
  }));
}

/** By own kernels, the best guess first. */
function ownWays(io: KernelIo, arg: Conv2dArg, direction: Direction): Variant[] {
  const problem = problemOf(io, arg, direction);
  const isWeight = direction === 'weight';
  // An epilogue that reads other tensors keeps tensor cores waiting: a launch behind the convolution may take less. One that
  // adds up parts computes the epilogue as well.
  const apart = (plain: KernelIo): Variant[] =>
    byWarpgroups(plain, problemOf(plain, arg, direction), direction)
      .slice(0, 1)
      .filter(({ splits }) => splits === 1);
  const ways = [
    ...byWarpgroups(io, problem, direction),
    ...(io.plain || isWeight ? [] : finishedAfter(io, apart)),
  ];
  const isOutdone = ways.length > 0 && outdoWarps(asProduct(problem, isWeight));
  if (isOutdone || !isByWarps(problem.dtype)) return ways;
  const byWarps = lastTiles(problem, io.target, isWeight, ways.length > 0 ? 1 : 2).map((way): Variant => {
    const { warps, each, splits } = way;
    const plan = (): Stage[] => {
      const kernel = lastKernel(problem, way, isWeight);
      if (isWeight || splits > 1) return inParts(io, direction, kernel, splits);
      return [gridStage(kernel, ...SOURCES, { output: true })];
    };
    const name = `last-${each.join('x')}-${warps.join('x')}${isWeight ? `-${splits}` : splitName(way)}`;
    return { name, plan };
  });
  return [...ways, ...byWarps];
}

/**
 * Channels from which own kernels gain by it: on both sides, or on one if the other has few, as the colours of an image.
 * Those of their steps of 32 that are missing are zeros. In f32 kernels with channels first are as fast on fewer.
 */
const LEAST_CHANNELS = { both: 16, one: 64, f32: 64, colours: 4 } as const;

/** Whether it is faster so: by the library, or by own kernels. In tf32 a step of resnet18 takes less by those than by the library. */
function gains(target: Target, node: GraphNode, arg: Conv2dArg, direction: Direction): boolean {
  if (!isFor(target, node, arg)) return false;
  const [outputs, inputs] = (direction === 'weight' ? node : node.src[1]!).shape as [number, number];
  // No kernel takes bytes otherwise.
  if (node.src[0]!.dtype === i8) return true;
  const [fewer, more] = [Math.min(outputs, inputs), Math.max(outputs, inputs)];
  if (node.dtype === f32) {
    const [o, c] = [outputs, inputs].map((n) => n + missing(n, f32)) as [number, number];
    const [from, to] = direction === 'input' ? [o, c] : [c, o];
    const sizes = { images: node.src[0]!.shape[0]!, inputs: from, outputs: to, dtype: f32 };
    const isWide =
      fewer >= LEAST_CHANNELS.f32 || (fewer <= LEAST_CHANNELS.colours && more >= LEAST_CHANNELS.f32);
    return isWide && suitsConvolution(geometryOf(arg, direction, sizes));
  }
  const { kernel } = arg;
  const ofPixel = gathers(arg, direction, inputs, node.dtype) ? kernel[0] * kernel[1] * inputs : inputs;
  const byOwn = Math.min(outputs, ofPixel) >= LEAST_CHANNELS.both || more >= LEAST_CHANNELS.one;
  return byOwn || target.libraries.has('cudnn.convolution');
}

/**
 * Microseconds for each operation that warpgroups save where warps would multiply: half of what these take. On an H200 they reach
 * 130 to 180 TFLOP/s in bf16 and tf32 (2026-11-23).
 */
const SAVED = 0.5 / 150e6;

/** Microseconds that it takes less so. */
function savedBy(of: FusedOp<Conv2dArg>, target: Target, node: GraphNode, arg: Conv2dArg): number {
  return target.capability === WARPGROUPS ? SAVED * of.flops!(node, arg) : 0;
}

/** Channels after so many until copies of 16 bytes fit. */
const missing = (channels: number, { bytes }: DType): number => -channels & (COPY / bytes - 1);

/** With zeros after its values until the sizes along `axes` are aligned: they add nothing. And so many columns around them. */
function aligned(x: GraphNode, axes: readonly number[], beside = 0): GraphNode {
  const around = x.shape.map((_, i) => (i === COLUMNS ? beside : 0));
  const after = x.shape.map((d, i) => around[i]! + (axes.includes(i) ? missing(d, x.dtype) : 0));
  return b.pad(x, around, after);
}

/**
 * Whether all that meets a pixel of the result, a few channels of a few taps, fits into one step of warpgroups. It is gathered
 * then, as the channels of a 1 × 1 convolution: the copy engine takes long for rows of few bytes, and each row of taps would be
 * a step.
 */
const gathers = ({ kernel }: Conv2dArg, direction: Direction, channels: number, dtype: DType): boolean =>
  direction !== 'input' &&
  missing(channels, dtype) > 0 &&
  kernel.some((n) => n > 1) &&
  kernel[0] * kernel[1] * channels <= depthOf(dtype);

/** (N, H, W, C) → (N, outH, outW, kH·kW·C) */
function gathered(x: GraphNode, arg: Conv2dArg): GraphNode {
  const by = [0, 0, ...arg.padding];
  const windows = b.permute(b.window(b.pad(b.permute(x, FIRST), by, by), arg), [0, 2, 3, 4, 5, 1]);
  const [n, rows, columns, ...each] = windows.shape as [number, number, number, ...number[]];
  return b.reshape(windows, [n, rows, columns, each.reduce((all, d) => all * d, 1)]);
}

/**
 * How `of` is computed with channels last, where that is faster.
 * @param channels of each source, the dimensions in its channels-last order that are channels
 * @param storesAny whether all its kernels store any dtype that an epilogue gives
 */
export function reorderedBy<Arg extends Conv2dArg>(
  of: FusedOp<Arg>,
  direction: Direction,
  channels: readonly (readonly number[])[],
  storesAny = false,
): NonNullable<FusedOp<Arg>['reordered']> {
  const op = channelsLast(of, direction, storesAny);
  return (target, node, arg): Reordered | undefined => {
    if (node.src.some((s) => s.size === 0)) return undefined;
    if (suitsDepthwise(target, node, arg, direction))
      return { order: LAST, make: (sources) => b.call(op, sources, arg) };
    if (!gains(target, node, arg, direction)) return undefined;
    const saves = savedBy(of, target, node, arg);
    // Images whose channels are copied to more anyway become blocks of pixels, where that is less work.
    const { dtype } = node.src[0]!;
    const colours = direction === 'input' ? 0 : node.src[0]!.shape[1]!;
    const missed = missing(colours, dtype);
    if (gathers(arg, direction, colours, dtype)) {
      const { kernel } = arg;
      const taps = kernel[0] * kernel[1] * colours;
      const ofPixel = { kernel: [1, 1], stride: [1, 1], dilation: [1, 1], padding: [0, 0] } as const;
      return {
        order: LAST,
        saves,
        make: ([images, second]) => {
          const first = aligned(gathered(images!, arg), channels[0]!);
          const ofTaps = (w: GraphNode) => b.reshape(w, [w.shape[0]!, 1, 1, taps]);
          const other = direction === 'weight' ? second! : ofTaps(second!);
          const made = b.call(op, [first, aligned(other, channels[1]!)], {
            ...{ ...arg, ...ofPixel },
            size: outputSize(arg),
          });
          if (direction !== 'weight') return cut(made, reorder(node.shape, LAST));
          return b.reshape(cut(made, [node.shape[0]!, 1, 1, taps]), reorder(node.shape, LAST));
        },
      };
    }
    const blocks =
      missed > 0 && isByWarps(dtype) ? blocksOf(arg, colours, colours + missed, dtype, COPY) : undefined;
    if (blocks)
      return {
        order: LAST,
        saves,
        make: ([images, second]) => {
          const first = toBlocks(images!, arg.padding, blocks.arg.size, blocks);
          const other =
            direction === 'weight' ? second! : toBlocks(second!, [0, 0], blocks.arg.kernel, blocks);
          const made = b.call(op, [first, aligned(other, channels[1]!)], { ...arg, ...blocks.arg });
          return cut(direction === 'weight' ? fromBlocks(made, blocks) : made, reorder(node.shape, LAST));
        },
      };
    // Or they get their padding beside them as well: rows of taps are joined then.
    const beside = missed > 0 ? arg.padding[1] : 0;
    const size = [arg.size[0], arg.size[1] + 2 * beside] as const;
    const padded = { ...arg, size, padding: [arg.padding[0], arg.padding[1] - beside] as const };
    return {
      order: LAST,
      saves,
      make: (sources) => {
        const [first, second] = sources.map((s, i) => aligned(s, channels[i]!, i === 0 ? beside : 0));
        const given = [first!, isTurned(direction, node.dtype, arg) ? b.permute(second!, TURNED) : second!];
        return cut(b.call(op, given, beside > 0 ? padded : arg), reorder(node.shape, LAST));
      },
    };
  };
}
