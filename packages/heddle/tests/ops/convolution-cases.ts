/** Convolutions of all kinds, small enough for the simulator. */
import { f32 } from '../../src/core/dtype.js';
import { call, leaf } from '../../src/graph/build.js';
import type { FusedOp } from '../../src/graph/fused-op.js';
import type { GraphNode } from '../../src/graph/node.js';
import type { Target } from '../../src/kernel/ir/target.js';
import type { Conv2dArg } from '../../src/ops/conv2d/op.js';

export interface ConvolutionCase {
  readonly name: string;
  readonly n: number;
  /** Channels in and out, of all groups. */
  readonly c: number;
  readonly o: number;
  readonly arg: Conv2dArg;
}

const both = (n: number | [number, number]): [number, number] => (typeof n === 'number' ? [n, n] : n);
type Side = number | [number, number];
export const conv = (
  name: string,
  [n, c, o]: [number, number, number],
  size: Side,
  kernel: Side,
  rest: { stride?: Side; dilation?: Side; padding?: Side; groups?: number } = {},
): ConvolutionCase => {
  const { stride = 1, dilation = 1, padding = 0, groups = 1 } = rest;
  const arg = {
    ...{ size: both(size), kernel: both(kernel), stride: both(stride), groups },
    ...{ dilation: both(dilation), padding: both(padding) },
  };
  return { name, n, c, o, arg };
};

/** Without groups, and with channels that are multiples of 8. */
export const LAST_CASES: readonly ConvolutionCase[] = [
  conv('40 channels to 24, stride 2', [1, 40, 24], [5, 7], 3, { stride: 2, padding: 1 }),
  conv('stride 2 by 1, dilated', [2, 16, 8], [7, 6], [3, 2], {
    stride: [2, 1],
    dilation: [1, 2],
    padding: [1, 0],
  }),
  conv('1×1 to 72 channels', [3, 24, 72], 4, 1),
  conv('stride 3 by 2, dilated', [1, 8, 8], [10, 9], 3, { stride: [3, 2], dilation: [2, 1], padding: 2 }),
];

/** In groups, of which several are one for kernels on Hopper, and in groups that fill no tile or more than one. */
export const LAST_GROUPED: readonly ConvolutionCase[] = [
  conv('32 groups of 4', [1, 128, 128], [3, 4], 3, { padding: 1, groups: 32 }),
  conv('9 groups of 8 to 16, stride 2', [1, 72, 144], [5, 7], 3, { stride: 2, padding: 1, groups: 9 }),
  conv('2 groups of 72 to 40', [1, 144, 80], [4, 3], [3, 2], { padding: [0, 1], groups: 2 }),
  conv('3 groups of 24, stride 2 by 1, dilated', [2, 72, 72], [5, 4], [3, 2], {
    ...{ stride: [2, 1], dilation: [1, 2], padding: [1, 0], groups: 3 },
  }),
  conv('4 groups of 32, stride 2 of equal phases', [1, 128, 128], [4, 6], 3, {
    ...{ stride: 2, padding: 1, groups: 4 },
  }),
  conv('1×1 in 4 groups of 16 to 32', [3, 64, 128], [3, 4], 1, { groups: 4 }),
];

/** Each channel by itself, for kernels whose threads have 4, 2 or 1 channels. */
export const LAST_DEPTHWISE: readonly ConvolutionCase[] = [
  conv('3×3 of 8 channels', [2, 8, 8], [6, 9], 3, { groups: 8, padding: 1 }),
  conv('6 channels, stride 2', [2, 6, 6], [9, 7], 3, { groups: 6, stride: 2, padding: 1 }),
  conv('5 channels, strided and dilated', [2, 5, 5], [9, 11], [3, 2], {
    ...{ groups: 5, stride: [2, 1], dilation: [1, 2], padding: [0, 3] },
  }),
  conv('12 channels, stride 3 by 2', [1, 12, 12], [11, 10], [2, 5], {
    ...{ groups: 12, stride: [3, 2], padding: [1, 2] },
  }),
  conv('more channels than a block has', [1, 132, 132], [3, 4], [1, 3], { groups: 132, padding: [0, 1] }),
  conv('stride beyond the kernel', [2, 4, 4], [7, 8], 1, { groups: 4, stride: 3 }),
  conv('padded more than it reaches', [1, 4, 4], [4, 5], 2, { groups: 4, padding: 3 }),
  conv('three filters each', [2, 3, 9], [7, 8], 3, { groups: 3, padding: 1 }),
  conv('two filters each, stride 3 by 2', [1, 4, 8], [11, 8], [5, 3], {
    ...{ groups: 4, stride: [3, 2], padding: 1 },
  }),
  conv('9×11 taps', [1, 2, 2], [10, 12], [9, 11], { groups: 2, padding: [4, 5] }),
];

