/** Operators that move elements: shapes, order, parts, repetition. They work on values of the host as on tensors. */
import { type Shape, ShapeError } from 'heddle';
import { formatShape, sizeOf } from 'heddle/internal/core/shape.js';
import { ELEMENT_TYPES } from '../file/element-types.js';
import { constantFill } from '../values/constant.js';
import { cells, type HostValue, hostTensor } from '../values/host-ops.js';
import { listOf, requireParts } from '../values/limits.js';
import { Value } from '../values/value.js';
import { float, floats, int, ints, required, text } from './attributes.js';
import { type Call, operator } from './operator.js';

const ones = (n: number): number[] => new Array<number>(n).fill(1);
const zeros = (n: number): number[] => new Array<number>(n).fill(0);

/** The axes of a node: an input since version 13, an attribute before. */
export const axesOf = (call: Call, at: number): number[] | undefined =>
  call.numbers(at) ?? (call.attributes.axes as number[] | undefined);

/** The sizes of `Reshape`: 0 keeps a size, −1 stands for what is left. */
function reshaped(call: Call, x: Value, sizes: readonly number[], allowZero: boolean): number[] {
  const kept = sizes.map((size, i) => {
    if (size !== 0 || allowZero) return size;
    const from = x.shape[i];
    if (from === undefined)
      throw call.shapeError(`size 0 of dimension ${i} keeps a dimension that ${formatShape(x.shape)} lacks.`);
    return from;
  });
  const free = kept.indexOf(-1);
  if (kept.some((size, i) => size < 0 && i !== free)) throw call.shapeError(`cannot reshape to (${sizes}).`);
  if (free < 0) return kept;
  const rest = kept.reduce((n, size, i) => (i === free ? n : n * size), 1);
  if (rest === 0 ? x.size !== 0 || sizes.includes(0) : x.size % rest !== 0)
    throw call.shapeError(`cannot infer the −1 dimension of (${sizes}) for ${formatShape(x.shape)}.`);
  return kept.map((size, i) => (i === free ? (rest === 0 ? 0 : x.size / rest) : size));
}

const Reshape = operator({
  since: [5, 13, 14, 19, 21, 23, 24, 25],
  inputs: [2],
  known: [1],
  attributes: { allowzero: int(0, { from: 14 }) },
  compute: (call) => {
    const x = call.value(0);
    return x.reshape(reshaped(call, x, call.numbers(1)!, call.attributes.allowzero === 1));
  },
});

const Flatten = operator({
  since: [1, 9, 11, 13, 21, 23, 24, 25],
  inputs: [1],
  attributes: { axis: int(1) },
  compute: (call) => {
    const x = call.value(0);
    const axis = call.attributes.axis === x.rank ? x.rank : call.axis(call.attributes.axis, x.rank);
    return x.reshape([sizeOf(x.shape.slice(0, axis)), sizeOf(x.shape.slice(axis))]);
  },
});

const Squeeze = operator({
  since: [1, 11, 13, 21, 23, 24, 25],
  inputs: [1, 2],
  known: [1],
  attributes: { axes: ints(undefined, { until: 12 }) },
  compute: (call) => {
    const x = call.value(0);
    const given = axesOf(call, 1);
    const axes = given ? call.axes(given, x.rank) : x.shape.flatMap((d, i) => (d === 1 ? [i] : []));
    const wide = axes.find((a) => x.shape[a] !== 1);
    if (wide !== undefined)
      throw call.shapeError(`dimension ${wide} of ${formatShape(x.shape)} has not size 1.`);
    return x.reshape(x.shape.filter((_, i) => !axes.includes(i)));
  },
});

const Unsqueeze = operator({
  since: [1, 11, 13, 21, 23, 24, 25],
  inputs: [1, 2],
  known: [1],
  attributes: { axes: ints(undefined, { until: 12 }) },
  compute: (call) => {
    const x = call.value(0);
    const given = axesOf(call, 1) ?? [];
    const rank = x.rank + given.length;
    const axes = new Set(call.axes(given, rank));
    const left = [...x.shape];
    return x.reshape(listOf(rank, (_, i) => (axes.has(i) ? 1 : left.shift()!)));
  },
});

