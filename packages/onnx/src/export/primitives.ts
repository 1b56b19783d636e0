/** The primitives of the graph as ONNX operators, one record each. */
import { i32 } from 'heddle/internal/core/dtype.js';
import { ArgumentError } from 'heddle/internal/core/errors.js';
import {
  argOf,
  type GraphArgs,
  type GraphNode,
  type GraphOp,
  type ReduceOp,
} from 'heddle/internal/graph/node.js';
import type { Emission } from './emission.js';
import { writeCall } from './fused-ops.js';
import { int, ints, text } from './graph-writer.js';
import { writePattern } from './patterns.js';
import { SCALAR_OPS } from './scalar-ops.js';
import { isFixed, type Size } from './sizes.js';

/** Writes a node. @returns its value */
type WriteNode<Op extends GraphOp> = (io: Emission, node: GraphNode, arg: GraphArgs[Op]) => string;

const REDUCE: Readonly<Record<ReduceOp, string>> = {
  sum: 'ReduceSum',
  max: 'ReduceMax',
  min: 'ReduceMin',
  prod: 'ReduceProd',
};

/** A size of 1 in each trace. */
const ones = (size: Size): Size => size.map(() => 1);

/** The coordinates along one axis, with as many dimensions as the node, of size 1 but for that one. */
function iota(io: Emission, node: GraphNode, axis: number): string {
  const sizes = io.traces.sizes(node);
  const size = sizes[axis]!;
  const scalar = (value: number): string => io.scalar(value, i32);
  const end = isFixed(size) ? scalar(size[0]!) : io.cast(io.add('Squeeze', [io.sizes([size])]), i32);
  const row = io.add('Range', [scalar(0), end, scalar(1)]);
  const own = sizes.map((s, i) => (i === axis ? s : ones(s)));
  return io.reshape(row, [size], own);
}

/** Positions of `kernel` taps for `count` windows, (count, kernel). */
const taps = (count: number, kernel: number, stride: number, dilation: number): number[] =>
  Array.from({ length: count * kernel }, (_, i) => Math.floor(i / kernel) * stride + (i % kernel) * dilation);

/** Beyond the end of any dimension. */
const FAR = 2 ** 31 - 1;

/** Positions as they are if they are fixed, else counted from the end if they are fixed so. */
function fromEitherEnd(positions: Size, size: Size): Size {
  const back = positions.map((n, i) => n - size[i]!);
  return !isFixed(positions) && isFixed(back) && back[0]! < 0 ? back : positions;
}

