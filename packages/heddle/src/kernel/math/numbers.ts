/**
 * Functions of JavaScript's numbers, in f64, that `Math` does not have, or not to the last digits: V8's `**` is off by
 * hundreds of units where the base is near 1. As in kernel/elementary/functions.ts.
 */
import { ATANH, F64, THIRD_LOW, TWO_BY_LN2 } from './formats.js';

/** A number as the sum of two. */
type DoubleDouble = readonly [high: number, low: number];

const polynomial = (x: number, coefficients: readonly number[]): number =>
  coefficients.reduceRight((sum, c) => sum * x + c, 0);

function halves(v: number): DoubleDouble {
  const scaled = v * (2 ** 27 + 1);
  const high = scaled - (scaled - v);
  return [high, v - high];
}

/** a + b for |a| ≥ |b|. */
function sum(a: number, b: number): DoubleDouble {
  const high = a + b;
  return [high, a - high + b];
}

function product([a, aLow]: DoubleDouble, [b, bLow]: DoubleDouble): DoubleDouble {
  const [[p, pLow], [q, qLow]] = [halves(a), halves(b)];
  const high = a * b;
  const lost = p * q - high + p * qLow + pLow * q + pLow * qLow;
  return [high, lost + (a * bLow + aLow * b)];
}

const double = new Float64Array(1);
const words = new Int32Array(double.buffer);

/** log₂ x to 64 bits, for finite x > 0. */
function log2(x: number): DoubleDouble {
  const scale = x < 2 ** -1022 ? 54 : 0;
  double[0] = x * 2 ** scale;
  // x = 2^k·(1 + f), 1 + f from √½ to √2
  const k = (words[1]! - 0x3fe6a09e) >> 20;
  words[1]! -= k << 20;
  const f = double[0] - 1;
  const [divisor, divisorLow] = sum(2, f);
  const quotient = f / divisor;
  const [back, backLow] = product([quotient, 0], [divisor, 0]);
  const s: DoubleDouble = [quotient, (f - back - backLow - quotient * divisorLow) / divisor];
  const z = product(s, s);
  const [third, thirdLow] = sum(1 / 3, z[0] * polynomial(z[0], ATANH));
  const cubic = product(s, product(z, [third, thirdLow + THIRD_LOW]));
  const [atanh, atanhLow] = sum(s[0], cubic[0]);
  const bits = product([atanh, atanhLow + (s[1] + cubic[1])], TWO_BY_LN2);
  const [high, low] = sum(k - scale, bits[0]);
  return [high, low + bits[1]];
}

/** x·2^n for |n| < 2000, rounded once. */
const scaled = (x: number, n: number): number => x * 2 ** (n >> 1) * 2 ** (n - (n >> 1));

/** a^b as C defines it: 1 for a = 1 and for (−1)^±∞, too, where JavaScript has NaN. */
export function power(a: number, b: number): number {
  const size = Math.abs(a);
  if (a === 1 || (size === 1 && Math.abs(b) === Number.POSITIVE_INFINITY)) return 1;
  const rough = a ** b;
  // Left are finite powers, and those near the largest and the smallest number.
  if (size === 1 || !(Math.abs(b * Math.log2(size)) < 1100) || Number.isNaN(rough)) return rough;
  const [exponent, rest] = product([b, 0], log2(size));
  const whole = Math.round(exponent);
  const result = scaled(Math.exp((exponent - whole + rest) * Math.LN2), whole);
  return rough < 0 || Object.is(rough, -0) ? -result : result;
}

/** Φ(−t), t ≥ 0. */
function normalTail(t: number): number {
  const { c, end, polynomial: coefficients } = F64.tail;
  if (t > end) return 0;
  // t² in two parts, of which the first is exact: its rounding would be multiplied by it.
  const high = Math.fround(t);
  const inverse = 1 / (t + c);
  const factor = polynomial(2 * (t * inverse) - 1, coefficients) * inverse;
  // e^(−t²/2) may have no full fraction where its root has.
  const root = Math.exp(-0.25 * high * high);
  return root * (Math.exp(-0.5 * (t - high) * (t + high)) * factor * root);
}

/** Φ(x), the normal distribution's cumulative function. */
export function normcdf(x: number): number {
  const tail = normalTail(Math.abs(x));
  return x < 0 ? tail : 1 - tail;
}

/** The error function. */
export function erf(x: number): number {
  if (Math.abs(x) < 1) return x + x * polynomial(x * x, F64.erf);
  const { end, polynomial: coefficients } = F64.farErf;
  return Math.sign(x) * (1 - Math.exp(-polynomial(Math.min(Math.abs(x), end) - 1, coefficients)));
}