const Transpose = operator({
  since: [1, 13, 21, 23, 24, 25],
  inputs: [1],
  attributes: { perm: ints(undefined) },
  compute: (call) => {
    const x = call.value(0);
    const perm = call.attributes.perm ?? x.shape.map((_, i) => x.rank - 1 - i);
    if (perm.length !== x.rank)
      throw call.shapeError(`perm has ${perm.length} axes for ${x.rank} dimensions.`);
    return x.permute(call.axes(perm, x.rank));
  },
});

const Expand = operator({
  since: [8, 13],
  inputs: [2],
  known: [1],
  compute: (call) => {
    const x = call.value(0);
    return x.expand(bothWays(call, x.shape, call.numbers(1)!));
  },
});

/** The shape that two broadcast to. */
function bothWays(call: Pick<Call, 'shapeError'>, a: Shape, b: Shape): number[] {
  const rank = Math.max(a.length, b.length);
  return listOf(rank, (_, i) => {
    const p = a[i - rank + a.length] ?? 1;
    const q = b[i - rank + b.length] ?? 1;
    if (p !== q && p !== 1 && q !== 1)
      throw call.shapeError(`${formatShape(a)} and ${formatShape(b)} do not broadcast.`);
    return p === 1 ? q : p;
  });
}

const Tile = operator({
  since: [6, 13],
  inputs: [2],
  known: [1],
  compute: (call) => {
    const x = call.value(0);
    const repeats = call.numbers(1)!;
    if (repeats.length !== x.rank || repeats.some((n) => n < 0))
      throw call.shapeError(`repeats are (${repeats}), must be a count for each of ${x.rank} dimensions.`);
    const paired = x.reshape(x.shape.flatMap((d) => [1, d]));
    return paired
      .expand(x.shape.flatMap((d, i) => [repeats[i]!, d]))
      .reshape(x.shape.map((d, i) => d * repeats[i]!));
  },
});

const Concat = operator({
  since: [4, 11, 13],
  inputs: [1, Number.POSITIVE_INFINITY],
  attributes: { axis: required(int(undefined)) },
  compute: (call) => {
    const parts = call.values();
    const other = parts.find(({ type }) => type !== parts[0]!.type);
    if (other)
      throw call.typeError(`inputs are ${parts[0]!.type.name} and ${other.type.name}, must be of one type.`);
    return Value.concat(parts, call.axis(call.attributes.axis, parts[0]!.rank));
  },
});

/** NumPy's slices along some axes. */
export function sliced(
  x: Value,
  axes: readonly number[],
  starts: readonly number[],
  ends: readonly number[],
  steps: readonly number[],
): Value {
  const [start, size, step] = [zeros(x.rank), [...x.shape], ones(x.rank)];
  for (const [i, axis] of axes.entries()) {
    const length = x.shape[axis]!;
    const by = steps[i]!;
    if (by === 0) throw new ShapeError('[onnx] the step of a slice is 0.');
    const [low, high] = by > 0 ? [0, length] : [-1, length - 1];
    const bound = (v: number): number => Math.min(Math.max(v < 0 ? v + length : v, low), high);
    const [first, last] = [bound(starts[i]!), bound(ends[i]!)];
    const count = Math.max(0, Math.ceil((last - first) / by));
    start[axis] = count === 0 ? 0 : first;
    step[axis] = by;
    size[axis] = count;
  }
  return x.slice(start, size, step);
}

const Slice = operator({
  since: [1, 10, 11, 13],
  inputs: [1, 5],
  known: [1, 2, 3, 4],
  attributes: {
    starts: ints(undefined, { until: 9 }),
    ends: ints(undefined, { until: 9 }),
    axes: ints(undefined, { until: 9 }),
  },
  compute: (call) => {
    const x = call.value(0);
    const starts = call.numbers(1) ?? call.attributes.starts;
    const ends = call.numbers(2) ?? call.attributes.ends;
    if (!starts || !ends || starts.length !== ends.length)
      throw call.shapeError('starts and ends are not as many.');
    const axes = call.axes(call.numbers(3) ?? call.attributes.axes ?? starts.map((_, i) => i), x.rank);
    const steps = call.numbers(4) ?? ones(starts.length);
    if (axes.length !== starts.length || steps.length !== starts.length)
      throw call.shapeError('starts, axes and steps are not as many.');
    return sliced(x, axes, starts, ends, steps);
  },
});

