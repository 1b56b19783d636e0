/** Operators that work element by element, on tensors and on values of the host. */
import { type AnyTensor, f64 } from 'heddle';
import { broadcastShapes } from 'heddle/internal/core/shape.js';
import { ELEMENT_TYPES, type ElementType } from '../file/element-types.js';
import { cells, type HostValue, hostTensor, wrapInteger } from '../values/host-ops.js';
import { listOf } from '../values/limits.js';
import { roundTo } from '../values/rounding.js';
import { Value } from '../values/value.js';
import { type Attributes, int, required, text } from './attributes.js';
import { type Call, type Operator, operator } from './operator.js';

/** A function of one or more elements, on both sides. */
interface ElementFunction {
  /** On tensors of one shape-compatible family. */
  readonly tensor: (...x: readonly AnyTensor[]) => AnyTensor;
  /** On numbers. */
  readonly number?: (...x: readonly number[]) => number | boolean;
  /** On integers of 64 bits. */
  readonly bigint?: (...x: readonly bigint[]) => bigint | boolean;
  /** On texts. */
  readonly string?: (...x: readonly string[]) => string | boolean;
}

/** A result as its type has it: floats rounded, integers modulo their range. */
function settle(value: HostValue | boolean, type: ElementType): HostValue {
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value === 'string' || type.kind === 'bool') return value;
  if (type.kind === 'float') return roundTo(type, value as number);
  if (typeof value === 'bigint') return wrapInteger(value, type);
  return wrapInteger(BigInt(Number.isFinite(value) ? Math.trunc(value) : 0), type);
}

/** The function for values of a type on the host, if there is one. */
function hostFunction(f: ElementFunction, { kind, bits }: ElementType) {
  if (kind === 'string') return f.string;
  return kind !== 'float' && bits === 64 ? f.bigint : f.number;
}

/** Apply a function to inputs that broadcast. @param type of the results */
export function elementwise(
  call: Call,
  inputs: readonly Value[],
  f: ElementFunction,
  type: ElementType,
): Value {
  const from = inputs.find((x) => x.type.kind !== 'bool')?.type ?? inputs[0]!.type;
  const onHost = hostFunction(f, from) as ((...x: readonly HostValue[]) => HostValue | boolean) | undefined;
  if (onHost && inputs.every((x) => x.host)) {
    const shape = broadcastShapes(call.where, ...inputs.map((x) => x.shape));
    const values = inputs.map((x) => cells(x.expand(shape).host!.values));
    const size = shape.reduce((n, d) => n * d, 1);
    const results = listOf(size, (_, i) => settle(onHost(...values.map((v) => v[i]!)), type));
    return Value.host(hostTensor(type, shape, results));
  }
  return Value.wrapped(f.tensor(...inputs.map((x) => x.tensor)), type);
}

/** @throws DTypeError unless inputs have one type */
function requireOneType(call: Call, inputs: readonly Value[]): void {
  const other = inputs.find((x) => x.type !== inputs[0]!.type);
  if (other)
    throw call.typeError(`inputs are ${inputs[0]!.type.name} and ${other.type.name}, must be of one type.`);
}

/** An operator whose result has its inputs' type. */
const same = (since: readonly number[], count: number, f: ElementFunction, most = count): Operator =>
  operator({
    since,
    inputs: [count, most],
    attributes: {} as Attributes,
    compute: (call) => {
      const inputs = call.values();
      requireOneType(call, inputs);
      return elementwise(call, inputs, f, inputs[0]!.type);
    },
  });

const unary = (
  since: readonly number[],
  tensor: (x: AnyTensor) => AnyTensor,
  number?: (x: number) => number,
  bigint?: (x: bigint) => bigint,
): Operator =>
  same(since, 1, {
    tensor: (x) => tensor(x!),
    ...(number && { number: (x) => number(x!) }),
    ...(bigint && { bigint: (x) => bigint(x!) }),
  });

type OfTwo<T, R = T> = (a: T, b: T) => R;

const binary = (
  since: readonly number[],
  tensor: OfTwo<AnyTensor>,
  number: OfTwo<number>,
  bigint: OfTwo<bigint>,
): Operator =>
  same(since, 2, {
    tensor: (a, b) => tensor(a!, b!),
    number: (a, b) => number(a!, b!),
    bigint: (a, b) => bigint(a!, b!),
  });

