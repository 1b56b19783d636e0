/**
 * Convolution and its two gradients on channels-last operands, x (N, H, W, C), w (O, kH, kW, C) and y (N, outH, outW, O):
 * the values a tensor core multiplies lie side by side there. Tensors stay NCHW; schedule/orders.ts decides what is stored
 * so.
 */
import { type DType, f32, i8, isHalf } from '../../core/dtype.js';
import type { Shape } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp, KernelIo, Stage, StageArgument, Variant, View } from '../../graph/fused-op.js';
import type { GraphNode, TensorType } from '../../graph/node.js';
import { type IrFunction, irFunction } from '../../kernel/ir/ir-function.js';
import type { Target } from '../../kernel/ir/target.js';
import { withWhole } from '../launch-rule.js';
import { outdoWarps } from '../matmul/choose-cuda.js';
import { matmulSum } from '../matmul/cuda-store.js';
import { warpgroupStage } from '../matmul/warpgroup.js';
import { ROWS } from '../matmul/warpgroup-layout.js';
import {
  PROMISING,
  splitName,
  WARPGROUPS,
  warpgroupCycles,
  warpgroupName,
  warpgroupTiles,
  warpgroupWays,
} from '../matmul/warpgroup-tiles.js';
import { gridStage } from '../stage.js';
import type { GridKernel } from '../tiled.js';
import { cudnnChannelsLastVariants } from '../vendor.js';
import { type Conv2dArg, type Direction, outputSize } from './arg.js';
import { depthwiseLastChoice, isDepthwise } from './depthwise-last-choice.js';
import { turned } from './group-bundles.js';
import type { LastProblem } from './last-product.js';
import { lastKernel, lastTiles } from './last-tiles.js';
import {
  asProduct,
  convolveWarpgroups,
  convolveWeightWarpgroups,
  isWholeGradient,
  joined,
  suitsConvolution,
} from './warpgroup.js';
import { tapsOf } from './warpgroup-taps.js';
import {
  convolveWeightPatches,
  weightPatchCycles,
  weightPatchName,
  weightPatchWay,
} from './warpgroup-weight-patch.js';

/** NCHW → NHWC, OIHW → OHWI */
export const LAST = [0, 2, 3, 1] as const;
export const FIRST = [0, 3, 1, 2] as const;
/** Whether weights are turned: those of an input gradient in f32, whose kernels take them along the sum over outputs. */
export const isTurned = (direction: Direction, second: GraphNode, arg: Conv2dArg): boolean =>
  direction === 'input' && second.dtype === f32 && !isDepthwise(arg, second);

/** The sources of an op on channels-last operands as those of the plain one. */
function withChannelsFirst(src: readonly GraphNode[], direction: Direction, arg: Conv2dArg): GraphNode[] {
  const [first, second] = src as [GraphNode, GraphNode];
  const other = isTurned(direction, second, arg) ? turned(second, arg.groups) : second;
  return [first, other].map((s) => b.permute(s, FIRST));
}

export const reorder = (shape: Shape, order: readonly number[]): Shape => order.map((a) => shape[a]!);