/** Parts along an axis, of the sizes given. */
export function splitBy(x: Value, axis: number, sizes: readonly number[]): Value[] {
  requireParts(sizes.length, 'parts');
  let at = 0;
  return sizes.map((size) => {
    const start = zeros(x.rank);
    start[axis] = at;
    at += size;
    return x.slice(
      start,
      x.shape.map((d, i) => (i === axis ? size : d)),
      ones(x.rank),
    );
  });
}

const Split = operator({
  since: [2, 11, 13, 18],
  inputs: [1, 2],
  known: [1],
  attributes: {
    axis: int(0),
    split: ints(undefined, { until: 12 }),
    num_outputs: int(undefined, { from: 18 }),
  },
  compute: (call) => {
    const x = call.value(0);
    const axis = call.axis(call.attributes.axis, x.rank);
    const length = x.shape[axis]!;
    const count = call.attributes.num_outputs ?? call.outputs.length;
    if (count < 1) throw call.shapeError(`cannot split in ${count} parts.`);
    const each = Math.ceil(length / count);
    const even = listOf(count, (_, i) => Math.max(0, Math.min(each, length - i * each)));
    const sizes = call.numbers(1) ?? call.attributes.split ?? even;
    if (sizes.reduce((n, size) => n + size, 0) !== length || sizes.some((size) => size < 0))
      throw call.shapeError(`parts of ${sizes} do not make up the ${length} elements of dimension ${axis}.`);
    return splitBy(x, axis, sizes);
  },
});

/** How many elements before and after each dimension; counts below 0 take elements away. */
interface Amounts {
  readonly before: readonly number[];
  readonly after: readonly number[];
}

function amounts(call: Call, x: Value): Amounts {
  const pads = call.numbers(1) ?? (call.attributes.pads as number[] | undefined) ?? [];
  const axes = call.numbers(3);
  const named = axes ? call.axes(axes, x.rank) : x.shape.map((_, i) => i);
  if (pads.length !== 2 * named.length)
    throw call.shapeError(`pads are (${pads}), must be two counts for each of ${named.length} dimensions.`);
  const [before, after] = [zeros(x.rank), zeros(x.rank)];
  for (const [i, axis] of named.entries()) {
    before[axis] = pads[i]!;
    after[axis] = pads[named.length + i]!;
  }
  return { before, after };
}

/** For each place of a padded dimension the place it is taken from; −1 for none. */
function padSources(mode: string, length: number, before: number, after: number): number[] {
  return listOf(Math.max(0, length + before + after), (_, i) => {
    const at = i - before;
    if (at >= 0 && at < length) return at;
    if (mode === 'edge') return at < 0 ? 0 : length - 1;
    if (mode === 'wrap') return ((at % length) + length) % length;
    if (mode === 'reflect') {
      const period = Math.max(1, 2 * (length - 1));
      const within = ((at % period) + period) % period;
      return within < length ? within : period - within;
    }
    return -1;
  });
}

const Pad = operator({
  since: [2, 11, 13, 18, 19, 21, 23, 24, 25],
  inputs: [1, 4],
  known: [1, 2, 3],
  attributes: {
    mode: text('constant'),
    pads: ints(undefined, { until: 10 }),
    value: float(0, { until: 10 }),
  },
  compute: (call) => {
    const x = call.value(0);
    const { mode } = call.attributes;
    if (!['constant', 'reflect', 'edge', 'wrap'].includes(mode))
      throw call.shapeError(`mode '${mode}' is not known.`);
    const { before, after } = amounts(call, x);
    const given = call.optional(2)?.host;
    const value = given ? cells(given.values)[0]! : call.attributes.value;
    return x.shape.reduce<Value>((y, length, axis) => {
      const [b, a] = [before[axis]!, after[axis]!];
      if (b === 0 && a === 0) return y;
      if (mode !== 'constant') {
        if (length === 0) throw call.shapeError(`dimension ${axis} has no elements to repeat.`);
        return y.take(Value.int64s(padSources(mode, length, b, a)), axis);
      }
      return paddedBy(y, axis, b, a, value);
    }, x);
  },
});