const comparison = (
  since: readonly number[],
  tensor: OfTwo<AnyTensor>,
  host: OfTwo<number | bigint | string, boolean>,
): Operator =>
  operator({
    since,
    inputs: [2],
    compute: (call) => {
      const inputs = call.values();
      requireOneType(call, inputs);
      const f = {
        tensor: (a: AnyTensor, b: AnyTensor) => tensor(a, b),
        ...{ number: host, bigint: host, string: host },
      } as unknown as ElementFunction;
      return elementwise(call, inputs, f, ELEMENT_TYPES.bool);
    },
  });

const isNegative = (x: number): boolean => x < 0 || Object.is(x, -0);
/** To the nearest integer, ties to even. */
export const roundHalfEven = (x: number): number => {
  const low = Math.floor(x);
  const rest = x - low;
  const rounded = rest < 0.5 ? low : rest > 0.5 ? low + 1 : low % 2 === 0 ? low : low + 1;
  return rounded === 0 && isNegative(x) ? -0 : rounded;
};

const divide = (a: AnyTensor, b: AnyTensor): AnyTensor => (a.dtype.kind === 'float' ? a.div(b) : a.idiv(b));

/** Several inputs, folded from the left. */
const variadic = (
  since: readonly number[],
  tensor: OfTwo<AnyTensor>,
  number: OfTwo<number>,
  bigint: OfTwo<bigint>,
): Operator =>
  operator({
    since,
    inputs: [1, Number.POSITIVE_INFINITY],
    compute: (call) => {
      const [first, ...others] = call.values() as [Value, ...Value[]];
      requireOneType(call, [first, ...others]);
      const f: ElementFunction = {
        tensor: (a, b) => tensor(a!, b!),
        number: (a, b) => number(a!, b!),
        bigint: (a, b) => bigint(a!, b!),
      };
      return others.reduce((sum, x) => elementwise(call, [sum, x], f, first.type), first);
    },
  });

const larger = (a: number, b: number): number =>
  Number.isNaN(a) || Number.isNaN(b) ? Number.NaN : a > b ? a : b;
const smaller = (a: number, b: number): number =>
  Number.isNaN(a) || Number.isNaN(b) ? Number.NaN : a < b ? a : b;

const MATH = {
  Abs: unary(
    [6, 13],
    (x) => x.abs(),
    Math.abs,
    (x) => (x < 0n ? -x : x),
  ),
  Acos: unary([7, 22], (x) => x.acos()),
  Acosh: unary([9, 22], (x) => x.add(x.sub(1).sqrt().mul(x.add(1).sqrt())).log()),
  Asin: unary([7, 22], (x) => x.asin()),
  Asinh: unary([9, 22], (x) => {
    const a = x.abs();
    // ln(a + √(a² + 1)), without cancellation around 0.
    return x.sign().mul(a.add(a.square().div(a.square().add(1).sqrt().add(1))).log1p());
  }),
  Atan: unary([7, 22], (x) => x.atan()),
  Atanh: unary([9, 22], (x) => x.log1p().sub(x.neg().log1p()).mul(0.5)),
  Ceil: unary([6, 13], (x) => x.ceil(), Math.ceil),
  Cos: unary([7, 22], (x) => x.cos()),
  Cosh: unary([9, 22], (x) => x.cosh()),
  Erf: unary([9, 13], (x) => x.erf()),
  Exp: unary([6, 13], (x) => x.exp(), Math.exp),
  Floor: unary([6, 13], (x) => x.floor(), Math.floor),
  Log: unary([6, 13], (x) => x.log(), Math.log),
  Neg: unary(
    [6, 13],
    (x) => x.neg(),
    (x) => -x,
    (x) => -x,
  ),
  Reciprocal: unary(
    [6, 13],
    (x) => x.reciprocal(),
    (x) => 1 / x,
  ),
  Round: unary([11, 22], (x) => x.round(), roundHalfEven),
  Sign: unary(
    [9, 13],
    (x) => x.sign(),
    Math.sign,
    (x) => (x > 0n ? 1n : x < 0n ? -1n : 0n),
  ),
  Sin: unary([7, 22], (x) => x.sin()),
  Sinh: unary([9, 22], (x) => x.sinh()),
  Sqrt: unary([6, 13], (x) => x.sqrt(), Math.sqrt),
  Tan: unary([7, 22], (x) => x.tan()),
  Tanh: unary([6, 13], (x) => x.tanh(), Math.tanh),
};

