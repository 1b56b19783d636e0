/** Operators that pick elements by position, and put them there. */
import { type AnyTensor, DTypeError, i32, type Tensor } from 'heddle';
import { formatShape, sizeOf, stridesOf } from 'heddle/internal/core/shape.js';
import { ELEMENT_TYPES } from '../file/element-types.js';
import { cells, type HostValue, hostTensor } from '../values/host-ops.js';
import { listOf } from '../values/limits.js';
import { positionsOf, Value } from '../values/value.js';
import { int, text } from './attributes.js';
import { type Call, operator } from './operator.js';

const INT64 = ELEMENT_TYPES.i64;

const Gather = operator({
  since: [1, 11, 13],
  inputs: [2],
  attributes: { axis: int(0) },
  compute: (call) => call.value(0).take(call.value(1), call.axis(call.attributes.axis, call.value(0).rank)),
});

/** Positions counted from the front: those below 0 count from the back. */
const fromFront = (index: AnyTensor, size: number): AnyTensor => index.lt(0).where(index.add(size), index);

const GatherElements = operator({
  since: [11, 13],
  inputs: [2],
  attributes: { axis: int(0) },
  compute: (call) => {
    const [x, index] = call.values() as [Value, Value];
    const axis = call.axis(call.attributes.axis, x.rank);
    if (!x.type.dtype) return hostGather(call, x, index, axis);
    return Value.of(x.tensor.gather(axis, fromFront(positionsOf(index), x.shape[axis]!)), x.type);
  },
});

/** As `GatherElements`, of types without tensors. */
function hostGather(call: Call, x: Value, index: Value, axis: number): Value {
  if (!x.host || !index.host) throw call.typeError(`${x.type.name} is computed on the host alone.`);
  const strides = stridesOf(x.shape);
  const own = stridesOf(index.shape);
  const from = cells(x.host.values);
  const picked = Array.from(cells(index.host.values) as ArrayLike<number | bigint>, (value, i) => {
    const at = Number(value) < 0 ? Number(value) + x.shape[axis]! : Number(value);
    const start = index.shape.reduce(
      (n, d, k) => n + (k === axis ? at : Math.floor(i / own[k]!) % d) * strides[k]!,
      0,
    );
    return from[start]!;
  });
  return Value.host(hostTensor(x.type, index.shape, picked));
}

/** Row numbers of index tuples (…, k), which address the dimensions of `shape`. */
function rowsOf(index: Value, shape: readonly number[]): AnyTensor {
  const strides = stridesOf(shape);
  const positions = positionsOf(index);
  const columns = shape.map((size, k) => fromFront(positions.at('...', k), size).mul(strides[k]!));
  return columns.reduce((sum, column) => sum.add(column));
}

const GatherND = operator({
  since: [11, 12, 13],
  inputs: [2],
  attributes: { batch_dims: int(0, { from: 12 }) },
  compute: (call) => {
    const [x, index] = call.values() as [Value, Value];
    const b = call.attributes.batch_dims;
    const k = index.shape.at(-1) ?? 0;
    if (k < 1 || b < 0 || b + k > x.rank || b >= index.rank)
      throw call.shapeError(`index tuples of ${k} positions do not fit ${formatShape(x.shape)}.`);
    const batch = x.shape.slice(0, b);
    const addressed = x.shape.slice(b, b + k);
    const rest = x.shape.slice(b + k);
    const rows = x.reshape([sizeOf(batch) * sizeOf(addressed), ...rest]);
    const within = rowsOf(index, addressed).reshape([sizeOf(batch), -1]);
    const offsets = Value.host(
      hostTensor(
        ELEMENT_TYPES.i32,
        [sizeOf(batch), 1],
        listOf(sizeOf(batch), (_, i) => i * sizeOf(addressed)),
      ),
    );
    const flat = within.add(offsets.tensor).reshape([-1]);
    return rows.take(Value.of(flat), 0).reshape([...index.shape.slice(0, -1), ...rest]);
  },
});

/** How a new element meets the one that is there. */
const REDUCTIONS: Readonly<Record<string, (there: AnyTensor, added: AnyTensor) => AnyTensor>> = {
  mul: (there, added) => there.mul(added),
  max: (there, added) => there.maximum(added),
  min: (there, added) => there.minimum(added),
};
/** The most updates that are made one after the other. */
const MOST_UPDATES = 4096;

