/**
 * The scalar operations of the kernel language, one record each. `eval` is the meaning: constant folding, the
 * simulator and the test oracle all call it, and every renderer must agree with it.
 *
 * To add an op: a record here and its gradient in graph/grad.ts. A function (`approximate`) bears its name in C, which
 * is all that CUDA needs, and is made of other ops for the CPU in kernel/elementary/functions.ts; any other op has a line in
 * render/cuda/ops.ts and one in render/wasm/ops.ts. Those tables are exhaustive by type.
 */
import {
  bool,
  type DType,
  f32,
  i32,
  isFloat,
  isHalf,
  isInteger,
  LIMITS,
  NUMBER_LIMITS,
} from '../../core/dtype.js';
import { fromBf16, fromF16, toBf16, toF16 } from '../../core/float16.js';
import { erf, normcdf, power } from '../math/numbers.js';

/** A scalar at run time: i64 is a bigint, bool a boolean, everything else a number. */
export type Scalar = number | bigint | boolean;

/** Which operands an op takes. */
export type OperandRule = 'number' | 'float' | 'f32' | 'i32' | 'integer' | 'bits' | 'bool' | 'any';

const OPERANDS: Readonly<Record<OperandRule, (t: DType) => boolean>> = {
  number: (t) => t !== bool,
  float: isFloat,
  f32: (t) => t === f32,
  i32: (t) => t === i32,
  integer: isInteger,
  bits: (t) => !isFloat(t),
  bool: (t) => t === bool,
  any: () => true,
};

/** Whether operands of that dtype follow the rule. */
export const takesOperands = (rule: OperandRule, dtype: DType): boolean => OPERANDS[rule](dtype);

export interface OpRecord {
  readonly arity: 1 | 2 | 3;
  /** All operands share one dtype, of this kind; `bits` is an integer or bool. */
  readonly operands: OperandRule;
  /** The result's dtype: the operands', or bool. */
  readonly result: 'same' | 'bool';
  /** How it is written in a kernel, with its operands as a, b, c. A call is known to the parser by this. */
  readonly syntax: string;
  /** The meaning on numbers, before `wrap` rounds it to the dtype. */
  readonly eval: (a: number, b: number, c: number) => number | boolean;
  /** The meaning on i64 values, where the operators of `eval` do not do. */
  readonly big?: (a: bigint, b: bigint, c: bigint) => bigint | boolean;
  /**
   * How a float result is rounded. exact: not at all, it is a value of the operands' dtype anyway. nearest: once, correctly.
   * Else how far it may be from the exact one.
   */
  readonly rounding: 'exact' | 'nearest' | Accuracy;
  /** What it costs, in additions, roughly: where work is divided, and where computing again is compared with reading. */
  readonly cost: number;
  /** It never decreases in all of its operands, or in the first, however it rounds. */
  readonly monotone?: 'all' | 'first';
  /** a ∘ b = b ∘ a. */
  readonly commutes?: true;
}

/**
 * The largest error over all arguments, in units of the last place: the distance of neighbouring numbers where the
 * exact result lies, the smallest number below the normal ones. f16 and bf16 are f32's result rounded once more, f32 in
 * the simulator is f64's. The CPU's and the simulator's are measured, and held by tests/kernel/math-accuracy.test.ts; CUDA's
 * are NVIDIA's (CUDA C++ Programming Guide, "Mathematical Functions", of the correctly rounded result) and a half.
 */
export interface Accuracy {
  readonly cpu: Bounds;
  readonly cuda: Bounds;
  /** V8's functions are ports of fdlibm, which claims 1. */
  readonly sim: Pick<Bounds, 'f64'>;
}
interface Bounds {
  readonly f32: number;
  readonly f64: number;
}

type Rounded = 'exact' | 'nearest';
interface Traits extends Pick<OpRecord, 'cost' | 'big' | 'monotone' | 'commutes'> {
  readonly rounding: Rounded;
}

const op = (
  arity: 1 | 2 | 3,
  operands: OperandRule,
  syntax: string,
  evaluate: OpRecord['eval'],
  traits: Traits,
): OpRecord & { readonly rounding: Rounded } => ({
  ...{ arity, operands, result: 'same', syntax, eval: evaluate },
  ...traits,
});

