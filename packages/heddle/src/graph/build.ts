/**
 * Makers of graph nodes, one per primitive: each checks its sources, says what comes out, and drops what does
 * nothing. Gradient rules and fused ops are written with these.
 */
import {
  bool,
  type DType,
  f32,
  i32,
  i64,
  isFloat,
  isHalf,
  isInteger,
  requireDType,
  u32,
} from '../core/dtype.js';
import { DTypeError, InternalError, ShapeError } from '../core/errors.js';
import { broadcastShapes, formatShape, type Shape, sameShape, sizeOf } from '../core/shape.js';
import { convert, FOR_HALVES, OPS, type OpRecord, type Scalar, type ScalarOp } from '../kernel/ir/ops.js';
import type { FusedOp } from './fused-op.js';
import {
  argOf,
  type GraphArgs,
  GraphNode,
  type GraphOp,
  type PadArg,
  type ReduceOp,
  requireCountable,
  requireIndexable,
  type SliceArg,
  type TensorType,
  type WindowArg,
} from './node.js';

let gradients = true;

/** Whether what is made now is differentiated. */
export const recordsGradients = (): boolean => gradients;

function withMode<T>(on: boolean, body: () => T): T {
  const before = gradients;
  gradients = on;
  try {
    return body();
  } finally {
    gradients = before;
  }
}

/** Run `body` with every node made in it cut off from gradients. */
export const withoutGradients = <T>(body: () => T): T => withMode(false, body);
/** Run `body` with gradients recorded, whatever is around it. */
export const withGradients = <T>(body: () => T): T => withMode(true, body);

function make<Op extends GraphOp>(
  op: Op,
  shape: Shape,
  dtype: DType,
  src: readonly GraphNode[],
  arg: GraphArgs[Op],
): GraphNode {
  const requiresGrad = gradients && isFloat(dtype) && src.some((s) => s.requiresGrad);
  return new GraphNode(op, { shape, dtype }, src, arg, requiresGrad);
}

/** A leaf: its values are given from outside. */
export const leaf = (shape: Shape, dtype: DType, requiresGrad = false): GraphNode =>
  new GraphNode('leaf', { shape, dtype }, [], null, requiresGrad);

/** `value`, rounded to `dtype`, in every element. */
export const full = (shape: Shape, dtype: DType, value: Scalar): GraphNode =>
  make('full', shape, dtype, [], { value: convert(sourceDtype(dtype, value), dtype, value) });

/** A dtype that a bare JavaScript value has, to convert it from. */
const sourceDtype = (to: DType, value: Scalar): DType =>
  typeof value === 'boolean' ? bool : typeof value === 'bigint' ? to : DOUBLE;
const DOUBLE: DType = Object.freeze({ name: 'f64', kind: 'float', bytes: 8 });

export const like = (node: GraphNode, value: Scalar): GraphNode => full(node.shape, node.dtype, value);

/** The coordinate along `axis`, i32. */
export const iota = (shape: Shape, axis: number): GraphNode => make('iota', shape, i32, [], { axis });

// ── elementwise ──────────────────────────────────────────────────────────────────────────────────────────────────

/** `src` broadcast to one shape. */
export function broadcast(op: string, ...src: GraphNode[]): GraphNode[] {
  const shape = broadcastShapes(op, ...src.map((s) => s.shape));
  return src.map((s) => expand(s, shape));
}

/** A scalar op on every element; sources broadcast. 16-bit floats compute in f32. */
export function map(op: ScalarOp, ...sources: GraphNode[]): GraphNode {
  const record: OpRecord = OPS[op];
  const dtype = sources[0]!.dtype;
  for (const s of sources) {
    if (s.dtype !== dtype) {
      throw new DTypeError(
        `[${op}] dtypes differ: ${dtype.name} and ${s.dtype.name}. Convert one with .cast(${dtype.name}).`,
      );
    }
  }
  const ok = {
    any: true,
    number: dtype !== bool,
    float: isFloat(dtype),
    f32: dtype === f32,
    i32: dtype === i32,
    integer: isInteger(dtype),
    bits: isInteger(dtype) || dtype === bool,
    bool: dtype === bool,
  }[record.operands];
  if (!ok)
    throw new DTypeError(
      `[${op}] takes ${record.operands} operands, got ${dtype.name}. Convert with .cast(f32), .cast(i32)…`,
    );
  if (isHalf(dtype)) {
    if (record.result === 'bool') return map(op, ...sources.map(wide));
    return widened((...src) => map(op, ...src), ...(sources as [GraphNode, ...GraphNode[]]));
  }
  const half = forHalves && dtype === f32 ? FOR_HALVES[op] : undefined;
  if (half) return map(half, ...sources);
  const src = broadcast(op, ...sources);
  const simple = simplified(op, src);
  return simple ?? make('map', src[0]!.shape, record.result === 'bool' ? bool : dtype, src, { op });
}

