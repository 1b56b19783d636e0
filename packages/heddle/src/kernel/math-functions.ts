/**
 * The elementary functions out of basic operations: reduce the argument to a short range by moving bits, a
 * polynomial there, and back. Straight-line, without branches, so that four lanes go as fast as one.
 */
import { type DType, f64 } from '../core/dtype.js';
import { alu, bitcast, cast, constant, type Expr, select, splat } from './ir.js';
import { F32, F64, type FloatFormat } from './math-formats.js';
import type { ScalarOp } from './ops.js';
import type { Lanes } from './types.js';

type Unary = (m: Arithmetic, x: Expr) => Expr;

/** IR builders for one format and number of lanes. */
class Arithmetic {
  readonly format: FloatFormat;
  private readonly lanes: Lanes;
  constructor(format: FloatFormat, lanes: Lanes) {
    this.format = format;
    this.lanes = lanes;
  }
  private constant(t: DType, v: number | bigint): Expr {
    return splat(constant(t, t.name === 'i64' ? BigInt(v) : v), this.lanes);
  }
  private op(name: ScalarOp, ...operands: (Expr | number)[]): Expr {
    const { float } = this.format;
    return alu(
      name,
      operands.map((o) => (typeof o === 'number' ? this.constant(float, o) : o)),
    );
  }
  num(v: number): Expr {
    return this.constant(this.format.float, v);
  }
  add(a: Expr | number, b: Expr | number): Expr {
    return this.op('add', a, b);
  }
  sub(a: Expr | number, b: Expr | number): Expr {
    return this.op('sub', a, b);
  }
  mul(a: Expr | number, b: Expr | number): Expr {
    return this.op('mul', a, b);
  }
  div(a: Expr | number, b: Expr | number): Expr {
    return this.op('div', a, b);
  }
  fma(a: Expr | number, b: Expr | number, c: Expr | number): Expr {
    return this.op('fma', a, b, c);
  }
  unary(name: 'abs' | 'neg' | 'trunc', a: Expr): Expr {
    return this.op(name, a);
  }
  test(name: 'lt' | 'gt' | 'eq' | 'ne', a: Expr, b: Expr | number): Expr {
    return this.op(name, a, b);
  }
  /** An op on the integers that floats' bits are. */
  int(
    name: 'add' | 'sub' | 'and' | 'or' | 'xor' | 'shl' | 'shr' | 'ne',
    a: Expr,
    b: Expr | number | bigint,
  ): Expr {
    const other = typeof b === 'object' ? b : this.constant(this.format.bits, b);
    return alu(name, [a, other]);
  }
  /** By its sign bit: of -0 too. */
  isNegative(a: Expr): Expr {
    return alu('lt', [this.bitsOf(a), this.constant(this.format.bits, 0)]);
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
  /** x rounded to an integer: as a float, and as the bits in which it stands low. */
  round(x: Expr): { whole: Expr; bits: Expr } {
    const shifted = this.add(x, this.format.magic);
    return { whole: this.sub(shifted, this.format.magic), bits: this.bitsOf(shifted) };
  }
  /** x·2^n, in two steps, so that results without a full fraction and infinity come out right. */
  scale(x: Expr, bits: Expr): Expr {
    const { fraction, bias, magic } = this.format;
    const n = this.int('sub', bits, this.magicBits(magic));
    const half = this.int('shr', n, 1);
    const power = (by: Expr): Expr => this.fromBits(this.int('shl', this.int('add', by, bias), fraction));
    return this.mul(this.mul(x, power(half)), power(this.int('sub', n, half)));
  }
  private magicBits(magic: number): number | bigint {
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
function expNear(m: Arithmetic, r: Expr): Expr {
  return m.add(m.fma(m.polynomial(r, m.format.exp), m.mul(r, r), r), 1);
}

/** x minus n times a constant given in parts. */
const reduce = (m: Arithmetic, x: Expr, n: Expr, parts: readonly number[]): Expr =>
  parts.reduce((rest, part) => m.fma(n, -part, rest), x);

const exp: Unary = (m, x) => {
  const near = m.clamp(x, m.format.expRange);
  const { whole, bits } = m.round(m.mul(near, Math.LOG2E));
  return m.scale(expNear(m, reduce(m, near, whole, m.format.ln2)), bits);
};

const exp2: Unary = (m, x) => {
  const near = m.clamp(x, m.format.exp2Range);
  const { whole, bits } = m.round(near);
  return m.scale(expNear(m, m.mul(m.sub(near, whole), Math.LN2)), bits);
};

/** x = 2^k·y with y near 1: k as a float, and ln y. Right for finite x > 0. */
function splitLog(m: Arithmetic, x: Expr): { k: Expr; log: Expr } {
  const { fraction, smallest, rootHalf } = m.format;
  const short = m.test('lt', x, smallest);
  const bits = m.bitsOf(m.select(short, m.mul(x, 2 ** fraction), x));
  const exponent = m.int('shr', m.int('sub', bits, rootHalf), fraction);
  const f = m.sub(m.fromBits(m.int('sub', bits, m.int('shl', exponent, fraction))), 1);
  const s = m.div(f, m.add(f, 2));
  const z = m.mul(s, s);
  const rest = m.mul(z, m.polynomial(z, m.format.log));
  const halfSquare = m.mul(m.mul(f, f), 0.5);
  const log = m.sub(f, m.sub(halfSquare, m.mul(s, m.add(halfSquare, rest))));
  const k = m.add(m.toFloat(exponent), m.select(short, -fraction, 0));
  return { k, log };
}

/** The result where x is 0, infinite, negative or NaN. */
function logEdges(m: Arithmetic, x: Expr, result: Expr): Expr {
  const large = m.select(m.test('lt', x, Number.POSITIVE_INFINITY), result, x);
  const zero = m.select(m.test('eq', x, 0), Number.NEGATIVE_INFINITY, large);
  return m.select(m.test('lt', x, 0), Number.NaN, zero);
}

const log: Unary = (m, x) => {
  const { k, log } = splitLog(m, x);
  const [high, low] = m.format.ln2;
  return logEdges(m, x, m.fma(k, high!, m.fma(k, low!, log)));
};

const log2: Unary = (m, x) => {
  const { k, log } = splitLog(m, x);
  return logEdges(m, x, m.fma(log, Math.LOG2E, k));
};

/** sin(x + quarters·π/2). Accurate while x·2/π has few more bits than half a fraction; bounded always. */
const sine =
  (quarters: 0 | 1): Unary =>
  (m, x) => {
    const { whole, bits } = m.round(m.mul(x, 2 / Math.PI));
    const r = m.clamp(reduce(m, x, whole, m.format.halfPi), [-0.8, 0.8]);
    const quadrant = quarters ? m.int('add', bits, quarters) : bits;
    const z = m.mul(r, r);
    const sin = m.fma(m.mul(r, z), m.polynomial(z, m.format.sin), r);
    const cos = m.fma(m.mul(z, z), m.polynomial(z, m.format.cos), m.fma(z, -0.5, 1));
    const swapped = m.int('ne', m.int('and', quadrant, 1), 0);
    const sign = m.int('shl', m.int('and', quadrant, 2), m.format.bits.bytes * 8 - 2);
    return m.fromBits(m.int('xor', m.bitsOf(m.select(swapped, cos, sin)), sign));
  };

const tanh: Unary = (m, x) => {
  const z = m.mul(x, x);
  const small = m.fma(m.mul(x, z), m.polynomial(z, m.format.tanh), x);
  const size = m.unary('abs', x);
  const large = m.sub(1, m.div(2, m.add(exp(m, m.mul(size, 2)), 1)));
  const width = m.format.bits.bytes * 8 - 1;
  const sign = m.int('shl', m.int('shr', m.bitsOf(x), width), width);
  const signed = m.fromBits(m.int('or', m.bitsOf(large), sign));
  return m.select(m.test('lt', size, m.format.tanhLimit), small, signed);
};

/** a^b as JavaScript's `**`. */
function pow(m: Arithmetic, a: Expr, b: Expr): Expr {
  const size = exp2(m, m.mul(b, log2(m, m.unary('abs', a))));
  const half = m.mul(b, 0.5);
  const odd = m.test('ne', m.unary('trunc', half), half);
  const whole = m.unary('trunc', b);
  const isOdd = alu('and', [odd, m.test('eq', whole, b)]);
  const signed = m.select(alu('and', [m.isNegative(a), isOdd]), m.unary('neg', size), size);
  const fractional = alu('and', [m.test('lt', a, 0), m.test('ne', whole, b)]);
  const undefinedHere = alu('and', [fractional, m.test('gt', a, Number.NEGATIVE_INFINITY)]);
  return m.select(m.test('eq', b, 0), 1, m.select(undefinedHere, Number.NaN, signed));
}

/** Half a unit of the tenth bit added, less if that bit is 0, the rest cut off; NaN and infinities as they are. */
const tf32: Unary = (m, x) => {
  const bits = m.bitsOf(x);
  const half = m.int('add', m.int('and', m.int('shr', bits, 13), 1), 0xfff);
  const rounded = m.int('and', m.int('add', bits, half), ~0x1fff);
  return m.select(m.test('lt', m.unary('abs', x), Number.POSITIVE_INFINITY), m.fromBits(rounded), x);
};

const UNARY = { exp, exp2, log, log2, sin: sine(0), cos: sine(1), tanh, tf32 } satisfies Partial<
  Record<ScalarOp, Unary>
>;

/** The function as basic operations, for f32 and f64; undefined if it is basic itself. */
export function elementary(name: ScalarOp, operands: readonly Expr[]): Expr | undefined {
  const { dtype, lanes } = operands[0]!.type;
  const format = dtype.name === 'f64' ? F64 : F32;
  if (name === 'pow') {
    // In f32 the error of log2 would be multiplied by the exponent.
    const [a, b] = operands.map((o) => cast(f64, o)) as [Expr, Expr];
    return cast(dtype, pow(new Arithmetic(F64, lanes), a, b));
  }
  if (!(name in UNARY)) return undefined;
  const x = cast(format.float, operands[0]!);
  return cast(dtype, UNARY[name as keyof typeof UNARY](new Arithmetic(format, lanes), x));
}