/** Values put at positions along an axis. */
function scattered(
  call: Call,
  x: Tensor,
  axis: number,
  index: AnyTensor,
  updates: AnyTensor,
  reduction: string,
): AnyTensor {
  if (index.size === 0) return x;
  const positions = fromFront(index, x.shape[axis]!);
  if (reduction === 'none') return x.scatter(axis, positions, updates);
  if (reduction === 'add') return x.scatterAdd(axis, positions, updates);
  const meet = REDUCTIONS[reduction];
  if (!meet) throw call.shapeError(`the reduction '${reduction}' is not known.`);
  const count = positions.shape[axis]!;
  if (count > MOST_UPDATES)
    throw call.shapeError(
      `the reduction '${reduction}' of ${count} updates: more than ${MOST_UPDATES} are not supported.`,
    );
  // Of several updates of one element each sees the one before: they are made one after the other.
  let result: AnyTensor = x;
  for (let i = 0; i < count; i++) {
    const only = x.shape.map((_, d) => (d === axis ? `${i}:${i + 1}` : ':'));
    const at = positions.at(...only);
    result = result.scatter(axis, at, meet(result.gather(axis, at), updates.at(...only)));
  }
  return result;
}

const ScatterElements = operator({
  since: [11, 13, 16, 18],
  inputs: [3],
  attributes: { axis: int(0), reduction: text('none', { from: 16 }) },
  compute: (call) => {
    const [x, index, updates] = call.values() as [Value, Value, Value];
    const axis = call.axis(call.attributes.axis, x.rank);
    const { reduction } = call.attributes;
    return Value.wrapped(
      scattered(call, x.tensor as Tensor, axis, positionsOf(index), updates.tensor, reduction),
      x.type,
    );
  },
});

const ScatterND = operator({
  since: [11, 13, 16, 18],
  inputs: [3],
  attributes: { reduction: text('none', { from: 16 }) },
  compute: (call) => {
    const [x, index, updates] = call.values() as [Value, Value, Value];
    const k = index.shape.at(-1) ?? 0;
    if (k < 1 || k > x.rank)
      throw call.shapeError(`index tuples of ${k} positions do not fit ${formatShape(x.shape)}.`);
    const [addressed, rest] = [x.shape.slice(0, k), x.shape.slice(k)];
    const count = sizeOf(index.shape.slice(0, -1));
    const width = sizeOf(rest);
    if (updates.size !== count * width)
      throw call.shapeError(
        `updates are ${formatShape(updates.shape)}, must be ${formatShape([...index.shape.slice(0, -1), ...rest])}.`,
      );
    const rows = x.tensor.reshape([sizeOf(addressed), width]) as Tensor;
    const positions = rowsOf(index, addressed).reshape([count, 1]).expand([count, width]);
    const made = scattered(
      call,
      rows,
      0,
      positions,
      updates.tensor.reshape([count, width]),
      call.attributes.reduction,
    );
    return Value.wrapped(made.reshape(x.shape as number[]), x.type);
  },
});

const OneHot = operator({
  since: [9, 11, 28],
  inputs: [3],
  known: [1],
  attributes: { axis: int(-1) },
  compute: (call) => {
    const [index, , values] = call.values() as [Value, Value, Value];
    const depth = call.number(1)!;
    const axis = call.axis(call.attributes.axis, index.rank + 1);
    const positions = fromFront(positionsOf(index), depth);
    const line = Value.host(
      hostTensor(
        ELEMENT_TYPES.i32,
        [depth],
        listOf(depth, (_, i) => i),
      ),
    );
    const along = line.tensor.reshape(listOf(index.rank + 1, (_, i) => (i === axis ? depth : 1)));
    const on = positions.reshape([...index.shape.slice(0, axis), 1, ...index.shape.slice(axis)]).eq(along);
    return Value.of(on.where(values.tensor.at(1), values.tensor.at(0)) as AnyTensor, values.type);
  },
});

const Compress = operator({
  since: [9, 11, 28],
  inputs: [2],
  known: [1],
  attributes: { axis: int(undefined) },
  compute: (call) => {
    const given = call.value(0);
    const { axis } = call.attributes;
    const x = axis === undefined ? given.reshape([given.size]) : given;
    const along = call.axis(axis ?? 0, x.rank);
    const kept = call.numbers(1)!.flatMap((c, i) => (c ? [i] : []));
    return x.take(Value.int64s(kept), along);
  },
});

const NonZero = operator({
  since: [9, 13],
  inputs: [1],
  known: 'all',
  compute: (call) => {
    const x = call.value(0);
    const strides = stridesOf(x.shape);
    const found = call.numbers(0)!.flatMap((v, i) => (v !== 0 ? [i] : []));
    const values = x.shape.flatMap((d, k) => found.map((i) => Math.floor(i / strides[k]!) % d));
    return Value.int64s(values, [x.rank, found.length]);
  },
});

const Trilu = operator({
  since: [14],
  inputs: [1, 2],
  known: [1],
  attributes: { upper: int(1) },
  compute: (call) => {
    const x = call.value(0);
    const k = call.number(1) ?? 0;
    return Value.of(call.attributes.upper ? x.tensor.triu(k) : x.tensor.tril(k), x.type);
  },
});