/** The number a node holds everywhere, if it is known. */
export function knownValue(node: GraphNode): Scalar | undefined {
  let at = node;
  while (at.op === 'expand' || at.op === 'reshape' || at.op === 'permute') at = at.src[0] ?? at;
  return at.op === 'full' ? argOf(at, 'full').value : undefined;
}

/** x·1, x/1, x+0 on integers and the like: exact, so always right. */
function simplified(op: ScalarOp, src: readonly GraphNode[]): GraphNode | undefined {
  const [a, b] = src as [GraphNode, GraphNode];
  const left = knownValue(a);
  const right = b && knownValue(b);
  const isOne = (v: Scalar | undefined): boolean => v === 1 || v === 1n;
  const isZero = (v: Scalar | undefined): boolean => v === 0 || v === 0n;
  if (op === 'mul') return isOne(right) ? a : isOne(left) ? b : undefined;
  if (op === 'div') return isOne(right) ? a : undefined;
  if (op === 'sub') return isZero(right) && !Object.is(right, -0) ? a : undefined;
  if (op === 'add' && !isFloat(a.dtype)) return isZero(right) ? a : isZero(left) ? b : undefined;
  return undefined;
}

/** `condition ? then : otherwise`, element by element; all three broadcast. */
export function where(condition: GraphNode, then: GraphNode, otherwise: GraphNode): GraphNode {
  if (condition.dtype !== bool)
    throw new DTypeError(
      `[where] the condition must be bool, got ${condition.dtype.name}. Compare first, as in x.gt(0).`,
    );
  if (then.dtype !== otherwise.dtype)
    throw new DTypeError(
      `[where] dtypes differ: ${then.dtype.name} and ${otherwise.dtype.name}. Convert one with .cast(…).`,
    );
  const src = broadcast('where', condition, then, otherwise);
  return make('map', src[0]!.shape, then.dtype, src, { op: 'select' });
}

const isCast = (x: GraphNode): boolean => !x.isLeaf && x.op === 'map' && argOf(x, 'map').op === 'cast';

/**
 * Of a permuted node the cast is permuted: it lies in memory as its source does, and ops that ask whether a source is permuted
 * see it. So the gradient of a weight comes as the weight lies in mixed precision, too. Constants are converted here, and 16-bit
 * floats that were widened are what they were.
 */
export function cast(x: GraphNode, dtype: DType): GraphNode {
  requireDType('cast', dtype);
  if (x.dtype === dtype) return x;
  const value = x.requiresGrad || !isFloat(x.dtype) || !isFloat(dtype) ? undefined : knownValue(x);
  if (value !== undefined) return full(x.shape, dtype, value);
  if (isHalf(dtype) && x.dtype === f32 && isCast(x) && x.src[0]!.dtype === dtype) return x.src[0]!;
  if (x.op === 'permute' && !x.storage) return permute(cast(x.src[0]!, dtype), argOf(x, 'permute').axes);
  return make('map', x.shape, dtype, [x], { op: 'cast' });
}

export const bitcast = (x: GraphNode, dtype: DType): GraphNode => {
  if (x.dtype === dtype) return x;
  if (x.dtype.bytes !== dtype.bytes)
    throw new DTypeError(
      `[bitcast] sizes differ: ${x.dtype.name} has ${x.dtype.bytes} bytes, ${dtype.name} ${dtype.bytes}.`,
    );
  return make('map', x.shape, dtype, [x], { op: 'bitcast' });
};