/** A comparison. */
const test = (
  operands: OperandRule,
  syntax: string,
  evaluate: OpRecord['eval'],
  commutes?: true,
): OpRecord & { readonly rounding: Rounded } => ({
  ...op(2, operands, syntax, evaluate, { rounding: 'exact', cost: 1, ...(commutes && { commutes }) }),
  result: 'bool',
});

/** An op on integers. */
const whole = (
  arity: 1 | 2,
  operands: 'integer' | 'bits',
  syntax: string,
  evaluate: OpRecord['eval'],
  big: NonNullable<OpRecord['big']>,
  traits: Partial<Traits> = {},
): OpRecord & { readonly rounding: Rounded } =>
  op(arity, operands, syntax, evaluate, { rounding: 'exact', cost: 1, big, ...traits });

/** A function on floats that is not rounded correctly. */
const approximate = (
  arity: 1 | 2,
  syntax: string,
  evaluate: OpRecord['eval'],
  {
    cost,
    cpu,
    sim,
    cuda,
  }: { readonly cost: number; readonly cpu: UlpBounds; readonly sim: number; readonly cuda: UlpBounds },
): OpRecord & { readonly rounding: Accuracy } => ({
  ...{ arity, operands: 'float', result: 'same', syntax, eval: evaluate, cost },
  rounding: { cpu: bounds(cpu), cuda: bounds(cuda), sim: { f64: sim } },
});

/**
 * A function of f32 with fewer digits than f32 has, for results that are rounded to 16 bits.
 * @param cpu, cuda largest error in ulps of f32: where the result is no normal number of f16, 2^-15 of it
 */
const forHalves = (
  syntax: string,
  evaluate: OpRecord['eval'],
  { cost, cpu, cuda }: { readonly cost: number; readonly cpu: number; readonly cuda: number },
): OpRecord & { readonly rounding: Accuracy } => ({
  ...approximate(1, syntax, evaluate, { cost, cpu: [cpu, cpu], sim: 1, cuda: [cuda, cuda] }),
  operands: 'f32',
});

/** Of f32 and f64. */
type UlpBounds = readonly [number, number];
const bounds = ([f32, f64]: UlpBounds): Bounds => ({ f32, f64 });

const bigAbs = (a: bigint): bigint => (a < 0n ? -a : a);

/** To the nearest integer, ties to even. */
const nearest = (a: number): number => {
  const low = Math.floor(a);
  const rest = a - low;
  const near = rest < 0.5 || (rest === 0.5 && low % 2 === 0) ? low : low + 1;
  return near === 0 && a < 0 ? -0 : near;
};

/** c plus the products of the four signed bytes of a and of b. */
const dotBytes = (a: number, b: number, c: number): number =>
  [24, 16, 8, 0].reduce((sum, left) => sum + ((a << left) >> 24) * ((b << left) >> 24), c);

const toTf32 = (a: number): number => {
  if (!Number.isFinite(a) || a === 0) return a;
  // Fractions below 2^-136 have no tenth bit in f32's smallest numbers.
  const unit = 2 ** Math.max(Math.floor(Math.log2(Math.abs(a))) - 10, -136);
  return nearest(a / unit) * unit;
};

/** The upper 32 bits of the product of two integers of 32, from halves of 16 whose products are exact. */
function upperHalf(a: number, b: number): number {
  const lowA = a & 0xffff;
  const lowB = b & 0xffff;
  const highA = (a - lowA) / 0x10000;
  const highB = (b - lowB) / 0x10000;
  const middle = highA * lowB + lowA * highB + Math.floor((lowA * lowB) / 0x10000);
  return highA * highB + Math.floor(middle / 0x10000);
}