/** A value around one dimension; counts below 0 take elements away. */
export function paddedBy(x: Value, axis: number, before: number, after: number, value: HostValue): Value {
  const length = x.shape[axis]!;
  const [start, stop] = [Math.max(0, -before), length - Math.max(0, -after)];
  const kept = sliced(x, [axis], [start], [Math.max(start, stop)], [1]);
  if (before <= 0 && after <= 0) return kept;
  const fill = (count: number): Value[] =>
    count <= 0
      ? []
      : [
          constantFill(
            x.type,
            x.shape.map((d, i) => (i === axis ? count : d)),
            value,
          ),
        ];
  const typical = Number(value);
  if (!kept.host && Number.isFinite(typical) && x.type.kind !== 'bool') {
    const around = kept.shape.map((_, i) =>
      i === axis ? ([Math.max(0, before), Math.max(0, after)] as const) : ([0, 0] as const),
    );
    return Value.of(kept.tensor.pad(around, { value: typical }), x.type);
  }
  return Value.concat([...fill(before), kept, ...fill(after)], axis);
}

const Identity = operator({
  since: [1, 13, 14, 16, 19, 21, 23, 24, 25],
  inputs: [1],
  compute: (call) => call.inputs[0],
});

const SpaceToDepth = operator({
  since: [1, 13, 28],
  inputs: [1],
  attributes: { blocksize: required(int(undefined)), mode: text('DCR', { from: 28 }) },
  compute: (call) => {
    const x = call.value(0);
    const { blocksize: b, mode } = call.attributes;
    const [n, c, h, w] = imageShape(call, x, b);
    const blocks = x.reshape([n, c, h / b, b, w / b, b]);
    return blocks
      .permute(mode === 'CRD' ? [0, 1, 3, 5, 2, 4] : [0, 3, 5, 1, 2, 4])
      .reshape([n, c * b * b, h / b, w / b]);
  },
});

const DepthToSpace = operator({
  since: [1, 11, 13, 28],
  inputs: [1],
  attributes: { blocksize: required(int(undefined)), mode: text('DCR', { from: 11 }) },
  compute: (call) => {
    const x = call.value(0);
    const { blocksize: b, mode } = call.attributes;
    const [n, c, h, w] = imageShape(call, x, 1);
    if (b < 1 || c % (b * b) !== 0) throw call.shapeError(`${c} channels cannot be divided by ${b}².`);
    const depth = c / (b * b);
    return mode === 'CRD'
      ? x
          .reshape([n, depth, b, b, h, w])
          .permute([0, 1, 4, 2, 5, 3])
          .reshape([n, depth, h * b, w * b])
      : x
          .reshape([n, b, b, depth, h, w])
          .permute([0, 3, 4, 1, 5, 2])
          .reshape([n, depth, h * b, w * b]);
  },
});

function imageShape(call: Call, x: Value, block: number): [number, number, number, number] {
  const [n, c, h, w] = x.shape;
  if (x.rank !== 4 || block < 1 || h! % block !== 0 || w! % block !== 0)
    throw call.shapeError(`${formatShape(x.shape)} is no batch of images in blocks of ${block}.`);
  return [n!, c!, h!, w!];
}