export const add = (a: GraphNode, b: GraphNode): GraphNode => map('add', a, b);
export const sub = (a: GraphNode, b: GraphNode): GraphNode => map('sub', a, b);
export const mul = (a: GraphNode, b: GraphNode): GraphNode => map('mul', a, b);
export const div = (a: GraphNode, b: GraphNode): GraphNode => map('div', a, b);
export const neg = (a: GraphNode): GraphNode => map('neg', a);

/** f32 of 16-bit floats, others as they are. */
export const wide = (x: GraphNode): GraphNode => (isHalf(x.dtype) ? cast(x, f32) : x);

/** Whether what is computed now is rounded to 16 bits, so that functions need no more digits. */
let forHalves = false;

function roundedToHalves<T>(compute: () => T): T {
  const before = forHalves;
  forHalves = true;
  try {
    return compute();
  } finally {
    forHalves = before;
  }
}

/** `compute` of values that are f32 if they are 16-bit floats, rounded once, at the end: with functions of `FOR_HALVES`. */
export function widened(
  compute: (...src: GraphNode[]) => GraphNode,
  ...src: readonly [GraphNode, ...GraphNode[]]
): GraphNode {
  const { dtype } = src[0];
  if (!isHalf(dtype)) return compute(...src);
  return cast(
    roundedToHalves(() => compute(...src.map(wide))),
    dtype,
  );
}

// ── reductions ───────────────────────────────────────────────────────────────────────────────────────────────────

/** Over `axes`, kept as size 1. 16-bit floats accumulate in f32; bool cannot be summed. */
export function reduce(op: ReduceOp, x: GraphNode, axes: readonly number[]): GraphNode {
  if (x.dtype === bool) throw new DTypeError(`[${op}] takes numbers, got bool. Convert with .cast(i32).`);
  const used = [...axes].sort((a, b) => a - b).filter((a) => x.shape[a] !== 1);
  if (used.length === 0) return x;
  if (isHalf(x.dtype)) return widened((wide) => reduce(op, wide, axes), x);
  const shape = x.shape.map((d, i) => (used.includes(i) ? 1 : d));
  if ((op === 'max' || op === 'min') && used.some((a) => x.shape[a] === 0) && sizeOf(shape) > 0) {
    throw new ShapeError(
      `[${op}] of no elements: ${formatShape(x.shape)} over axes ${used.join(',')}. There is no ${op} of an empty set.`,
    );
  }
  requireCountable(op, x.shape, used);
  return make('reduce', shape, x.dtype, [x], { op, axes: used });
}

export const sum = (x: GraphNode, axes: readonly number[]): GraphNode => reduce('sum', x, axes);

/** `g` summed to `shape`: the adjoint of broadcasting. */
export function sumTo(g: GraphNode, shape: Shape): GraphNode {
  const extra = g.shape.length - shape.length;
  const axes = g.shape.flatMap((d, i) => (i < extra || (shape[i - extra] === 1 && d !== 1) ? [i] : []));
  return reshape(sum(g, axes), shape);
}

// ── movement ─────────────────────────────────────────────────────────────────────────────────────────────────────

export function reshape(x: GraphNode, shape: Shape): GraphNode {
  if (sameShape(x.shape, shape)) return x;
  if (sizeOf(shape) !== x.size)
    throw new ShapeError(
      `[reshape] sizes differ: ${formatShape(x.shape)} has ${x.size} elements, ${formatShape(shape)} ${sizeOf(shape)}.`,
    );
  if (x.op === 'reshape' && !x.storage) return reshape(x.src[0]!, shape);
  return make('reshape', shape, x.dtype, [x], null);
}

export function permute(x: GraphNode, axes: readonly number[]): GraphNode {
  if ([...axes].sort((a, b) => a - b).some((a, i) => a !== i) || axes.length !== x.shape.length) {
    throw new ShapeError(
      `[permute] (${axes.join(',')}) does not name each of ${x.shape.length} dimensions once.`,
    );
  }
  if (axes.every((a, i) => a === i)) return x;
  if (x.op === 'permute' && !x.storage) {
    const inner = argOf(x, 'permute').axes;
    return permute(
      x.src[0]!,
      axes.map((a) => inner[a]!),
    );
  }
  return make(
    'permute',
    axes.map((a) => x.shape[a]!),
    x.dtype,
    [x],
    { axes },
  );
}

