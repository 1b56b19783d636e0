/**
 * The elementary functions out of basic operations: reduce the argument to a short range by moving bits, a
 * polynomial there, and back. Straight-line, without branches, so that four lanes go as fast as one.
 */
import { type DType, f64 } from '../../core/dtype.js';
import { alu, bitcast, cast, constant, type Expr, select, splat } from '../ir/ir.js';
import type { MathFunction, ScalarOp } from '../ir/ops.js';
import type { Lanes } from '../ir/types.js';
import {
  ATAN,
  ATANH,
  F32,
  F64,
  type FloatFormat,
  QUARTER_PI,
  TAIL_RATIO_16,
  THIRD_LOW,
  TWO_BY_LN2,
} from '../math/formats.js';

type Unary = (m: FloatArithmetic, x: Expr) => Expr;

/** IR builders for one format and number of lanes. */
export class FloatArithmetic {
  readonly format: FloatFormat;
  readonly #lanes: Lanes;
  constructor(format: FloatFormat, lanes: Lanes) {
    this.format = format;
    this.#lanes = lanes;
  }
  #constant(t: DType, v: number | bigint): Expr {
    return splat(constant(t, t.name === 'i64' ? BigInt(v) : v), this.#lanes);
  }
  #op(name: ScalarOp, ...operands: (Expr | number)[]): Expr {
    const { float } = this.format;
    return alu(
      name,
      operands.map((o) => (typeof o === 'number' ? this.#constant(float, o) : o)),
    );
  }
  num(v: number): Expr {
    return this.#constant(this.format.float, v);
  }
  add(a: Expr | number, b: Expr | number): Expr {
    return this.#op('add', a, b);
  }
  sub(a: Expr | number, b: Expr | number): Expr {
    return this.#op('sub', a, b);
  }
  mul(a: Expr | number, b: Expr | number): Expr {
    return this.#op('mul', a, b);
  }
  div(a: Expr | number, b: Expr | number): Expr {
    return this.#op('div', a, b);
  }
  fma(a: Expr | number, b: Expr | number, c: Expr | number): Expr {
    return this.#op('fma', a, b, c);
  }
  abs(a: Expr): Expr {
    return this.#op('abs', a);
  }
  neg(a: Expr): Expr {
    return this.#op('neg', a);
  }
  trunc(a: Expr): Expr {
    return this.#op('trunc', a);
  }
  test(name: 'lt' | 'gt' | 'eq' | 'ne', a: Expr, b: Expr | number): Expr {
    return this.#op(name, a, b);
  }
  /** An op on the integers that floats' bits are. */
  int(
    name: 'add' | 'sub' | 'mul' | 'mulhi' | 'and' | 'or' | 'xor' | 'shl' | 'shr' | 'eq' | 'ne' | 'lt',
    a: Expr,
    b: Expr | number | bigint,
  ): Expr {
    const other = typeof b === 'object' ? b : this.#constant(this.format.bits, b);
    return alu(name, [a, other]);
  }
  /** By its sign bit: of -0 too. */
  isNegative(a: Expr): Expr {
    return alu('lt', [this.bitsOf(a), this.#constant(this.format.bits, 0)]);
  }
  bitsOf(a: Expr): Expr {
    return bitcast(this.format.bits, a);
  }
  fromBits(a: Expr): Expr {
    return bitcast(this.format.float, a);
  }
  toFloat(a: Expr): Expr {
    return cast(this.format.float, a);
  }
  select(condition: Expr, then: Expr | number, otherwise: Expr | number): Expr {
    const operand = (o: Expr | number): Expr => (typeof o === 'number' ? this.num(o) : o);
    return select(condition, operand(then), operand(otherwise));
  }
  polynomial(x: Expr, coefficients: readonly number[]): Expr {
    const last = coefficients.length - 1;
    let sum = this.num(coefficients[last]!);
    for (let i = last - 1; i >= 0; i--) sum = this.fma(sum, x, coefficients[i]!);
    return sum;
  }
  /** Between two bounds; NaN stays. */
  clamp(x: Expr, [low, high]: readonly [number, number]): Expr {
    const below = this.select(this.test('gt', x, high), high, x);
    return this.select(this.test('lt', below, low), low, below);
  }
  /** x·factor rounded to an integer: as a float, and as the bits in which it stands low. */
  round(x: Expr, factor = 1): { whole: Expr; bits: Expr } {
    const { magic } = this.format;
    const shifted = factor === 1 ? this.add(x, magic) : this.fma(x, factor, magic);
    return { whole: this.sub(shifted, this.format.magic), bits: this.bitsOf(shifted) };
  }
  /** x·2^n, in two steps, so that results without a full fraction and infinity come out right. */
  scale(x: Expr, bits: Expr): Expr {
    const n = this.int('sub', bits, this.#magicBits(this.format.magic));
    const half = this.int('shr', n, 1);
    return this.mul(this.mul(x, this.#powerOf2(half)), this.#powerOf2(this.int('sub', n, half)));
  }
  /** 2^n for the n that `round` left in low bits, or 2^−n; if it has a full fraction. */
  power(bits: Expr, sign: 1 | -1): Expr {
    const zero = this.#magicBits(this.format.magic);
    return this.#powerOf2(
      sign > 0 ? this.int('sub', bits, zero) : this.int('sub', this.#constant(this.format.bits, zero), bits),
    );
  }
  #powerOf2(n: Expr): Expr {
    const { fraction, bias } = this.format;
    return this.fromBits(this.int('shl', this.int('add', n, bias), fraction));
  }
  /** With the sign of x in place of its own, which is plus. */
  withSign(size: Expr, x: Expr): Expr {
    const width = this.format.bits.bytes * 8 - 1;
    const sign = this.int('shl', this.int('shr', this.bitsOf(x), width), width);
    return this.fromBits(this.int('or', this.bitsOf(size), sign));
  }
  #magicBits(magic: number): number | bigint {
    const view = new DataView(new ArrayBuffer(8));
    if (this.format === F32) {
      view.setFloat32(0, magic);
      return view.getInt32(0);
    }
    view.setFloat64(0, magic);
    return view.getBigInt64(0);
  }
}

/** e^r for |r| ≤ ln2/2. */
function expNear(m: FloatArithmetic, r: Expr): Expr {
  return m.add(m.fma(m.polynomial(r, m.format.exp), m.mul(r, r), r), 1);
}

/** x minus n times a constant given in parts. */
const reduce = (m: FloatArithmetic, x: Expr, n: Expr, parts: readonly number[]): Expr =>
  parts.reduce((rest, part) => m.fma(n, -part, rest), x);

const exp: Unary = (m, x) => {
  const near = m.clamp(x, m.format.expRange);
  const { whole, bits } = m.round(near, Math.LOG2E);
  return m.scale(expNear(m, reduce(m, near, whole, m.format.ln2)), bits);
};

const exp2: Unary = (m, x) => {
  const near = m.clamp(x, m.format.exp2Range);
  const { whole, bits } = m.round(near);
  return m.scale(expNear(m, m.mul(m.sub(near, whole), Math.LN2)), bits);
};

const exp2Normal: Unary = (m, x) => m.select(m.test('lt', x, -126), 0, exp2(m, x));

/** e^x − 1 as e and 2^n·e: x = n·ln 2 + r, e = e^r − 2^−n. From expm1Least to 0, where `bounded`. */
function expm1Of(m: FloatArithmetic, x: Expr, bounded: boolean): { e: Expr; bits: Expr } {
  const { whole, bits } = m.round(x, Math.LOG2E);
  const r = reduce(m, x, whole, m.format.ln2);
  const rest = m.fma(m.polynomial(r, m.format.exp), m.mul(r, r), r);
  const power = m.power(bits, -1);
  // Where 2^n is beyond all digits, 2^−n may have no full fraction.
  const less = bounded ? power : m.select(m.test('gt', whole, 2 * m.format.fraction), 0, power);
  return { e: m.add(rest, m.sub(1, less)), bits };
}

const expm1: Unary = (m, x) => {
  const { e, bits } = expm1Of(m, m.clamp(x, [m.format.expm1Least, m.format.expRange[1]]), false);
  return m.select(m.test('eq', x, 0), x, m.scale(e, bits));
};

/** x = 2^k·(1 + f) with 1 + f from √½ to √2; k is a float. Right for finite x > 0. */
function split(m: FloatArithmetic, x: Expr): { k: Expr; f: Expr } {
  const { fraction, smallest, rootHalf } = m.format;
  const short = m.test('lt', x, smallest);
  const bits = m.bitsOf(m.select(short, m.mul(x, 2 ** fraction), x));
  const exponent = m.int('shr', m.int('sub', bits, rootHalf), fraction);
  const f = m.sub(m.fromBits(m.int('sub', bits, m.int('shl', exponent, fraction))), 1);
  return { k: m.add(m.toFloat(exponent), m.select(short, -fraction, 0)), f };
}

/** ln(1 + f) for 1 + f from √½ to √2. */
function logNear(m: FloatArithmetic, f: Expr): Expr {
  const s = m.div(f, m.add(f, 2));
  const z = m.mul(s, s);
  const rest = m.mul(z, m.polynomial(z, m.format.log));
  const halfSquare = m.mul(m.mul(f, f), 0.5);
  return m.sub(f, m.sub(halfSquare, m.mul(s, m.add(halfSquare, rest))));
}

/** The result where x is infinite, `pole` (−∞ there), less (NaN) or NaN. */
function logEdges(m: FloatArithmetic, x: Expr, result: Expr, pole: number): Expr {
  const large = m.select(m.test('lt', x, Number.POSITIVE_INFINITY), result, x);
  const zero = m.select(m.test('eq', x, pole), Number.NEGATIVE_INFINITY, large);
  return m.select(m.test('lt', x, pole), Number.NaN, zero);
}

const log: Unary = (m, x) => {
  const { k, f } = split(m, x);
  const [high, low] = m.format.ln2;
  return logEdges(m, x, m.fma(k, high!, m.fma(k, low!, logNear(m, f))), 0);
};

const log2: Unary = (m, x) => {
  const { k, f } = split(m, x);
  return logEdges(m, x, m.fma(logNear(m, f), Math.LOG2E, k), 0);
};

/** ln u + (1 + x − u)/u, u = 1 + x as rounded; near 0 of x itself. */
const log1p: Unary = (m, x) => {
  const u = m.add(x, 1);
  const { k, f } = split(m, u);
  const lost = m.div(m.sub(x, m.sub(u, 1)), u);
  const [high, low] = m.format.ln2;
  const far = m.fma(k, high!, m.add(m.fma(k, low!, lost), logNear(m, f)));
  return logEdges(m, x, m.select(m.test('eq', k, 0), logNear(m, x), far), -1);
};

/** A number as the sum of two. */
export interface ExprPair {
  readonly high: Expr;
  readonly low: Expr;
}

/** x less the nearest multiple of π/2, and that multiple in the low bits. Right within waveRange. */
function reduceWave(m: FloatArithmetic, x: Expr): ExprPair & { readonly bits: Expr } {
  const { whole, bits } = m.round(x, 2 / Math.PI);
  const { halfPi } = m.format;
  if (m.format === F32) return { high: reduce(m, x, whole, halfPi), low: m.num(0), bits };
  // What the subtractions round away is kept.
  const less = (from: Expr, part: number): ExprPair => {
    const by = m.mul(whole, part);
    const high = m.sub(from, by);
    return { high, low: m.sub(m.sub(from, high), by) };
  };
  const second = less(m.fma(whole, -halfPi[0]!, x), halfPi[1]!);
  const third = less(second.high, halfPi[2]!);
  const rest = m.fma(whole, -halfPi[3]!, m.add(second.low, third.low));
  const high = m.add(third.high, rest);
  return { high, low: m.add(m.sub(third.high, high), rest), bits };
}

/** The sine of an angle of at most π/4 and `quadrant` quarter turns. */
export function sineOf(m: FloatArithmetic, angle: ExprPair, quadrant: Expr): Expr {
  const { sin, cos } = m.format === F32 ? shortWaves(m, angle.high) : longWaves(m, angle);
  const swapped = m.int('ne', m.int('and', quadrant, 1), 0);
  const sign = m.int('shl', m.int('and', quadrant, 2), m.format.bits.bytes * 8 - 2);
  return m.fromBits(m.int('xor', m.bitsOf(m.select(swapped, cos, sin)), sign));
}

interface Waves {
  readonly sin: Expr;
  readonly cos: Expr;
}

function shortWaves(m: FloatArithmetic, r: Expr): Waves {
  const z = m.mul(r, r);
  // A product, so that −0 keeps its sign.
  const sin = m.mul(r, m.fma(z, m.polynomial(z, m.format.sin), 1));
  const cos = m.fma(m.mul(z, z), m.polynomial(z, m.format.cos), m.fma(z, -0.5, 1));
  return { sin, cos };
}

/** With what the roundings of 1 − r²/2 and of r lose. */
function longWaves(m: FloatArithmetic, { high: r, low }: ExprPair): Waves {
  const z = m.mul(r, r);
  const half = m.mul(z, 0.5);
  const cubic = m.mul(m.mul(r, z), m.polynomial(z, m.format.sin));
  const sin = m.add(r, m.add(m.sub(cubic, m.mul(low, half)), low));
  const top = m.sub(1, half);
  const rest = m.sub(m.mul(m.mul(z, z), m.polynomial(z, m.format.cos)), m.mul(r, low));
  const cos = m.add(top, m.add(m.sub(m.sub(1, top), half), rest));
  return { sin, cos };
}

/** Right within waveRange; beyond, the function that WebAssembly calls is (kernel/elementary/wave.ts). */
const wave =
  (name: WaveName): Unary =>
  (m, x) => {
    const { bits, ...angle } = reduceWave(m, x);
    const quadrant = name === 'sin' ? bits : m.int('add', bits, QUARTERS[name]);
    const value = sineOf(m, angle, quadrant);
    // The sums of the long one have lost the sign of −0.
    const near = name === 'sin' && m.format === F64 ? m.select(m.test('eq', x, 0), x, value) : value;
    return { ...alu(name, [x]), src: [near, x] } as Expr;
  };

export type WaveName = 'sin' | 'cos';
/** Quarter turns ahead of the sine. */
export const QUARTERS: Readonly<Record<WaveName, number>> = { sin: 0, cos: 1 };

/** (e^2x − 1)/(e^2x + 1) of −|x|. */
const tanh: Unary = (m, x) => {
  const low = m.format.expm1Least;
  const { e, bits } = expm1Of(m, m.clamp(m.mul(m.abs(x), -2), [low, 0]), true);
  const minus = m.mul(e, m.power(bits, 1));
  return m.withSign(m.div(m.sub(0, minus), m.add(minus, 2)), x);
};

/** Φ(−t), t ≥ 0. t² is taken in two parts, because its rounding would be multiplied by it. */
function normalTail(m: FloatArithmetic, size: Expr): Expr {
  const { c, polynomial, end } = m.format.tail;
  const t = m.select(m.test('gt', size, end), end, size);
  const high = m.fromBits(m.int('and', m.bitsOf(t), m.format.upperHalf));
  const rest = m.mul(m.mul(m.sub(t, high), m.add(t, high)), -0.5);
  const { whole, bits } = m.round(m.mul(t, t), -0.5 * Math.LOG2E);
  const r = m.add(reduce(m, m.mul(m.mul(high, high), -0.5), whole, m.format.ln2), rest);
  const inverse = m.div(1, m.add(t, c));
  // (t − c)/(t + c) with less error where t is small.
  const u = m.fma(m.mul(t, inverse), 2, -1);
  const factor = m.mul(m.polynomial(u, polynomial), inverse);
  return m.scale(m.mul(expNear(m, r), factor), bits);
}

const normcdf: Unary = (m, x) => {
  const tail = normalTail(m, m.abs(x));
  return m.select(m.test('lt', x, 0), tail, m.sub(1, tail));
};

/** e^(−x²/2)/√(2π) */
const normpdf16: Unary = (m, x) => m.mul(exp(m, m.mul(m.mul(x, x), -0.5)), 1 / Math.sqrt(2 * Math.PI));

const normcdf16: Unary = (m, x) => {
  const { p, polynomial } = TAIL_RATIO_16;
  const v = m.div(1, m.fma(m.abs(x), p, 1));
  const tail = m.mul(normpdf16(m, x), m.mul(m.polynomial(v, polynomial), v));
  return m.select(m.test('lt', x, 0), tail, m.sub(1, tail));
};

const erf: Unary = (m, x) => {
  const size = m.abs(x);
  const near = m.fma(x, m.polynomial(m.mul(x, x), m.format.erf), x);
  const { end, polynomial } = m.format.farErf;
  const u = m.sub(m.select(m.test('gt', size, end), end, size), 1);
  const power = m.neg(m.polynomial(u, polynomial));
  const { whole, bits } = m.round(power, Math.LOG2E);
  const far = m.sub(1, m.mul(expNear(m, reduce(m, power, whole, m.format.ln2)), m.power(bits, 1)));
  return m.select(m.test('lt', size, 1), near, m.withSign(far, x));
};

/** a·b and what its rounding lost (Dekker, "A floating-point technique for extending the available precision", 1971). */
function product(m: FloatArithmetic, a: Expr, b: Expr): ExprPair {
  const halves = (v: Expr): ExprPair => {
    const scaled = m.mul(v, 2 ** 27 + 1);
    const high = m.sub(scaled, m.sub(scaled, v));
    return { high, low: m.sub(v, high) };
  };
  const [p, q] = [halves(a), halves(b)];
  const high = m.mul(a, b);
  const cross = m.add(m.sub(m.mul(p.high, q.high), high), m.mul(p.high, q.low));
  return { high, low: m.add(m.add(cross, m.mul(p.low, q.high)), m.mul(p.low, q.low)) };
}

/** a + b for |a| ≥ |b|, and what its rounding lost. */
export function sum(m: FloatArithmetic, a: Expr, b: Expr): ExprPair {
  const high = m.add(a, b);
  return { high, low: m.add(m.sub(a, high), b) };
}

export const times = (m: FloatArithmetic, a: ExprPair, b: ExprPair): ExprPair => {
  const { high, low } = product(m, a.high, b.high);
  return { high, low: m.add(low, m.add(m.mul(a.high, b.low), m.mul(a.low, b.high))) };
};

/** log₂ x to 64 bits, in f64, for finite x > 0: k + 2/ln 2·(s + s³/3 + s⁵/5 + …), s = f/(2 + f). */
function log2Pair(m: FloatArithmetic, x: Expr): ExprPair {
  const { k, f } = split(m, x);
  const divisor = sum(m, m.num(2), f);
  const quotient = m.div(f, divisor.high);
  const back = product(m, quotient, divisor.high);
  const left = m.sub(m.sub(m.sub(f, back.high), back.low), m.mul(quotient, divisor.low));
  const s = { high: quotient, low: m.div(left, divisor.high) };
  const z = times(m, s, s);
  const third = sum(m, m.num(1 / 3), m.mul(z.high, m.polynomial(z.high, ATANH)));
  const thirds = { high: third.high, low: m.add(third.low, THIRD_LOW) };
  const cubic = times(m, s, times(m, z, thirds));
  const all = sum(m, s.high, cubic.high);
  const atanh = { high: all.high, low: m.add(all.low, m.add(s.low, cubic.low)) };
  const bits = times(m, atanh, { high: m.num(TWO_BY_LN2[0]), low: m.num(TWO_BY_LN2[1]) });
  const whole = sum(m, k, bits.high);
  return { high: whole.high, low: m.add(whole.low, bits.low) };
}

/**
 * a^b in f64, as C's pow: 1 for b = 0 and for a = 1, even of NaN, and for (−1)^±∞. For f32, of which log₂ in f64 has
 * digits enough, without `exact`.
 */
function pow(m: FloatArithmetic, a: Expr, b: Expr, exact: boolean): Expr {
  const size = m.abs(a);
  // Of larger exponents every power but that of 1 is 0 or infinite.
  const exponent = m.clamp(b, [-(2 ** 70), 2 ** 70]);
  const rough = m.mul(exponent, log2(m, size));
  const power = exact ? exp2OfProduct(m, log2Pair(m, size), exponent) : exp2(m, rough);
  const finite = alu('and', [m.test('gt', size, 0), m.test('lt', size, Number.POSITIVE_INFINITY)]);
  const edge = m.select(m.test('lt', rough, 0), 0, rough);
  const magnitude = exact ? m.select(finite, power, edge) : power;
  const half = m.mul(b, 0.5);
  const odd = m.test('ne', m.trunc(half), half);
  const whole = m.trunc(b);
  const isOdd = alu('and', [odd, m.test('eq', whole, b)]);
  const signed = m.select(alu('and', [m.isNegative(a), isOdd]), m.neg(magnitude), magnitude);
  const fractional = alu('and', [m.test('lt', a, 0), m.test('ne', whole, b)]);
  const undefinedHere = alu('and', [fractional, m.test('gt', a, Number.NEGATIVE_INFINITY)]);
  const isOne = alu('or', [m.test('eq', b, 0), m.test('eq', a, 1)]);
  return m.select(isOne, 1, m.select(undefinedHere, Number.NaN, signed));
}

/** 2^(b·log) */
function exp2OfProduct(m: FloatArithmetic, log: ExprPair, b: Expr): Expr {
  const exponent = times(m, { high: b, low: m.num(0) }, log);
  const near = m.clamp(exponent.high, m.format.exp2Range);
  const rest = m.select(m.test('eq', near, exponent.high), exponent.low, 0);
  const { whole, bits } = m.round(near);
  return m.scale(expNear(m, m.mul(m.add(m.sub(near, whole), rest), Math.LN2)), bits);
}

/**
 * The angle of (x, y) as k·π/4 ± atan t with |t| ≤ tan π/8: in the first eighth of a turn t is y/x up to there, and beyond
 * (y − x)/(y + x), of sizes that do not overflow; the others are its mirror images.
 */
function atan2(m: FloatArithmetic, y: Expr, x: Expr): Expr {
  const sizes = [m.abs(y), m.abs(x)];
  const [smaller, larger] = [alu('min', sizes), alu('max', sizes)];
  const infinite = m.test('eq', smaller, Number.POSITIVE_INFINITY);
  const unit = m.select(m.test('eq', larger, 0), 1, larger);
  const [low, high] = [m.select(infinite, 1, smaller), m.select(infinite, 1, unit)];
  const isFar = m.test('gt', low, m.mul(high, Math.SQRT2 - 1));
  const scale = m.select(m.test('gt', high, 1), 0.5, 1);
  const [a, b] = [m.mul(low, scale), m.mul(high, scale)];
  const t = m.div(m.select(isFar, m.sub(a, b), low), m.select(isFar, m.add(a, b), high));
  const z = m.mul(t, t);
  const near = m.fma(m.mul(t, z), m.polynomial(z, ATAN), t);
  const [isSteep, isLeft] = [m.test('gt', sizes[0]!, sizes[1]!), m.isNegative(x)];
  const mirrored = (isIt: Expr, eighths: Expr, all: number): Expr =>
    m.select(isIt, m.sub(all, eighths), eighths);
  const eighths = mirrored(isLeft, mirrored(isSteep, m.select(isFar, 1, 0), 2), 4);
  const turned = m.select(isSteep, m.neg(near), near);
  const rest = m.select(isLeft, m.neg(turned), turned);
  const [first, last] = QUARTER_PI;
  return m.withSign(m.abs(m.fma(eighths, first, m.fma(eighths, last, rest))), y);
}

/** Half a unit of the tenth bit added, less if that bit is 0, the rest cut off; NaN and infinities as they are. */
const tf32: Unary = (m, x) => {
  const bits = m.bitsOf(x);
  const half = m.int('add', m.int('and', m.int('shr', bits, 13), 1), 0xfff);
  const rounded = m.int('and', m.int('add', bits, half), ~0x1fff);
  return m.select(m.test('lt', m.abs(x), Number.POSITIVE_INFINITY), m.fromBits(rounded), x);
};

/** f32 and 16-bit floats in f32's format, f64 in its own. */
const unary =
  (f: Unary) =>
  ([operand]: readonly Expr[]): Expr => {
    const { dtype, lanes } = operand!.type;
    const format = dtype.name === 'f64' ? F64 : F32;
    return cast(dtype, f(new FloatArithmetic(format, lanes), cast(format.float, operand!)));
  };

/** All in f64: in f32 the error of log2 would be multiplied by the exponent, and angles have several roundings. */
const binary =
  (f: (m: FloatArithmetic, a: Expr, b: Expr, exact: boolean) => Expr) =>
  (operands: readonly Expr[]): Expr => {
    const { dtype, lanes } = operands[0]!.type;
    const [a, b] = operands.map((o) => cast(f64, o)) as [Expr, Expr];
    return cast(dtype, f(new FloatArithmetic(F64, lanes), a, b, dtype.name === 'f64'));
  };

const ELEMENTARY = {
  exp: unary(exp),
  exp2: unary(exp2),
  exp2Normal: unary(exp2Normal),
  expm1: unary(expm1),
  log: unary(log),
  log2: unary(log2),
  log1p: unary(log1p),
  sin: unary(wave('sin')),
  cos: unary(wave('cos')),
  tanh: unary(tanh),
  erf: unary(erf),
  normcdf: unary(normcdf),
  exp16: unary(exp),
  normpdf16: unary(normpdf16),
  normcdf16: unary(normcdf16),
  pow: binary(pow),
  atan2: binary(atan2),
  tf32: unary(tf32),
} satisfies Record<MathFunction | 'tf32', (operands: readonly Expr[]) => Expr>;

/** The ops that `elementary` makes of others. */
export type Elementary = keyof typeof ELEMENTARY;

/** The function as basic operations; undefined if it is basic itself. */
export const elementary = (name: ScalarOp, operands: readonly Expr[]): Expr | undefined =>
  name in ELEMENTARY ? ELEMENTARY[name as Elementary](operands) : undefined;