const ARITHMETIC = {
  Add: binary(
    [7, 13, 14],
    (a, b) => a.add(b),
    (a, b) => a + b,
    (a, b) => a + b,
  ),
  Sub: binary(
    [7, 13, 14],
    (a, b) => a.sub(b),
    (a, b) => a - b,
    (a, b) => a - b,
  ),
  Mul: binary(
    [7, 13, 14],
    (a, b) => a.mul(b),
    (a, b) => a * b,
    (a, b) => a * b,
  ),
  Div: binary(
    [7, 13, 14],
    divide,
    (a, b) => a / b,
    (a, b) => (b === 0n ? 0n : a / b),
  ),
  Max: variadic(
    [6, 8, 12, 13],
    (a, b) => a.maximum(b),
    larger,
    (a, b) => (a > b ? a : b),
  ),
  Min: variadic(
    [6, 8, 12, 13],
    (a, b) => a.minimum(b),
    smaller,
    (a, b) => (a < b ? a : b),
  ),
  Sum: variadic(
    [6, 8, 13],
    (a, b) => a.add(b),
    (a, b) => a + b,
    (a, b) => a + b,
  ),
  Mean: operator({
    since: [6, 8, 13],
    inputs: [1, Number.POSITIVE_INFINITY],
    compute: (call) => {
      const [first, ...others] = call.values() as [Value, ...Value[]];
      return Value.of(others.reduce((sum, x) => sum.add(x.tensor), first.tensor).div(call.inputs.length));
    },
  }),
};

/** Bits moved; those of negative numbers to the right keep the sign. A count beyond the width leaves none. */
const BitShift = operator({
  since: [11, 28],
  inputs: [2],
  attributes: { direction: required(text(undefined)) },
  compute: (call) => {
    const [x, by] = call.values() as [Value, Value];
    requireOneType(call, [x, by]);
    const isLeft = call.attributes.direction === 'LEFT';
    const { bits, kind } = x.type;
    const whole = (a: bigint, n: bigint): bigint => {
      if (n >= 0n && n < BigInt(bits)) return isLeft ? a << n : a >> n;
      return !isLeft && a < 0n ? -1n : 0n;
    };
    const f = {
      tensor: (a: AnyTensor, n: AnyTensor) => {
        const moved = isLeft ? a.shl(n) : a.shr(n);
        const beyond = isLeft || kind === 'uint' ? a.mul(0) : a.shr(a.mul(0).add(bits - 1));
        return n.ge(bits).or(n.lt(0)).where(beyond, moved);
      },
      number: (a: number, n: number) => Number(whole(BigInt(a), BigInt(n))),
      bigint: whole,
    } as unknown as ElementFunction;
    return elementwise(call, [x, by], f, x.type);
  },
});

/** The remainder with the sign of the divisor. */
const quotient = (a: number, b: number): number => {
  const rest = a % b;
  return rest !== 0 && rest < 0 !== b < 0 ? rest + b : rest;
};
const remainderOf = (a: bigint, b: bigint): bigint => (b === 0n ? 0n : ((a % b) + b) % b);

const Mod = operator({
  since: [10, 13, 28],
  inputs: [2],
  attributes: { fmod: int(0) },
  compute: (call) => {
    const inputs = call.values();
    requireOneType(call, inputs);
    // fmod has the dividend's sign, as C has it; else the sign is the divisor's, as Python has it.
    const f = (call.attributes.fmod
      ? {
          tensor: (a: AnyTensor, b: AnyTensor) => a.mod(b),
          number: (a: number, b: number) => a % b,
          bigint: (a: bigint, b: bigint) => (b === 0n ? 0n : a % b),
        }
      : {
          tensor: (a: AnyTensor, b: AnyTensor) => a.remainder(b),
          number: quotient,
          bigint: remainderOf,
        }) as unknown as ElementFunction;
    return elementwise(call, inputs, f, inputs[0]!.type);
  },
});