/** The last two dimensions exchanged. */
export function transpose(x: GraphNode): GraphNode {
  const rank = x.shape.length;
  return permute(
    x,
    x.shape.map((_, i) => (i === rank - 1 ? rank - 2 : i === rank - 2 ? rank - 1 : i)),
  );
}

export function expand(x: GraphNode, shape: Shape): GraphNode {
  if (sameShape(x.shape, shape)) return x;
  const lead = shape.length - x.shape.length;
  const from = lead > 0 ? reshape(x, [...new Array<number>(lead).fill(1), ...x.shape]) : x;
  if (lead < 0 || from.shape.some((d, i) => d !== 1 && d !== shape[i])) {
    throw new ShapeError(
      `[expand] ${formatShape(x.shape)} does not broadcast to ${formatShape(shape)}: only sizes of 1 can be repeated.`,
    );
  }
  return sameShape(from.shape, shape) ? from : make('expand', shape, x.dtype, [from], null);
}

export function pad(x: GraphNode, before: readonly number[], after: readonly number[], value = 0): GraphNode {
  if (before.every((b) => b === 0) && after.every((a) => a === 0)) return x;
  const shape = x.shape.map((d, i) => d + before[i]! + after[i]!);
  return make('pad', shape, x.dtype, [x], { before, after, value } satisfies PadArg);
}

export function slice(
  x: GraphNode,
  start: readonly number[],
  size: readonly number[],
  step: readonly number[] = start.map(() => 1),
): GraphNode {
  size.forEach((n, i) => {
    const last = start[i]! + step[i]! * (n - 1);
    if (n > 0 && (start[i]! < 0 || start[i]! >= x.shape[i]! || last < 0 || last >= x.shape[i]!)) {
      throw new ShapeError(
        `[slice] ${n} elements from ${start[i]} in steps of ${step[i]} leave dimension ${i} of ${formatShape(x.shape)}.`,
      );
    }
  });
  if (sameShape(size, x.shape) && start.every((s) => s === 0) && step.every((s) => s === 1)) return x;
  return make('slice', size, x.dtype, [x], { start, step, size } satisfies SliceArg);
}

const windowCount = (size: number, kernel: number, stride: number, dilation: number): number =>
  Math.floor((size - dilation * (kernel - 1) - 1) / stride) + 1;

/** (…, H, W) → (…, outH, outW, kernelH, kernelW). @throws ShapeError if no window fits */
export function window(x: GraphNode, arg: WindowArg): GraphNode {
  const rank = x.shape.length;
  const out = [0, 1].map((i) =>
    windowCount(x.shape[rank - 2 + i]!, arg.kernel[i]!, arg.stride[i]!, arg.dilation[i]!),
  );
  if (out.some((n) => n < 1))
    throw new ShapeError(
      `[window] a ${arg.kernel.join('×')} window (dilation ${arg.dilation.join('×')}) does not fit into ${x.shape.slice(-2).join('×')}.`,
    );
  const [height, width] = out as [number, number];
  if (!apart(arg)) return make('window', [...x.shape.slice(0, -2), ...out, ...arg.kernel], x.dtype, [x], arg);
  const [kernelHeight, kernelWidth] = arg.kernel;
  const lead = x.shape.slice(0, -2);
  const used = slice(
    x,
    x.shape.map(() => 0),
    [...lead, height * kernelHeight, width * kernelWidth],
  );
  return swapInner(reshape(used, [...lead, height, kernelHeight, width, kernelWidth]));
}

/** Whether the windows do not overlap, and leave no gaps: then they are a matter of reshaping. */
export const apart = ({ kernel, stride, dilation }: WindowArg): boolean =>
  [0, 1].every((i) => kernel[i] === stride[i] && (dilation[i] === 1 || kernel[i] === 1));