/** The call of `op` on sources with channels last that stands for that on these sources. */
export function lastCall<Arg>(
  op: FusedOp<Arg>,
  sources: readonly GraphNode[],
  arg: Arg,
  target: Target,
): GraphNode {
  const last = sources.map(({ shape: [n, c, h, w], dtype }) => leaf([n!, h!, w!, c!], dtype));
  // For a library as well as for own kernels: these take few channels, too. In f32 there are own kernels only.
  const wide = sources[0]!.dtype === f32 ? target : { ...target, libraries: new Set(['cudnn.convolution']) };
  let node = op.reordered!(wide, call(op, sources, arg), arg)!.make(last);
  while (node.op !== 'call') node = node.src[0]!;
  return node;
}

export const CASES: readonly ConvolutionCase[] = [
  conv('3×3', [2, 3, 4], [6, 10], 3),
  conv('rows of 11 and channels 5', [1, 2, 5], [5, 13], 3),
  conv('rows of 13, channels 13', [1, 1, 13], [4, 15], [2, 3]),
  conv('rows of 18', [1, 2, 8], [3, 20], [1, 3]),
  conv('one column over, 34 channels', [1, 2, 34], [4, 11], 3),
  conv('two columns over, 18 channels', [1, 3, 18], [3, 12], [2, 3], { padding: 1 }),
  conv('six columns over, 16 channels', [2, 16, 16], [3, 8], 3),
  conv('seven channels to nine, padded', [3, 7, 9], [5, 6], 3, { padding: 1 }),
  conv('strided, dilated, twelve channels', [2, 12, 20], [9, 11], [3, 2], {
    ...{ stride: [2, 1], dilation: [1, 2], padding: 1 },
  }),
  conv('dilated rows, stride 2, eight channels in groups', [2, 16, 16], [9, 8], 3, {
    ...{ stride: 2, dilation: [2, 1], padding: [2, 1], groups: 2 },
  }),
  conv('one long row', [2, 9, 20], [1, 96], [1, 5], { padding: [0, 2] }),
  conv('one long row, dilated, in groups', [1, 16, 16], [1, 128], [1, 3], {
    ...{ padding: [0, 4], dilation: [1, 4], groups: 2 },
  }),
  conv('1×1', [2, 5, 3], [3, 7], 1),
  conv('5×5 padded', [2, 1, 6], [7, 9], 5, { padding: 2 }),
  conv('padded above only', [1, 2, 2], [5, 8], 3, { padding: [1, 0] }),
  conv('padded aside only', [1, 2, 2], [5, 8], 3, { padding: [0, 1] }),
  conv('padded more than it reaches', [1, 2, 2], [4, 5], 2, { padding: 3 }),
  conv('stride 2', [1, 2, 4], [9, 11], 3, { stride: 2 }),
  conv('stride 2 padded', [2, 3, 2], [8, 10], 3, { stride: 2, padding: 1 }),
  conv('stride 3 by 2, kernel 2', [1, 1, 3], [9, 12], 2, { stride: [3, 2] }),
  conv('stride beyond the kernel', [1, 2, 2], [7, 17], 1, { stride: 3 }),
  conv('dilated', [1, 2, 3], [8, 11], 3, { dilation: 2 }),
  conv('dilated, strided, padded', [1, 2, 3], [9, 14], 3, {
    dilation: [2, 3],
    stride: [2, 2],
    padding: [2, 3],
  }),
  conv('groups', [2, 4, 6], [5, 8], 3, { groups: 2 }),
  conv('depthwise, padded', [1, 3, 3], [5, 6], 3, { groups: 3, padding: 1 }),
  conv('depthwise, strided, dilated', [2, 5, 5], [19, 23], [3, 2], {
    ...{ groups: 5, stride: 2, dilation: [2, 3], padding: [1, 2] },
  }),
  conv('depthwise, rows of 12, stride 2', [2, 4, 4], [10, 12], 3, { groups: 4, stride: 2, padding: 1 }),
  conv('depthwise, three filters each', [2, 3, 9], [7, 8], 3, { groups: 3, padding: 1 }),
  conv('depthwise, two filters each, stride 3 by 2', [1, 4, 8], [11, 14], [5, 3], {
    ...{ groups: 4, stride: [3, 2], padding: 1 },
  }),
  conv('depthwise, 9×11 taps', [1, 2, 2], [12, 16], [9, 11], { groups: 2, padding: [4, 5] }),
  conv('depthwise, one long row', [1, 3, 3], [1, 96], [1, 5], { groups: 3, padding: [0, 2] }),
  conv('many images', [9, 1, 2], [3, 6], 3),
];
