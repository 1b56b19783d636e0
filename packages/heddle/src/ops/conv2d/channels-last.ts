/**
 * When a convolution or a gradient of it is computed with channels last (last-op.ts), and how its sources become what those kernels
 * take: channels are padded, gathered, put into blocks of pixels, or groups of them together.
 */
import { type DType, f32, i8 } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import type { FusedOp, Reordered } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import { missing } from '../../graph/rows.js';
import type { Target } from '../../kernel/ir/target.js';
import { depthOf } from '../matmul/warpgroup-layout.js';
import { WARPGROUPS } from '../matmul/warpgroup-tiles.js';
import { type Conv2dArg, type Direction, outputSize } from './arg.js';
import { suitsDepthwise } from './depthwise-last-choice.js';
import { bundled, bundleOf, turned, unbundled } from './group-bundles.js';
import { channelsLast, FIRST, geometryOf, isByWarps, isFor, isTurned, LAST, reorder } from './last-op.js';
import { aligned, blocksOf, cut, fromBlocks, toBlocks } from './space-to-depth.js';
import { suitsConvolution } from './warpgroup.js';
import { type MatrixProduct, windowProduct } from './window-product.js';

/**
 * Channels from which own kernels gain by it: on both sides, or on one if the other has few, as the colours of an image.
 * Those of their steps of 32 that are missing are zeros. In f32 kernels with channels first are as fast on fewer: these convolutions
 * are computed so where that spares others conversions.
 */
const LEAST_CHANNELS = { both: 16, one: 64, f32: 64, colours: 4 } as const;

/** Whether own kernels or the library take it so. */
function suits(target: Target, node: GraphNode, arg: Conv2dArg, direction: Direction): boolean {
  const isOfWarpgroups = arg.groups > 1 || node.src[0]!.dtype === f32;
  return isFor(target, node, arg) && (!isOfWarpgroups || suitsWarpgroups(node, arg, direction));
}

/** Whether it is faster so: by the library, or by own kernels. In tf32 a step of resnet18 takes less by those than by the library. */
function gains(target: Target, node: GraphNode, arg: Conv2dArg, direction: Direction): boolean {
  const { groups } = arg;
  const { dtype } = node.src[0]!;
  const [outputs, perGroup] = weightsOf(node, direction).shape as [number, number];
  // No kernel takes bytes otherwise.
  if (dtype === i8) return true;
  const inputs = groups * perGroup;
  const [fewer, more] = [Math.min(outputs, inputs), Math.max(outputs, inputs)];
  if (dtype === f32)
    return fewer >= LEAST_CHANNELS.f32 || (fewer <= LEAST_CHANNELS.colours && more >= LEAST_CHANNELS.f32);
  const { kernel } = arg;
  const ofPixel = gathers(arg, direction, inputs, dtype) ? kernel[0] * kernel[1] * inputs : inputs;
  const byOwn = Math.min(outputs, ofPixel) >= LEAST_CHANNELS.both || more >= LEAST_CHANNELS.one;
  return byOwn || target.libraries.has('cudnn.convolution');
}

/** What is shaped as the weights, (O, C/G, kH, kW). */
const weightsOf = (node: GraphNode, direction: Direction): GraphNode =>
  direction === 'weight' ? node : node.src[1]!;

