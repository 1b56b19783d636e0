/** What max pooling and its gradient are, in primitives, and as functions of windows side by side. */
import { type DType, i32, NUMBER_LIMITS } from '../../core/dtype.js';
import * as b from '../../graph/build.js';
import type { WindowFunction } from '../../graph/fused-op.js';
import type { GraphNode } from '../../graph/node.js';
import type { Expr, Variable } from '../../kernel/ir/ir.js';
import * as k from '../../kernel/ir/ir.js';
import { type Conv2dArg, outputSize } from '../conv2d/arg.js';
import { storedWindowsOp } from '../stored-windows/op.js';

/** A pooling slides as a convolution does, each channel separately. */
export type PoolArg = Omit<Conv2dArg, 'groups'>;

export const pooledSize = (arg: PoolArg): readonly [number, number] => outputSize({ ...arg, groups: 1 });

const around = ({ padding }: PoolArg): number[] => [0, 0, ...padding];

/** What lies around an image: no element is less. */
export const leastOf = (dtype: DType): number => NUMBER_LIMITS[dtype.name]?.[0] ?? Number.NEGATIVE_INFINITY;

/** (N, C, H, W) → (N, C, outH, outW, kH·kW) */
function windows(x: GraphNode, arg: PoolArg): GraphNode {
  const seen = b.window(b.pad(x, around(arg), around(arg), leastOf(x.dtype)), arg);
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

/** Whether the windows are side by side, without padding or holes. */
export const areSideBySide = ({ kernel, stride, padding, dilation }: PoolArg): boolean =>
  kernel.every((n, i) => stride[i] === n && padding[i] === 0 && (dilation[i] === 1 || n === 1));

const ofWindows = (arg: PoolArg, compute: WindowFunction['compute']): WindowFunction | undefined =>
  areSideBySide(arg) ? { sizes: arg.kernel, compute, stored: storedWindowsOp } : undefined;

function largestOf(values: readonly Expr[]): Expr {
  if (values.length === 1) return values[0]!;
  const half = values.length >> 1;
  return k.alu('max', [largestOf(values.slice(0, half)), largestOf(values.slice(half))]);
}

/** `largest` as a function of windows. */
export const largestOfWindows = (arg: PoolArg): WindowFunction | undefined =>
  ofWindows(arg, (values) => largestOf(values));

/** `firstLargest` as a function of windows. */
export const firstLargestOfWindows = (arg: PoolArg): WindowFunction | undefined =>
  ofWindows(arg, (values, emit) => {
    const { type } = values[0]!;
    const most: Variable = { name: 'most', type, constant: true };
    emit(k.declare(most, largestOf(values)));
    const place = (i: number): Expr => k.splat(k.int(i), type.lanes);
    return values.reduceRight(
      (later, v, i) => k.select(k.alu('eq', [v, k.read(most)]), place(i), later),
      place(values.length),
    );
  });

/** Whether windows touch every pixel at most once, and all between their corners. */
export const isApart = ({ kernel, stride, dilation }: PoolArg): boolean =>
  kernel.every((k, i) => stride[i]! >= k && (dilation[i] === 1 || k === 1));
