/**
 * The scalar operations of the kernel language, one record each. `eval` is the meaning: constant folding, the
 * simulator and the test oracle all call it, and every renderer must agree with it.
 *
 * To add an op: a record here, a line in render/cuda/render.ts, render/wasm/render.ts (or kernel/passes/decompose.ts) and a case row.
 */
import type { DType } from '../../core/dtype.js';
import { fromBf16, fromF16, toBf16, toF16 } from '../../core/float16.js';
import { erf, normcdf, power } from '../math/numbers.js';

/** A scalar at run time: i64 is a bigint, bool a boolean, everything else a number. */
export type Scalar = number | bigint | boolean;

/** Which operands an op takes. */
export type OperandRule = 'number' | 'float' | 'f32' | 'integer' | 'bits' | 'bool' | 'any';

export interface OpRecord {
  readonly arity: 1 | 2 | 3;
  /** All operands share one dtype, of this kind; `bits` is an integer or bool. */
  readonly operands: OperandRule;
  /** The result's dtype: the operands', or bool. */
  readonly result: 'same' | 'bool';
  /** How it is written in a kernel, with its operands as a, b, c. */
  readonly syntax: string;
  /** The meaning on numbers, before `wrap` rounds it to the dtype. */
  readonly eval: (a: number, b: number, c: number) => number | boolean;
  /** The meaning on i64 values, where the operators of `eval` do not do. */
  readonly big?: (a: bigint, b: bigint, c: bigint) => bigint | boolean;
  /** How far results may be from the exact ones. Absent: floats are rounded correctly. */
  readonly ulp?: Accuracy;
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

const op = (
  arity: 1 | 2 | 3,
  operands: OperandRule,
  result: 'same' | 'bool',
  syntax: string,
  evaluate: OpRecord['eval'],
  big?: OpRecord['big'],
): OpRecord => ({ arity, operands, result, syntax, eval: evaluate, ...(big ? { big } : {}) });

/** An op on floats that is not rounded correctly. */
const approximate = (
  arity: 1 | 2,
  syntax: string,
  evaluate: OpRecord['eval'],
  { cpu, sim, cuda }: { readonly cpu: Pair; readonly sim: number; readonly cuda: Pair },
): OpRecord => ({
  ...op(arity, 'float', 'same', syntax, evaluate),
  ulp: { cpu: bounds(cpu), cuda: bounds(cuda), sim: { f64: sim } },
});
/** Of f32 and f64. */
type Pair = readonly [number, number];
const bounds = ([f32, f64]: Pair): Bounds => ({ f32, f64 });

const bigAbs = (a: bigint): bigint => (a < 0n ? -a : a);

/** To the nearest integer, ties to even. */
const nearest = (a: number): number => {
  const low = Math.floor(a);
  const rest = a - low;
  const near = rest < 0.5 || (rest === 0.5 && low % 2 === 0) ? low : low + 1;
  return near === 0 && a < 0 ? -0 : near;
};

const toTf32 = (a: number): number => {
  if (!Number.isFinite(a) || a === 0) return a;
  // Fractions below 2^-136 have no tenth bit in f32's smallest numbers.
  const unit = 2 ** Math.max(Math.floor(Math.log2(Math.abs(a))) - 10, -136);
  return nearest(a / unit) * unit;
};

export const OPS = {
  add: op(2, 'number', 'same', 'a + b', (a, b) => a + b),
  sub: op(2, 'number', 'same', 'a - b', (a, b) => a - b),
  mul: op(2, 'number', 'same', 'a * b', (a, b) => a * b),
  div: op(2, 'float', 'same', 'a / b', (a, b) => a / b),
  /** Integer quotient, rounded to zero. By zero: 0, so that all devices agree. */
  idiv: op(
    2,
    'integer',
    'same',
    'idiv(a, b)',
    (a, b) => (b === 0 ? 0 : Math.trunc(a / b)),
    (a, b) => (b === 0n ? 0n : a / b),
  ),
  /** Remainder with the sign of the dividend. Of integers by zero: 0. */
  mod: op(
    2,
    'number',
    'same',
    'a % b',
    (a, b) => a % b,
    (a, b) => (b === 0n ? 0n : a % b),
  ),
  neg: op(1, 'number', 'same', '-a', (a) => -a),
  abs: op(1, 'number', 'same', 'Math.abs(a)', (a) => Math.abs(a), bigAbs),
  /** NaN if either is. */
  min: op(
    2,
    'number',
    'same',
    'Math.min(a, b)',
    (a, b) => Math.min(a, b),
    (a, b) => (a < b ? a : b),
  ),
  /** NaN if either is. */
  max: op(
    2,
    'number',
    'same',
    'Math.max(a, b)',
    (a, b) => Math.max(a, b),
    (a, b) => (a > b ? a : b),
  ),
  /** One rounding on the GPU and where the CPU has a fused instruction; two elsewhere. */
  fma: op(3, 'float', 'same', 'fma(a, b, c)', (a, b, c) => a * b + c),
  sqrt: op(1, 'float', 'same', 'Math.sqrt(a)', (a) => Math.sqrt(a)),
  exp: approximate(1, 'Math.exp(a)', (a) => Math.exp(a), { cpu: [1, 1], sim: 1, cuda: [2.5, 1.5] }),
  expm1: approximate(1, 'Math.expm1(a)', (a) => Math.expm1(a), { cpu: [2, 2], sim: 1, cuda: [1.5, 1.5] }),
  log: approximate(1, 'Math.log(a)', (a) => Math.log(a), { cpu: [1, 1.2], sim: 1, cuda: [1.5, 1.5] }),
  log1p: approximate(1, 'Math.log1p(a)', (a) => Math.log1p(a), { cpu: [1.5, 1.5], sim: 1, cuda: [1.5, 1.5] }),
  exp2: approximate(1, 'exp2(a)', (a) => 2 ** a, { cpu: [1, 1], sim: 1, cuda: [2.5, 1.5] }),
  log2: approximate(1, 'Math.log2(a)', (a) => Math.log2(a), { cpu: [2, 2], sim: 1, cuda: [1.5, 1.5] }),
  sin: approximate(1, 'Math.sin(a)', (a) => Math.sin(a), { cpu: [3, 1], sim: 1, cuda: [2.5, 2.5] }),
  cos: approximate(1, 'Math.cos(a)', (a) => Math.cos(a), { cpu: [3, 1], sim: 1, cuda: [2.5, 2.5] }),
  tanh: approximate(1, 'Math.tanh(a)', (a) => Math.tanh(a), { cpu: [3, 3], sim: 2, cuda: [2.5, 1.5] }),
  /** The error function 2/√π ∫₀ᵃ e^−t² dt. */
  erf: approximate(1, 'erf(a)', erf, { cpu: [1.25, 1.25], sim: 1.25, cuda: [2.5, 2.5] }),
  /** Φ(a), the normal distribution's cumulative function, with full relative accuracy in its tail. */
  normcdf: approximate(1, 'normcdf(a)', normcdf, { cpu: [5, 5], sim: 6, cuda: [5.5, 5.5] }),
  /** C's: 1 for b = 0 and for a = 1, even of NaN, and for (−1)^±∞, where JavaScript has NaN. */
  pow: approximate(2, 'Math.pow(a, b)', power, { cpu: [0.6, 1], sim: 1, cuda: [4.5, 2.5] }),
  floor: op(1, 'float', 'same', 'Math.floor(a)', (a) => Math.floor(a)),
  ceil: op(1, 'float', 'same', 'Math.ceil(a)', (a) => Math.ceil(a)),
  trunc: op(1, 'float', 'same', 'Math.trunc(a)', (a) => Math.trunc(a)),
  /** To the nearest integer, ties to even. */
  rint: op(1, 'float', 'same', 'rint(a)', nearest),
  /** To 10 bits of fraction, ties to even: what tensor cores take as tf32. */
  tf32: op(1, 'f32', 'same', 'tf32(a)', toTf32),
  lt: op(2, 'number', 'bool', 'a < b', (a, b) => a < b),
  le: op(2, 'number', 'bool', 'a <= b', (a, b) => a <= b),
  gt: op(2, 'number', 'bool', 'a > b', (a, b) => a > b),
  ge: op(2, 'number', 'bool', 'a >= b', (a, b) => a >= b),
  eq: op(2, 'any', 'bool', 'a === b', (a, b) => a === b),
  ne: op(2, 'any', 'bool', 'a !== b', (a, b) => a !== b),
  /** On bools these evaluate both sides; `&&` and `||` are `select`s. */
  and: op(
    2,
    'bits',
    'same',
    'a & b',
    (a, b) => a & b,
    (a, b) => a & b,
  ),
  or: op(
    2,
    'bits',
    'same',
    'a | b',
    (a, b) => a | b,
    (a, b) => a | b,
  ),
  xor: op(
    2,
    'bits',
    'same',
    'a ^ b',
    (a, b) => a ^ b,
    (a, b) => a ^ b,
  ),
  not: op(
    1,
    'bits',
    'same',
    '~a',
    (a) => ~a,
    (a) => ~a,
  ),
  /** Shift counts are taken modulo the width. */
  shl: op(
    2,
    'integer',
    'same',
    'a << b',
    (a, b) => a << b,
    (a, b) => a << (b & 63n),
  ),
  /** Arithmetic on signed, logical on unsigned operands. */
  shr: op(
    2,
    'integer',
    'same',
    'a >> b',
    (a, b) => (a < 0 ? a >> b : a >>> b),
    (a, b) => a >> (b & 63n),
  ),
  /** The upper 32 bits of a u32 product. */
  mulhi: op(
    2,
    'integer',
    'same',
    'mulhi(a, b)',
    (a, b) => Number((BigInt(a) * BigInt(b)) >> 32n),
    (a, b) => (a * b) >> 64n,
  ),
} as const satisfies Record<string, OpRecord>;

export type ScalarOp = keyof typeof OPS;

/** Round a raw result to what a value of `t` can hold, as the GPU does. */
export function wrap(t: DType, raw: Scalar): Scalar {
  return isHalf(t) ? nearestIn(t, Math.fround(raw as number)) : nearestIn(t, raw);
}

/** f16 or bf16: ops on them compute in f32 and round once more. */
const isHalf = ({ kind, bytes }: DType): boolean => kind === 'float' && bytes === 2;

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
  switch (to.name) {
    case 'i32':
      return Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, whole)) | 0;
    case 'u32':
      return Math.max(0, Math.min(2 ** 32 - 1, whole));
    case 'u8':
      return Math.max(0, Math.min(255, whole));
    default: {
      const limit = 2n ** 63n;
      if (whole >= 2 ** 63) return limit - 1n;
      return whole < -(2 ** 63) ? -limit : BigInt(whole);
    }
  }
}