/** (…, a, b, c, d) → (…, a, c, b, d) */
const swapInner = (x: GraphNode): GraphNode => {
  const rank = x.shape.length;
  return permute(
    x,
    x.shape.map((_, i) => (i === rank - 3 ? rank - 2 : i === rank - 2 ? rank - 3 : i)),
  );
};

/** The adjoint of `window` on an input of height × width `size`. */
export function fold(x: GraphNode, size: readonly [number, number], arg: WindowArg): GraphNode {
  const lead = x.shape.slice(0, -4);
  if (isHalf(x.dtype)) return widened((wide) => fold(wide, size, arg), x);
  if (!apart(arg)) return make('fold', [...lead, ...size], x.dtype, [x], arg);
  const [height, width, kernelHeight, kernelWidth] = x.shape.slice(-4) as [number, number, number, number];
  const covered = [height * kernelHeight, width * kernelWidth] as const;
  const image = reshape(swapInner(x), [...lead, ...covered]);
  const rest = [...lead.map(() => 0), size[0] - covered[0], size[1] - covered[1]];
  return pad(
    image,
    rest.map(() => 0),
    rest,
  );
}

// ── indexing, random, rest ───────────────────────────────────────────────────────────────────────────────────────

/** @throws DTypeError, ShapeError unless `index` can pick from `x` along `axis` */
export const checkIndex = (op: string, x: GraphNode, index: GraphNode, axis: number): void => {
  if (index.dtype !== i32)
    throw new DTypeError(`[${op}] the index must be i32, got ${index.dtype.name}. Convert with .cast(i32).`);
  if (index.shape.length !== x.shape.length || index.shape.some((d, i) => i !== axis && d !== x.shape[i])) {
    throw new ShapeError(
      `[${op}] index ${formatShape(index.shape)} and values ${formatShape(x.shape)} may differ in dimension ${axis} only.`,
    );
  }
};

/** out[…, i, …] = x[…, index[…, i, …], …] along `axis`; the other dimensions agree. */
export function gather(x: GraphNode, index: GraphNode, axis: number): GraphNode {
  checkIndex('gather', x, index, axis);
  return make('gather', index.shape, x.dtype, [x, index], { axis });
}

/** The adjoint of `gather`: values added up where `index` points, in a tensor with `size` along `axis`. */
export function scatterAdd(values: GraphNode, index: GraphNode, axis: number, size: number): GraphNode {
  checkIndex('scatterAdd', values, index, axis);
  if (isHalf(values.dtype)) return widened((wide) => scatterAdd(wide, index, axis, size), values);
  const shape = values.shape.map((d, i) => (i === axis ? size : d));
  if (values.shape[axis] !== 1) return make('scatterAdd', shape, values.dtype, [values, index], { axis });
  // One value for a row: nothing is added up.
  const isPlace = map('eq', iota(shape, axis), expand(index, shape));
  return where(isPlace, expand(values, shape), full(shape, values.dtype, 0));
}

/** `size` u32 words of the Philox stream `seed`, from block `counter` on. */
export function random(shape: Shape, counter: GraphNode, seed: readonly [number, number]): GraphNode {
  if (counter.dtype !== i64 || counter.size !== 1)
    throw new InternalError('the counter of random is one i64');
  requireIndexable(shape);
  return make('random', shape, u32, [counter], { seed });
}

/** The same values; gradients stop here, or with `requiresGrad` start here. */
export const detach = (x: GraphNode, requiresGrad = false): GraphNode =>
  new GraphNode('detach', x.type, [x], null, requiresGrad);

/**
 * The same values, as a variable that gradients are taken with respect to, and pass on to x: a slice of everything, which
 * nothing simplifies away.
 */
export const variable = (x: GraphNode): GraphNode => {
  const start = x.shape.map(() => 0);
  return new GraphNode('slice', x.type, [x], { start, step: x.shape.map(() => 1), size: x.shape }, true);
};

/** A fused op. */
export function call<Arg>(op: FusedOp<Arg>, src: readonly GraphNode[], arg: Arg): GraphNode {
  const type = op.infer(
    src.map((s) => s.type),
    arg,
  );
  return make('call', type.shape, type.dtype, src, { op: op as FusedOp, arg });
}

export type { TensorType };
