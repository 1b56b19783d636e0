/** What the elementary functions need to know of f32 and f64: layout of their bits, and polynomials to match. */
import { type DType, f32, f64, i32, i64 } from '../core/dtype.js';

export interface FloatFormat {
  readonly float: DType;
  /** The integer of the same size. */
  readonly bits: DType;
  /** Bits of the fraction, and what is added to the exponent. */
  readonly fraction: number;
  readonly bias: number;
  /** Adding it rounds to an integer, which then stands in the low bits. */
  readonly magic: number;
  /** Below it numbers have no full fraction. */
  readonly smallest: number;
  /** The bits of √½. */
  readonly rootHalf: number | bigint;
  /** ln 2 and π/2 in parts that multiply a small integer without rounding, largest first. */
  readonly ln2: readonly number[];
  readonly halfPi: readonly number[];
  /** Arguments of exp and exp2 beyond which the result is 0 or infinite. */
  readonly expRange: readonly [number, number];
  readonly exp2Range: readonly [number, number];
  /** Coefficients, lowest first. e^r = 1 + r + r²·exp(r) for |r| ≤ ln2/2. */
  readonly exp: readonly number[];
  /** ln((1 + s)/(1 − s)) = 2s + s³·log(s²) for |s| ≤ 3 − 2√2. */
  readonly log: readonly number[];
  /** sin x = x + x³·sin(x²) and cos x = 1 − x²/2 + x⁴·cos(x²) for |x| ≤ π/4. */
  readonly sin: readonly number[];
  readonly cos: readonly number[];
  /** tanh x = x + x³·tanh(x²) below tanhLimit. */
  readonly tanh: readonly number[];
  readonly tanhLimit: number;
}

const factorial = (n: number): number => (n < 2 ? 1 : n * factorial(n - 1));
const series = (terms: number, coefficient: (k: number) => number): number[] =>
  Array.from({ length: terms }, (_, k) => coefficient(k));

/** Coefficients of tanh's Taylor series after x, from tanh' = 1 − tanh². */
function tanhSeries(terms: number): number[] {
  const odd = [1];
  for (let k = 1; k <= terms; k++) {
    let square = 0;
    for (let i = 0; i < k; i++) square += odd[i]! * odd[k - 1 - i]!;
    odd.push(-square / (2 * k + 1));
  }
  return odd.slice(1);
}

/** Interpolated at Chebyshev nodes in double precision; nearly the best of their degree. */
export const F32: FloatFormat = {
  float: f32,
  bits: i32,
  fraction: 23,
  bias: 127,
  magic: 1.5 * 2 ** 23,
  smallest: 2 ** -126,
  rootHalf: 0x3f3504f3,
  ln2: [0.693359375, -0.00021219444005469057],
  halfPi: [1.5703125, 0.0004837512969970703, 7.549533620476723e-8, 2.5632829192545614e-12],
  expRange: [-105, 89],
  exp2Range: [-160, 129],
  exp: [0.5, 0.16666577025597906, 0.041666554662057834, 0.008363173074523068, 0.0013926176119268645],
  log: [0.6666668503956659, 0.3998878056713672, 0.2957994936333779],
  sin: [-0.16666664662314262, 0.00833274827062428, -0.00019587890879842475],
  cos: [0.04166666465946898, -0.0013888303034212133, 0.00002454794189257713],
  tanh: [
    -0.3333332894413393, 0.13332769736967823, -0.05385090957776953, 0.02099717899658094,
    -0.006096714163112667,
  ],
  tanhLimit: 0.625,
};

export const F64: FloatFormat = {
  float: f64,
  bits: i64,
  fraction: 52,
  bias: 1023,
  magic: 1.5 * 2 ** 52,
  smallest: 2 ** -1022,
  rootHalf: 0x3fe6a09e667f3bcdn,
  ln2: [0.6931471803691238, 1.9082149292705877e-10],
  halfPi: [1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21],
  expRange: [-746, 710],
  exp2Range: [-1080, 1025],
  exp: series(12, (k) => 1 / factorial(k + 2)),
  log: series(10, (k) => 2 / (2 * k + 3)),
  sin: series(8, (k) => (-1) ** (k + 1) / factorial(2 * k + 3)),
  cos: series(8, (k) => (-1) ** k / factorial(2 * k + 4)),
  tanh: tanhSeries(13),
  tanhLimit: 0.3,
};
