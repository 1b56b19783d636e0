/** Operators that reduce dimensions. */
import { type AnyTensor, i32, type Tensor } from 'heddle';
import { sizeOf } from 'heddle/internal/core/shape.js';
import { ELEMENT_TYPES, type ElementType, limitsOf } from '../file/element-types.js';
import { constantFill } from '../values/constant.js';
import { castValue, cells, type HostValue, hostTensor, wrapInteger } from '../values/host-ops.js';
import { listOf } from '../values/limits.js';
import { roundTo } from '../values/rounding.js';
import { Value } from '../values/value.js';
import { int, ints } from './attributes.js';
import { axesOf } from './movement.js';
import { type Operator, operator } from './operator.js';

/** A reduction on both sides. */
interface Reduction {
  readonly tensor: (x: Tensor, axes: readonly number[]) => AnyTensor;
  /** On numbers, or integers of 64 bits; without it constants are reduced on a device as well. */
  readonly number?: (a: number, b: number) => number;
  readonly bigint?: (a: bigint, b: bigint) => bigint;
  /** The result for no elements, where the library has none. */
  readonly empty?: (type: ElementType) => number | bigint;
}

/** Reduced on the host, in rows of what one result is made of; undefined for empty rows. */
function onHost(x: Value, axes: readonly number[], { number, bigint }: Reduction): Value | undefined {
  const kept = x.shape.flatMap((_, i) => (axes.includes(i) ? [] : [i]));
  const rows = x.permute([...kept, ...axes]).host!;
  const width = axes.reduce((n, a) => n * x.shape[a]!, 1);
  const is64 = x.type.bits === 64 && x.type.kind !== 'float';
  const f = (is64 ? bigint : number) as ((a: HostValue, b: HostValue) => HostValue) | undefined;
  if (!f || width === 0 || x.type.kind === 'string') return undefined;
  const values = cells(rows.values);
  const shape = kept.map((a) => x.shape[a]!);
  const reduced = listOf(sizeOf(shape), (_, i) => {
    let sum = values[i * width]!;
    for (let j = 1; j < width; j++) sum = settled(f(sum, values[i * width + j]!), x.type);
    return sum;
  });
  return Value.host(hostTensor(x.type, shape, reduced));
}

const settled = (value: HostValue, type: ElementType): HostValue =>
  type.kind === 'float'
    ? roundTo(type, value as number)
    : type.kind === 'bool'
      ? value
      : typeof value === 'bigint'
        ? wrapInteger(value, type)
        : castValue(value, type, type);

/** Floats of 16 bits are reduced in f32, and rounded once by the library's sums. */
function reduction(since: readonly number[], inputFrom: number, r: Reduction): Operator {
  return operator({
    since,
    inputs: [1, 2],
    known: [1],
    attributes: {
      axes: ints(undefined, { until: inputFrom - 1 }),
      keepdims: int(1),
      noop_with_empty_axes: int(0, { from: inputFrom }),
    },
    compute: (call) => {
      const x = call.value(0);
      const given = axesOf(call, 1) ?? [];
      const none = given.length === 0;
      if (none && call.attributes.noop_with_empty_axes) return identityOf(x, r);
      const axes = none ? x.shape.map((_, i) => i) : call.axes(given, x.rank);
      const shape = x.shape.flatMap((d, i) =>
        axes.includes(i) ? (call.attributes.keepdims ? [1] : []) : [d],
      );
      return reduced(x, axes, r).reshape(shape);
    },
  });
}

/** Over no axes the function is applied to each element alone. */
function identityOf(x: Value, r: Reduction): Value {
  return reduced(x.reshape([...x.shape, 1]), [x.rank], r).reshape(x.shape);
}

function reduced(x: Value, axes: readonly number[], r: Reduction): Value {
  if (x.size === 0 && r.empty && axes.some((a) => x.shape[a] === 0))
    return constantFill(
      x.type,
      x.shape.filter((_, i) => !axes.includes(i)),
      r.empty(x.type),
    );
  const host = x.host && onHost(x, axes, r);
  if (host) return host;
  const isBool = x.type.kind === 'bool';
  const tensor = (isBool ? x.tensor.cast(i32) : x.tensor) as Tensor;
  // A sum over no axes is the tensor itself, whatever the library makes of an empty list.
  const result =
    axes.length === 0
      ? r.tensor(tensor.reshape([...x.shape, 1]) as Tensor, [x.rank])
      : r.tensor(tensor, axes);
  if (isBool) return Value.of(result.ne(0));
  return Value.wrapped(
    x.type.dtype && result.dtype !== x.type.dtype ? result.cast(x.type.dtype) : result,
    x.type,
  );
}

const sum: Reduction = { tensor: (x, axes) => x.sum(axes), number: (a, b) => a + b, bigint: (a, b) => a + b };
const floats = (f: (x: Tensor, axes: readonly number[]) => AnyTensor): Reduction => ({ tensor: f });