export const OPS = {
  add: op(2, 'number', 'a + b', (a, b) => a + b, {
    ...{ rounding: 'nearest', cost: 1, monotone: 'all', commutes: true },
  }),
  sub: op(2, 'number', 'a - b', (a, b) => a - b, { rounding: 'nearest', cost: 1, monotone: 'first' }),
  mul: op(2, 'number', 'a * b', (a, b) => a * b, { rounding: 'nearest', cost: 1, commutes: true }),
  div: op(2, 'float', 'a / b', (a, b) => a / b, { rounding: 'nearest', cost: 4 }),
  /** Integer quotient, rounded to zero. By zero: 0, so that all devices agree. */
  idiv: whole(
    2,
    'integer',
    'idiv(a, b)',
    (a, b) => (b === 0 ? 0 : Math.trunc(a / b)),
    (a, b) => (b === 0n ? 0n : a / b),
    { cost: 10 },
  ),
  /** Remainder with the sign of the dividend. Of integers by zero: 0. */
  mod: op(2, 'number', 'a % b', (a, b) => a % b, {
    ...{ rounding: 'exact', cost: 10, big: (a, b) => (b === 0n ? 0n : a % b) },
  }),
  neg: op(1, 'number', '-a', (a) => -a, { rounding: 'exact', cost: 1 }),
  abs: op(1, 'number', 'Math.abs(a)', (a) => Math.abs(a), { rounding: 'exact', cost: 1, big: bigAbs }),
  /** NaN if either is. */
  min: op(2, 'number', 'Math.min(a, b)', (a, b) => Math.min(a, b), {
    ...{ rounding: 'exact', cost: 1, monotone: 'all', commutes: true, big: (a, b) => (a < b ? a : b) },
  }),
  /** NaN if either is. */
  max: op(2, 'number', 'Math.max(a, b)', (a, b) => Math.max(a, b), {
    ...{ rounding: 'exact', cost: 1, monotone: 'all', commutes: true, big: (a, b) => (a > b ? a : b) },
  }),
  /** One rounding on the GPU and where the CPU has a fused instruction; two elsewhere. */
  fma: op(3, 'float', 'fma(a, b, c)', (a, b, c) => a * b + c, { rounding: 'nearest', cost: 1 }),
  sqrt: op(1, 'float', 'Math.sqrt(a)', (a) => Math.sqrt(a), { rounding: 'nearest', cost: 4 }),
  exp: approximate(1, 'Math.exp(a)', (a) => Math.exp(a), { cost: 18, cpu: [1, 1], sim: 1, cuda: [2.5, 1.5] }),
  expm1: approximate(1, 'Math.expm1(a)', (a) => Math.expm1(a), {
    cost: 20,
    cpu: [2, 2],
    sim: 1,
    cuda: [1.5, 1.5],
  }),
  log: approximate(1, 'Math.log(a)', (a) => Math.log(a), {
    cost: 25,
    cpu: [1, 1.2],
    sim: 1,
    cuda: [1.5, 1.5],
  }),
  log1p: approximate(1, 'Math.log1p(a)', (a) => Math.log1p(a), {
    cost: 40,
    cpu: [1.5, 1.5],
    sim: 1,
    cuda: [1.5, 1.5],
  }),
  exp2: approximate(1, 'exp2(a)', (a) => 2 ** a, { cost: 16, cpu: [1, 1], sim: 1, cuda: [2.5, 1.5] }),
  /** 2ᵃ of f32, 0 for a below −126, where it is no normal number: a single instruction of a GPU. */
  exp2Normal: {
    ...approximate(1, 'exp2Normal(a)', (a) => (a < -126 ? 0 : 2 ** a), {
      cost: 16,
      cpu: [1, 1],
      sim: 1,
      cuda: [2.5, 1.5],
    }),
    operands: 'f32',
  },
  log2: approximate(1, 'Math.log2(a)', (a) => Math.log2(a), {
    cost: 25,
    cpu: [2, 2],
    sim: 1,
    cuda: [1.5, 1.5],
  }),
  sin: approximate(1, 'Math.sin(a)', (a) => Math.sin(a), { cost: 20, cpu: [3, 1], sim: 1, cuda: [2.5, 2.5] }),
  cos: approximate(1, 'Math.cos(a)', (a) => Math.cos(a), { cost: 20, cpu: [3, 1], sim: 1, cuda: [2.5, 2.5] }),
  tanh: approximate(1, 'Math.tanh(a)', (a) => Math.tanh(a), {
    cost: 30,
    cpu: [3, 3],
    sim: 2,
    cuda: [2.5, 1.5],
  }),
  /** The angle of the point (b, a), from −π to π. */
  atan2: approximate(2, 'Math.atan2(a, b)', Math.atan2, {
    cost: 60,
    cpu: [0.51, 2],
    sim: 2,
    cuda: [3.5, 2.5],
  }),
  /** The error function 2/√π ∫₀ᵃ e^−t² dt. */
  erf: approximate(1, 'erf(a)', erf, { cost: 50, cpu: [1.25, 1.25], sim: 1.25, cuda: [2.5, 2.5] }),
  /** Φ(a), the normal distribution's cumulative function, with full relative accuracy in its tail. */
  normcdf: approximate(1, 'normcdf(a)', normcdf, { cost: 40, cpu: [5, 5], sim: 6, cuda: [5.5, 5.5] }),
  /**
   * For results that are rounded to 16 bits (`FOR_HALVES`), of f32. The density e^(−a²/2)/√(2π) of the normal distribution,
   * and Φ, which is a multiple of it: kernels that want both compute one exponential.
   */
  normpdf16: forHalves('normpdf16(a)', (a) => Math.exp(-0.5 * a * a) / Math.sqrt(2 * Math.PI), {
    ...{ cost: 5, cpu: 70, cuda: 150 },
  }),
  /** eᵃ for results that are rounded to 16 bits, of f32. */
  exp16: forHalves('exp16(a)', (a) => Math.exp(a), { cost: 10, cpu: 1, cuda: 75 }),
  normcdf16: forHalves('normcdf16(a)', normcdf, { cost: 15, cpu: 470, cuda: 520 }),
  /** C's: 1 for b = 0 and for a = 1, even of NaN, and for (−1)^±∞, where JavaScript has NaN. */
  pow: approximate(2, 'Math.pow(a, b)', power, { cost: 80, cpu: [0.6, 1], sim: 1, cuda: [4.5, 2.5] }),
  floor: op(1, 'float', 'Math.floor(a)', (a) => Math.floor(a), { rounding: 'exact', cost: 1 }),
  ceil: op(1, 'float', 'Math.ceil(a)', (a) => Math.ceil(a), { rounding: 'exact', cost: 1 }),
  trunc: op(1, 'float', 'Math.trunc(a)', (a) => Math.trunc(a), { rounding: 'exact', cost: 1 }),
  /** To the nearest integer, ties to even. */
  rint: op(1, 'float', 'rint(a)', nearest, { rounding: 'exact', cost: 1 }),
  /** To 10 bits of fraction, ties to even: what tensor cores take as tf32. */
  tf32: op(1, 'f32', 'tf32(a)', toTf32, { rounding: 'nearest', cost: 1 }),
  lt: test('number', 'a < b', (a, b) => a < b),
  le: test('number', 'a <= b', (a, b) => a <= b),
  gt: test('number', 'a > b', (a, b) => a > b),
  ge: test('number', 'a >= b', (a, b) => a >= b),
  eq: test('any', 'a === b', (a, b) => a === b, true),
  ne: test('any', 'a !== b', (a, b) => a !== b, true),
  /** On bools these evaluate both sides; `&&` and `||` are `select`s. */
  and: whole(
    2,
    'bits',
    'a & b',
    (a, b) => a & b,
    (a, b) => a & b,
    { commutes: true },
  ),
  or: whole(
    2,
    'bits',
    'a | b',
    (a, b) => a | b,
    (a, b) => a | b,
    { commutes: true },
  ),
  xor: whole(
    2,
    'bits',
    'a ^ b',
    (a, b) => a ^ b,
    (a, b) => a ^ b,
    { commutes: true },
  ),
  not: whole(
    1,
    'bits',
    '~a',
    (a) => ~a,
    (a) => ~a,
  ),
  /** Shift counts are taken modulo the width. */
  shl: whole(
    2,
    'integer',
    'a << b',
    (a, b) => a << b,
    (a, b) => a << (b & 63n),
  ),
  /** Arithmetic on signed, logical on unsigned operands. */
  shr: whole(
    2,
    'integer',
    'a >> b',
    (a, b) => (a < 0 ? a >> b : a >>> b),
    (a, b) => a >> (b & 63n),
  ),
  /** The upper 32 bits of a u32 product. */
  mulhi: whole(2, 'integer', 'mulhi(a, b)', upperHalf, (a, b) => (a * b) >> 64n),
  /** c and the sum of the products of four signed bytes, those of the words a and b: NVIDIA's name for it. */
  dp4a: op(3, 'i32', 'dp4a(a, b, c)', dotBytes, { rounding: 'exact', cost: 4 }),
  /** The same where no byte of b is negative, for which WebAssembly has an instruction. */
  dp4aPositive: op(3, 'i32', 'dp4aPositive(a, b, c)', dotBytes, { rounding: 'exact', cost: 2 }),
} as const satisfies Record<string, OpRecord>;