/** Powers; the exponent may be of another type, and the result has the base's. */
const Pow = operator({
  since: [7, 12, 13, 15],
  inputs: [2],
  compute: (call) => {
    const [x, y] = call.values() as [Value, Value];
    if (x.host && y.host && x.type === y.type && x.type.kind !== 'float') {
      const f = {
        tensor: (a: AnyTensor) => a,
        number: (a: number, b: number) => a ** b,
        bigint: (a: bigint, b: bigint) => (b < 0n ? 0n : a ** b),
      };
      return elementwise(call, [x, y], f as unknown as ElementFunction, x.type);
    }
    if (x.type.kind === 'float') {
      const exponent = y.host && y.size === 1 ? Number(y.host.values[0]) : undefined;
      if (exponent === 2) return Value.of(squaredTo(x, y));
      if (exponent === 0.5 && y.rank === 0) return Value.of(x.tensor.sqrt());
      return Value.of(
        x.tensor.pow(exponent !== undefined && y.rank === 0 ? exponent : y.cast(x.type).tensor),
      );
    }
    // Powers of integers are exact in f64 up to 2⁵³.
    return Value.of(x.tensor.cast(f64).pow(y.tensor.cast(f64))).cast(x.type);
  },
});

/** x², in the shape that both broadcast to. */
const squaredTo = (x: Value, y: Value): AnyTensor =>
  y.rank <= x.rank
    ? x.tensor.square()
    : x.tensor.square().reshape([...new Array<number>(y.rank - x.rank).fill(1), ...x.shape]);

const COMPARISONS = {
  Equal: comparison(
    [7, 11, 13, 19],
    (a, b) => a.eq(b),
    (a, b) => a === b,
  ),
  Less: comparison(
    [7, 9, 13],
    (a, b) => a.lt(b),
    (a, b) => a < b,
  ),
  LessOrEqual: comparison(
    [12, 16],
    (a, b) => a.le(b),
    (a, b) => a <= b,
  ),
  Greater: comparison(
    [7, 9, 13],
    (a, b) => a.gt(b),
    (a, b) => a > b,
  ),
  GreaterOrEqual: comparison(
    [12, 16],
    (a, b) => a.ge(b),
    (a, b) => a >= b,
  ),
};

const LOGIC = {
  And: binary(
    [7],
    (a, b) => a.and(b),
    (a, b) => a & b,
    (a, b) => a & b,
  ),
  Or: binary(
    [7],
    (a, b) => a.or(b),
    (a, b) => a | b,
    (a, b) => a | b,
  ),
  Xor: binary(
    [7],
    (a, b) => a.xor(b),
    (a, b) => a ^ b,
    (a, b) => a ^ b,
  ),
  Not: unary(
    [1],
    (x) => x.not(),
    (x) => 1 - x,
  ),
  BitwiseAnd: binary(
    [18],
    (a, b) => a.and(b),
    (a, b) => a & b,
    (a, b) => a & b,
  ),
  BitwiseOr: binary(
    [18],
    (a, b) => a.or(b),
    (a, b) => a | b,
    (a, b) => a | b,
  ),
  BitwiseXor: binary(
    [18],
    (a, b) => a.xor(b),
    (a, b) => a ^ b,
    (a, b) => a ^ b,
  ),
  BitwiseNot: unary(
    [18],
    (x) => x.not(),
    (x) => ~x,
    (x) => ~x,
  ),
};

const SELECTION = {
  Where: operator({
    since: [9, 16],
    inputs: [3],
    compute: (call) => {
      const [condition, ...branches] = call.values() as [Value, Value, Value];
      requireOneType(call, branches);
      const f = {
        tensor: (c: AnyTensor, x: AnyTensor, y: AnyTensor) => c.where(x, y),
        number: (c: number, x: number, y: number) => (c ? x : y),
        bigint: (c: bigint, x: bigint, y: bigint) => (c ? x : y),
        string: (c: string, x: string, y: string) => (c ? x : y),
      } as unknown as ElementFunction;
      return elementwise(call, [condition, ...branches], f, branches[0]!.type);
    },
  }),
};

export const ELEMENTWISE = {
  ...MATH,
  BitShift,
  Mod,
  Pow,
  ...ARITHMETIC,
  ...COMPARISONS,
  ...LOGIC,
  ...SELECTION,
};