const argument = (find: (x: Tensor, axis: number) => AnyTensor): Operator =>
  operator({
    since: [1, 11, 12, 13],
    inputs: [1],
    attributes: { axis: int(0), keepdims: int(1), select_last_index: int(0, { from: 12 }) },
    compute: (call) => {
      const x = call.value(0);
      const axis = call.axis(call.attributes.axis, x.rank);
      const length = x.shape[axis]!;
      if (length === 0) throw call.shapeError(`dimension ${axis} has no elements.`);
      const found = call.attributes.select_last_index
        ? find(x.tensor.flip(axis) as Tensor, axis)
            .neg()
            .add(length - 1)
        : find(x.tensor as Tensor, axis);
      const shape = x.shape.flatMap((d, i) => (i === axis ? (call.attributes.keepdims ? [1] : []) : [d]));
      return Value.of(found.reshape(shape)).cast(ELEMENT_TYPES.i64);
    },
  });

/** Running sums or products along an axis. */
const running = (
  since: readonly number[],
  start: number,
  f: (x: Tensor, axis: number) => AnyTensor,
): Operator =>
  operator({
    since,
    inputs: [2],
    known: [1],
    attributes: { exclusive: int(0), reverse: int(0) },
    compute: (call) => {
      const x = call.value(0);
      const axis = call.axis(call.number(1)!, x.rank);
      const { exclusive, reverse } = call.attributes;
      const forward = (reverse ? x.tensor.flip(axis) : x.tensor) as Tensor;
      const length = x.shape[axis]!;
      const shifted = exclusive
        ? (forward
            .pad(
              x.shape.map((_, i) => (i === axis ? [1, 0] : [0, 0])),
              { value: start },
            )
            .at(...x.shape.map((_, i) => (i === axis ? `0:${length}` : ':'))) as Tensor)
        : forward;
      const made = f(shifted, axis);
      const back = reverse ? made.flip(axis) : made;
      return Value.wrapped(back.dtype === x.type.dtype ? back : back.cast(x.type.dtype!), x.type);
    },
  });

const leastOf = (type: ElementType): number | bigint =>
  type.kind === 'float' ? Number.NEGATIVE_INFINITY : limitOf(type, 0);
const mostOf = (type: ElementType): number | bigint =>
  type.kind === 'float' ? Number.POSITIVE_INFINITY : type.kind === 'bool' ? 1 : limitOf(type, 1);
const limitOf = (type: ElementType, end: 0 | 1): number | bigint => {
  const limit = limitsOf(type)[end];
  return type.bits === 64 ? limit : Number(limit);
};

const LOGS = [1, 11, 13, 18, 28];
const PLAIN = [1, 11, 13, 18];
const EXTREMES = [1, 11, 12, 13, 18, 20];

export const REDUCTIONS = {
  ReduceSum: reduction([1, 11, 13], 13, sum),
  ReduceMean: reduction(
    PLAIN,
    18,
    floats((x, axes) => (x.dtype.kind === 'float' ? x.mean(axes) : meanOf(x, axes))),
  ),
  ReduceMax: reduction(EXTREMES, 18, {
    tensor: (x, axes) => x.max(axes),
    number: Math.max,
    bigint: (a, b) => (a > b ? a : b),
    empty: leastOf,
  }),
  ReduceMin: reduction(EXTREMES, 18, {
    tensor: (x, axes) => x.min(axes),
    number: Math.min,
    bigint: (a, b) => (a < b ? a : b),
    empty: mostOf,
  }),
  ReduceProd: reduction(PLAIN, 18, {
    tensor: (x, axes) => x.prod(axes),
    number: (a, b) => a * b,
    bigint: (a, b) => a * b,
  }),
  ReduceL1: reduction(
    PLAIN,
    18,
    floats((x, axes) => x.abs().sum(axes)),
  ),
  ReduceL2: reduction(
    PLAIN,
    18,
    floats((x, axes) => x.square().sum(axes).sqrt()),
  ),
  ReduceLogSum: reduction(
    LOGS,
    18,
    floats((x, axes) => x.sum(axes).log()),
  ),
  ReduceLogSumExp: reduction(
    LOGS,
    18,
    floats((x, axes) => x.logSumExp(axes)),
  ),
  ReduceSumSquare: reduction(
    PLAIN,
    18,
    floats((x, axes) => x.square().sum(axes)),
  ),
  ArgMax: argument((x, axis) => x.argmax(axis)),
  ArgMin: argument((x, axis) => x.argmin(axis)),
  CumSum: running([11, 14], 0, (x, axis) => x.cumsum(axis)),
  CumProd: running([26], 1, (x, axis) => x.cumprod(axis)),
};

/** The mean of integers, rounded towards zero. */
function meanOf(x: Tensor, axes: readonly number[]): AnyTensor {
  const count = axes.reduce((n, a) => n * x.shape[a]!, 1);
  return x.sum(axes).idiv(Math.max(1, count));
}