const TopK = operator({
  since: [1, 10, 11, 24],
  inputs: [1, 2],
  known: [1],
  attributes: {
    axis: int(-1),
    k: int(undefined, { until: 9 }),
    largest: int(1, { from: 11 }),
    sorted: int(1, { from: 11 }),
  },
  compute: (call) => {
    const x = call.value(0);
    const axis = call.axis(call.attributes.axis, x.rank);
    const k = call.number(1) ?? call.attributes.k;
    if (k === undefined || k < 0 || k > x.shape[axis]!)
      throw call.shapeError(`k is ${k}, of ${x.shape[axis]} elements.`);
    const { values, indices } = (x.tensor as Tensor).topk(k, axis, {
      largest: call.attributes.largest === 1,
    });
    return [Value.of(values, x.type), Value.of(indices).cast(INT64)];
  },
});

/** Each value once, in ascending order or in that of its first places. */
const Unique = operator({
  since: [11, 28],
  inputs: [1],
  known: 'all',
  attributes: { axis: int(undefined), sorted: int(1) },
  compute: (call) => {
    const given = call.value(0);
    const { axis, sorted } = call.attributes;
    const x = axis === undefined ? given.reshape([given.size]) : given;
    const along = call.axis(axis ?? 0, x.rank);
    const moved = x.permute([along, ...x.shape.flatMap((_, i) => (i === along ? [] : [i]))]);
    const values = cells(moved.host!.values);
    const width = sizeOf(moved.shape.slice(1));
    const rowAt = (i: number): HostValue[] => listOf(width, (_, j) => values[i * width + j]!);
    const groups = new Map<string, number[]>();
    for (let i = 0; i < moved.shape[0]!; i++) {
      const key = rowAt(i).map(String).join('\u0000');
      groups.set(key, [...(groups.get(key) ?? []), i]);
    }
    const order = [...groups.values()];
    if (sorted) order.sort((a, b) => compareRows(rowAt(a[0]!), rowAt(b[0]!)));
    const firsts = order.map((members) => members[0]!);
    const inverse = new Array<number>(moved.shape[0]!);
    for (const [i, members] of order.entries()) for (const member of members) inverse[member] = i;
    return [
      x.take(Value.int64s(firsts), along),
      Value.int64s(firsts),
      Value.int64s(inverse),
      Value.int64s(order.map((members) => members.length)),
    ];
  },
});

function compareRows(a: readonly HostValue[], b: readonly HostValue[]): number {
  for (const [i, x] of a.entries()) {
    const y = b[i]!;
    if (x !== y) return x < y || Number.isNaN(y) ? -1 : 1;
  }
  return 0;
}

/** Scatter of opset 9 and 10: what `ScatterElements` is today. */
const Scatter = operator({
  since: [9],
  inputs: [3],
  attributes: { axis: int(0) },
  compute: (call) => {
    const [x, index, updates] = call.values() as [Value, Value, Value];
    const axis = call.axis(call.attributes.axis, x.rank);
    return Value.of(
      scattered(call, x.tensor as Tensor, axis, positionsOf(index), updates.tensor, 'none'),
      x.type,
    );
  },
});

/** Writes updates into a cache, each batch entry at its own place. */
const TensorScatter = operator({
  since: [24],
  inputs: [2, 3],
  known: [2],
  attributes: { axis: int(-2), mode: text('linear') },
  compute: (call) => {
    const [cache, update] = [call.value(0), call.value(1)];
    const axis = call.axis(call.attributes.axis, cache.rank);
    const batch = cache.shape[0]!;
    const starts = call.numbers(2) ?? new Array<number>(batch).fill(0);
    const [length, count] = [cache.shape[axis]!, update.shape[axis]!];
    const circular = call.attributes.mode === 'circular';
    const places = starts.flatMap((s) => listOf(count, (_, i) => (circular ? (s + i) % length : s + i)));
    if (places.some((p) => p >= length))
      throw new DTypeError(`[onnx] ${call.where}: an update goes beyond the ${length} places.`);
    const shape = update.shape.map((d, i) => (i === 0 || i === axis ? d : 1));
    const index = Value.host(hostTensor(ELEMENT_TYPES.i32, shape, places)).expand(update.shape);
    return Value.of(
      (cache.tensor as Tensor).scatter(axis, index.tensor.cast(i32), update.tensor),
      cache.type,
    );
  },
});

export const INDEXING = {
  ...{ Gather, GatherElements, GatherND, Scatter, ScatterElements, ScatterND, OneHot, Compress, NonZero },
  ...{ Trilu, TopK, Unique, TensorScatter },
};