export const PRIMITIVES: { readonly [Op in GraphOp]: WriteNode<Op> } = {
  leaf: (io, node) => io.leaf(node),
  full: (io, node) => io.add('Expand', [io.known(node), io.sizes(io.traces.sizes(node))]),
  iota: (io, node, { axis }) =>
    node.shape.length === 1
      ? iota(io, node, axis)
      : io.add('Expand', [iota(io, node, axis), io.sizes(io.traces.sizes(node))]),
  map: (io, node, { op }) => {
    if (op === 'cast') return io.cast(io.value(node.src[0]!), node.dtype);
    if (op === 'bitcast')
      throw new ArgumentError(
        `[exportOnnx] ONNX has no operator that reads the bits of ${node.src[0]!.dtype.name} as ${node.dtype.name}, as ${io.where(node)} does.`,
      );
    const known = writePattern(io, node);
    if (known !== undefined) return known;
    const operands = io.broadcastable(node.src, node);
    return op === 'select' ? io.add('Where', operands) : SCALAR_OPS[op](io, operands, node.src[0]!.dtype);
  },
  reduce: (io, node, { op, axes }) => io.add(REDUCE[op], [io.value(node.src[0]!), io.integers(axes)]),
  reshape: (io, node) => {
    const [x] = node.src as [GraphNode];
    return io.reshape(io.value(x), io.traces.sizes(x), io.traces.sizes(node));
  },
  permute: (io, node, { axes }) => io.transpose(io.value(node.src[0]!), axes),
  expand: (io, node) => io.add('Expand', [io.value(node.src[0]!), io.sizes(io.traces.sizes(node))]),
  pad: (io, node, { value }) => {
    const around = (n: GraphNode): number[] => [...argOf(n, 'pad').before, ...argOf(n, 'pad').after];
    const amounts = io.traces.twins(node).map(around);
    const sizes = amounts[0]!.map((_, i) => amounts.map((a) => a[i]!));
    const fill = value === 0 ? undefined : io.scalar(value, node.dtype);
    return io.add('Pad', [io.value(node.src[0]!), io.sizes(sizes), fill], { mode: text('constant') });
  },
  slice: (io, node) => {
    const [x] = node.src as [GraphNode];
    const args = io.traces.args(node, 'slice');
    const from = io.traces.sizes(x);
    const read = (of: (arg: GraphArgs['slice'], axis: number) => number, axis: number): Size =>
      args.map((arg) => of(arg, axis));
    const axes = node.shape.flatMap((_, i) => {
      const isAll = args.every(
        (arg, k) => arg.start[i] === 0 && arg.step[i] === 1 && arg.size[i] === from[i]![k],
      );
      return isAll ? [] : [i];
    });
    const starts = axes.map((i) =>
      fromEitherEnd(
        read((arg, axis) => arg.start[axis]!, i),
        from[i]!,
      ),
    );
    const steps = io.traces.fixed(node, 'the step', (n) => axes.map((i) => argOf(n, 'slice').step[i]!));
    // One beyond the last element; before the first, going backwards, is any number below −size.
    const ends = axes.map((i) => {
      const end = read((arg, axis) => arg.start[axis]! + arg.step[axis]! * arg.size[axis]!, i);
      if (end.every((n) => n < 0)) return end.map(() => -FAR);
      if (!isFixed(end) && end.every((n, k) => n >= from[i]![k]!)) return end.map(() => FAR);
      return fromEitherEnd(end, from[i]!);
    });
    const inputs = [io.value(x), io.sizes(starts), io.sizes(ends), io.integers(axes)];
    return io.add('Slice', steps.every((s) => s === 1) ? inputs : [...inputs, io.integers(steps)]);
  },
  // Rows of windows, then columns within them: (…, H, W) → (…, outH, kH, W) → (…, outH, kH, outW, kW).
  window: (io, node, { kernel, stride, dilation }) => {
    const rank = node.shape.length;
    const counts = io.traces.fixed(node, 'the number of windows', (n) => n.shape.slice(-4, -2));
    const index = (i: 0 | 1): string =>
      io.writer.constant(taps(counts[i]!, kernel[i], stride[i], dilation[i]), i32, [counts[i]!, kernel[i]]);
    const rows = io.add('Gather', [io.value(node.src[0]!), index(0)], { axis: int(rank - 4) });
    const both = io.add('Gather', [rows, index(1)], { axis: int(rank - 2) });
    const lead = node.shape.slice(0, -4).map((_, i) => i);
    return io.transpose(both, [...lead, rank - 4, rank - 2, rank - 3, rank - 1]);
  },
  // Col2Im sums columns (N, kH·kW, windows): all dimensions before the windows' are its batch.
  fold: (io, node, { kernel, stride, dilation }) => {
    const [x] = node.src as [GraphNode];
    const rank = x.shape.length;
    const sizes = io.traces.sizes(x);
    const size = io.traces.fixed(node, 'the size', (n) => n.shape.slice(-2));
    const counts = io.traces.fixed(x, 'the number of windows', (n) => n.shape.slice(-4, -2));
    const lead = sizes.slice(0, -4);
    const product = (of: readonly Size[]): Size =>
      of.reduce((a, b) => a.map((n, i) => n * b[i]!), ones(sizes[0]!));
    const fixed = (n: number): Size => sizes[0]!.map(() => n);
    const columns = io.transpose(io.value(x), [
      ...lead.map((_, i) => i),
      ...[rank - 2, rank - 1, rank - 4, rank - 3],
    ]);
    const own = [...lead, fixed(kernel[0]), fixed(kernel[1]), fixed(counts[0]!), fixed(counts[1]!)];
    const flat = [product(lead), fixed(kernel[0] * kernel[1]), fixed(counts[0]! * counts[1]!)];
    const image = io.add('Col2Im', [io.reshape(columns, own, flat), io.integers(size), io.integers(kernel)], {
      strides: ints(stride),
      dilations: ints(dilation),
    });
    return io.reshape(image, [flat[0]!, fixed(1), fixed(size[0]!), fixed(size[1]!)], io.traces.sizes(node));
  },
  gather: (io, node, { axis }) => {
    const [x, index] = node.src as [GraphNode, GraphNode];
    return io.add('GatherElements', [io.value(x), io.value(index)], { axis: int(axis) });
  },
  scatterAdd: (io, node, { axis }) => {
    const [values, index] = node.src as [GraphNode, GraphNode];
    const zeros = io.add('Expand', [io.scalar(0, node.dtype), io.sizes(io.traces.sizes(node))]);
    return io.add('ScatterElements', [zeros, io.value(index), io.value(values)], {
      axis: int(axis),
      reduction: text('add'),
    });
  },
  random: (io, node) => {
    throw new ArgumentError(
      `[exportOnnx] ${io.where(node)} draws random numbers in evaluation mode, which would not be the same in ONNX. ` +
        'Draw them outside and pass them in.',
    );
  },
  detach: (io, node) => io.value(node.src[0]!),
  call: (io, node) => writeCall(io, node),
};

/** Write a node of any kind. @returns its value */
export const writeNode = (node: GraphNode, io: Emission): string =>
  (PRIMITIVES[node.op] as WriteNode<GraphOp>)(io, node, node.arg);