export type ScalarOp = keyof typeof OPS;

/**
 * What computes a function in f32 where the result is rounded to 16 bits: with 2^-18 of the result as error in f16's range,
 * which is 0.01 ulp of f16. Multiplied by others it stays so; a function belongs here if nothing is taken from its result that
 * is nearly the same.
 */
export const FOR_HALVES: Readonly<Partial<Record<ScalarOp, ScalarOp>>> = {
  exp: 'exp16',
  normcdf: 'normcdf16',
};

/** The functions that are not rounded correctly. They bear their names in C. */
export type MathFunction = {
  [Op in ScalarOp]: (typeof OPS)[Op]['rounding'] extends Accuracy ? Op : never;
}[ScalarOp];
export const isFunction = (op: ScalarOp): op is MathFunction => typeof OPS[op].rounding === 'object';
export const MATH_FUNCTIONS: readonly MathFunction[] = (Object.keys(OPS) as ScalarOp[]).filter(isFunction);

/** Whether a float result has to be rounded to its dtype. */
export const needsRounding = (op: ScalarOp): boolean => OPS[op].rounding !== 'exact';

/** Round a raw result to what a value of `t` can hold, as the GPU does. */
export function wrap(t: DType, raw: Scalar): Scalar {
  return isHalf(t) ? nearestIn(t, Math.fround(raw as number)) : nearestIn(t, raw);
}