/** Whether warpgroups can do it, with channels that are aligned, or groups in bundles. */
function suitsWarpgroups(node: GraphNode, arg: Conv2dArg, direction: Direction): boolean {
  const { shape, dtype } = node.src[0]!;
  const weights = weightsOf(node, direction);
  const n = bundleOf(weights, arg.groups);
  const groups = arg.groups / n;
  const [outputs, inputs] = [weights.shape[0]! / groups, weights.shape[1]! * n];
  const [o, c] = [outputs, inputs].map((all) => all + (groups > 1 ? 0 : missing(all, dtype))) as [
    number,
    number,
  ];
  const [from, to] = direction === 'input' ? [o, c] : [c, o];
  const sizes = { images: shape[0]!, inputs: from, outputs: to, dtype };
  return suitsConvolution(geometryOf({ ...arg, groups }, direction, sizes));
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

/**
 * Whether all that meets a pixel of the result, a few channels of a few taps, fits into one step of warpgroups. It is gathered
 * then, as the channels of a 1 × 1 convolution: the copy engine takes long for rows of few bytes, and each row of taps would be
 * a step.
 */
const gathers = (
  { groups, kernel }: Conv2dArg,
  direction: Direction,
  channels: number,
  dtype: DType,
): boolean =>
  direction !== 'input' &&
  groups === 1 &&
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
 * @param storesAny whether all its kernels store any dtype that an epilogue gives; default: false
 * @param product of matrices as of its sources, if there is one
 */
export function reorderedBy<Arg extends Conv2dArg>(
  of: FusedOp<Arg>,
  direction: Direction,
  channels: readonly (readonly number[])[],
  { storesAny = false, product }: { readonly storesAny?: boolean; readonly product?: MatrixProduct } = {},
): NonNullable<FusedOp<Arg>['reordered']> {
  const op = channelsLast(of, direction, storesAny);
  return (target, node, arg): Reordered | undefined => {
    if (node.src.some((s) => s.size === 0)) return undefined;
    if (suitsDepthwise(target, node, arg, direction))
      return { order: LAST, make: (sources) => b.call(op, sources, arg) };
    const isFaster = gains(target, node, arg, direction);
    const saves = isFaster ? savedBy(of, target, node, arg) : 0;
    // Kernels with channels last take aligned channels where they are, without a pass over the images.
    const isAligned = missing(weightsOf(node, direction).shape[1]!, node.src[0]!.dtype) === 0;
    const ofWindows =
      product && !isAligned && isFor(target, node, arg)
        ? windowProduct(target, node, arg, direction, product)
        : undefined;
    if (ofWindows && (isFaster || ofWindows.saves > 0))
      return { ...ofWindows, saves: Math.max(saves, ofWindows.saves) };
    if (!suits(target, node, arg, direction)) return undefined;
    if (!isFaster && node.src[0]!.dtype !== f32) return undefined;
    const way = { order: LAST, ...(isFaster ? { saves } : { follows: true, leads: true }) };
    // Images whose channels are copied to more anyway become blocks of pixels, where that is less work.
    const { dtype } = node.src[0]!;
    const colours = direction === 'input' ? 0 : node.src[0]!.shape[1]!;
    const missed = missing(colours, dtype);
    if (gathers(arg, direction, colours, dtype)) {
      const { kernel } = arg;
      const taps = kernel[0] * kernel[1] * colours;
      const ofPixel = { kernel: [1, 1], stride: [1, 1], dilation: [1, 1], padding: [0, 0] } as const;
      return {
        ...way,
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
      missed > 0 && arg.groups === 1 && isByWarps(dtype)
        ? blocksOf(arg, colours, colours + missed, dtype)
        : undefined;
    if (blocks)
      return {
        ...way,
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
    const padding = [arg.padding[0], arg.padding[1] - beside] as const;
    const { groups } = arg;
    const n = bundleOf(weightsOf(node, direction), groups);
    const bundles = { ...arg, size, padding, groups: groups / n };
    return {
      ...way,
      make: ([images, second]) => {
        const first = aligned(images!, channels[0]!, beside);
        const filters = direction === 'weight' ? second! : bundled(second!, groups, n);
        const other = aligned(filters, channels[1]!);
        const given = isTurned(direction, other, bundles) ? turned(other, bundles.groups) : other;
        const made = b.call(op, [first, given], bundles);
        const shape = reorder(node.shape, LAST);
        if (direction !== 'weight') return cut(made, shape);
        const [outputs, rows, columns, inputs] = shape as [number, number, number, number];
        return unbundled(cut(made, [outputs, rows, columns, n * inputs]), groups, n);
      },
    };
  };
}
