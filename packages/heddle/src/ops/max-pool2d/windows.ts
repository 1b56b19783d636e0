/** What max pooling and its gradient are, in primitives. */
import { i32 } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import type { GraphNode } from '../../graph/node.js';
import { type Conv2dArg, outputSize } from '../conv2d/arg.js';

/** A pooling slides as a convolution does, each channel separately. */
export type PoolArg = Omit<Conv2dArg, 'groups'>;

export const pooledSize = (arg: PoolArg): readonly [number, number] => outputSize({ ...arg, groups: 1 });

const around = ({ padding }: PoolArg): number[] => [0, 0, ...padding];

/** (N, C, H, W) → (N, C, outH, outW, kH·kW) */
function windows(x: GraphNode, arg: PoolArg): GraphNode {
  const seen = b.window(b.pad(x, around(arg), around(arg), Number.NEGATIVE_INFINITY), arg);
  return b.reshape(seen, [...seen.shape.slice(0, 4), arg.kernel[0] * arg.kernel[1]]);
}

/** (N, C, H, W) → (N, C, outH, outW): the largest of each window, NaN if it holds one. */
export function largest(x: GraphNode, arg: PoolArg): GraphNode {
  const most = b.reduce('max', windows(x, arg), [4]);
  return b.reshape(most, most.shape.slice(0, 4));
}

/** (N, C, H, W) → i32 (N, C, outH, outW): where the first of the largest is in its window, in row order; kH·kW if it holds NaN. */
export function firstLargest(x: GraphNode, arg: PoolArg): GraphNode {
  const seen = windows(x, arg);
  const most = b.broadcast('maxPool2d', seen, b.reduce('max', seen, [4])) as [GraphNode, GraphNode];
  const none = b.full(seen.shape, i32, arg.kernel[0] * arg.kernel[1]);
  const first = b.reduce('min', b.where(b.map('eq', ...most), b.iota(seen.shape, 4), none), [4]);
  return b.reshape(first, first.shape.slice(0, 4));
}

/** positions i32, g (N, C, outH, outW) → (N, C, H, W): each g where the position in its window says, summed; 0 elsewhere. */
export function toPositions(positions: GraphNode, g: GraphNode, arg: PoolArg): GraphNode {
  const { size, padding, kernel } = arg;
  const wide = b.reshape(g, [...g.shape, 1]);
  const at = b.iota([...g.shape, kernel[0] * kernel[1]], 4);
  const hit = b.map('eq', at, b.reshape(positions, [...g.shape, 1]));
  const seen = b.reshape(b.where(hit, wide, b.like(wide, 0)), [...g.shape, ...kernel]);
  const padded = b.fold(seen, [size[0] + 2 * padding[0], size[1] + 2 * padding[1]], arg);
  return b.slice(padded, around(arg), [...g.shape.slice(0, 2), ...size]);
}