/** The nearest value that `t` has, ties to even; integers modulo 2^bits. */
function nearestIn(t: DType, raw: Scalar): Scalar {
  switch (t.name) {
    case 'f32':
      return Math.fround(raw as number);
    case 'f64':
      return raw as number;
    case 'f16':
      return fromF16(toF16(raw as number));
    case 'bf16':
      return fromBf16(toBf16(raw as number));
    case 'i32':
      return (raw as number) | 0;
    case 'u32':
      return (raw as number) >>> 0;
    case 'i8':
      return ((raw as number) << 24) >> 24;
    case 'u8':
      return (raw as number) & 255;
    case 'i64':
      return BigInt.asIntN(64, raw as bigint);
    case 'bool':
      return typeof raw === 'boolean' ? raw : (raw as number) !== 0;
  }
}

/** Apply an op to operands of dtype `t`, rounded to the result's dtype. */
export function evaluate(name: ScalarOp, t: DType, a: Scalar, b: Scalar = 0, c: Scalar = 0): Scalar {
  const record: OpRecord = OPS[name];
  if (t.name === 'bool' && name === 'not') return !a;
  if (t.name === 'i64' && record.big) {
    const result = record.big(a as bigint, b as bigint, c as bigint);
    return typeof result === 'boolean' ? result : wrap(t, result);
  }
  if (name === 'mul' && (t.name === 'i32' || t.name === 'u32'))
    return wrap(t, Math.imul(a as number, b as number));
  if (name === 'mod' && t.kind !== 'float' && b === 0) return 0;
  const raw = record.eval(a as number, b as number, c as number);
  return record.result === 'bool' ? Boolean(raw) : wrap(t, raw);
}

/** A number that rounds to f32 and less as `v` does: where it has more than 53 bits, the last says whether any are lost. */
function oddNumber(v: bigint): number {
  const rest = v & 1023n;
  return Number(rest === 0n || bigAbs(v) < 2n ** 53n ? v : (v - rest) | 1024n);
}

/** Convert a value between dtypes, rounded once: to integers towards zero and saturating (NaN → 0), to bool as `!== 0`. */
export function convert(from: DType, to: DType, v: Scalar): Scalar {
  if (from === to) return v;
  if (to.name === 'bool') return from.name === 'i64' ? v !== 0n : Number(v) !== 0;
  if (to.kind === 'float')
    return nearestIn(to, typeof v === 'bigint' && to.name !== 'f64' ? oddNumber(v) : Number(v));
  if (from.kind !== 'float') {
    const whole = BigInt(v);
    if (to.name === 'i64') return BigInt.asIntN(64, whole);
    return wrap(to, Number(to.kind === 'int' ? BigInt.asIntN(32, whole) : BigInt.asUintN(32, whole)));
  }
  const x = v as number;
  if (Number.isNaN(x)) return to.name === 'i64' ? 0n : 0;
  const whole = Math.trunc(x);
  const [least, beyond] = NUMBER_LIMITS[to.name]!;
  const inside = whole < least || whole >= beyond ? undefined : whole;
  if (to.name === 'i64') return inside === undefined ? LIMITS.i64![whole < least ? 0 : 1] : BigInt(inside);
  // Not −0.
  return (inside ?? (whole < least ? least : beyond - 1)) + 0;
}