const CenterCropPad = operator({
  since: [18],
  inputs: [2],
  known: [1],
  attributes: { axes: ints(undefined) },
  compute: (call) => {
    const x = call.value(0);
    const sizes = call.numbers(1)!;
    const axes = call.axes(call.attributes.axes ?? x.shape.map((_, i) => i), x.rank);
    if (sizes.length !== axes.length) throw call.shapeError(`${sizes.length} sizes for ${axes.length} axes.`);
    return axes.reduce((y, axis, i) => {
      const more = sizes[i]! - x.shape[axis]!;
      const before = more < 0 ? -Math.floor(-more / 2) : Math.floor(more / 2);
      return paddedBy(y, axis, before, more - before, 0);
    }, x);
  },
});

const ReverseSequence = operator({
  since: [10, 28],
  inputs: [2],
  known: [1],
  attributes: { batch_axis: int(1), time_axis: int(0) },
  compute: (call) => {
    const x = call.value(0);
    const [batch, time] = [call.attributes.batch_axis, call.attributes.time_axis];
    const parts = splitBy(x, batch, ones(x.shape[batch]!));
    const lengths = call.numbers(1)!;
    const steps = x.shape[time]!;
    const reversed = parts.map((part, i) => {
      const n = lengths[i]!;
      const order = listOf(steps, (_, t) => (t < n ? n - 1 - t : t));
      return part.take(Value.int64s(order), time);
    });
    return Value.concat(reversed, batch);
  },
});

const Upsample = operator({
  since: [7, 9],
  inputs: [1, 2],
  known: [1],
  attributes: { mode: text('nearest'), scales: floats(undefined, { until: 8 }) },
  compute: (call) => {
    const x = call.value(0);
    const scales = call.numbers(1) ?? call.attributes.scales ?? [];
    if (call.attributes.mode !== 'nearest')
      throw call.shapeError(`mode '${call.attributes.mode}' is not supported.`);
    return x.shape.reduce((y, d, axis) => {
      const scale = scales[axis] ?? 1;
      if (scale === 1) return y;
      const size = Math.floor(d * scale);
      return y.take(Value.int64s(listOf(size, (_, i) => Math.min(d - 1, Math.floor(i / scale)))), axis);
    }, x);
  },
});

const ReverseLike = { ReverseSequence, Upsample };

const Shape_ = operator({
  since: [1, 13, 15, 19, 21, 23, 24, 25],
  inputs: [1],
  attributes: { start: int(0, { from: 15 }), end: int(undefined, { from: 15 }) },
  compute: (call) => {
    const { shape, rank } = call.value(0);
    const bound = (v: number): number => Math.min(Math.max(v < 0 ? v + rank : v, 0), rank);
    return Value.int64s(shape.slice(bound(call.attributes.start), bound(call.attributes.end ?? rank)));
  },
});

const Size = operator({
  since: [1, 13, 19, 21, 23, 24, 25],
  inputs: [1],
  compute: (call) => Value.int64s([call.value(0).size], []),
});

/** start, start + delta, … below the limit. */
const Range = operator({
  since: [11, 27],
  inputs: [3],
  known: [0, 1, 2],
  attributes: { stash_type: int(1, { from: 27 }) },
  compute: (call) => {
    const [start, , delta] = call.values().map((x) => cells(x.host!.values)[0]!) as [number, number, number];
    const [from, to, by] = [0, 1, 2].map((i) => call.number(i)!) as [number, number, number];
    if (by === 0) throw call.shapeError('the step is 0.');
    const count = Math.max(0, Math.ceil((to - from) / by));
    if (count > 2 ** 24) throw call.shapeError(`makes ${count} elements, at most ${2 ** 24} are.`);
    const { type } = call.value(0);
    const element = (i: number): HostValue =>
      typeof start === 'bigint'
        ? (start as bigint) + BigInt(i) * (delta as unknown as bigint)
        : start + i * delta;
    return Value.host(
      hostTensor(
        type,
        [count],
        listOf(count, (_, i) => element(i)),
      ),
    );
  },
});

export const MOVEMENT = {
  ...{ Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Expand, Tile, Concat, Slice, Split, Pad, Identity },
  ...{ SpaceToDepth, DepthToSpace, CenterCropPad, Shape: Shape_, Size, Range },
  ...ReverseLike,
};
export const INT64 = ELEMENT_TYPES.i64;
