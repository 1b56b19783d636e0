/**
 * Convolution and its two gradients on channels-last operands, x (N, H, W, C), w (O, kH, kW, C) and y (N, outH, outW, O):
 * the values a tensor core multiplies lie side by side there. Tensors stay NCHW; schedule/orders.ts decides what is stored
 * so.
 */
import { isHalf } from '../../core/dtype.js';
import type { Shape } from '../../core/shape.js';
import * as b from '../../graph/build.js';
import type { FusedOp, KernelIo, Reordered } from '../../graph/fused-op.js';
import type { GraphNode, TensorType } from '../../graph/node.js';
import type { Target } from '../../kernel/ir/target.js';
import { cudnnChannelsLastVariants } from '../vendor.js';
import type { Conv2dArg } from './arg.js';

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
        name: `${of.name}-cudnn-last`,
        when: isFor,
        // The routine writes the output; elementwise ops after it are another launch.
        finishes: false,
        plan: (io, arg) => cudnnChannelsLastVariants(io, arg, direction)[0]!.plan(),
        variants: (io: KernelIo, arg) => cudnnChannelsLastVariants(io, arg, direction),
      },
    ],
  };
}

const isFor = ({ model, libraries, capability }: Target, { dtype, size }: GraphNode): boolean =>
  model === 'threads' && capability >= 80 && libraries.has('cudnn.convolution') && isHalf(dtype) && size > 0;

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
 * How `of` is computed with channels last, where a library does that with 16-bit floats on tensor cores.
 * @param channels of each source, the dimensions in its channels-last order that are channels
 */
export function reorderedBy(
  of: FusedOp<Conv2dArg>,
  direction: Direction,
  channels: readonly (readonly number[])[],
): NonNullable<FusedOp<Conv2dArg>['reordered']> {
  const op = channelsLast(of, direction);
  return (target, node, arg): Reordered | undefined => {
    if (!isFor(target, node) || arg.groups !== 1 || node.src.some((s) => s.size === 0)) return undefined;
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