/** `of` on channels-last operands. Its composition puts them first again. */
export function channelsLast<Arg extends Conv2dArg>(
  of: FusedOp<Arg>,
  direction: Direction,
  storesAny: boolean,
): FusedOp<Arg> {
  return {
    name: `${of.name}ChannelsLast`,
    infer: (src, arg) => {
      const given = src.map(({ shape, dtype }) => b.leaf(shape, dtype));
      const { shape, dtype } = of.infer(withChannelsFirst(given, direction, arg), arg);
      return { shape: reorder(shape, LAST), dtype };
    },
    compose: (src, arg) => b.permute(b.call(of, withChannelsFirst(src, direction, arg), arg), LAST),
    ...(of.flops && {
      flops: ({ src }, arg) => of.flops!(b.call(of, withChannelsFirst(src, direction, arg), arg), arg),
    }),
    kernels: [
      {
        name: `${of.name}-last`,
        when: (target, node, arg) => {
          if (!isFor(target, node, arg) || arg.groups === 1) return isFor(target, node, arg);
          const [first, second] = node.src as [GraphNode, GraphNode];
          const sizes = sizesOf(first, direction === 'weight' ? second : node, arg);
          return suitsConvolution(geometryOf(arg, direction, sizes));
        },
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
export const isByWarps = (dtype: DType): boolean => isHalf(dtype) || dtype === i8;

/** 16-bit floats and bytes on tensor cores; on those of warpgroups also f32 as tf32, and groups. */
export function isFor({ model, capability }: Target, { src, size }: GraphNode, arg: Conv2dArg): boolean {
  const { precision, groups } = arg;
  if (model !== 'threads' || size === 0) return false;
  const { dtype } = src[0]!;
  if (isByWarps(dtype)) return groups > 1 ? capability === WARPGROUPS : capability >= 80;
  return capability === WARPGROUPS && dtype === f32 && precision !== 'f32';
}

/** Of a group, of the first source, and of the result or what has as many channels. */
const sizesOf = (first: TensorType, other: TensorType, { groups }: Conv2dArg) => ({
  ...{ images: first.shape[0]!, dtype: first.dtype },
  ...{ inputs: first.shape[3]! / groups, outputs: other.shape[3]! / groups },
});

/** A convolution of so many images, whose kernels read `inputs` channels of the first source in each group. */
export function geometryOf(
  arg: Conv2dArg,
  direction: Direction,
  sizes: Pick<LastProblem, 'images' | 'inputs' | 'outputs' | 'dtype'>,
): Omit<LastProblem, 'finish'> {
  const { kernel, stride, dilation, padding, groups } = arg;
  const adjoint = direction === 'input';
  return {
    ...{ ...sizes, kernel, stride, dilation, padding, adjoint, groups },
    ...{ imageOffset: 0, secondOffset: 0 },
    size: adjoint ? outputSize(arg) : arg.size,
    outSize: adjoint ? arg.size : outputSize(arg),
  };
}

/** Whether warpgroups have rows of the result at hand: all but those of a weight gradient, and of the phases of a stride. */
function sumsRows({ capability }: Target, node: GraphNode, arg: Conv2dArg, direction: Direction): boolean {
  const [first] = node.src as [GraphNode];
  if (capability !== WARPGROUPS || direction === 'weight' || first.dtype === i8) return false;
  const p = geometryOf(arg, direction, sizesOf(first, node, arg));
  return suitsConvolution(p) && tapsOf(p).phases === 1;
}

/** What own kernels are given of a convolution with channels last. */
function problemOf(io: KernelIo, arg: Conv2dArg, direction: Direction): LastProblem {
  const [first, second] = io.inputs as [View, View];
  return {
    ...geometryOf(arg, direction, sizesOf(first, direction === 'weight' ? second : io.output, arg)),
    imageOffset: first.offset,
    secondOffset: second.offset,
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

/** The epilogue of a product of each group. */
function finishOfGroups(io: KernelIo, direction: Direction, groups: number): IrFunction {
  const { M, N } = matrixOf(io, direction);
  if (direction === 'weight') return io.finish([groups, M / groups, N]);
  const { build } = io.finish([M, groups, N / groups]);
  return irFunction(([value, group, pixel, ...rest], ...into) =>
    build([value!, pixel!, group!, ...rest], ...into),
  );
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

/** By warpgroups, on GPUs that have them. */
function byWarpgroups(io: KernelIo, problem: LastProblem, direction: Direction): Variant[] {
  const isWeight = direction === 'weight';
  const { target } = io;
  const { dtype } = problem;
  if (target.capability !== WARPGROUPS || !suitsConvolution(problem)) return [];
  const { beside, sums } = io;
  const finish = finishOfGroups(io, direction, problem.groups);
  const p = joined({ ...problem, finish, beside, sums });
  const sizes = asProduct(p, isWeight);
  const best = warpgroupTiles(sizes, target);
  const tiles = isWeight ? best : withWhole(best, () => warpgroupTiles({ ...sizes, whole: true }, target, 1));
  const ways = warpgroupWays(sizes, tiles, (tile, sums) => ({
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
  return isWeight ? withPatches(ways, io, p) : ways;
}

/** Adds the way by patches, if there is one. If the model rates it or the others far behind, these are left out. */
function withPatches(ways: Variant[], io: KernelIo, p: LastProblem): Variant[] {
  const { target } = io;
  const way = weightPatchWay(p, target);
  if (!way) return ways;
  const { splits } = way.tile;
  const byPatches: Variant = {
    name: `last-${weightPatchName(way, p)}`,
    plan: () => {
      const kernel = convolveWeightPatches(p, way, target.units);
      return inParts(io, 'weight', kernel, splits, [{ input: 1 }, { input: 0 }]);
    },
  };
  const others = warpgroupCycles(asProduct(p, true), target);
  const cycles = weightPatchCycles(p, way, target);
  if (cycles > PROMISING * others) return ways;
  if (others > PROMISING * cycles) return [byPatches];
  return others > cycles ? [byPatches, ...ways] : [...ways, byPatches];
}

/** By own kernels, the best guess first. */
function ownWays(io: KernelIo, arg: Conv2dArg, direction: Direction): Variant[] {
  const problem = problemOf(io, arg, direction);
  const isWeight = direction === 'weight';
  // A launch behind the convolution for its epilogue is not worth timing: it paid for one of 13 convolutions by patches on an H200, by 5 %,
  // and for none of 64 by other tiles (2026-11-29).
  const ways = byWarpgroups(io, problem, direction);
  const isOutdone = ways.length > 0 && outdoWarps(asProduct(problem, isWeight));
  if (isOutdone || !isByWarps(problem.dtype) || problem.groups > 1) return ways;
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
